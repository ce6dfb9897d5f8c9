"""count, sum and avg over everything but decimals.

Integers are summed in 64 bits as Spark does: under ANSI a group whose sum leaves the type at any row fails the query,
otherwise it wraps around, and try_sum gives NULL. Averages of integers are computed in double, as in Spark, and cannot
overflow. Floats are summed in double in the order of the rows; Spark's order depends on its partitioning, so the last
bits of such a sum may differ, as they do between two runs of Spark.

A count of NULL in a state column stands for one row: the state of a row that was passed on ungrouped then costs nothing
to write, move or read.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sundog.columns.vectors import Bytes, Vector, full_mask, nulls
from sundog.expr.calls import AggregateCall
from sundog.functions.grouped import Accumulator, Groups, NullState, as_floats, as_ints, counted, grown, mask_of
from sundog.functions.sums.overflow import sum_overflow
from sundog.kernels.by_group import (
    add_counts_by_group,
    add_ints_by_group,
    count_by_group,
    sum_floats_by_group,
    sum_ints_by_group,
)

COUNT = pa.int64()
FLAG = pa.bool_()
_FEW = 4  # rows a group, so that adding up groups costs less than going through the rows again


class GroupCounts:
    """Rows per group, from rows or from partial counts."""

    def __init__(self) -> None:
        self.values = np.zeros(0, np.int64)

    def update(self, valid: Bytes | None, groups: Groups) -> None:
        self.values = grown(self.values, groups.count, 0)
        if valid is None and _FEW * groups.count <= len(groups.ids):
            self.values[: groups.count] += groups.sizes
        else:
            count_by_group(groups.ids, mask_of(valid), self.values)

    def merge(self, counts: Vector, groups: Groups) -> None:
        if counts.all_null:
            self.update(None, groups)
        else:
            self.values = grown(self.values, groups.count, 0)
            add_counts_by_group(groups.ids, counts.values, mask_of(counts.valid), self.values)


def single_counts(valid: Bytes | None, length: int) -> Vector:
    return nulls(COUNT, length) if valid is None else Vector(COUNT, length, valid.astype(np.int64))


class Count(Accumulator):
    """count(*) without arguments, count(x, y, ...) of the rows where none is NULL. Never NULL itself."""

    def __init__(self, call: AggregateCall) -> None:
        super().__init__(call)
        self._counts = GroupCounts()

    @property
    def state_types(self) -> tuple[pa.DataType, ...]:
        return (COUNT,)

    @property
    def count_columns(self) -> frozenset[int]:
        return frozenset({0})

    def update(self, args: Sequence[Vector], rows: Bytes | None, groups: Groups) -> None:
        self.groups = groups.count
        self._counts.update(counted(args, rows), groups)

    def singles(self, args: Sequence[Vector], rows: Bytes | None, length: int) -> list[Vector]:
        return [single_counts(counted(args, rows), length)]

    def merge(self, states: Sequence[Vector], groups: Groups) -> None:
        self.groups = groups.count
        self._counts.merge(states[0], groups)

    def state(self) -> list[Vector]:
        return [self.evaluate()]

    def evaluate(self) -> Vector:
        return Vector(COUNT, self.groups, self._counts.values[: self.groups])


class SumInts(Accumulator):
    """sum of integers and of day-time intervals, by the rules of Spark's Add: see the module."""

    def __init__(self, call: AggregateCall) -> None:
        super().__init__(call)
        self._null_state = NullState()
        self._sums = np.zeros(0, np.int64)
        self._overflowed = np.zeros(0, np.uint8)

    @property
    def _forgiving(self) -> bool:
        return self.call.function.startswith("try_")

    @property
    def state_types(self) -> tuple[pa.DataType, ...]:
        return (pa.int64(), FLAG) if self._forgiving else (pa.int64(),)

    def _add(self, values: Vector, valid: Bytes | None, groups: Groups) -> None:
        self.groups = groups.count
        self._sums = grown(self._sums, groups.count, 0)
        self._overflowed = grown(self._overflowed, groups.count, 0)
        self._null_state.mark(valid, groups)
        if self._is_safe(values):
            add_ints_by_group(groups.ids, values.values, mask_of(valid), self._sums)
            return
        overflow = sum_ints_by_group(groups.ids, values.values, mask_of(valid), self._sums, self._overflowed)
        raises = self.call.ansi or pa.types.is_duration(self.call.dtype)
        if overflow and raises and not self._forgiving:
            raise sum_overflow(self.call.dtype)

    def _is_safe(self, values: Vector) -> bool:
        """Whether so many values of a narrow type cannot take any sum out of its own."""
        if values.values.itemsize == 8 or len(self._sums) > values.length:
            return False
        most = values.length << (8 * values.values.itemsize - 1)
        low, high = int(self._sums.min(initial=0)), int(self._sums.max(initial=0))
        return low - most >= -(1 << 63) and high + most < 1 << 63

    def update(self, args: Sequence[Vector], rows: Bytes | None, groups: Groups) -> None:
        self._add(args[0], counted(args, rows), groups)

    def singles(self, args: Sequence[Vector], rows: Bytes | None, length: int) -> list[Vector]:
        sums = Vector(pa.int64(), length, as_ints(args[0]), counted(args, rows))
        return [sums, nulls(FLAG, length)] if self._forgiving else [sums]

    def merge(self, states: Sequence[Vector], groups: Groups) -> None:
        self._add(states[0], counted(states[:1], None), groups)
        if self._forgiving and not states[1].all_null:
            lost = states[1].values & full_mask(states[1])
            self._overflowed[groups.ids[lost != 0]] = 1

    def state(self) -> list[Vector]:
        sums = Vector(pa.int64(), self.groups, self._sums[: self.groups], self._null_state.valid())
        return [sums, Vector(FLAG, self.groups, self._overflowed[: self.groups])] if self._forgiving else [sums]

    def evaluate(self) -> Vector:
        valid = self._null_state.valid()
        if self._forgiving and self._overflowed.any():
            kept = (self._overflowed[: self.groups] == 0).view(np.uint8)
            valid = kept if valid is None else kept & valid
        return Vector(self.call.dtype, self.groups, self._sums[: self.groups], valid)


