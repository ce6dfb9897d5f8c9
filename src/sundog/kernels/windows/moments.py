"""Means, moments and co-moments of every row's frame: on two stacks, or in order (see `sliding.py`)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sundog.kernels.compile import kernel
from sundog.kernels.moments import Comoments, merged_comoments, merged_moments, with_pair
from sundog.kernels.windows.sliding import widest_frame

Positions = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]


@kernel
def sliding_moments(
    counts: Doubles,
    means: Doubles,
    squares: Doubles,
    starts: Positions,
    stops: Positions,
    result_counts: Doubles,
    result_means: Doubles,
    result_squares: Doubles,
) -> None:
    """Moments of each frame on two stacks. A single row is (1, value, 0), a NULL (0, 0, 0)."""
    width = widest_frame(starts, stops)
    suffix_counts = np.empty(width, np.float64)
    suffix_means = np.empty(width, np.float64)
    suffix_squares = np.empty(width, np.float64)
    base, middle, end = 0, 0, 0
    n, mean, m2 = 0.0, 0.0, 0.0
    for row in range(len(starts)):
        start, stop = starts[row], stops[row]
        if start >= stop:
            result_counts[row] = 0.0
            result_means[row] = 0.0
            result_squares[row] = 0.0
            continue
        if start >= middle or stop < end:
            n, mean, m2 = 0.0, 0.0, 0.0
            for place in range(stop - 1, start - 1, -1):
                n, mean, m2 = merged_moments(n, mean, m2, counts[place], means[place], squares[place])
                suffix_counts[place - start] = n
                suffix_means[place - start] = mean
                suffix_squares[place - start] = m2
            base, middle, end = start, stop, stop
            n, mean, m2 = 0.0, 0.0, 0.0
        while end < stop:
            n, mean, m2 = merged_moments(n, mean, m2, counts[end], means[end], squares[end])
            end += 1
        all_n, all_mean, all_m2 = merged_moments(
            suffix_counts[start - base], suffix_means[start - base], suffix_squares[start - base], n, mean, m2
        )
        result_counts[row] = all_n
        result_means[row] = all_mean
        result_squares[row] = all_m2


@kernel
def ordered_moments(
    counts: Doubles,
    means: Doubles,
    squares: Doubles,
    starts: Positions,
    stops: Positions,
    initial: tuple[float, float, float],
    result_counts: Doubles,
    result_means: Doubles,
    result_squares: Doubles,
) -> None:
    """Moments of each frame from its first row to its last."""
    before_start, before_stop = np.int32(-1), np.int32(-1)
    n, mean, m2 = initial
    for row in range(len(starts)):
        start, stop = starts[row], stops[row]
        if start != before_start or stop < before_stop:
            n, mean, m2 = initial
            before_stop = start
        for place in range(before_stop, stop):
            n, mean, m2 = merged_moments(n, mean, m2, counts[place], means[place], squares[place])
        before_start, before_stop = start, max(stop, start)
        result_counts[row] = n
        result_means[row] = mean
        result_squares[row] = m2


@kernel(inline=True)
def _set_at(sets: Doubles, place: int) -> Comoments:
    return (sets[place, 0], sets[place, 1], sets[place, 2], sets[place, 3], sets[place, 4], sets[place, 5])


@kernel(inline=True)
def _put(found: Comoments, row: int, result: Doubles) -> None:
    for at in range(6):
        result[row, at] = found[at]


@kernel
def sliding_comoments(sets: Doubles, starts: Positions, stops: Positions, result: Doubles) -> None:
    """Sets of pairs of each frame on two stacks; the columns of both arrays are those of `Comoments`."""
    nothing = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    suffix = np.empty((widest_frame(starts, stops), 6), np.float64)
    base, middle, end = 0, 0, 0
    added = nothing
    for row in range(len(starts)):
        start, stop = starts[row], stops[row]
        if start >= stop:
            _put(nothing, row, result)
            continue
        if start >= middle or stop < end:
            added = nothing
            for place in range(stop - 1, start - 1, -1):
                added = merged_comoments(added, _set_at(sets, place))
                _put(added, place - start, suffix)
            base, middle, end = start, stop, stop
            added = nothing
        while end < stop:
            added = merged_comoments(added, _set_at(sets, end))
            end += 1
        _put(merged_comoments(_set_at(suffix, start - base), added), row, result)


@kernel
def ordered_comoments(
    sets: Doubles, of_regression: bool, starts: Positions, stops: Positions, rows: Longs, result: Doubles
) -> None:
    """The frames of `rows` from the first pair to the last, with Spark's rounding."""
    nothing = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    before_start, before_stop = np.int32(-1), np.int32(-1)
    found = nothing
    for index in range(len(rows)):
        row = rows[index]
        start, stop = starts[row], stops[row]
        if start != before_start or stop < before_stop:
            found = nothing
            before_stop = start
        for place in range(before_stop, stop):
            own = _set_at(sets, place)
            if own[0] == 1.0 and own[3] == 0.0 and own[4] == 0.0 and own[5] == 0.0:
                found = with_pair(found, own[1], own[2], of_regression)
            else:
                found = merged_comoments(found, own)
        before_start, before_stop = start, max(stop, start)
        _put(found, row, result)
