"""A column chunk of strings -> views into its pages, or numbers of dictionary entries: read, decompressed, decoded in
one call.

Why one call: `kernels/pages/number_chunks.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sundog.kernels.compile import kernel
from sundog.kernels.pages.open_pages import open_pages
from sundog.kernels.pages.parquet_values import BROKEN, PAGE_FIELDS, codes_of_pages, views_of_pages, views_of_plain


@kernel
def decode_text(
    file: int,
    chunk: int,
    offset: int,
    stored: Any,
    is_snappy: bool,
    page_buffer: int,
    out: int,
    valid: Any,
    entries: Any,
    codes: Any,
    views: Any,
) -> Any:
    """Fill `entries` with the dictionary's strings, and `codes` or `views`, whichever has a place for each row.

    How many rows have no value, or `BROKEN`. The pages are found and kept as `open_pages` does.
    """
    pages = np.empty((stored.shape[0], PAGE_FIELDS), np.int64)
    missing = open_pages(file, chunk, offset, stored, is_snappy, page_buffer, out, pages, valid)
    if missing == BROKEN or views_of_plain(pages[0], valid[:0], entries) == BROKEN:
        return BROKEN
    present = valid if missing > 0 else valid[:0]
    if views.shape[0] > 0:
        outcome = views_of_pages(pages[1:], present, entries, views)
    else:
        outcome = codes_of_pages(pages[1:], present, entries.shape[0], codes)
    return BROKEN if outcome == BROKEN else missing
