"""From a join key to the rows of the build side that have it.

    key ──► number ──► rows[starts[number]] … rows[starts[number + 1] - 1]

Integers in a small range, as most ids are, get their number from a table with a slot for each value; all other keys,
from the hash table of GROUP BY. NULL has a number only if the key is compared by `<=>`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.columns.key_layout import KeyLayout
from sundog.columns.key_sets import integers_of
from sundog.columns.key_table import Ids, KeyTable
from sundog.columns.vectors import Vector, full_mask
from sundog.expr.buffers import is_narrow
from sundog.kernels.joins.pairs import find_direct, number_direct, rows_by_number
from sundog.operators.costs import JoinCosts


class _NumbersOfKeys(Protocol):
    """Numbers of known keys; -1 for unknown ones."""

    def find(self, keys: Sequence[Vector], length: int) -> Ids: ...

    @property
    def nbytes(self) -> int: ...


@dataclass(frozen=True, eq=False)
class _Direct:
    """A slot for each value from `low` on, with its number plus 1, or 0. Zero slots need not be written."""

    low: int
    slots: npt.NDArray[np.int32]

    def find(self, keys: Sequence[Vector], length: int) -> Ids:
        ids = np.empty(length, np.int32)
        find_direct(integers_of(keys[0]), keys[0].mask, self.low, self.slots, ids)
        return ids

    @property
    def nbytes(self) -> int:
        return int(self.slots.nbytes)


@dataclass(frozen=True, eq=False)
class _AllPairs:
    """A join without keys: every row is a partner of every row, if there is any."""

    number: int
    nbytes: int = 0

    def find(self, keys: Sequence[Vector], length: int) -> Ids:
        return np.full(length, self.number, np.int32)


@dataclass(frozen=True, eq=False)
class KeyIndex:
    """The rows of a build side by key. Read-only: threads share it, and it can be pickled.

    A join that asks only whether a row has a partner needs no rows: `starts` and `rows` are empty then.
    """

    null_safe: tuple[bool, ...]
    numbers: _NumbersOfKeys
    starts: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int32]

    @classmethod
    def over(
        cls, keys: Sequence[Vector], null_safe: tuple[bool, ...], length: int, costs: JoinCosts, lists_rows: bool = True
    ) -> KeyIndex:
        numbers, ids, count = _numbered(keys, null_safe, length, costs)
        if not lists_rows:
            return cls(null_safe, numbers, np.zeros(0, np.int64), np.zeros(0, np.int32))
        if count == length:  # no key occurs twice, as in most build sides: nothing to sort
            alone = np.empty(length, np.int32)
            alone[ids] = np.arange(length, dtype=np.int32)
            return cls(null_safe, numbers, np.arange(count + 1, dtype=np.int64), alone)
        starts = np.zeros(count + 1, np.int64)
        rows = np.empty(int(np.count_nonzero(ids >= 0)), np.int32)
        rows_by_number(ids, starts, rows)
        return cls(null_safe, numbers, starts, rows)

    @property
    def has_single_rows(self) -> bool:
        """Whether no key has more than one row."""
        return len(self.rows) == len(self.starts) - 1

    def find(self, keys: Sequence[Vector], length: int) -> Ids:
        """The number of each row's key; -1 for a row without a partner."""
        ids = self.numbers.find(keys, length)
        missing = rows_with_null(keys, self.null_safe)
        if missing is not None:
            ids[missing] = -1
        return ids

    @property
    def nbytes(self) -> int:
        return int(self.numbers.nbytes + self.starts.nbytes + self.rows.nbytes)


def rows_with_null(keys: Sequence[Vector], null_safe: tuple[bool, ...]) -> npt.NDArray[np.bool_] | None:
    """The rows with a NULL in a key that `=` compares; None if there are none."""
    found: npt.NDArray[np.bool_] | None = None
    for key, safe in zip(keys, null_safe, strict=True):
        if not safe and (key.all_null or key.valid is not None):
            nulls = full_mask(key) == 0
            found = nulls if found is None else found | nulls
    return found


def _numbered(
    keys: Sequence[Vector], null_safe: tuple[bool, ...], length: int, costs: JoinCosts
) -> tuple[_NumbersOfKeys, Ids, int]:
    if not keys:
        return _AllPairs(0 if length else -1), np.zeros(length, np.int32), 1
    direct = _direct(keys[0], length, costs) if len(keys) == 1 and not null_safe[0] else None
    if direct is not None:
        return direct
    table = KeyTable(KeyLayout.of([key.dtype for key in keys]))
    missing = rows_with_null(keys, null_safe)
    if missing is None:
        ids = table.look_up(keys, length)
    else:
        present = np.flatnonzero(~missing)
        ids = np.full(length, -1, np.int32)
        ids[present] = table.look_up([key.take(present) for key in keys], len(present))
    table.trim()
    return table, ids, table.count


def _direct(key: Vector, length: int, costs: JoinCosts) -> tuple[_NumbersOfKeys, Ids, int] | None:
    """Numbers by value, if the values are integers that lie close together."""
    dtype = key.dtype
    if key.all_null or not is_narrow(dtype) or pa.types.is_floating(dtype) or pa.types.is_boolean(dtype):
        return None
    words = integers_of(key)
    present = words if key.valid is None else words[full_mask(key).view(np.bool_)]
    if not len(present):
        return None
    low, high = int(present.min()), int(present.max())
    if high - low >= min(max(costs.join_slots_per_row * length, costs.join_slots_at_least), costs.join_slots):
        return None
    slots = np.zeros(high - low + 1, np.int32)
    ids = np.empty(length, np.int32)
    count = int(number_direct(words, key.mask, low, slots, ids))
    return _Direct(low, slots), ids, count
