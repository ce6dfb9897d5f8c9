"""Which ranges of an order key a row goes to: the one that owns it, and its neighbours whose frames reach it.

Range r owns the words from cuts[r - 1] up to but not including cuts[r], and needs those from lows[r] to highs[r], both
inclusive. All three never decrease with r, so the ranges that need a row are neighbours of its owner, without gaps.
Rows are then counted and handed out to the memory of each range: no sort, and the order of rows is kept.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sundog.kernels.compile import kernel
from sundog.kernels.pointers import store_u32, store_u64

Longs = npt.NDArray[np.int64]
Positions = npt.NDArray[np.int32]
Ints = npt.NDArray[np.signedinteger]  # of any width
Words = npt.NDArray[np.uint64]
Halves = npt.NDArray[np.uint32]
Flags = npt.NDArray[np.bool_]
_CELL_BITS = 12  # a table of cells that stays in the first cache level


def cells_of(cuts: Longs) -> tuple[Positions, int]:
    """What `owners_of` asks for besides the cuts: the owners of the first words of cells, and a cell's words as a
    shift."""
    if not len(cuts):
        return np.zeros(0, np.int32), 0
    first, last = int(cuts[0]), int(cuts[-1])
    shift = max((last - first).bit_length() - _CELL_BITS, 0)
    begins = np.array([*range(first, last, 1 << shift), last], np.int64)
    return np.searchsorted(cuts, begins, side="right").astype(np.int32), shift


@kernel
def owners_of(words: Ints, cuts: Longs, cells: Positions, shift: int, owners: Positions) -> None:
    """How many cuts are not above each word.

    The words from the first cut to the last are divided into cells of 2^shift words; `cells` has the owner of the first
    word of each, and of the last word. Binary search is between two of them. Where keys are spread evenly, few cells
    have a cut inside and the branch is foreseen: 3 ns for each of 10 million rows and 19 cuts, on a busy machine,
    against 10 for 3 cuts by a search among all of them.
    """
    if len(cuts) == 0:
        owners[:] = 0
        return
    first, last, drop = cuts[0], cuts[-1], np.uint64(shift)
    for row in range(len(words)):
        word = np.int64(words[row])
        if word < first:
            owners[row] = 0
        elif word >= last:
            owners[row] = len(cuts)
        else:
            cell = np.int64((np.uint64(word) - np.uint64(first)) >> drop)
            low, high = cells[cell], cells[cell + 1]
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
def count_owned(owners: Positions, counts: Longs) -> bool:
    """Add the rows of each owner to `counts`; whether the rows are sorted by owner."""
    in_order, before = True, np.int32(0)
    for row in range(len(owners)):
        owner = owners[row]
        counts[owner] += 1
        in_order &= before <= owner
        before = owner
    return in_order


@kernel
def hand_out_words(words: Words, owners: Positions, addresses: Longs) -> None:
    """Store each of the 8-byte values at the address of its owner, which then moves on.

    Each address has memory for all values of that owner. Values are read in order and written to as many runs as there
    are owners; gathered for each owner apart, they would be read as often as that.
    """
    for row in range(len(words)):
        address = addresses[owners[row]]
        store_u64(address, words[row])
        addresses[owners[row]] = address + 8


@kernel
def hand_out_halves(halves: Halves, owners: Positions, addresses: Longs) -> None:
    """The same for values of 4 bytes."""
    for row in range(len(halves)):
        address = addresses[owners[row]]
        store_u32(address, halves[row])
        addresses[owners[row]] = address + 4


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
