"""A direct-address table of known groups: after a few batches nearly all keys have been seen, and the group of a row is
one array access.

    GROUP BY id2, id4       id2   number of the string in the order of appearance, found through the batch's dictionary
                            id4   distance from the least value
                            slot  id2 + 128 * id4  ──►  group

Only for keys that are small integers, dates, booleans, or strings of a dictionary, with few combinations. The numbers
stay the same from batch to batch, so a slot keeps its group; when a key exceeds its capacity, all slots are cleared.
10 million rows by a string and an integer: 6 ns a row to tell the keys of each batch apart and look up the distinct
ones, 3 ns by slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.columns.key_layout import KeyLayout
from sundog.columns.key_table import Ids, KeyTable
from sundog.columns.vectors import NO_MASK, Bytes, Vector, empty_values
from sundog.kernels.groups.direct_groups import add_coded_slots, add_slots, known_values, range_of
from sundog.operators.aggregate.keys.batch_slots import MAX_SLOTS, is_whole_number
from sundog.operators.costs import KeyTableCosts
from sundog.types import is_text

_FIRST_CAPACITY = 1 << 6
_IDS = pa.int32()
_LEAST = -(1 << 63)


@dataclass(frozen=True, eq=False)
class _NumberedKey:
    """A key's numbers: `entries[value]`, or value - `low` without entries. The last number of `capacity` is for
    NULL."""

    values: npt.NDArray[Any]
    valid: Bytes
    low: int
    capacity: int
    entries: Ids | None = None

    def add_to(self, slots: npt.NDArray[np.int32], stride: int) -> None:
        if self.entries is None:
            add_slots(self.values, self.valid, self.low, stride, self.capacity - 1, slots)
        else:
            add_coded_slots(self.values, self.valid, self.entries, stride, slots)


@dataclass(frozen=True, eq=False)
class KnownRows:
    """The slot of each row, in the table of known groups; the entry of a slot without a group is -1."""

    _key: _NumberedKey
    _table: Ids

    def groups(self, most: int) -> tuple[Ids, int]:
        """The group of each row, -1 if unknown, and the number of unknown ones; stops counting at `most`."""
        key, ids = self._key, empty_values(_IDS, len(self._key.values))
        by_value = self._table if key.entries is None else self._table[key.entries]
        return ids, int(known_values(key.values, key.valid, key.low, by_value, most, ids))

    def learn(self, groups: Ids, rows: npt.NDArray[Any] | slice = slice(None)) -> None:
        """Enter these groups of these rows into the table."""
        key = self._key
        places = key.values[rows].astype(np.int64) - key.low
        if len(key.valid):
            places[key.valid[rows] == 0] = -1
        self._table[places if key.entries is None else key.entries[places]] = groups


class LastingSlots:
    """The slots of the keys of all batches."""

    def __init__(self, dtypes: Sequence[pa.DataType], costs: KeyTableCosts) -> None:
        self._max_slots = min(costs.direct_slots, MAX_SLOTS)
        self._numberings = [
            _Strings(dtype, costs) if is_text(dtype) else _Integers(self._max_slots, costs.spare_slots_share)
            for dtype in dtypes
        ]
        self._numbered_by: list[tuple[int, int]] = []
        self._table = np.empty(0, np.int32)
        self._are_few = True

    def forget(self) -> None:
        """Clear the groups of all slots."""
        self._table[:] = -1

    def rows_of(self, keys: Sequence[Vector], length: int) -> KnownRows | None:
        """The rows with their slots; None if the keys are of another kind, or too many."""
        if not self._are_few:
            return None
        numbered: list[_NumberedKey] = []
        for numbering, key in zip(self._numberings, keys, strict=True):
            numbers = numbering.of(key)
            if numbers is None:
                self._are_few = numbering.are_few
                return None
            numbered.append(numbers)
        numbered_by = [(key.low, key.capacity) for key in numbered]
        if numbered_by != self._numbered_by:
            slots = prod(key.capacity for key in numbered)
            self._are_few = slots <= self._max_slots
            if not self._are_few:
                return None
            self._numbered_by, self._table = numbered_by, np.full(slots + (len(keys) > 1), -1, np.int32)
        return KnownRows(numbered[0] if len(keys) == 1 else _joined(numbered, length), self._table)


def _joined(keys: Sequence[_NumberedKey], length: int) -> _NumberedKey:
    """Several keys as one key."""
    places = empty_values(_IDS, length)
    places.fill(0)
    stride = 1
    for key in keys:
        key.add_to(places, stride)
        stride *= key.capacity
    return _NumberedKey(places, NO_MASK, 0, stride + 1)


class _Integers:
    """Integers from `low` on."""

    def __init__(self, max_slots: int, spare_share: float) -> None:
        self._max_slots = max_slots
        self._spare_share = spare_share
        self._low, self._capacity = 0, 0
        self.are_few = True

    def of(self, key: Vector) -> _NumberedKey | None:
        if not is_whole_number(key):
            return None
        low, high = map(int, range_of(key.values, key.mask))
        if high >= low and not self._low <= low <= high < self._low + self._capacity - 1:
            if self._capacity:
                low, high = min(low, self._low), max(high, self._low + self._capacity - 2)
            spare = int((high - low) * self._spare_share)
            self._low, self._capacity = max(low - spare, _LEAST), high - low + 2 + 2 * spare
            self.are_few = self._capacity <= self._max_slots
        return (
            _NumberedKey(key.values, key.mask, self._low, self._capacity) if self._capacity and self.are_few else None
        )


class _Strings:
    """Strings of dictionaries, numbered in the order of appearance."""

    def __init__(self, dtype: pa.DataType, costs: KeyTableCosts) -> None:
        self._costs = costs
        self._table = KeyTable(KeyLayout.of([dtype]))
        self._capacity = _FIRST_CAPACITY
        self._last: tuple[Vector, Ids] | None = None
        self.are_few = True

    def of(self, key: Vector) -> _NumberedKey | None:
        if key.coded is None or key.coded.entries.length * self._costs.direct_rows_per_string > key.length:
            return None
        entries = key.coded.entries
        if self._last is None or self._last[0] is not entries:
            self._last = entries, self._table.look_up([entries], entries.length)
            while self._table.count >= self._capacity:
                self._capacity *= 2
            self.are_few = self._table.count <= self._costs.direct_strings
        numbers = np.append(self._last[1], np.int32(self._capacity - 1))
        return _NumberedKey(key.coded.codes, key.mask, 0, self._capacity, numbers) if self.are_few else None
