"""sum and avg of decimals, exact in 128 bits, by the rules of `rules.py`.

By group, a sum that leaves its type at any row is lost: ARITHMETIC_OVERFLOW under ANSI, else NULL. An average whose sum
is in range may still have too many digits for its own type: NUMERIC_VALUE_OUT_OF_RANGE under ANSI, else NULL; only
arguments of more than 28 digits can have such an average. Without GROUP BY, Spark compares the sum with its type once
for each task and once at the end. A sum that exceeds the type in the middle of a task may come back into range. The
boundaries of Spark's tasks are not known here. So if some order of the values of a single group might leave the type,
Spark runs the query (`_DecimalSums.depends_on_tasks`).

Over frames, the sum is exact, and only the result is compared with its type. The few frames whose sum may need more
than 38 digits are computed again with Python's integers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.columns.vectors import NO_MASK, Bytes, Ints, Short, Vector, both, full_mask, nulls
from sundog.expr.buffers import decimal_array, decimal_words
from sundog.expr.calls import AggregateCall, WindowCall
from sundog.expr.errors import SparkQueryError
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
)
from sundog.functions.grouped import COUNT, FLAG, Accumulator, Groups, NullState, counted, grown, mask_of
from sundog.functions.sums.integers import frames_above
from sundog.functions.sums.rules import (
    MAX_DIGITS,
    OutOfRange,
    decimal_of,
    exact_half_up,
    fits,
    out_of_range,
    quotient_shown,
    sum_type,
    unscaled_of,
    words_of,
)
from sundog.kernels.groups.by_group_decimals import (
    add_short_decimals_by_group,
    divide_decimals,
    sum_decimals_by_group,
)
from sundog.kernels.windows.sliding import widest_frame
from sundog.kernels.windows.wide_sums import wide_frame_totals, wide_quotients, wide_totals
from sundog.support import Code, Declined

_LARGEST_WORD = 2**63 - 1
# From this number of rows per group on, one-word sums of a batch are added to the sums of two words, instead of rows.
_MIN_ROWS_PER_GROUP = 8
_LARGEST_FAST_COUNT = 2**32 - 1
_LARGEST_MAGNITUDE = 1e38 / 2**16  # of one task's rows: so no partial sum over 65,536 tasks exceeds 38 digits
_LARGEST_FAST_SUM = 0.9e38  # of a frame, as a double
_Words = npt.NDArray[np.uint64]


def limit(digits: int) -> tuple[np.uint64, np.uint64]:
    """10^digits as (low, high) words."""
    value = 10**digits
    return np.uint64(value & 0xFFFFFFFFFFFFFFFF), np.uint64(value >> 64)


class _DecimalSums:
    """128-bit sums of all groups, and which of them are lost."""

    def __init__(self, dtype: pa.DataType) -> None:
        self.dtype = dtype
        self.null_state = NullState()
        self._sums = np.zeros((0, 2), np.int64)
        self._overflowed = np.zeros(0, np.uint8)
        self._magnitude = 0.0
        self._told = False
        self._reach: int | None = 0  # no sum was ever larger; None if that is not known
        self.groups = 0

    def weigh(self, values: Vector, valid: Bytes | None, groups: Groups) -> None:
        """Record the magnitude of the rows of a single group; call it before `add`, for rows only."""
        if groups.count != 1 or self.dtype.precision < MAX_DIGITS or values.all_null:
            return
        if values.short is not None:
            self._magnitude += float(values.short.bound) * values.length
            return
        words = values.values if valid is None else values.values[valid != 0]
        low, high = words[:, 0].view(np.uint64).astype(np.float64), words[:, 1].astype(np.float64)
        self._magnitude += float(np.abs(high * 2.0**64 + low).sum())

    @property
    def depends_on_tasks(self) -> bool:
        """Whether some rows of the only group may add up to more than the type holds."""
        return self.groups == 1 and (self._told or self._magnitude >= _LARGEST_MAGNITUDE)

    def check_tasks(self) -> None:
        if self.depends_on_tasks:
            sentence = "an intermediate sum of decimals may exceed its type, where Spark's answer depends on its tasks"
            raise Declined.because(Code.CAN_RAISE, sentence, "Aggregate")

    def add(self, values: Vector, valid: Bytes | None, groups: Groups) -> None:
        self.groups = groups.count
        self._sums = grown(self._sums, groups.count, 0)
        self._overflowed = grown(self._overflowed, groups.count, 0)
        self.null_state.mark(valid, groups)
        if values.short is not None and self._can_hold(values.short.bound * values.length):
            self._add_short(values.short, valid, groups)
            return
        if not values.all_null:
            self._reach = None
        low, high = limit(self.dtype.precision)
        sum_decimals_by_group(groups.ids, values.values, mask_of(valid), low, high, self._sums, self._overflowed)

    def _can_hold(self, more: int) -> bool:
        """Whether no sum can leave the type while numbers are added whose magnitudes add up to at most `more`."""
        if self._reach is None or self._reach + more >= 10**self.dtype.precision:
            return False
        self._reach += more
        return True

    def _add_short(self, short: Short, valid: Bytes | None, groups: Groups) -> None:
        rows = len(groups.ids)
        if short.bound * rows <= _LARGEST_WORD and groups.count * _MIN_ROWS_PER_GROUP <= rows:
            totals = groups.totals(short.numbers, valid)
            add_short_decimals_by_group(np.arange(groups.count, dtype=np.int32), totals, NO_MASK, self._sums)
        else:
            add_short_decimals_by_group(groups.ids, short.numbers, mask_of(valid), self._sums)

    def mark_lost(self, flags: Vector, groups: Groups) -> None:
        if not flags.all_null:
            lost = flags.values & full_mask(flags)
            self._overflowed[groups.ids[lost != 0]] = 1

    def mark_large(self, flags: Vector) -> None:
        """Add the flags of other tasks about the magnitude of their rows."""
        self._told |= not flags.all_null and bool((flags.values & full_mask(flags)).any())

    @property
    def lost(self) -> Bytes:
        return self._overflowed[: self.groups]

    def state(self) -> list[Vector]:
        """The sums; a lost one is written as zero, which its type holds, and the flag marks it."""
        sums = self._sums[: self.groups]
        if self.lost.any():
            sums = np.where(self.lost[:, None] != 0, 0, sums)
        return [Vector(self.dtype, self.groups, sums, self.null_state.valid()), Vector(FLAG, self.groups, self.lost)]

    def large(self) -> Vector:
        """The flags that `mark_large` takes; NULL, which costs nothing, if there are none."""
        if not self.depends_on_tasks:
            return nulls(FLAG, self.groups)
        return Vector(FLAG, self.groups, np.ones(self.groups, np.uint8))

    def kept(self) -> Bytes | None:
        """Validity of the sums; None if none is lost."""
        return both(self.null_state.valid(), (self.lost == 0).view(np.uint8) if self.lost.any() else None)

    @property
    def values(self) -> Ints:
        return self._sums[: self.groups]


class GroupedDecimalSum(Accumulator):
    """A state is the sum, whether it is lost, and whether it depends on Spark's tasks."""

    def __init__(self, call: AggregateCall, *, forgiving: bool = False) -> None:
        super().__init__(call)
        self._raises = out_of_range(call, forgiving) is OutOfRange.RAISES
        self._sums = _DecimalSums(call.dtype)

    @property
    def state_types(self) -> tuple[pa.DataType, ...]:
        return (self.call.dtype, FLAG, FLAG)

    def update(self, args: Sequence[Vector], rows: Bytes | None, groups: Groups) -> None:
        self.groups = groups.count
        valid = counted(args, rows)
        self._sums.weigh(args[0], valid, groups)
        self._sums.add(args[0], valid, groups)

    def singles(self, args: Sequence[Vector], rows: Bytes | None, length: int) -> list[Vector]:
        return [
            Vector(self.call.dtype, length, args[0].values, counted(args, rows)),
            nulls(FLAG, length),
            nulls(FLAG, length),
        ]

    def merge(self, states: Sequence[Vector], groups: Groups) -> None:
        self.groups = groups.count
        self._sums.add(states[0], counted(states[:1], None), groups)
        self._sums.mark_lost(states[1], groups)
        self._sums.mark_large(states[2])

    def state(self) -> list[Vector]:
        return [*self._sums.state(), self._sums.large()]

    def evaluate(self) -> Vector:
        self._sums.check_tasks()
        if self._raises and self._sums.lost.any():
            raise SparkQueryError.decimal_sum_overflow(f"try_{self.call.function}")
        return Vector(self.call.dtype, self.groups, self._sums.values, self._sums.kept())


