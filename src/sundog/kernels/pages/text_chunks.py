"""A column chunk of strings -> views into its pages, or numbers of dictionary entries, of all rows or of a few: read,
decompressed, decoded in one call.

Why one call: `kernels/pages/number_chunks.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sundog.kernels.compile import kernel
from sundog.kernels.pages.chosen_numbers import places_of
from sundog.kernels.pages.open_pages import AS_STORED, ROWS, UNPACKED_AT, fetch_page, open_page, open_pages
from sundog.kernels.pages.parquet_values import (
    BLOCK,
    BLOCK_NUMBER,
    BROKEN,
    PAGE_FIELDS,
    VALUES,
    VALUES_END,
    codes_of_pages,
    pick_codes,
    views_of_pages,
    views_of_plain,
)


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


@kernel
def decode_chosen_codes(
    file: int,
    chunk: int,
    offset: int,
    stored: Any,
    is_snappy: bool,
    buffers: Any,
    dictionary: int,
    chosen: Any,
    valid: Any,
    entries: Any,
    codes: Any,
) -> Any:
    """Fill `entries` with the dictionary's strings, and `codes` with those of the chosen rows, 0 for NULL.

    All pages are numbers of entries; those without a chosen row are not read. `buffers` are for the largest page as
    stored and decompressed, `dictionary` for the first one, into which the entries point. How many of the chosen rows
    have no value, or `BROKEN`.
    """
    opened = np.empty(PAGE_FIELDS, np.int64)
    missing: Any = 0
    page_first: Any = 0
    done: Any = 0
    for number in range(stored.shape[0]):
        page = stored[number]
        rows: Any = page[ROWS] if number > 0 else 0
        end: Any = done
        while end < chosen.size and chosen[end] < page_first + rows:
            end += 1
        if number > 0 and end == done:
            page_first += rows
            continue
        start = fetch_page(file, chunk, offset, page, buffers[0])
        if start == BROKEN:
            return BROKEN
        present = np.empty(rows, np.uint8)
        found = open_page(page, start, is_snappy, buffers[1] if number > 0 else dictionary, opened, present)
        if found == BROKEN:
            return BROKEN
        if number == 0:
            opened[BLOCK] = chunk if page[UNPACKED_AT] == AS_STORED else dictionary
            opened[BLOCK_NUMBER] = 1 if page[UNPACKED_AT] == AS_STORED else 0
            if views_of_plain(opened, valid[:0], entries) == BROKEN:
                return BROKEN
            continue
        places = np.empty(end - done, np.int64)
        missing += places_of(chosen[done:end], page_first, present, found, places, valid[done:end])
        if pick_codes(opened[VALUES], opened[VALUES_END], entries.shape[0], places, codes[done:end]) == BROKEN:
            return BROKEN
        page_first += rows
        done = end
    return missing
