"""Aggregates of every row's frame in time proportional to the rows, not to rows times frame width.

Frames come as `starts` and `stops` (see `frames.py`), both never decreasing within a segment. Three ways to slide:

*in and out* What enters a frame is added, what leaves it is taken out. For integers, where that is exact modulo 2^64;
             where a partial sum exceeds 64 bits, `checked_sums` walks that frame as Spark would.
             Counts use running totals.
*two stacks* For everything that cannot be subtracted: min, max, bits, variance (`moments.py`), and sums of doubles.
             Taking the leaving row out of a double sum is wrong for ever after one large value: (1e16 + 1) - 1e16 is
             0. The frame is split at a point `middle`; `suffix[i]` aggregates i .. middle, an accumulator
             middle .. stop; a frame is one combination of the two. When the start passes the middle, the middle moves
             to the stop and the suffixes are built anew, each row once. Nothing is ever taken out.

                 rows   . . . . [ a b c d | e f g ] . . .        suffix[a] = a+b+c+d, accumulated = e+f+g
                                start    middle   stop

*ordered*    From the first row of the frame to the last, as Spark does it and with its rounding, bit for bit. Starts
             from the frame before where that only grows, so a running sum costs one addition per row.

Double sums on two stacks are compensated (the rounding error of each addition is kept and added last): they come
out as the exact sum, rounded once, whatever the cut into ranges. 10 million rows in frames of 11,600 take 0.09 s on one
core with stacks of the widest frame's size; stacks as long as the data took 0.22 s.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sundog.kernels.bits import combined_bits
from sundog.kernels.compile import kernel

Positions = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@kernel
def running_totals(values: Longs, totals: Longs) -> None:
    """totals[i]: the sum of the first i values, modulo 2^64; one longer than values."""
    total = np.int64(0)
    totals[0] = 0
    for row in range(len(values)):
        total += values[row]
        totals[row + 1] = total


@kernel
def frame_totals(totals: Longs, starts: Positions, stops: Positions, result: Longs) -> None:
    """The sum over each frame, modulo 2^64; 0 for an empty one."""
    for row in range(len(starts)):
        start, stop = starts[row], stops[row]
        result[row] = totals[stop] - totals[start] if start < stop else 0


@kernel
def sliding_sums(values: npt.NDArray[Any], starts: Positions, stops: Positions, result: Longs) -> None:
    """Sums of integers of any width over frames, modulo 2^64: what enters is added, what leaves is taken out."""
    begin, end = 0, 0
    total = np.int64(0)
    for row in range(len(starts)):
        start, stop = starts[row], stops[row]
        if start >= stop:
            result[row] = 0
            continue
        if start >= end or start < begin or stop < end:
            begin, end = start, start
            total = np.int64(0)
        while end < stop:
            total += np.int64(values[end])
            end += 1
        while begin < start:
            total -= np.int64(values[begin])
            begin += 1
        result[row] = total


@kernel
def frames_with_rows(starts: Positions, stops: Positions, result: Bools) -> None:
    """Whether each frame has an element."""
    for row in range(len(starts)):
        result[row] = starts[row] < stops[row]


@kernel
def frames_that_contribute(counts: Longs, starts: Positions, stops: Positions, result: Bools) -> None:
    """Whether each frame has an element that counts at least one row. `place` is the first such element from the
    frame's start on; it only steps back where the start does."""
    place, before = 0, np.int32(0)
    for row in range(len(starts)):
        start = starts[row]
        if start < before or start > place:
            place = start
        before = start
        while place < len(counts) and counts[place] == 0:
            place += 1
        result[row] = place < stops[row]


@kernel
def frame_widths(starts: Positions, stops: Positions, result: Longs) -> None:
    """How many elements each frame has."""
    for row in range(len(starts)):
        result[row] = max(stops[row] - starts[row], 0)


@kernel
def survey_doubles(bits: Longs) -> tuple[int, int, bool, bool]:
    """Of the finite values but zeros, given as bits: the largest and smallest size, as bits; any below, any above 0.

    Where there are none, the largest is 0 and the smallest infinite. Sizes have the order of their bits, which unlike
    doubles are compared several at once: 0.1 ns a row instead of 0.8.
    """
    infinity, magnitude = np.int64(0x7FF0000000000000), np.int64(2**63 - 1)
    largest, smallest = np.int64(0), infinity
    falls, rises = np.int64(0), np.int64(0)  # the sign bit says whether there is such a value
    for row in range(len(bits)):
        size = bits[row] & magnitude
        counts = 0 < size < infinity
        largest = max(largest, size if counts else np.int64(0))
        smallest = min(smallest, size if counts else infinity)
        falls |= bits[row] if counts else np.int64(0)
        rises |= ~bits[row] if counts else np.int64(0)
    return int(largest), int(smallest), bool(falls < 0), bool(rises < 0)


