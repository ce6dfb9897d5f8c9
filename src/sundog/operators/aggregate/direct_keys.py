"""Groups of keys that have few possible values: integers of a small range, booleans, dates, entries of a dictionary.

    GROUP BY RegionID, day      9000 regions x 60 days = 540 000 slots

The number of slots is that of the batch at hand, so nothing has to be known beforehand. A dictionary may hold a string
twice; its groups are then two here, and become one where their strings are looked up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.kernels.direct_groups import add_slots, number_slots, number_values, range_of
from sundog.operators.aggregate.group_keys import FoundGroups
from sundog.operators.aggregate.vectors import Vector

MOST_SLOTS = 1 << 18


@dataclass(frozen=True, eq=False)
class _Numbers:
    """A key as numbers from `low` on; `count` of them, and one more where there is NULL."""

    values: npt.NDArray[Any]
    low: int
    count: int


def direct_groups(keys: Sequence[Vector], length: int) -> FoundGroups | None:
    """The groups of the rows, or None where there are too many possible keys."""
    limit = min(2 * length, MOST_SLOTS)
    found: list[_Numbers] = []
    slots = 1
    for key in keys:
        numbers = _numbers(key, limit)
        if numbers is None:
            return None
        slots *= numbers.count + (key.valid is not None)
        if slots > limit:
            return None
        found.append(numbers)
    table, ids, founders = np.full(slots, -1, np.int32), np.empty(length, np.int32), np.empty(slots, np.int32)
    if len(keys) == 1:
        only = found[0]
        count = int(number_values(only.values, keys[0].mask, only.low, only.count, table, ids, founders))
        return FoundGroups(ids, count, founders[:count])
    place = np.zeros(length, np.int32)
    stride = 1
    for key, numbers in zip(keys, found, strict=True):
        add_slots(numbers.values, key.mask, numbers.low, stride, numbers.count, place)
        stride *= numbers.count + (key.valid is not None)
    count = int(number_slots(place, table, ids, founders))
    return FoundGroups(ids, count, founders[:count])


def _numbers(key: Vector, limit: int) -> _Numbers | None:
    if key.coded is not None:
        entries = key.coded.entries.length
        return _Numbers(key.coded.codes, 0, entries) if entries <= limit else None
    dtype = key.dtype
    if key.all_null or not (pa.types.is_integer(dtype) or pa.types.is_temporal(dtype) or pa.types.is_boolean(dtype)):
        return None
    low, high = map(int, range_of(key.values, key.mask))
    return _Numbers(key.values, low, high - low + 1) if high - low < limit else None
