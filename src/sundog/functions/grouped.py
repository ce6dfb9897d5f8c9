"""The contract of aggregate functions: one object has the state of *all* groups in a few contiguous arrays.

A row-wise engine keeps an object per group and calls it per row. Here `SELECT k, sum(x), avg(y) ... GROUP BY k` has two
accumulators, whatever the number of groups, and each call takes a whole batch: the rows' values and the rows' groups.

    update    rows of the input                     partial aggregation
    singles   each row as a group of its own        partial aggregation, when grouping does not pay
    state     what has been gathered, as columns    from the partial to the final aggregation
    merge     such columns                          final aggregation
    evaluate  the result, one row a group           final aggregation

The states are columns of their own types, which may differ from the result's (an average is a sum and a count).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.columns.vectors import NO_MASK, Bytes, Ints, Vector, both, storage
from sundog.expr.calls import AggregateCall
from sundog.kernels.groups.by_group import count_by_group, mark_groups
from sundog.kernels.groups.by_group_decimals import LANES, add_words_by_group

COUNT = pa.int64()
FLAG = pa.bool_()
A = TypeVar("A", bound=npt.NDArray[Any])


@dataclass(frozen=True)
class Groups:
    """`ids[row]` is the group of each row, below `count`."""

    ids: npt.NDArray[np.int32]
    count: int
    # Of `totals`, by the identity of their arrays, which are kept alive.
    _totals: dict[tuple[int, int], tuple[Ints, Bytes | None, Ints]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @cached_property
    def sizes(self) -> Ints:
        """The number of rows of each group: shared by all counts and averages of columns without NULL."""
        sizes = np.zeros(self.count, np.int64)
        count_by_group(self.ids, NO_MASK, sizes)
        return sizes

    def totals(self, numbers: Ints, valid: Bytes | None) -> Ints:
        """The sum of each group, which must fit a word: shared by the sum and the average of a column."""
        key = id(numbers), id(valid)
        if key not in self._totals:
            lanes = np.zeros(LANES * self.count, np.int64)
            add_words_by_group(self.ids, numbers, mask_of(valid), lanes)
            self._totals[key] = numbers, valid, lanes.reshape(LANES, -1).sum(axis=0)
        return self._totals[key][-1]


def one_group(length: int) -> Groups:
    """All rows in one group, which exists even without rows."""
    return Groups(np.zeros(length, np.int32), 1)


class Accumulator(ABC):
    """The state of one aggregate call. `rows` masks the rows that pass its FILTER; None if it has none."""

    def __init__(self, call: AggregateCall) -> None:
        self.call = call
        self.groups = 0

    @property
    @abstractmethod
    def state_types(self) -> tuple[pa.DataType, ...]:
        """The types of the columns of `state`."""

    @property
    def count_columns(self) -> frozenset[int]:
        """Which of the columns are counts: for ungrouped rows these are all equal, and so are small to send."""
        return frozenset()

    @abstractmethod
    def update(self, args: Sequence[Vector], rows: Bytes | None, groups: Groups) -> None:
        """Add rows. Group numbers may exceed those seen before."""

    @abstractmethod
    def singles(self, args: Sequence[Vector], rows: Bytes | None, length: int) -> list[Vector]:
        """The states of `length` groups of one row each: mostly the arguments themselves."""

    @abstractmethod
    def merge(self, states: Sequence[Vector], groups: Groups) -> None:
        """Add partial states, each of any number of rows."""

    @abstractmethod
    def state(self) -> list[Vector]:
        """The partial state of every group."""

    @abstractmethod
    def evaluate(self) -> Vector:
        """The result of every group."""


def grown(array: A, groups: int, fill: Any) -> A:
    """The state array with capacity for `groups`; new entries hold `fill`. Capacity doubles: growing is amortised."""
    if groups <= len(array):
        return array
    capacity = max(groups, 2 * len(array))
    larger = np.full((capacity, *array.shape[1:]), fill, array.dtype)
    larger[: len(array)] = array
    return larger  # type: ignore[return-value]


def mask_of(valid: Bytes | None) -> Bytes:
    return NO_MASK if valid is None else valid


def counted(args: Sequence[Vector], rows: Bytes | None) -> Bytes | None:
    """The rows that count for a function that ignores NULL: those without NULL arguments that pass the FILTER."""
    valid = rows
    for arg in args:
        valid = both(valid, arg.mask if arg.all_null else arg.valid)
    return valid


def as_ints(vector: Vector) -> npt.NDArray[np.int64]:
    return vector.values.astype(np.int64, copy=False)


def as_floats(vector: Vector) -> npt.NDArray[np.float64]:
    return vector.values.astype(np.float64, copy=False)


class NullState:
    """Which groups have had a value at all: the result of others is NULL. Shared by all functions.

    As long as every row has counted, every group has a value from its first row, and nothing is stored.
    """

    def __init__(self) -> None:
        self._groups = 0
        self._seen: Bytes | None = None

    def mark(self, valid: Bytes | None, groups: Groups) -> None:
        if self._seen is None and valid is not None:
            self._seen = np.ones(self._groups, np.uint8)
        if self._seen is not None:
            self._seen = grown(self._seen, groups.count, 0)
            mark_groups(groups.ids, mask_of(valid), self._seen)
        self._groups = max(self._groups, groups.count)

    def valid(self) -> Bytes | None:
        """Validity of the results; None if every group has a value."""
        return None if self._seen is None else self._seen[: self._groups]


class OneValue(Accumulator):
    """A state that is one value of the argument's type: adding a row and adding a state are the same."""

    def __init__(self, call: AggregateCall) -> None:
        super().__init__(call)
        self._dtype = call.args[0].dtype
        self._null_state = NullState()
        self._values: npt.NDArray[Any] = np.zeros(0, np.int64)

    @property
    def state_types(self) -> tuple[pa.DataType, ...]:
        return (self._dtype,)

    def _take_in(self, vector: Vector, valid: Bytes, groups: Groups) -> None:
        raise NotImplementedError

    def update(self, args: Sequence[Vector], rows: Bytes | None, groups: Groups) -> None:
        valid = counted(args, rows)
        self.groups = groups.count
        self._null_state.mark(valid, groups)
        self._take_in(args[0], mask_of(valid), groups)

    def singles(self, args: Sequence[Vector], rows: Bytes | None, length: int) -> list[Vector]:
        return [args[0].where(rows)]

    def merge(self, states: Sequence[Vector], groups: Groups) -> None:
        self.update(states, None, groups)

    def state(self) -> list[Vector]:
        return [self.evaluate()]

    def evaluate(self) -> Vector:
        values = self._values[: self.groups].astype(storage(self._dtype)[0], copy=False)
        return Vector(self._dtype, self.groups, values, self._null_state.valid())
