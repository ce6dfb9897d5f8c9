"""sum of integers and day-time intervals, avg of intervals: in 64 bits, by the rules of `rules.py`.

As in Spark, a sum is compared with 64 bits at every row, in the order of rows. Most sums cannot overflow: values are
few or narrow. By group the current batch shows that, over frames the widest frame; only other sums are checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.columns.vectors import Bytes, Vector, full_mask, nulls
from sundog.expr.buffers import array_from, values_of
from sundog.expr.calls import AggregateCall, WindowCall
from sundog.functions.counts import GroupCounts, single_counts
from sundog.functions.framed import (
    Doubles,
    Elements,
    Hazard,
    Inputs,
    Longs,
    MergeableFunction,
    Positions,
    as_counts,
    frame_counts,
    frames_that_count,
)
from sundog.functions.grouped import COUNT, FLAG, Accumulator, Groups, NullState, as_ints, counted, grown, mask_of
from sundog.functions.sums.rules import OutOfRange, half_up, integer_overflow, out_of_range
from sundog.kernels.groups.by_group import add_ints_by_group, sum_ints_by_group
from sundog.kernels.windows.sliding import checked_sums, frame_magnitudes, sliding_sums, widest_frame


class GroupedIntegerSum(Accumulator):
    """A state is the sum and, for try_sum, whether it is lost."""

    def __init__(self, call: AggregateCall, *, forgiving: bool = False) -> None:
        super().__init__(call)
        self._forgiving = forgiving
        self._raises = out_of_range(call, forgiving) is OutOfRange.RAISES
        self._null_state = NullState()
        self._sums = np.zeros(0, np.int64)
        self._overflowed = np.zeros(0, np.uint8)

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
        if overflow and self._raises:
            raise integer_overflow(self.call.dtype)

    def _is_safe(self, values: Vector) -> bool:
        """Whether the values' type is too narrow for this many of them to overflow any sum."""
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


class GroupedIntervalAverage(Accumulator):
    """avg of day-time intervals: a sum of microseconds and a count."""

    def __init__(self, call: AggregateCall, *, forgiving: bool = False) -> None:
        super().__init__(call)
        self._counts = GroupCounts()
        self._sum = GroupedIntegerSum(call, forgiving=forgiving)

    @property
    def state_types(self) -> tuple[pa.DataType, ...]:
        return (*self._sum.state_types, COUNT)

    @property
    def count_columns(self) -> frozenset[int]:
        return frozenset({len(self._sum.state_types)})

    def update(self, args: Sequence[Vector], rows: Bytes | None, groups: Groups) -> None:
        self.groups = groups.count
        self._sum.update(args, rows, groups)
        self._counts.update(counted(args, rows), groups)

    def singles(self, args: Sequence[Vector], rows: Bytes | None, length: int) -> list[Vector]:
        return [*self._sum.singles(args, rows, length), single_counts(counted(args, rows), length)]

    def merge(self, states: Sequence[Vector], groups: Groups) -> None:
        self.groups = groups.count
        self._sum.merge(states[:-1], groups)
        self._counts.merge(states[-1], groups)

    def state(self) -> list[Vector]:
        return [*self._sum.state(), Vector(COUNT, self.groups, self._counts.values[: self.groups])]

    def evaluate(self) -> Vector:
        total = self._sum.evaluate()
        averages = half_up(total.values, self._counts.values[: self.groups])
        return Vector(self.call.dtype, self.groups, averages, total.valid)


class FramedIntegerSum(MergeableFunction):
    """The same over frames. Elements: sum, count."""

    def __init__(self, call: WindowCall, *, average: bool = False, forgiving: bool = False) -> None:
        super().__init__(call)
        self._average = average
        self._out_of_range = out_of_range(call, forgiving)

    def elements(self, inputs: Inputs) -> Elements:
        valid = inputs.contributing()
        values = values_of(inputs.args[0])
        if valid is not None:
            values = np.where(valid, values, values.dtype.type(0))
        return Elements(inputs.count, (values, as_counts(valid)))

    def state_types(self) -> list[pa.DataType]:
        return [pa.int64(), COUNT]

    def partials(self, elements: Elements, starts: Positions, stops: Positions) -> Elements:
        values, counts = elements.arrays
        return Elements(len(starts), (integer_sums(values, starts, stops), frame_counts(counts, starts, stops)))

    def hazard(self, elements: Elements) -> Hazard:
        return Hazard(magnitude=float(np.abs(elements.arrays[0].astype(np.float64)).sum()))

    def is_harmless(self, hazard: Hazard) -> bool:
        return hazard.magnitude < 2.0**62

    def evaluate(self, elements: Elements, starts: Positions, stops: Positions) -> pa.Array:
        values, counts = elements.arrays
        sums, valid = integer_sums(values, starts, stops), frames_that_count(counts, starts, stops)
        risky = np.zeros(0, np.int64) if self._cannot_overflow else _risky_frames(values, starts, stops)
        if len(risky):
            overflowed = np.zeros(len(starts), np.bool_)
            checked_sums(values, starts, stops, risky, 0, sums, overflowed)
            if self._out_of_range is OutOfRange.IS_NULL:
                valid &= ~overflowed
            elif self._out_of_range is OutOfRange.RAISES and bool(overflowed.any()):
                raise integer_overflow(self.call.dtype)
        if self._average:
            sums = half_up(sums, frame_counts(counts, starts, stops))
        return array_from(sums, valid, self.call.dtype)

    @property
    def _cannot_overflow(self) -> bool:
        """Whether no sum can: 2^31 rows of 32 bits fit 64."""
        dtype = self.call.args[0].dtype
        return bool(pa.types.is_integer(dtype)) and dtype.bit_width <= 32


def integer_sums(values: npt.NDArray[Any], starts: Positions, stops: Positions) -> Longs:
    """The sum of each frame, wrapped around."""
    result = np.empty(len(starts), np.int64)
    sliding_sums(values, starts, stops, result)
    return result


def _risky_frames(values: Longs, starts: Positions, stops: Positions) -> Longs:
    """The frames in which a partial sum may leave 64 bits."""
    if not len(values):
        return np.zeros(0, np.int64)
    largest = max(abs(int(values.min())), abs(int(values.max())))
    if largest * int(widest_frame(starts, stops)) < 2**63:
        return np.zeros(0, np.int64)
    return frames_above(np.abs(values.astype(np.float64)), starts, stops, 2.0**62)


def frames_above(sizes: Doubles, starts: Positions, stops: Positions, limit: float) -> Longs:
    """The frames whose sum of sizes exceeds the limit, to within rounding."""
    totals = np.concatenate([[0.0], np.cumsum(sizes)])
    risky = np.empty(len(starts), np.bool_)
    frame_magnitudes(totals, starts, stops, limit - float(totals[-1]) * 1e-9, risky)
    return np.flatnonzero(risky)
