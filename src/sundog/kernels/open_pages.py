"""A column chunk, as it is in the file, becomes pages whose values can be decoded: in one call.

A call of a kernel gives Python's lock away and waits to get it back. Where two threads read chunks of 100 kB and every step
on the way is a call of its own, or one for each page, they wait for each other so much that both together are no faster
than one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sundog.kernels.compile import kernel
from sundog.kernels.parquet_values import (
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
from sundog.kernels.snappy import unpack_snappy

# What is known of a page before it is opened: where its bytes are in the chunk, and where they are put.
ROWS, CODED, PACKED_AT, PACKED, UNPACKED_AT, UNPACKED, LEVELS = range(7)
AS_STORED = -1  # for UNPACKED_AT: the page is not compressed
LEVELS_INSIDE = (
    -1
)  # for LEVELS: they are what the page begins with, after their length; else, the bytes before the page


@kernel
def open_pages(stored: Any, chunk: int, is_snappy: bool, out: int, pages: Any, valid: Any) -> Any:
    """Decompress the pages to `out`, lay them out, and tell which rows have a value. How many have none, or `BROKEN`.

    The first page is the dictionary, of no entries where there is none. Block 0 is `out`, and block 1 the chunk itself, for pages that are not compressed. Where the codec is another one than
    Snappy, they have been decompressed already. `stored` has been checked: all of it is inside of the chunk and of `out`.
    """
    missing = 0
    first = 0
    for number in range(stored.shape[0]):
        page, opened = stored[number], pages[number]
        start = chunk + page[PACKED_AT]
        if page[UNPACKED_AT] == AS_STORED:
            opened[BLOCK], opened[BLOCK_NUMBER] = chunk, 1
            opened[VALUES], opened[VALUES_END] = start, start + page[PACKED]
        else:
            to = out + page[UNPACKED_AT]
            if is_snappy and unpack_snappy(start, start + page[PACKED], to, page[UNPACKED]) == BROKEN:
                return BROKEN
            opened[BLOCK], opened[BLOCK_NUMBER] = out, 0
            opened[VALUES], opened[VALUES_END] = to, to + page[UNPACKED]
        opened[COUNT], opened[IS_CODED] = page[ROWS], page[CODED]
        if number == 0:  # the dictionary
            continue
        rows = valid[first : first + page[ROWS]]
        first += page[ROWS]
        levels, levels_end = start - page[LEVELS], start
        if page[LEVELS] == LEVELS_INSIDE:
            levels = opened[VALUES] + 4
            if levels > opened[VALUES_END]:
                return BROKEN
            levels_end = levels + np.int64(load_up_to(levels - 4, opened[VALUES_END]) & np.uint64(0xFFFFFFFF))
            if levels_end > opened[VALUES_END]:
                return BROKEN
            opened[VALUES] = levels_end
        if page[LEVELS] == 0:
            rows[:] = 1
        else:
            found = rows_with_values(levels, levels_end, rows)
            if found == BROKEN:
                return BROKEN
            missing += found
    return missing
