"""Group numbers without hashing, for keys that are few small numbers: a slot of a table for every possible key.

A key of region ids from 1 to 9000, of three booleans or of the numbers of a dictionary's entries has so few possible
values that its place in a table can be computed. There are two passes, neither of which waits for its own writes: one
row for each slot, whose key is then looked up, and the group of each row's slot. They take 1 ns a row, the hash table 8
to 20.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sundog.kernels.compile import kernel

_GREATEST = (1 << 63) - 1


@kernel
def range_of(values: Any, valid: Any) -> tuple[Any, Any]:
    """The least and the greatest value that is not NULL; (0, -1) where there is none."""
    low, high = np.int64(_GREATEST), np.int64(-_GREATEST - 1)
    if valid.size == 0:
        for row in range(values.size):
            low = min(low, np.int64(values[row]))
            high = max(high, np.int64(values[row]))
    else:
        for row in range(values.size):
            if valid[row] != 0:
                low = min(low, np.int64(values[row]))
                high = max(high, np.int64(values[row]))
    return (low, high) if low <= high else (np.int64(0), np.int64(-1))


@kernel
def known_values(values: Any, valid: Any, low: int, table: Any, max_unknown: int, ids: Any) -> int:
    """The group of each row, of a single key, -1 where it is not known; how many these are. Gives up above
    `max_unknown`.

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
            if unknown > max_unknown:
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


@kernel
def add_coded_slots(codes: Any, valid: Any, numbers: Any, stride: int, slots: Any) -> None:
    """The same for entries of a dictionary, which have the given numbers; the last one is that of NULL."""
    for row in range(slots.size):
        slots[row] += numbers[codes[row] if valid.size == 0 or valid[row] != 0 else numbers.size - 1] * stride


@kernel
def last_rows(values: Any, valid: Any, low: int, null_slot: int, rows: Any) -> None:
    """A row of each slot, the last one. A value's slot is its distance from `low`."""
    if valid.size == 0:
        for row in range(values.size):
            rows[np.uint64(np.int64(values[row]) - low)] = row
    else:
        for row in range(values.size):
            rows[np.uint64(np.int64(values[row]) - low if valid[row] != 0 else null_slot)] = row


@kernel
def groups_by_slot(values: Any, valid: Any, low: int, null_slot: int, groups: Any, ids: Any) -> None:
    """The group of each row's slot."""
    if valid.size == 0:
        for row in range(values.size):
            ids[row] = groups[np.uint64(np.int64(values[row]) - low)]
    else:
        for row in range(values.size):
            ids[row] = groups[np.uint64(np.int64(values[row]) - low if valid[row] != 0 else null_slot)]
