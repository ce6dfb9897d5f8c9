"""Group numbers without hashing, for keys that are few small numbers: a slot of a table for every possible key.

A key of region ids from 1 to 9000, of three booleans or of the numbers of a dictionary's entries has so few possible
values that its place in a table can be computed. That takes 4 ns a row where the hash table takes 8 to 20.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sundog.kernels.compile import kernel


@kernel
def range_of(values: Any, valid: Any) -> tuple[Any, Any]:
    """The least and the greatest value that is not NULL; (0, -1) where there is none."""
    low, high = np.int64(0), np.int64(-1)
    empty = True
    for row in range(values.size):
        if valid.size == 0 or valid[row] != 0:
            value = np.int64(values[row])
            if empty:
                low, high, empty = value, value, False
            elif value < low:
                low = value
            elif value > high:
                high = value
    return low, high


@kernel
def known_values(values: Any, valid: Any, low: int, table: Any, most_unknown: int, ids: Any) -> int:
    """The group of each row, of a single key, -1 where it is not known; how many these are. Gives up above `most_unknown`.

    The table has a slot for each value from `low` on, and a last one for NULL; -1 where there is no group.
    """
    slots = np.uint64(table.size - 1)
    unknown = 0
    for row in range(values.size):
        if valid.size == 0 or valid[row] != 0:
            slot = np.uint64(np.int64(values[row]) - low)
            group = table[slot] if slot < slots else -1
        else:
            group = table[slots]
        ids[row] = group
        if group < 0:
            unknown += 1
            if unknown > most_unknown:
                break
    return unknown


@kernel
def add_slots(values: Any, valid: Any, low: int, stride: int, null_slot: int, slots: Any) -> None:
    """Add a key's share to the slot of each row."""
    for row in range(slots.size):
        if valid.size == 0 or valid[row] != 0:
            slots[row] += (np.int64(values[row]) - low) * stride
        else:
            slots[row] += null_slot * stride


@kernel(inline=True)
def _group_of(slot: Any, row: int, groups: int, table: Any, founders: Any) -> Any:
    """The number of the slot's group; `groups`, the next free one, if this row founds it."""
    group = table[slot]
    if group >= 0:
        return group
    table[slot] = groups
    founders[groups] = row
    return groups


@kernel
def number_slots(slots: Any, table: Any, ids: Any, founders: Any) -> int:
    """Number the slots that occur 0, 1, 2, ... in order of appearance. `table` starts as -1 everywhere."""
    groups = 0
    for row in range(slots.size):
        group = _group_of(slots[row], row, groups, table, founders)
        ids[row] = group
        groups = max(groups, group + 1)
    return groups


@kernel
def number_values(values: Any, valid: Any, low: int, null_slot: int, table: Any, ids: Any, founders: Any) -> int:
    """The same for a single key, whose slot is its distance from `low`."""
    groups = 0
    for row in range(values.size):
        slot = np.int64(values[row]) - low if valid.size == 0 or valid[row] != 0 else null_slot
        group = _group_of(slot, row, groups, table, founders)
        ids[row] = group
        groups = max(groups, group + 1)
    return groups
