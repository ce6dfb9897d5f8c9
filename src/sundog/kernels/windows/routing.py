"""Which ranges of an order key a row goes to: the one that owns it, and its neighbours whose frames reach it.

Range r owns the words from cuts[r - 1] up to but not including cuts[r], and needs those from lows[r] to highs[r], both
inclusive. All three never decrease with r, so the ranges that need a row are neighbours of its owner, without gaps.
Rows are then grouped by range with two passes of counting: no sort, and the order of rows is kept.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sundog.kernels.compile import kernel

Longs = npt.NDArray[np.int64]
Positions = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]


@kernel
def owners_of(words: Longs, cuts: Longs, owners: Positions) -> None:
    """How many cuts are not above each word."""
    for row in range(len(words)):
        word = words[row]
        low, high = 0, len(cuts)
        while low < high:
            middle = (low + high) >> 1
            if cuts[middle] <= word:
                low = middle + 1
            else:
                high = middle
        owners[row] = low


@kernel
def widen_to_needs(
    words: Longs, owners: Positions, lows: Longs, highs: Longs, firsts: Positions, lasts: Positions
) -> int:
    """The first and last range that need each row, around its owner; the number of rows to copy."""
    copies = 0
    for row in range(len(words)):
        word, owner = words[row], owners[row]
        first = owner
        while first > 0 and highs[first - 1] >= word:
            first -= 1
        last = owner
        while last + 1 < len(lows) and lows[last + 1] <= word:
            last += 1
        firsts[row] = first
        lasts[row] = last
        copies += last - first
    return copies


@kernel
def keep_needed(
    words: Longs,
    valid: Flags,
    owned: tuple[int, int],
    needed: tuple[int, int],
    takes_nulls: bool,
    rows: Longs,
    halo: Flags,
) -> int:
    """The rows that one range owns or needs, bounds inclusive, and which of them it only needs; returns how many.

    `valid` is empty where there are no NULLs.
    """
    kept = 0
    for row in range(len(words)):
        word = words[row]
        if valid.size == 0 or valid[row]:
            is_owned = owned[0] <= word <= owned[1]
            is_kept = is_owned or needed[0] <= word <= needed[1]
        else:
            is_owned = is_kept = takes_nulls
        rows[kept] = row
        halo[kept] = not is_owned
        kept += is_kept
    return kept


@kernel
def group_owned(owners: Positions, starts: Longs, rows: Longs) -> None:
    """The rows of each range: rows[starts[r] : starts[r + 1]], in order."""
    for row in range(len(owners)):
        starts[owners[row] + 1] += 1
    for number in range(1, len(starts)):
        starts[number] += starts[number - 1]
    places = starts.copy()
    for row in range(len(owners)):
        owner = owners[row]
        rows[places[owner]] = row
        places[owner] += 1


@kernel
def group_borrowed(owners: Positions, firsts: Positions, lasts: Positions, starts: Longs, rows: Longs) -> None:
    """The rows that each range needs and does not own: rows[starts[r] : starts[r + 1]], in order."""
    for row in range(len(owners)):
        for number in range(firsts[row], lasts[row] + 1):
            if number != owners[row]:
                starts[number + 1] += 1
    for number in range(1, len(starts)):
        starts[number] += starts[number - 1]
    places = starts.copy()
    for row in range(len(owners)):
        for number in range(firsts[row], lasts[row] + 1):
            if number != owners[row]:
                rows[places[number]] = row
                places[number] += 1
