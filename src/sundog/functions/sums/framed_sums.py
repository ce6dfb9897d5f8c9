"""COUNT, SUM and AVG over frames, with Spark's result types, rounding and overflow.

| argument | sum | avg |
|---|---|---|
| integers | bigint; ANSI raises, LEGACY wraps, TRY gives NULL where a sum *on the way through the frame* leaves 64 bits | double |
| float, double | double | double |
| decimal(p,s) | decimal(p+10,s); out of range raises under ANSI, else NULL | decimal(p+4,s+4), HALF_UP |
| interval day to second | itself; overflow raises, but TRY | itself, HALF_UP |

Spark recomputes a sliding frame from its first row to its last. For doubles that order shows in the last bits, and in all
of them where large values cancel: over 1e16, 1, -1e16, 1 Spark says 1, the exact sum is 2. So frames that are cheap
to add up in order are (they are then Spark's sums bit for bit), wide ones are summed exactly and rounded once, and of
those the ones in which values cancel are added up in order after all. `_CANCELS` is set so that this costs about 20
additions per row on random values of both signs, whatever the width, and nothing where all values have one sign.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.expr.buffers import Bools, array_from, decimal_array, decimal_words, values_of
from sundog.expr.calls import WindowCall
from sundog.expr.errors import ErrorKind, SparkQueryError
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
from sundog.kernels.sliding import (
    checked_sums,
    compensated_sums,
    frame_magnitudes,
    ordered_cost,
    ordered_sums,
    sliding_sums,
    widest_frame,
)
from sundog.kernels.wide_sums import wide_frame_totals, wide_quotients, wide_totals

_CHEAP = 8  # additions per row up to which frames are added up in order
_CANCELS = 4.4e-4
_NARROW = 256
_WIDEST_RECOMPUTED = 16384
_TAME_RATIO = 2.0**40
_EXACT_DOUBLES = 2**53


class Count(MergeableFunction):
    """COUNT(*), COUNT(x), COUNT(x, y)."""

    def elements(self, inputs: Inputs) -> Elements:
        return Elements(inputs.count, (as_counts(inputs.contributing()),))

    def state_types(self) -> list[pa.DataType]:
        return [pa.int64()]

    def partials(self, elements: Elements, starts: Positions, stops: Positions) -> Elements:
        return Elements(len(starts), (frame_counts(elements.arrays[0], starts, stops),))

    def evaluate(self, elements: Elements, starts: Positions, stops: Positions) -> pa.Array:
        return array_from(frame_counts(elements.arrays[0], starts, stops), None, pa.int64())


class IntegralSum(MergeableFunction):
    """SUM over what is stored in up to 64 bits, and AVG over day-time intervals."""

    def elements(self, inputs: Inputs) -> Elements:
        valid = inputs.contributing()
        array = inputs.args[0]
        values = decimal_longs(array) if pa.types.is_decimal(array.type) else values_of(array)
        if valid is not None:
            values = np.where(valid, values, values.dtype.type(0))
        return Elements(inputs.count, (values, as_counts(valid)))

    def state_types(self) -> list[pa.DataType]:
        return [pa.int64(), pa.int64()]

    def partials(self, elements: Elements, starts: Positions, stops: Positions) -> Elements:
        values, counts = elements.arrays
        return Elements(len(starts), (_sums(values, starts, stops), frame_counts(counts, starts, stops)))

    def hazard(self, elements: Elements) -> Hazard:
        return Hazard(magnitude=float(np.abs(elements.arrays[0].astype(np.float64)).sum()))

    def is_harmless(self, hazard: Hazard) -> bool:
        return hazard.magnitude < 2.0**62

    def evaluate(self, elements: Elements, starts: Positions, stops: Positions) -> pa.Array:
        values, counts = elements.arrays
        sums, valid = _sums(values, starts, stops), frames_that_count(counts, starts, stops)
        risky = np.zeros(0, np.int64) if self._cannot_overflow else _risky_frames(values, starts, stops)
        if len(risky):
            overflowed = np.zeros(len(starts), np.bool_)
            checked_sums(values, starts, stops, risky, 0, sums, overflowed)
            valid &= self._judged(overflowed)
        if self.call.function.endswith("avg"):
            sums = _half_up(sums, np.maximum(frame_counts(counts, starts, stops), 1))
        return array_from(sums, valid, self.call.dtype)

    @property
    def _cannot_overflow(self) -> bool:
        """2^31 rows of 32 bits fit 64."""
        dtype = self.call.args[0].dtype
        return bool(pa.types.is_integer(dtype)) and dtype.bit_width <= 32

    def _judged(self, overflowed: Bools) -> Bools:
        """Where the sums stand, after what overflow means to this call."""
        if self.call.function.startswith("try_"):
            return ~overflowed
        is_interval = pa.types.is_duration(self.call.dtype)
        if bool(overflowed.any()) and is_interval:
            parameters = {"functionName": "`try_add`"}
            raise SparkQueryError("INTERVAL_ARITHMETIC_OVERFLOW.WITH_SUGGESTION", parameters, ErrorKind.ARITHMETIC)
        if bool(overflowed.any()) and self.call.ansi:
            raise SparkQueryError.overflow("try_add")
        return np.ones(len(overflowed), np.bool_)


class FloatSum(MergeableFunction):
    """SUM and AVG that work in doubles: over floats, AVG over integers, and what AVG over a narrow decimal becomes."""

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

    def essence(self, elements: Elements) -> Elements:
        """The sum in two doubles, the second what the first is off by."""
        values, counts = elements.arrays
        number = elements.count if counts is None else int(counts.sum())
        high = _exact_sum(values)
        low = _exact_sum(np.append(values, -high)) if math.isfinite(high) else 0.0
        return Elements(2, (np.array([high, low]), np.array([number, 0], np.int64)))

    def hazard(self, elements: Elements) -> Hazard:
        finite = elements.arrays[0][np.isfinite(elements.arrays[0]) & (elements.arrays[0] != 0)]
        if not len(finite):
            return Hazard()
        sizes = np.abs(finite)
        signs = frozenset(np.unique(finite > 0).tolist())
        with np.errstate(over="ignore"):
            return Hazard(float(sizes.sum()), float(sizes.max()), float(sizes.min()), signs)

    def is_harmless(self, hazard: Hazard) -> bool:
        """Values of one sign, or of like size, add up the same range by range, to within rounding."""
        tame = len(hazard.signs) < 2 or hazard.largest <= hazard.smallest * _TAME_RATIO
        return tame and hazard.magnitude < 1e300

    def evaluate(self, elements: Elements, starts: Positions, stops: Positions) -> pa.Array:
        values, counts = elements.arrays
        summed = frame_sums_in_order if self.call.in_order else double_sums
        sums, valid = summed(values, starts, stops), frames_that_count(counts, starts, stops)
        if not self.call.function.endswith("sum"):
            sums = sums / np.maximum(frame_counts(counts, starts, stops), 1)
        if pa.types.is_decimal(self.call.dtype):
            scale = self.call.args[0].dtype.scale
            return _decimals_of_doubles(sums / 10.0**scale, valid, self.call.dtype)
        return array_from(sums, valid, self.call.dtype)


class DecimalSum(MergeableFunction):
    """SUM and AVG over decimals, exact in 128 bits."""

    def elements(self, inputs: Inputs) -> Elements:
        valid = inputs.contributing()
        lows, highs = decimal_words(inputs.args[0])
        if valid is not None:
            lows, highs = np.where(valid, lows, np.uint64(0)), np.where(valid, highs, 0)
        return Elements(inputs.count, (np.ascontiguousarray(lows), np.ascontiguousarray(highs), as_counts(valid)))

    def state_types(self) -> list[pa.DataType]:
        return [pa.uint64(), pa.int64(), pa.int64()]

    def partials(self, elements: Elements, starts: Positions, stops: Positions) -> Elements:
        lows, highs, counts = elements.arrays
        return Elements(len(starts), (*_wide_sums(lows, highs, starts, stops), frame_counts(counts, starts, stops)))

    def hazard(self, elements: Elements) -> Hazard:
        return Hazard(magnitude=float(np.abs(_wide_doubles(*elements.arrays[:2])).sum()))

    def is_harmless(self, hazard: Hazard) -> bool:
        return hazard.magnitude < 0.9e38

    def evaluate(self, elements: Elements, starts: Positions, stops: Positions) -> pa.Array:
        lows, highs, counts = elements.arrays
        numbers = frame_counts(counts, starts, stops)
        sum_lows, sum_highs = _wide_sums(lows, highs, starts, stops)
        scale, wanted = self.call.args[0].dtype.scale, self.call.dtype
        is_average = self.call.function.endswith("avg")
        factor = 10 ** (wanted.scale - scale)
        slow = _risky_decimals(lows, highs, starts, stops)
        if is_average:
            too_long = np.abs(_wide_doubles(sum_lows, sum_highs)) * factor >= 0.9e38 * np.maximum(numbers, 1)
            slow = np.union1d(slow, np.flatnonzero(too_long))
            wide_quotients(sum_lows, sum_highs, numbers, factor)
        valid = numbers > 0
        for row in slow[valid[slow]]:
            exact = _exact_decimal(lows, highs, range(starts[row], stops[row]), scale)
            value = _quotient(exact, int(numbers[row])) if is_average else exact
            fitted = _fitted(value, wanted)
            if fitted is None and self.call.ansi and not self.call.function.startswith("try_"):
                raise SparkQueryError.decimal_out_of_range(value, wanted)
            valid[row] = fitted is not None
            number = fitted or 0
            sum_lows[row], sum_highs[row] = number & (2**64 - 1), number >> 64
        return decimal_array(sum_lows, sum_highs, valid, wanted)


def sum_function(call: WindowCall) -> MergeableFunction:
    """The implementation of a sum or average for its argument's type."""
    dtype = call.args[0].dtype
    if call.function == "avg_unscaled" or pa.types.is_floating(dtype):
        return FloatSum(call)
    if pa.types.is_decimal(dtype):
        return DecimalSum(call)
    if call.function.endswith("avg") and pa.types.is_integer(dtype):
        return FloatSum(call)
    return IntegralSum(call)