@kernel
def divide_by_counts(sums: Doubles, counts: Longs) -> None:
    """Sums to averages, in place; untouched where nothing counts."""
    for row in range(len(sums)):
        if counts[row] > 1:
            sums[row] /= counts[row]


@kernel
def frame_magnitudes(totals: Doubles, starts: Positions, stops: Positions, limit: float, risky: Bools) -> None:
    """risky[i]: the frame's sum of absolute values, from running totals of them, is not surely below the limit."""
    for row in range(len(starts)):
        start, stop = starts[row], stops[row]
        risky[row] = start < stop and not totals[stop] - totals[start] < limit


@kernel
def checked_sums(
    values: Longs,
    starts: Positions,
    stops: Positions,
    rows: Longs,
    initial: int,
    result: Longs,
    overflowed: Bools,
) -> None:
    """The frames of `rows`, added up in order; overflowed if a partial sum leaves 64 bits, like in Spark."""
    before_start, before_stop = np.int32(-1), np.int32(-1)
    total = np.int64(0)
    broken = False
    for index in range(len(rows)):
        row = rows[index]
        start, stop = starts[row], stops[row]
        if start != before_start or stop < before_stop:
            total = np.int64(initial)
            broken = False
            before_stop = start
        for place in range(before_stop, stop):
            value = values[place]
            added = total + value
            if (total ^ added) & (value ^ added) < 0:
                broken = True
            total = added
        before_start, before_stop = start, max(stop, start)
        result[row] = total
        overflowed[row] = broken


@kernel
def ordered_cost(starts: Positions, stops: Positions) -> np.int64:
    """How many additions the ordered kernels would make."""
    cost = np.int64(0)
    for row in range(len(starts)):
        if row > 0 and starts[row] == starts[row - 1] and stops[row] >= stops[row - 1]:
            cost += stops[row] - max(stops[row - 1], starts[row - 1])
        else:
            cost += max(stops[row] - starts[row], 0)
    return cost


@kernel
def ordered_sums(
    values: Doubles, starts: Positions, stops: Positions, rows: Longs, initial: float, result: Doubles
) -> None:
    """The frames of `rows`, added up from first to last."""
    before_start, before_stop = np.int32(-1), np.int32(-1)
    total = 0.0
    for index in range(len(rows)):
        row = rows[index]
        start, stop = starts[row], stops[row]
        if start != before_start or stop < before_stop:
            total = initial
            before_stop = start
        for place in range(before_stop, stop):
            total += values[place]
        before_start, before_stop = start, max(stop, start)
        result[row] = total


@kernel
def sums_in_order(values: Doubles, starts: Positions, stops: Positions, result: Doubles) -> None:
    """All frames added up from first to last. Where each has the rows of the one before and one more, as in a running
    sum, that is one addition."""
    before_start, before_stop = np.int32(-1), np.int32(-1)
    total = 0.0
    for row in range(len(starts)):
        start, stop = starts[row], stops[row]
        if start == before_start and stop == before_stop + 1:
            total += values[before_stop]
            before_stop = stop
        else:
            if start != before_start or stop < before_stop:
                total = 0.0
                before_stop = start
            for place in range(before_stop, stop):
                total += values[place]
            before_start, before_stop = start, max(stop, start)
        result[row] = total


@kernel
def widest_frame(starts: Positions, stops: Positions) -> np.int64:
    """How many rows the widest frame has: the size of a stack, which then mostly stays in the cache."""
    width = np.int64(0)
    for row in range(len(starts)):
        width = max(width, stops[row] - starts[row])
    return width