class SumFloats(Accumulator):
    """sum of float and double, in double. Starts from 0.0, so a sum of -0.0 is 0.0."""

    def __init__(self, call: AggregateCall) -> None:
        super().__init__(call)
        self._null_state = NullState()
        self._sums = np.zeros(0, np.float64)

    @property
    def state_types(self) -> tuple[pa.DataType, ...]:
        return (pa.float64(),)

    def _add(self, values: Vector, valid: Bytes | None, groups: Groups) -> None:
        self.groups = groups.count
        self._sums = grown(self._sums, groups.count, 0)
        self._null_state.mark(valid, groups)
        sum_floats_by_group(groups.ids, values.values, mask_of(valid), self._sums)

    def update(self, args: Sequence[Vector], rows: Bytes | None, groups: Groups) -> None:
        self._add(args[0], counted(args, rows), groups)

    def singles(self, args: Sequence[Vector], rows: Bytes | None, length: int) -> list[Vector]:
        return [Vector(pa.float64(), length, as_floats(args[0]), counted(args, rows))]

    def merge(self, states: Sequence[Vector], groups: Groups) -> None:
        self._add(states[0], counted(states, None), groups)

    def state(self) -> list[Vector]:
        return [self.evaluate()]

    def evaluate(self) -> Vector:
        return Vector(pa.float64(), self.groups, self._sums[: self.groups], self._null_state.valid())


class AverageFloats(Accumulator):
    """avg of integers and floats: a sum in double and a count."""

    def __init__(self, call: AggregateCall) -> None:
        super().__init__(call)
        self._counts = GroupCounts()
        self._sums = np.zeros(0, np.float64)

    @property
    def state_types(self) -> tuple[pa.DataType, ...]:
        return (pa.float64(), COUNT)

    @property
    def count_columns(self) -> frozenset[int]:
        return frozenset({1})

    def _add(self, values: Vector, valid: Bytes | None, groups: Groups) -> None:
        self.groups = groups.count
        self._sums = grown(self._sums, groups.count, 0)
        sum_floats_by_group(groups.ids, values.values, mask_of(valid), self._sums)

    def update(self, args: Sequence[Vector], rows: Bytes | None, groups: Groups) -> None:
        valid = counted(args, rows)
        self._add(args[0], valid, groups)
        self._counts.update(valid, groups)

    def singles(self, args: Sequence[Vector], rows: Bytes | None, length: int) -> list[Vector]:
        valid = counted(args, rows)
        return [Vector(pa.float64(), length, as_floats(args[0]), valid), single_counts(valid, length)]

    def merge(self, states: Sequence[Vector], groups: Groups) -> None:
        self._add(states[0], counted(states[:1], None), groups)
        self._counts.merge(states[1], groups)

    def state(self) -> list[Vector]:
        counts = self._counts.values[: self.groups]
        return [Vector(pa.float64(), self.groups, self._sums[: self.groups]), Vector(COUNT, self.groups, counts)]

    def evaluate(self) -> Vector:
        counts = self._counts.values[: self.groups]
        valid = (counts > 0).view(np.uint8)
        averages = self._sums[: self.groups] / np.maximum(counts, 1)
        return Vector(pa.float64(), self.groups, averages, None if valid.all() else valid)


class AverageIntervals(Accumulator):
    """avg of day-time intervals: a sum of microseconds by the rules of sum, divided half away from zero."""

    def __init__(self, call: AggregateCall) -> None:
        super().__init__(call)
        self._counts = GroupCounts()
        self._sum = SumInts(call)

    @property
    def state_types(self) -> tuple[pa.DataType, ...]:
        return (*self._sum.state_types, COUNT)

    def update(self, args: Sequence[Vector], rows: Bytes | None, groups: Groups) -> None:
        self.groups = groups.count
        self._sum.update(args, rows, groups)
        self._counts.update(counted(args, rows), groups)

    def merge(self, states: Sequence[Vector], groups: Groups) -> None:
        self.groups = groups.count
        self._sum.merge(states[:-1], groups)
        self._counts.merge(states[-1], groups)

    def state(self) -> list[Vector]:
        return [*self._sum.state(), Vector(COUNT, self.groups, self._counts.values[: self.groups])]

    def evaluate(self) -> Vector:
        total = self._sum.evaluate()
        micros = total.values
        counts = np.maximum(self._counts.values[: self.groups], 1).view(np.uint64)
        whole, rest = np.divmod(np.where(micros < 0, -micros, micros).view(np.uint64), counts)
        size = (whole + (rest >= counts - rest)).view(np.int64)
        return Vector(self.call.dtype, self.groups, np.where(micros < 0, -size, size), total.valid)