def decimal_longs(array: pa.Array) -> Longs:
    """The unscaled values of decimals of up to 18 digits."""
    return np.ascontiguousarray(decimal_words(array)[0]).view(np.int64)


def _sums(values: npt.NDArray[Any], starts: Positions, stops: Positions) -> Longs:
    result = np.empty(len(starts), np.int64)
    sliding_sums(values, starts, stops, result)
    return result


def _risky_frames(values: Longs, starts: Positions, stops: Positions) -> Longs:
    """The frames in which a sum may leave 64 bits on its way."""
    if not len(values):
        return np.zeros(0, np.int64)
    largest = max(abs(int(values.min())), abs(int(values.max())))
    if largest * int(widest_frame(starts, stops)) < 2**63:
        return np.zeros(0, np.int64)
    return _above(np.abs(values.astype(np.float64)), starts, stops, 2.0**62)


def _above(sizes: Doubles, starts: Positions, stops: Positions, limit: float) -> Longs:
    totals = np.concatenate([[0.0], np.cumsum(sizes)])
    risky = np.empty(len(starts), np.bool_)
    frame_magnitudes(totals, starts, stops, limit - float(totals[-1]) * 1e-9, risky)
    return np.flatnonzero(risky)


def frame_sums_in_order(values: Doubles, starts: Positions, stops: Positions) -> Doubles:
    """The sum of each frame from its first row to its last: Spark's, bit for bit."""
    result = np.empty(len(starts))
    ordered_sums(values, starts, stops, np.arange(len(starts)), 0.0, result)
    return result