class GroupedDecimalAverage(Accumulator):
    """A state is that of the sum, and a count."""

    def __init__(self, call: AggregateCall, *, forgiving: bool = False) -> None:
        super().__init__(call)
        self._raises = out_of_range(call, forgiving) is OutOfRange.RAISES
        self._sums = _DecimalSums(sum_type(call.args[0].dtype))
        self._counts = GroupCounts()

    @property
    def state_types(self) -> tuple[pa.DataType, ...]:
        return (self._sums.dtype, FLAG, COUNT, FLAG)

    @property
    def count_columns(self) -> frozenset[int]:
        return frozenset({2})

    def update(self, args: Sequence[Vector], rows: Bytes | None, groups: Groups) -> None:
        self.groups = groups.count
        valid = counted(args, rows)
        self._sums.weigh(args[0], valid, groups)
        self._sums.add(args[0], valid, groups)
        self._counts.update(valid, groups)

    def singles(self, args: Sequence[Vector], rows: Bytes | None, length: int) -> list[Vector]:
        valid = counted(args, rows)
        sums = Vector(self._sums.dtype, length, args[0].values, valid)
        return [sums, nulls(FLAG, length), single_counts(valid, length), nulls(FLAG, length)]

    def merge(self, states: Sequence[Vector], groups: Groups) -> None:
        self.groups = groups.count
        self._sums.add(states[0], counted(states[:1], None), groups)
        self._sums.mark_lost(states[1], groups)
        self._counts.merge(states[2], groups)
        self._sums.mark_large(states[3])

    def state(self) -> list[Vector]:
        counts = Vector(COUNT, self.groups, self._counts.values[: self.groups])
        return [*self._sums.state(), counts, self._sums.large()]

    def evaluate(self) -> Vector:
        self._sums.check_tasks()
        if self._raises and self._sums.lost.any():
            raise SparkQueryError.decimal_sum_overflow(f"try_{self.call.function}")
        counts = self._counts.values[: self.groups]
        quotients = np.zeros((self.groups, 2), np.int64)
        too_long = np.zeros(self.groups, np.uint8)
        factor = 10 ** (self.call.dtype.scale - self._sums.dtype.scale)
        low, high = limit(self.call.dtype.precision)
        fast = np.clip(counts, 1, _LARGEST_FAST_COUNT)
        divide_decimals(self._sums.values, fast, factor, low, high, quotients, too_long)
        for group in np.flatnonzero(counts > _LARGEST_FAST_COUNT):
            quotients[group], too_long[group] = self._divide_exactly(int(group), int(counts[group]), factor)
        valid = both(self._sums.kept(), (counts > 0).view(np.uint8))
        failed = too_long & mask_of(valid)
        if failed.any():
            if self._raises:
                raise self._out_of_range(int(np.flatnonzero(failed)[0]))
            valid = both(valid, (too_long == 0).view(np.uint8))
        return Vector(self.call.dtype, self.groups, quotients, None if valid is None or valid.all() else valid)

    def _divide_exactly(self, group: int, count: int, factor: int) -> tuple[tuple[int, int], bool]:
        """The average of a group with more rows than the kernel's divisor holds."""
        quotient = exact_half_up(self._total(group) * factor, count)
        words = quotient.to_bytes(16, "little", signed=True)
        low, high = (int.from_bytes(part, "little", signed=True) for part in (words[:8], words[8:]))
        return (low, high), not fits(quotient, self.call.dtype)

    def _total(self, group: int) -> int:
        low, high = self._sums.values[group]
        return unscaled_of(int(low), int(high))

    def _out_of_range(self, group: int) -> SparkQueryError:
        value = quotient_shown(self._total(group), int(self._counts.values[group]), self._sums.dtype.scale)
        return SparkQueryError.decimal_out_of_range(value, self.call.dtype)


