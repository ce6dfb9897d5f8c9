"""sum and avg that work in doubles: of floats, avg of integers, and avg of narrow decimals over frames.

By group, rows are added in their order. Spark's order depends on its tasks, so the last bits of such a sum may differ,
as they do between two runs of Spark.

Over frames, Spark recomputes a sliding frame from its first row to its last. That order decides the last bits, and all
bits if large values cancel: over 1e16, 1, -1e16, 1 Spark's sum is 1, the exact sum is 2. So short frames are added up
in order (and equal Spark's sums bit for bit). Wide ones are summed exactly and rounded once, except those in which
values cancel, which are added up in order. `_CANCELS` is set so that this costs about 20 additions per row on random
values of both signs, whatever the width, and nothing if all values have one sign.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal

import numpy as np
import pyarrow as pa

from sundog.columns.vectors import Bytes, Vector
from sundog.expr.buffers import Bools, array_from, decimal_array, decimal_words, pooled, values_of
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
from sundog.functions.grouped import COUNT, Accumulator, Groups, NullState, as_floats, counted, grown, mask_of
from sundog.functions.sums.integers import integer_sums
from sundog.kernels.groups.by_group import sum_floats_by_group
from sundog.kernels.windows.double_sums import compensated_sum, running_sums
from sundog.kernels.windows.sliding import (
    compensated_sums,
    divide_by_counts,
    ordered_cost,
    ordered_sums,
    sums_in_order,
    survey_doubles,
    widest_frame,
)

# These numbers decide the last bits of a sum. So they are not costs: a user cannot change them.
_MAX_ORDERED_ADDITIONS_PER_ROW = 8  # up to which frames are added up in order
_CANCELS = 4.4e-4  # a frame's sum over the expected size of a random sum: below it, its values cancel
_NARROW = 256  # rows of a frame, beyond which a smaller and smaller share of frames counts as cancelling
_WIDEST_RECOMPUTED = 16384  # rows of a frame that is added up in order because its values cancel
_TAME_RATIO = 2.0**40  # of the largest to the smallest value, up to which values of both signs add up range by range
_HUGE = 1e300  # beyond it a partial sum may overflow, so that only Spark's order gives Spark's answer
_EXACT_DOUBLES = 2**53  # integers up to it are doubles
_WIDE_CONTEXT = Context(prec=120)


class GroupedDoubleSum(Accumulator):
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


class GroupedDoubleAverage(Accumulator):
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
        result = averages(self._sums[: self.groups], counts)
        return Vector(pa.float64(), self.groups, result, None if valid.all() else valid)


class FramedDoubleSum(MergeableFunction):
    """sum and avg over frames. Elements: sum, count."""

    def __init__(self, call: WindowCall, *, average: bool = False) -> None:
        super().__init__(call)
        self._average = average
        self.runs = not average and pa.types.is_floating(call.dtype)

    def elements(self, inputs: Inputs) -> Elements:
        valid = inputs.contributing()
        array = inputs.args[0]
        values = decimal_longs(array) if pa.types.is_decimal(array.type) else values_of(array)
        doubles = values.astype(np.float64, copy=False)
        return Elements(inputs.count, (doubles if valid is None else np.where(valid, doubles, 0.0), as_counts(valid)))

    def state_types(self) -> list[pa.DataType]:
        return [pa.float64(), pa.int64()]

    def partials(self, elements: Elements, starts: Positions, stops: Positions) -> Elements:
        values, counts = elements.arrays
        return Elements(len(starts), (double_sums(values, starts, stops), frame_counts(counts, starts, stops)))

    def summary(self, elements: Elements) -> Elements:
        """The sum in two doubles, the second being the error of the first."""
        values, counts = elements.arrays
        number = elements.count if counts is None else int(counts.sum())
        total, error = compensated_sum(values)
        high, low = total + error, 0.0
        if math.isfinite(high):
            low = (total - high) + error
        else:
            high = _exact_sum(values)
        return Elements(2, (np.array([high, low]), np.array([number, 0], np.int64)))

    def hazard(self, elements: Elements) -> Hazard:
        *sizes, falls, rises = survey_doubles(elements.arrays[0].view(np.int64))
        largest, smallest = np.array(sizes, np.int64).view(np.float64).tolist()
        if not largest:
            return Hazard()
        signs = frozenset(sign for sign, there in ((False, falls), (True, rises)) if there)
        return Hazard(largest * elements.count, largest, smallest, signs)

    def is_harmless(self, hazard: Hazard) -> bool:
        """Values of one sign, or of similar magnitude, add up the same range by range, except for rounding."""
        tame = len(hazard.signs) < 2 or hazard.largest <= hazard.smallest * _TAME_RATIO
        return tame and hazard.magnitude < _HUGE

    def running(self, before: Elements | None, own: Elements) -> pa.Array:
        """Added up in order, as `evaluate` does with such frames, but without bounds for each of them."""
        values, counts = own.arrays
        total, number = 0.0, 0
        if before is not None:
            for value in before.arrays[0].tolist():
                total += value
            number = before.count if before.arrays[1] is None else int(before.arrays[1].sum())
        result = pooled(own.count, np.float64)
        running_sums(values, total, result)
        valid = None if counts is None or number else np.logical_or.accumulate(counts > 0)
        return array_from(result, valid, self.call.dtype)

    def evaluate(self, elements: Elements, starts: Positions, stops: Positions) -> pa.Array:
        values, counts = elements.arrays
        summed = frame_sums_in_order if self.call.in_order else double_sums
        sums, valid = summed(values, starts, stops), frames_that_count(counts, starts, stops)
        if self._average:
            divide_by_counts(sums, frame_counts(counts, starts, stops))
        if pa.types.is_decimal(self.call.dtype):
            scale = self.call.args[0].dtype.scale
            return _decimals_of_doubles(sums / 10.0**scale, valid, self.call.dtype)
        return array_from(sums, valid, self.call.dtype)


def averages(sums: Doubles, counts: Longs) -> Doubles:
    """Sums divided by counts; undefined if a count is 0."""
    result: Doubles = sums / np.maximum(counts, 1)
    return result


def decimal_longs(array: pa.Array) -> Longs:
    """The unscaled values of decimals of up to 18 digits."""
    return np.ascontiguousarray(decimal_words(array)[0]).view(np.int64)


def frame_sums_in_order(values: Doubles, starts: Positions, stops: Positions) -> Doubles:
    """The sum of each frame from its first row to its last: Spark's, bit for bit."""
    result = pooled(len(starts), np.float64)
    sums_in_order(values, starts, stops, result)
    return result