def double_sums(values: Doubles, starts: Positions, stops: Positions) -> Doubles:
    """The sum of each frame: exactly Spark's where that is cheap or where values cancel, else exact, rounded once."""
    result = np.empty(len(starts))
    if not len(starts):
        return result
    if ordered_cost(starts, stops) <= _CHEAP * len(starts):
        return frame_sums_in_order(values, starts, stops)
    profile = _Profile.of(values)
    if profile.integral and profile.largest * float(widest_frame(starts, stops)) < _EXACT_DOUBLES:
        return _sums(values.astype(np.int64), starts, stops).astype(np.float64)
    finite = values if profile.finite else np.where(np.isfinite(values), values, 0.0)
    huge = profile.largest * float(widest_frame(starts, stops)) > 1e300
    with_magnitudes = huge or profile.mixed
    magnitudes = np.empty(len(starts) if with_magnitudes else 0)
    compensated_sums(finite, starts, stops, with_magnitudes, result, magnitudes)
    if with_magnitudes:
        widths = np.maximum(stops - starts, 1).astype(np.float64)
        share = np.where(widths <= _NARROW, np.sqrt(widths), math.sqrt(_NARROW) * (_NARROW / widths) ** 1.5)
        again = (np.abs(result) < _CANCELS * share * magnitudes) & (widths <= _WIDEST_RECOMPUTED)
        again |= ~(magnitudes < 1e300)
        ordered_sums(finite, starts, stops, np.flatnonzero(again), 0.0, result)
    if not profile.finite:
        _add_infinities(values, starts, stops, result)
    return result


@dataclass(frozen=True)
class _Profile:
    """What decides how a column of doubles is summed."""

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
    """What NaN and infinities do to the sum of a frame: NaN and opposite infinities give NaN."""
    numbers = [
        frame_counts(mask.astype(np.int64), starts, stops)
        for mask in (np.isnan(values), values == math.inf, values == -math.inf)
    ]
    nans, ups, downs = (number > 0 for number in numbers)
    sums[ups] = math.inf
    sums[downs] = -math.inf
    sums[nans | (ups & downs)] = math.nan