class FramedDecimalSum(MergeableFunction):
    """sum and avg over frames. Elements: low and high words of the sum, count."""

    def __init__(self, call: WindowCall, *, average: bool = False, forgiving: bool = False) -> None:
        super().__init__(call)
        self._average = average
        self._raises = out_of_range(call, forgiving) is OutOfRange.RAISES

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
        return hazard.magnitude < _LARGEST_FAST_SUM

    def evaluate(self, elements: Elements, starts: Positions, stops: Positions) -> pa.Array:
        lows, highs, counts = elements.arrays
        numbers = frame_counts(counts, starts, stops)
        sum_lows, sum_highs = _wide_sums(lows, highs, starts, stops)
        slow = _risky_frames(lows, highs, starts, stops)
        if self._average:
            largest = _LARGEST_FAST_SUM * np.maximum(numbers, 1)
            too_long = np.abs(_wide_doubles(sum_lows, sum_highs)) * self._factor >= largest
            slow = np.union1d(slow, np.flatnonzero(too_long))
            wide_quotients(sum_lows, sum_highs, numbers, self._factor)
        valid = numbers > 0
        for row in slow[valid[slow]]:
            total = sum(unscaled_of(int(lows[at]), int(highs[at])) for at in range(starts[row], stops[row]))
            exact = self._exact(total, int(numbers[row]))
            valid[row] = exact is not None
            sum_lows[row], sum_highs[row] = words_of(exact or 0)
        return decimal_array(sum_lows, sum_highs, valid, self.call.dtype)

    @property
    def _scale(self) -> int:
        return int(self.call.args[0].dtype.scale)

    @property
    def _factor(self) -> int:
        """From the scale of the sum to that of the result."""
        return int(10 ** (self.call.dtype.scale - self._scale))

    def _exact(self, total: int, count: int) -> int | None:
        """The unscaled result; None if its type cannot hold it."""
        result = exact_half_up(total * self._factor, count) if self._average else total
        if fits(result, self.call.dtype):
            return result
        if self._raises:
            shown = quotient_shown(total, count, self._scale) if self._average else decimal_of(total, self._scale)
            raise SparkQueryError.decimal_out_of_range(shown, self.call.dtype)
        return None


def _wide_sums(lows: _Words, highs: Longs, starts: Positions, stops: Positions) -> tuple[_Words, Longs]:
    total_lows, total_highs = np.empty(len(lows) + 1, np.uint64), np.empty(len(lows) + 1, np.int64)
    wide_totals(lows, highs, total_lows, total_highs)
    sum_lows, sum_highs = np.empty(len(starts), np.uint64), np.empty(len(starts), np.int64)
    wide_frame_totals(total_lows, total_highs, starts, stops, sum_lows, sum_highs)
    return sum_lows, sum_highs


def _wide_doubles(lows: _Words, highs: Longs) -> Doubles:
    result: Doubles = highs.astype(np.float64) * 2.0**64 + lows.astype(np.float64)
    return result


def _risky_frames(lows: _Words, highs: Longs, starts: Positions, stops: Positions) -> Longs:
    """The frames whose sum may need more than 38 digits."""
    if not len(lows):
        return np.zeros(0, np.int64)
    sizes = np.abs(_wide_doubles(lows, highs))
    if float(sizes.max()) * float(widest_frame(starts, stops)) < _LARGEST_FAST_SUM:
        return np.zeros(0, np.int64)
    return frames_above(sizes, starts, stops, _LARGEST_FAST_SUM)