def double_sums(values: Doubles, starts: Positions, stops: Positions) -> Doubles:
    """The sum of each frame: exactly Spark's if that is cheap or if values cancel, else exact and rounded once."""
    result = pooled(len(starts), np.float64)
    if not len(starts):
        return result
    if ordered_cost(starts, stops) <= _MAX_ORDERED_ADDITIONS_PER_ROW * len(starts):
        return frame_sums_in_order(values, starts, stops)
    profile = _Profile.of(values)
    if profile.integral and profile.largest * float(widest_frame(starts, stops)) < _EXACT_DOUBLES:
        return integer_sums(values.astype(np.int64), starts, stops).astype(np.float64)
    finite = values if profile.finite else np.where(np.isfinite(values), values, 0.0)
    huge = profile.largest * float(widest_frame(starts, stops)) > _HUGE
    with_magnitudes = huge or profile.mixed
    magnitudes = np.empty(len(starts) if with_magnitudes else 0)
    compensated_sums(finite, starts, stops, with_magnitudes, result, magnitudes)
    if with_magnitudes:
        widths = np.maximum(stops - starts, 1).astype(np.float64)
        share = np.where(widths <= _NARROW, np.sqrt(widths), math.sqrt(_NARROW) * (_NARROW / widths) ** 1.5)
        again = (np.abs(result) < _CANCELS * share * magnitudes) & (widths <= _WIDEST_RECOMPUTED)
        again |= ~(magnitudes < _HUGE)
        ordered_sums(finite, starts, stops, np.flatnonzero(again), 0.0, result)
    if not profile.finite:
        _add_infinities(values, starts, stops, result)
    return result


@dataclass(frozen=True)
class _Profile:
    """The facts that decide how a column of doubles is summed."""

    finite: bool
    mixed: bool
    integral: bool
    largest: float

    @classmethod
    def of(cls, values: Doubles) -> _Profile:
        low, high = float(values.min(initial=0.0)), float(values.max(initial=0.0))
        finite = math.isfinite(low) and math.isfinite(high)
        if not finite:
            kept = values[np.isfinite(values)]
            low, high = float(kept.min(initial=0.0)), float(kept.max(initial=0.0))
        largest = max(-low, high)
        integral = finite and largest < _EXACT_DOUBLES and bool((np.trunc(values) == values).all())
        return cls(finite, low < 0 < high, integral, largest)


def _add_infinities(values: Doubles, starts: Positions, stops: Positions, sums: Doubles) -> None:
    """Add NaN and infinities to the sums of frames: NaN, or infinities of both signs, give NaN."""
    numbers = [
        frame_counts(mask.astype(np.int64), starts, stops)
        for mask in (np.isnan(values), values == math.inf, values == -math.inf)
    ]
    nans, ups, downs = (number > 0 for number in numbers)
    sums[ups] = math.inf
    sums[downs] = -math.inf
    sums[nans | (ups & downs)] = math.nan


def _exact_sum(values: Doubles) -> float:
    """The sum of all values, exact and rounded once; with NaN and infinities as in ordinary addition."""
    result = np.empty(1)
    finite = np.isfinite(values)
    bounds = np.zeros(1, np.int32), np.array([len(values)], np.int32)
    compensated_sums(values if finite.all() else np.where(finite, values, 0.0), *bounds, False, result, np.empty(0))
    if not finite.all():
        _add_infinities(values, *bounds, result)
    return float(result[0])


def _decimals_of_doubles(values: Doubles, valid: Bools, dtype: pa.DataType) -> pa.Array:
    """Doubles as decimals, HALF_UP on the digits with which the double is printed, like Spark's cast."""
    scaled = np.where(valid, values, 0.0) * 10.0**dtype.scale
    numbers = np.floor(np.abs(scaled) + 0.5)
    near_tie = np.abs(np.abs(scaled) - np.floor(np.abs(scaled)) - 0.5) < 1e-15 * (1.0 + np.abs(scaled))
    for row in np.flatnonzero(near_tie & valid):
        digits = Decimal(repr(abs(float(values[row]))))
        numbers[row] = float(digits.scaleb(dtype.scale, _WIDE_CONTEXT).quantize(Decimal(1), ROUND_HALF_UP))
    whole = np.where(scaled < 0, -numbers, numbers).astype(np.int64)
    return decimal_array(whole.view(np.uint64), whole >> np.int64(63), valid, dtype)