@kernel
def compensated_sums(
    values: Doubles, starts: Positions, stops: Positions, with_magnitudes: bool, result: Doubles, magnitudes: Doubles
) -> None:
    """Sums of doubles on two stacks; `magnitudes` (of length 0 unless asked for) get the sums of absolute values."""
    width = widest_frame(starts, stops)
    suffix = np.empty(width, np.float64)
    suffix_error = np.empty(width, np.float64)
    suffix_magnitude = np.empty(width if with_magnitudes else 0, np.float64)
    base, middle, end = 0, 0, 0
    total, error, magnitude = 0.0, 0.0, 0.0
    for row in range(len(starts)):
        start, stop = starts[row], stops[row]
        if start >= stop:
            result[row] = 0.0
            if with_magnitudes:
                magnitudes[row] = 0.0
            continue
        if start >= middle or stop < end:
            total, error, magnitude = 0.0, 0.0, 0.0
            for place in range(stop - 1, start - 1, -1):
                value = values[place]
                added = total + value
                part = added - total
                error += (total - (added - part)) + (value - part)
                total = added
                suffix[place - start] = total
                suffix_error[place - start] = error
                if with_magnitudes:
                    magnitude += abs(value)
                    suffix_magnitude[place - start] = magnitude
            base, middle, end = start, stop, stop
            total, error, magnitude = 0.0, 0.0, 0.0
        while end < stop:
            value = values[end]
            added = total + value
            part = added - total
            error += (total - (added - part)) + (value - part)
            total = added
            if with_magnitudes:
                magnitude += abs(value)
            end += 1
        left = suffix[start - base]
        both = left + total
        part = both - left
        result[row] = both + (((left - (both - part)) + (total - part)) + (suffix_error[start - base] + error))
        if with_magnitudes:
            magnitudes[row] = suffix_magnitude[start - base] + magnitude


@kernel
def sliding_min(values: npt.NDArray[Any], starts: Positions, stops: Positions, result: npt.NDArray[Any]) -> None:
    """The least value of each frame; of equals (-0.0 and 0.0) the first. NaN is above everything. Untouched if
    empty."""
    suffix = np.empty(widest_frame(starts, stops), values.dtype)
    base, middle, end = 0, 0, 0
    for row in range(len(starts)):
        start, stop = starts[row], stops[row]
        if start >= stop:
            continue
        if start >= middle or stop < end:
            best = values[stop - 1]
            for place in range(stop - 1, start - 1, -1):
                value = values[place]
                if value <= best or best != best:
                    best = value
                suffix[place - start] = best
            base, middle, end = start, stop, stop
        if end < stop:
            if end == middle:
                accumulated = values[end]
            while end < stop:
                value = values[end]
                if value < accumulated or accumulated != accumulated:
                    accumulated = value
                end += 1
        left = suffix[start - base]
        if end > middle and not (left <= accumulated or accumulated != accumulated):
            left = accumulated
        result[row] = left


@kernel
def sliding_max(values: npt.NDArray[Any], starts: Positions, stops: Positions, result: npt.NDArray[Any]) -> None:
    """The greatest value of each frame; of equals (-0.0 and 0.0) the first. NaN is above everything."""
    suffix = np.empty(widest_frame(starts, stops), values.dtype)
    base, middle, end = 0, 0, 0
    for row in range(len(starts)):
        start, stop = starts[row], stops[row]
        if start >= stop:
            continue
        if start >= middle or stop < end:
            best = values[stop - 1]
            for place in range(stop - 1, start - 1, -1):
                value = values[place]
                if value >= best or value != value:
                    best = value
                suffix[place - start] = best
            base, middle, end = start, stop, stop
        if end < stop:
            if end == middle:
                accumulated = values[end]
            while end < stop:
                value = values[end]
                if value > accumulated or value != value:
                    accumulated = value
                end += 1
        left = suffix[start - base]
        if end > middle and not (left >= accumulated or left != left):
            left = accumulated
        result[row] = left


@kernel
def sliding_bits(
    values: npt.NDArray[Any], operation: int, starts: Positions, stops: Positions, result: npt.NDArray[Any]
) -> None:
    """bit_and, bit_or or bit_xor of each frame; `result` holds what an empty frame gives, which changes no value."""
    suffix = np.empty(widest_frame(starts, stops), values.dtype)
    base, middle, end = 0, 0, 0
    for row in range(len(starts)):
        start, stop = starts[row], stops[row]
        if start >= stop:
            continue
        if start >= middle or stop < end:
            combined = result[row]
            for place in range(stop - 1, start - 1, -1):
                combined = combined_bits(combined, values[place], operation)
                suffix[place - start] = combined
            base, middle, end = start, stop, stop
            accumulated = result[row]
        while end < stop:
            accumulated = combined_bits(accumulated, values[end], operation)
            end += 1
        result[row] = combined_bits(suffix[start - base], accumulated, operation)
