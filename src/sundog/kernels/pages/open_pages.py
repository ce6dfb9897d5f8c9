"""A page of a column chunk, as it is in the file, becomes one whose values can be decoded."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from sundog.kernels.compile import kernel
from sundog.kernels.pages.parquet_values import (
    BLOCK,
    BLOCK_NUMBER,
    BROKEN,
    COUNT,
    IS_CODED,
    VALUES,
    VALUES_END,
    load_up_to,
    rows_with_values,
)
from sundog.kernels.pages.snappy import unpack_snappy

# What is known of a page before it is opened: where its bytes are in the chunk, and where they are put.
ROWS, CODED, PACKED_AT, PACKED, UNPACKED_AT, UNPACKED, LEVELS = range(7)
AS_STORED = -1  # for UNPACKED_AT: the page is not compressed
LEVELS_INSIDE = -1  # for LEVELS: the page begins with them, after their length; else, how many bytes before it they are

_read_file = types.ExternalFunction("pread", types.int64(types.int32, types.int64, types.int64, types.int64))


@kernel
def open_page(page: Any, start: int, is_snappy: bool, unpacked: int, opened: Any, valid: Any) -> Any:
    """Decompress the page at `start` to `unpacked` and tell which rows have a value. How many have none, or `BROKEN`.

    Where the codec is another one than Snappy it has been decompressed already. A dictionary has no `valid`, and no
    levels.
    """
    if page[UNPACKED_AT] == AS_STORED:
        opened[VALUES], opened[VALUES_END] = start, start + page[PACKED]
    else:
        if is_snappy and unpack_snappy(start, start + page[PACKED], unpacked, page[UNPACKED]) == BROKEN:
            return BROKEN
        opened[VALUES], opened[VALUES_END] = unpacked, unpacked + page[UNPACKED]
    opened[COUNT], opened[IS_CODED] = page[ROWS], page[CODED]
    if page[LEVELS] == 0:
        valid[:] = 1
        return 0
    levels, levels_end = start - page[LEVELS], start
    if page[LEVELS] == LEVELS_INSIDE:
        levels = opened[VALUES] + 4
        if levels > opened[VALUES_END]:
            return BROKEN
        levels_end = levels + np.int64(load_up_to(levels - 4, opened[VALUES_END]) & np.uint64(0xFFFFFFFF))
        if levels_end > opened[VALUES_END]:
            return BROKEN
        opened[VALUES] = levels_end
    return rows_with_values(levels, levels_end, valid)


@kernel
def fetch_page(file: int, chunk: int, offset: int, page: Any, page_buffer: int) -> Any:
    """Where the page is in memory, after its levels where they are not inside; or `BROKEN`.

    It is in the chunk that begins at the address `chunk`; or, if that is 0, it is read to `page_buffer` from the file,
    where the chunk begins at `offset`.
    """
    if chunk:
        return chunk + page[PACKED_AT]
    before = max(page[LEVELS], 0)
    size = before + page[PACKED]
    done = 0
    while done < size:
        got = _read_file(file, page_buffer + done, size - done, offset + page[PACKED_AT] - before + done)
        if got <= 0:
            return BROKEN
        done += got
    return page_buffer + before


@kernel
def fetch_and_open(
    file: int,
    chunk: int,
    offset: int,
    page: Any,
    page_buffer: int,
    is_snappy: bool,
    unpacked: int,
    opened: Any,
    valid: Any,
) -> Any:
    """`fetch_page` and `open_page`: how many rows have no value, or `BROKEN`."""
    start = fetch_page(file, chunk, offset, page, page_buffer)
    return BROKEN if start == BROKEN else open_page(page, start, is_snappy, unpacked, opened, valid)


@kernel
def open_pages(
    file: int, chunk: int, offset: int, stored: Any, is_snappy: bool, page_buffer: int, out: int, pages: Any, valid: Any
) -> Any:
    """All pages of a chunk, whose bytes stay in `out` or in the chunk. How many rows have no value, or `BROKEN`.

    The first page is the dictionary, of no entries where there is none. Block 0 is `out`, and block 1 the chunk itself,
    for pages that are not compressed. `stored` has been checked: all of it is inside of the chunk and of `out`.
    """
    missing = 0
    first = 0
    for number in range(stored.shape[0]):
        page, opened = stored[number], pages[number]
        rows = valid[first : first + page[ROWS]] if number > 0 else valid[:0]
        first += rows.size
        unpacked = out + max(page[UNPACKED_AT], 0)
        found = fetch_and_open(file, chunk, offset, page, page_buffer, is_snappy, unpacked, opened, rows)
        if found == BROKEN:
            return BROKEN
        missing += found
        opened[BLOCK] = chunk if page[UNPACKED_AT] == AS_STORED else out
        opened[BLOCK_NUMBER] = 1 if page[UNPACKED_AT] == AS_STORED else 0
    return missing
