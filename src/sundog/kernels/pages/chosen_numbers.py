"""A few rows of number column chunks: pages without any of them are not read, and of the others only the chosen rows
are decoded.

Otherwise like `number_chunks.py`, with the same chunks and buffers. If a key filter or a WHERE leaves one row in a
hundred, most pages still have some; such a page is decompressed, and a hundredth of it decoded.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sundog.kernels.compile import kernel
from sundog.kernels.pages.chosen_rows import NULL_PLACE, count_below, open_chosen
from sundog.kernels.pages.number_chunks import (
    ADDRESS,
    DECOMPRESSED,
    FIRST_PAGE,
    FIRST_ROW,
    OFFSET,
    OUT,
    PAGES,
    STORED_WIDTH,
    WIDTH,
    entries_of,
)
from sundog.kernels.pages.open_pages import ROWS, UNPACKED_AT, fetch_and_open
from sundog.kernels.pages.parquet_values import (
    BROKEN,
    IS_CODED,
    PAGE_FIELDS,
    VALUES,
    VALUES_END,
    load_up_to,
    pick_codes,
)
from sundog.kernels.pointers import load_u64, store_u64

# Two more fields of a chunk: where its rows begin in `chosen`, and how many there are.
FIRST_CHOSEN, CHOSEN = 9, 10


@kernel
def decode_chosen_numbers(
    file: int, chunks: Any, stored: Any, buffers: Any, chosen: Any, valid: Any, missing: Any
) -> None:
    """Decode the chosen rows of all chunks; `missing` tells how many of each have no value, or `BROKEN`.

    `chosen` are ascending numbers of rows within their chunk. Numbers and `valid` have a place for each of them.
    """
    for number in range(chunks.shape[0]):
        chunk = chunks[number]
        pages = stored[chunk[FIRST_PAGE] : chunk[FIRST_PAGE] + chunk[PAGES]]
        rows = chosen[chunk[FIRST_CHOSEN] : chunk[FIRST_CHOSEN] + chunk[CHOSEN]]
        own_valid = valid[chunk[FIRST_ROW] : chunk[FIRST_ROW] + chunk[CHOSEN]]
        missing[number] = _decode(file, chunk, pages, buffers, rows, own_valid) if rows.size else 0


@kernel
def _decode(file: int, chunk: Any, pages: Any, buffers: Any, chosen: Any, valid: Any) -> Any:
    address, offset, is_packed = chunk[ADDRESS], chunk[OFFSET], chunk[DECOMPRESSED] == 0
    opened = np.empty(PAGE_FIELDS, np.int64)
    unpacked = _unpacked_at(chunk, pages[0], buffers)
    found = fetch_and_open(file, address, offset, pages[0], buffers[0], is_packed, unpacked, opened, valid[:0])
    if found == BROKEN or entries_of(opened, chunk[STORED_WIDTH], chunk[WIDTH], buffers[2]) == BROKEN:
        return BROKEN
    missing: Any = 0
    page_first: Any = 0
    done: Any = 0
    for number in range(1, pages.shape[0]):
        page = pages[number]
        end = count_below(chosen, done, page_first + page[ROWS])
        if end > done:
            unpacked = _unpacked_at(chunk, page, buffers)
            places = np.empty(end - done, np.int64)
            lacking, values = open_chosen(
                file,
                address,
                offset,
                page,
                buffers[0],
                is_packed,
                unpacked,
                opened,
                chosen[done:end],
                page_first,
                places,
                valid[done:end],
            )
            to = chunk[OUT] + done * chunk[WIDTH]
            if lacking == BROKEN:
                return BROKEN
            if _pick(opened, values, places, buffers[2], pages[0, ROWS], chunk[WIDTH], to) == BROKEN:
                return BROKEN
            missing += lacking
        page_first += page[ROWS]
        done = end
    return missing


@kernel
def _unpacked_at(chunk: Any, page: Any, buffers: Any) -> Any:
    """Where a page's values are, or go, decompressed."""
    return chunk[DECOMPRESSED] + page[UNPACKED_AT] if chunk[DECOMPRESSED] else buffers[1]


@kernel
def _pick(page: Any, values: int, places: Any, entries: int, entry_count: int, width: int, out: int) -> int:
    """The numbers at the given places of a page's values, 0 for NULL; 0 if all is there."""
    if page[IS_CODED]:
        codes = np.empty(places.size, np.uint32)
        if pick_codes(page[VALUES], page[VALUES_END], entry_count, places, codes) == BROKEN:
            return BROKEN
        for at in range(places.size):
            code: Any = np.int64(codes[at])
            store_u64(out + at * width, np.uint64(0) if places[at] == NULL_PLACE else load_u64(entries + code * width))
        return 0
    if page[VALUES] + values * width > page[VALUES_END]:
        return BROKEN
    for at in range(places.size):
        number = np.uint64(0)
        if places[at] != NULL_PLACE:
            number = load_up_to(page[VALUES] + places[at] * width, page[VALUES_END])
        store_u64(out + at * width, number)
    return 0
