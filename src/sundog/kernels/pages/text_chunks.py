"""A column chunk of strings -> views into its pages, or numbers of dictionary entries, of all rows or of a few: read,
decompressed, decoded in one call. Between chosen strings of a plain page only the lengths are read.

Why one call: `kernels/pages/number_chunks.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sundog.kernels.compile import kernel
from sundog.kernels.pages.chosen_rows import count_below, open_chosen
from sundog.kernels.pages.open_pages import AS_STORED, ROWS, UNPACKED_AT, fetch_and_open, open_pages
from sundog.kernels.pages.parquet_values import (
    BLOCK,
    BLOCK_NUMBER,
    BROKEN,
    IS_CODED,
    PAGE_FIELDS,
    VALUES,
    VALUES_END,
    codes_of_pages,
    pick_codes,
    pick_views,
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
    found = fetch_and_open(file, chunk, offset, stored[0], buffers[0], is_snappy, dictionary, opened, valid[:0])
    is_stored = stored[0, UNPACKED_AT] == AS_STORED
    opened[BLOCK] = chunk if is_stored else dictionary
    opened[BLOCK_NUMBER] = 1 if is_stored else 0
    if found == BROKEN or views_of_plain(opened, valid[:0], entries) == BROKEN:
        return BROKEN
    missing: Any = 0
    page_first: Any = 0
    done: Any = 0
    for number in range(1, stored.shape[0]):
        page = stored[number]
        end = count_below(chosen, done, page_first + page[ROWS])
        if end > done:
            places = np.empty(end - done, np.int64)
            lacking, _ = open_chosen(
                file,
                chunk,
                offset,
                page,
                buffers[0],
                is_snappy,
                buffers[1],
                opened,
                chosen[done:end],
                page_first,
                places,
                valid[done:end],
            )
            if lacking == BROKEN:
                return BROKEN
            if pick_codes(opened[VALUES], opened[VALUES_END], entries.shape[0], places, codes[done:end]) == BROKEN:
                return BROKEN
            missing += lacking
        page_first += page[ROWS]
        done = end
    return missing


@kernel
def decode_chosen_views(
    file: int,
    chunk: int,
    offset: int,
    stored: Any,
    is_snappy: bool,
    page_buffer: int,
    out: int,
    chosen: Any,
    valid: Any,
    entries: Any,
    views: Any,
) -> Any:
    """Fill `views` with the strings of the chosen rows, and `entries` with the dictionary's.

    Pages may be of either kind; those without a chosen row are not read. The others are kept as `open_pages` keeps all.
    How many of the chosen rows have no value, or `BROKEN`.
    """
    opened = np.empty(PAGE_FIELDS, np.int64)
    missing: Any = 0
    page_first: Any = 0
    done: Any = 0
    for number in range(stored.shape[0]):
        page = stored[number]
        is_stored = page[UNPACKED_AT] == AS_STORED
        unpacked = out + max(page[UNPACKED_AT], 0)
        opened[BLOCK] = chunk if is_stored else out
        opened[BLOCK_NUMBER] = 1 if is_stored else 0
        if number == 0:
            found = fetch_and_open(file, chunk, offset, page, page_buffer, is_snappy, unpacked, opened, valid[:0])
            if found == BROKEN or views_of_plain(opened, valid[:0], entries) == BROKEN:
                return BROKEN
            continue
        end = count_below(chosen, done, page_first + page[ROWS])
        if end > done:
            places = np.empty(end - done, np.int64)
            present, part = valid[done:end], views[done:end]
            lacking, _ = open_chosen(
                file,
                chunk,
                offset,
                page,
                page_buffer,
                is_snappy,
                unpacked,
                opened,
                chosen[done:end],
                page_first,
                places,
                present,
            )
            if lacking == BROKEN:
                return BROKEN
            if opened[IS_CODED]:
                codes = np.empty(end - done, np.uint32)
                if pick_codes(opened[VALUES], opened[VALUES_END], entries.shape[0], places, codes) == BROKEN:
                    return BROKEN
                for at in range(end - done):
                    views[done + at, 0] = entries[codes[at], 0] if present[at] else 0
                    views[done + at, 1] = entries[codes[at], 1] if present[at] else 0
            elif pick_views(opened, places, part) == BROKEN:
                return BROKEN
            missing += lacking
        page_first += page[ROWS]
        done = end
    return missing
