"""Rows of a build side by key, and the pairs that they form with probe rows.

A key's number leads to its rows: `rows[starts[number]]` up to `rows[starts[number + 1]]`. Row numbers are int32, as in
all tables of keys.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sundog.kernels.compile import kernel


@kernel
def number_direct(keys: Any, valid: Any, low: int, slots: Any, ids: Any) -> int:
    """Number distinct keys in order of appearance, by a table with a slot for each value from `low` on.

    A slot is 0 at first, and then the number of its key and 1. A NULL gets -1. Gives back how many keys there are.
    """
    count = 0
    for row in range(keys.size):
        if valid.size > 0 and valid[row] == 0:
            ids[row] = -1
            continue
        slot = np.int64(keys[row]) - low
        if slots[slot] == 0:
            count += 1
            slots[slot] = count
        ids[row] = slots[slot] - 1
    return count


@kernel
def find_direct(keys: Any, valid: Any, low: int, slots: Any, ids: Any) -> None:
    """The numbers that `number_direct` gave; -1 for NULL and for a key that it did not see."""
    for row in range(keys.size):
        slot = np.uint64(np.int64(keys[row])) - np.uint64(low)  # below `low` it is huge: unsigned numbers wrap around
        known = slot < np.uint64(slots.size) and (valid.size == 0 or valid[row] != 0)
        ids[row] = slots[slot] - 1 if known else -1


@kernel
def rows_by_number(ids: Any, starts: Any, rows: Any) -> None:
    """Sort row numbers by key, stable. `starts` has one entry more than there are keys, all zero before."""
    for row in range(ids.size):
        if ids[row] >= 0:
            starts[ids[row] + 1] += 1
    for number in range(1, starts.size):
        starts[number] += starts[number - 1]
    for row in range(ids.size):
        if ids[row] >= 0:
            rows[starts[ids[row]]] = row
            starts[ids[row]] += 1
    for number in range(starts.size - 1, 0, -1):
        starts[number] = starts[number - 1]
    starts[0] = 0


@kernel
def count_partners(ids: Any, starts: Any, keeps_unmatched: bool, counts: Any) -> int:
    """`counts[row]` becomes the number of pairs of a probe row; 1 for an unmatched one that is kept."""
    total = 0
    for row in range(ids.size):
        pairs = 1 if keeps_unmatched else 0
        if ids[row] >= 0:
            pairs = starts[ids[row] + 1] - starts[ids[row]]
        counts[row] = pairs
        total += pairs
    return total


@kernel
def write_pairs(
    ids: Any, counts: Any, first: int, partner: int, starts: Any, rows: Any, probe_rows: Any, build_rows: Any
) -> None:
    """Fill `probe_rows` and `build_rows` with the pairs from probe row `first` on, of which some partners were written
    before; -1 is no partner. There are as many pairs."""
    place, row = 0, first
    while place < probe_rows.size:
        end = min(counts[row], partner + probe_rows.size - place)
        for at in range(partner, end):
            probe_rows[place] = row
            build_rows[place] = rows[starts[ids[row]] + at] if ids[row] >= 0 else -1
            place += 1
        partner = 0
        row += 1


@kernel
def write_single_pairs(ids: Any, rows: Any, probe_rows: Any, build_rows: Any) -> int:
    """The same if each key has one row and unmatched probe rows are dropped; returns the number of pairs."""
    place = 0
    for row in range(ids.size):
        if ids[row] >= 0:
            probe_rows[place] = row
            build_rows[place] = rows[ids[row]]
            place += 1
    return place
