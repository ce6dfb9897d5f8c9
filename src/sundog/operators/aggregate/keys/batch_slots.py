"""Groups of keys with few possible values: integers of a small range, booleans, dates, entries of a dictionary.

    GROUP BY RegionID, day      9000 regions x 60 days = 540 000 slots

The slots are numbered for one batch, so nothing need be known of other batches. A dictionary may hold a string twice:
it then has two groups here, which become one when their strings are looked up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.columns.vectors import NO_MASK, Vector, empty_values
from sundog.kernels.groups.direct_groups import add_slots, groups_by_slot, last_rows, range_of
from sundog.operators.costs import KeyTableCosts

MAX_SLOTS = 1 << 30  # slot numbers are int32
_IDS = pa.int32()


@dataclass(frozen=True, eq=False)
class _KeyNumbers:
    """A key as numbers from `low` on; `count` of them, and one more for NULL if it occurs."""

    values: npt.NDArray[Any]
    low: int
    count: int


@dataclass(frozen=True, eq=False)
class DirectGroups:
    """The slot of each row, and for each slot that occurs one row, the founder, whose key is that of all its rows."""

    numbers: _KeyNumbers
    valid: npt.NDArray[np.uint8]
    slots: npt.NDArray[np.int64]
    founders: npt.NDArray[np.int32]

    @classmethod
    def of(cls, numbers: _KeyNumbers, valid: npt.NDArray[np.uint8]) -> DirectGroups:
        rows = np.full(numbers.count + 1, -1, np.int32)
        last_rows(numbers.values, valid, numbers.low, numbers.count, rows)
        slots = np.flatnonzero(rows >= 0)
        return cls(numbers, valid, slots, rows[slots])

    def ids(self, groups: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """The group of each row, given the groups of the founders."""
        by_slot = np.empty(self.numbers.count + 1, np.int32)
        by_slot[self.slots] = groups
        ids = empty_values(_IDS, len(self.numbers.values))
        groups_by_slot(self.numbers.values, self.valid, self.numbers.low, self.numbers.count, by_slot, ids)
        return ids


def direct_groups(keys: Sequence[Vector], length: int, costs: KeyTableCosts) -> DirectGroups | None:
    """The groups of the rows; None if there are too many possible keys."""
    limit = min(int(costs.direct_slots_per_row * length), costs.direct_slots, MAX_SLOTS)
    found: list[_KeyNumbers] = []
    slots = 1
    for key in keys:
        numbers = _numbers(key, limit)
        if numbers is None:
            return None
        slots *= numbers.count + (key.valid is not None)
        if slots > limit:
            return None
        found.append(numbers)
    if len(keys) == 1:
        return DirectGroups.of(found[0], keys[0].mask)
    place = empty_values(_IDS, length)
    place.fill(0)
    stride = 1
    for key, numbers in zip(keys, found, strict=True):
        add_slots(numbers.values, key.mask, numbers.low, stride, numbers.count, place)
        stride *= numbers.count + (key.valid is not None)
    return DirectGroups.of(_KeyNumbers(place, 0, slots), NO_MASK)


def is_whole_number(key: Vector) -> bool:
    dtype = key.dtype
    whole = pa.types.is_integer(dtype) or pa.types.is_temporal(dtype) or pa.types.is_boolean(dtype)
    return bool(whole) and key.coded is None and not key.all_null


def _numbers(key: Vector, limit: int) -> _KeyNumbers | None:
    if key.coded is not None:
        entries = key.coded.entries.length
        return _KeyNumbers(key.coded.codes, 0, entries) if entries <= limit else None
    if not is_whole_number(key):
        return None
    low, high = map(int, range_of(key.values, key.mask))
    return _KeyNumbers(key.values, low, high - low + 1) if high - low < limit else None