def _exact_sum(values: Doubles) -> float:
    """The sum of all values, exact and rounded once; NaN and infinities as adding them would give."""
    result = np.empty(1)
    finite = np.isfinite(values)
    bounds = np.zeros(1, np.int32), np.array([len(values)], np.int32)
    compensated_sums(values if finite.all() else np.where(finite, values, 0.0), *bounds, False, result, np.empty(0))
    if not finite.all():
        _add_infinities(values, *bounds, result)
    return float(result[0])


def _half_up(sums: Longs, counts: Longs) -> Longs:
    quotients, rests = np.divmod(np.abs(sums), counts)
    rounded = quotients + (rests * 2 >= counts)
    result: Longs = np.where(sums < 0, -rounded, rounded)
    return result


def _wide_sums(
    lows: npt.NDArray[np.uint64], highs: Longs, starts: Positions, stops: Positions
) -> tuple[npt.NDArray[np.uint64], Longs]:
    total_lows, total_highs = np.empty(len(lows) + 1, np.uint64), np.empty(len(lows) + 1, np.int64)
    wide_totals(lows, highs, total_lows, total_highs)
    sum_lows, sum_highs = np.empty(len(starts), np.uint64), np.empty(len(starts), np.int64)
    wide_frame_totals(total_lows, total_highs, starts, stops, sum_lows, sum_highs)
    return sum_lows, sum_highs


def _wide_doubles(lows: npt.NDArray[np.uint64], highs: Longs) -> Doubles:
    result: Doubles = highs.astype(np.float64) * 2.0**64 + lows.astype(np.float64)
    return result


def _risky_decimals(lows: npt.NDArray[np.uint64], highs: Longs, starts: Positions, stops: Positions) -> Longs:
    """The frames whose sum may need more than 38 digits."""
    if not len(lows):
        return np.zeros(0, np.int64)
    sizes = np.abs(_wide_doubles(lows, highs))
    if float(sizes.max()) * float(widest_frame(starts, stops)) < 0.9e38:
        return np.zeros(0, np.int64)
    return _above(sizes, starts, stops, 0.9e38)


_WIDE_CONTEXT = Context(prec=120)


def _exact_decimal(lows: npt.NDArray[np.uint64], highs: Longs, rows: range, scale: int) -> Decimal:
    """The sum of a frame. A window's buffer holds it whole: only the result is held against its type."""
    total = sum((int(highs[row]) << 64) | int(lows[row]) for row in rows)
    return Decimal(total).scaleb(-scale, _WIDE_CONTEXT)


def _quotient(total: Decimal, count: int) -> Decimal:
    """To 39 places, what follows cut off: rounded to a scale of up to 38 after that, it has been rounded once."""
    quotient = _WIDE_CONTEXT.divide(total, Decimal(count))
    return quotient.quantize(Decimal(1).scaleb(-39), ROUND_DOWN, _WIDE_CONTEXT)


def _fitted(value: Decimal, dtype: pa.DataType) -> int | None:
    """The unscaled value in the type, HALF_UP; None where it has too many digits."""
    rounded = value.quantize(Decimal(1).scaleb(-dtype.scale), ROUND_HALF_UP, _WIDE_CONTEXT)
    number = int(rounded.scaleb(dtype.scale, _WIDE_CONTEXT))
    return number if abs(number) < 10**dtype.precision else None


def _decimals_of_doubles(values: Doubles, valid: Bools, dtype: pa.DataType) -> pa.Array:
    """Doubles as decimals, HALF_UP on the digits that the double prints with, as Spark's cast does it."""
    scaled = np.where(valid, values, 0.0) * 10.0**dtype.scale
    numbers = np.floor(np.abs(scaled) + 0.5)
    near_tie = np.abs(np.abs(scaled) - np.floor(np.abs(scaled)) - 0.5) < 1e-15 * (1.0 + np.abs(scaled))
    for row in np.flatnonzero(near_tie & valid):
        digits = Decimal(repr(abs(float(values[row]))))
        numbers[row] = float(digits.scaleb(dtype.scale, _WIDE_CONTEXT).quantize(Decimal(1), ROUND_HALF_UP))
    whole = np.where(scaled < 0, -numbers, numbers).astype(np.int64)
    return decimal_array(whole.view(np.uint64), whole >> np.int64(63), valid, dtype)
