"""A page of which only some rows are wanted: opened, with the place of each wanted row among its values.

`chosen` are ascending numbers of rows within their column chunk. A page that holds none of them is not opened.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sundog.kernels.compile import kernel
from sundog.kernels.pages.open_pages import ROWS, fetch_and_open
from sundog.kernels.pages.parquet_values import BROKEN

NULL_PLACE = -1


@kernel
def count_below(chosen: Any, start: int, row: int) -> Any:
    """How many of the chosen rows come before `row`, of which `start` are known to."""
    end: Any = start
    while end < chosen.size and chosen[end] < row:
        end += 1
    return end


@kernel
def open_chosen(
    file: int,
    chunk: int,
    offset: int,
    page: Any,
    page_buffer: int,
    is_snappy: bool,
    unpacked: int,
    opened: Any,
    chosen: Any,
    page_first: int,
    places: Any,
    valid: Any,
) -> tuple[Any, Any]:
    """Open a page, and fill `places` and `valid` for its chosen rows; `page_first` is the number of its first row.

    How many of the chosen rows have no value, and how many values the page holds; `BROKEN` for the first.
    """
    present = np.empty(page[ROWS], np.uint8)
    missing = fetch_and_open(file, chunk, offset, page, page_buffer, is_snappy, unpacked, opened, present)
    if missing == BROKEN:
        return BROKEN, 0
    return _places_of(chosen, page_first, present, missing, places, valid), page[ROWS] - missing


@kernel
def _places_of(chosen: Any, page_first: int, present: Any, page_missing: int, places: Any, valid: Any) -> Any:
    """Which of a page's values each chosen row has, or `NULL_PLACE`; how many have none. NULLs are not stored."""
    missing: Any = 0
    value: Any = 0
    row: Any = 0
    for at in range(chosen.size):
        wanted = chosen[at] - page_first
        if page_missing == 0:
            places[at] = wanted
            valid[at] = 1
            continue
        while row < wanted:
            value += np.int64(present[row])
            row += 1
        valid[at] = present[wanted]
        places[at] = value if present[wanted] else NULL_PLACE
        missing += 1 - np.int64(present[wanted])
    return missing
