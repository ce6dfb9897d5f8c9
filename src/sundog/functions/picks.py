"""Functions whose result is a value of one of the group's rows: first, last, any_value, min_by, max_by, and min and max
of strings, binaries and decimals.

What kind of value it is does not matter to these: a kernel finds the *row* of each group that wins, and the columns are
taken there. So one mechanism serves every type. Partial states compete like rows, those held before those that come.

first, last and any_value depend on the order of rows; so does which of several rows with the same extreme value min_by
and max_by take: the last one, as in Spark, whose buffer keeps its row only while the new one is strictly worse. Spark's
order is that of the rows of a task, then that of the tasks; `phases.py` says how it is kept.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.columns.arrow import compact
from sundog.columns.blocks import addresses, concat
from sundog.columns.vectors import Bytes, Vector, both, full_mask, nulls
from sundog.functions.grouped import Accumulator, Groups, as_floats, as_ints, counted, mask_of
from sundog.functions.sums.integers import FLAG
from sundog.kernels.by_group import (
    extreme_float_row_by_group,
    extreme_int_row_by_group,
    extreme_string_row_by_group,
    extreme_wide_row_by_group,
    first_row_by_group,
    last_row_by_group,
)
from sundog.types import is_text

Rows = npt.NDArray[np.int64]


def extreme_rows(order: Vector, valid: Bytes | None, largest: bool, groups: Groups) -> Rows:
    """The row of each group whose value in `order` is the greatest or the least, the last of equal ones; or -1."""
    rows = np.full(groups.count, -1, np.int64)
    mask = mask_of(valid)
    if is_text(order.dtype):
        extreme_string_row_by_group(groups.ids, order.values, addresses(order.blocks), mask, largest, rows)
    elif pa.types.is_decimal(order.dtype):
        extreme_wide_row_by_group(groups.ids, order.values, mask, largest, rows)
    elif pa.types.is_floating(order.dtype):
        extreme_float_row_by_group(groups.ids, as_floats(order), mask, largest, rows)
    else:
        extreme_int_row_by_group(groups.ids, as_ints(order), mask, largest, rows)
    return rows


class _Pick(Accumulator):
    """Keeps, for each group, the columns of the row that wins."""

    def __init__(self, call: object) -> None:
        super().__init__(call)  # type: ignore[arg-type]
        self._held: list[Vector] | None = None
        self._chosen = np.zeros(0, np.uint8)

    def _win(self, columns: Sequence[Vector], valid: Bytes | None, groups: Groups) -> Rows:
        """The winning row of each group, among those that `valid` lets compete; -1 where there is none."""
        raise NotImplementedError

    def _compete(self, columns: Sequence[Vector], valid: Bytes | None, groups: Groups) -> None:
        if self._held is not None:
            columns = [concat([held, new]) for held, new in zip(self._held, columns, strict=True)]
            length = columns[0].length - self.groups
            coming = np.ones(length, np.uint8) if valid is None else valid
            valid = np.concatenate([self._chosen, coming])
            ids = np.concatenate([np.arange(self.groups, dtype=np.int32), groups.ids])
            groups = Groups(ids, groups.count)
        self.groups = groups.count
        rows = self._win(columns, valid, groups)
        self._chosen = (rows >= 0).view(np.uint8)
        self._held = [compact(_taken(column, rows, self._chosen)) for column in columns]

    def evaluate(self) -> Vector:
        held = self._held
        return nulls(self.call.dtype, self.groups) if held is None else held[0]


def _taken(column: Vector, rows: Rows, chosen: Bytes) -> Vector:
    if column.length == 0:
        return nulls(column.dtype, len(rows))
    return column.take(np.maximum(rows, 0)).where(None if chosen.all() else chosen)


class ExtremePick(_Pick):
    """min or max of a type that does not fit a word: a state is the value."""

    @property
    def state_types(self) -> tuple[pa.DataType, ...]:
        return (self.call.args[0].dtype,)

    def _win(self, columns: Sequence[Vector], valid: Bytes | None, groups: Groups) -> Rows:
        return extreme_rows(columns[0], valid, self.call.function == "max", groups)

    def update(self, args: Sequence[Vector], rows: Bytes | None, groups: Groups) -> None:
        self._compete(args[:1], counted(args, rows), groups)

    def singles(self, args: Sequence[Vector], rows: Bytes | None, length: int) -> list[Vector]:
        return [args[0].where(rows)]

    def merge(self, states: Sequence[Vector], groups: Groups) -> None:
        self.update(states, None, groups)

    def state(self) -> list[Vector]:
        return [self.evaluate()]


class FirstLast(_Pick):
    """first, last and any_value; a NULL counts as a value unless nulls are ignored. A state is (value, is there one)."""

    @property
    def state_types(self) -> tuple[pa.DataType, ...]:
        return (self.call.args[0].dtype, FLAG)

    def _win(self, columns: Sequence[Vector], valid: Bytes | None, groups: Groups) -> Rows:
        rows = np.full(groups.count, -1, np.int64)
        find = last_row_by_group if self.call.function == "last" else first_row_by_group
        find(groups.ids, mask_of(valid), rows)
        return rows

    def _competing(self, args: Sequence[Vector], rows: Bytes | None) -> Bytes | None:
        return counted(args, rows) if self.call.ignore_nulls else rows

    def update(self, args: Sequence[Vector], rows: Bytes | None, groups: Groups) -> None:
        self._compete(args[:1], self._competing(args, rows), groups)

    def singles(self, args: Sequence[Vector], rows: Bytes | None, length: int) -> list[Vector]:
        there = self._competing(args, rows)
        flags = Vector(FLAG, length, np.ones(length, np.uint8) if there is None else there)
        return [args[0].where(rows), flags]

    def merge(self, states: Sequence[Vector], groups: Groups) -> None:
        there = states[1].values & full_mask(states[1])
        self._compete(states[:1], there, groups)

    def state(self) -> list[Vector]:
        return [self.evaluate(), Vector(FLAG, self.groups, self._chosen)]


class ExtremeBy(_Pick):
    """min_by(x, y), max_by(x, y): x of the row with the extreme y; rows with a NULL y do not count.

    A state is (x, y), and y is NULL where no row counted.
    """

    @property
    def state_types(self) -> tuple[pa.DataType, ...]:
        return tuple(arg.dtype for arg in self.call.args)

    def _win(self, columns: Sequence[Vector], valid: Bytes | None, groups: Groups) -> Rows:
        return extreme_rows(columns[1], valid, self.call.function == "max_by", groups)

    def update(self, args: Sequence[Vector], rows: Bytes | None, groups: Groups) -> None:
        self._compete(args, both(counted(args[1:], None), rows), groups)

    def singles(self, args: Sequence[Vector], rows: Bytes | None, length: int) -> list[Vector]:
        return [args[0], args[1].where(rows)]

    def merge(self, states: Sequence[Vector], groups: Groups) -> None:
        self.update(states, None, groups)

    def state(self) -> list[Vector]:
        return list(self._held or [nulls(dtype, self.groups) for dtype in self.state_types])
