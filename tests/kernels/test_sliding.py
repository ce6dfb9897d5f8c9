"""Sliding aggregates against a computation of each frame on its own."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sundog.kernels.bits import BIT_AND, BIT_OR, BIT_XOR
from sundog.kernels.windows.double_sums import LANES, compensated_sum, running_sums
from sundog.kernels.windows.moments import ordered_comoments, ordered_moments, sliding_comoments, sliding_moments
from sundog.kernels.windows.sliding import (
    checked_sums,
    compensated_sums,
    divide_by_counts,
    frame_magnitudes,
    frame_totals,
    frames_that_contribute,
    ordered_cost,
    ordered_sums,
    running_totals,
    sliding_bits,
    sliding_max,
    sliding_min,
    sums_in_order,
    survey_doubles,
)
from tests.kernels.frame_cases import frames

SETTINGS = settings(max_examples=80, deadline=None)
POOL = [0.0, -0.0, 1.0, -1.0, 0.1, 1e16, -1e16, 1e-16, 3.5, -2.25]
WILD = [*POOL, math.inf, -math.inf, math.nan]


def picked(pool, rows, seed):
    return np.array(pool)[np.random.default_rng(seed).integers(0, len(pool), rows)]


def added_in_order(values, initial=0.0):
    total = initial
    for value in values:
        total += float(value)
    return total


@SETTINGS
@given(frames(), st.integers(0, 2**32))
def test_integer_sums_are_exact_modulo_two_to_the_64(frame, seed):
    values = picked([0, 1, -1, 7, 2**62, -(2**62), 2**63 - 1, -(2**63)], frame.rows, seed)
    totals, result = np.empty(frame.rows + 1, np.int64), np.empty(frame.rows, np.int64)
    running_totals(values, totals)
    frame_totals(totals, frame.starts, frame.stops, result)
    for row, (start, stop) in enumerate(zip(frame.starts, frame.stops, strict=True)):
        exact = sum(map(int, values[start:stop]))
        assert (int(result[row]) - exact) % 2**64 == 0


@SETTINGS
@given(frames(), st.integers(0, 2**32), st.sampled_from([0, 5, 2**63 - 1, -(2**63)]))
def test_overflow_is_judged_on_each_frame_in_order(frame, seed, initial):
    values = picked([0, 1, -1, 7, 2**62, -(2**62), 2**63 - 1, -(2**63)], frame.rows, seed)
    result, overflowed = np.zeros(frame.rows, np.int64), np.zeros(frame.rows, np.bool_)
    checked_sums(values, frame.starts, frame.stops, np.arange(frame.rows), initial, result, overflowed)
    for row, (start, stop) in enumerate(zip(frame.starts, frame.stops, strict=True)):
        total, broken = initial, False
        for value in values[start:stop]:
            total += int(value)
            if not -(2**63) <= total < 2**63:
                broken = True
                total = (total + 2**63) % 2**64 - 2**63
        assert (result[row], overflowed[row]) == (total, broken)


@SETTINGS
@given(frames(), st.integers(0, 2**32))
def test_risky_frames_are_never_missed(frame, seed):
    values = picked([0, 1, -1, 2**61, -(2**62), 2**63 - 1], frame.rows, seed)
    totals = np.concatenate([[0.0], np.cumsum(np.abs(values.astype(np.float64)))])
    risky = np.empty(frame.rows, np.bool_)
    frame_magnitudes(totals, frame.starts, frame.stops, 2.0**62, risky)
    for row, (start, stop) in enumerate(zip(frame.starts, frame.stops, strict=True)):
        if sum(abs(int(value)) for value in values[start:stop]) >= 2**63:
            assert risky[row]


@SETTINGS
@given(frames(), st.integers(0, 2**32), st.sampled_from([0.0, 2.5, 1e16]))
def test_ordered_sums_are_bit_for_bit_those_of_a_loop(frame, seed, initial):
    values = picked(WILD, frame.rows, seed)
    result = np.empty(frame.rows)
    ordered_sums(values, frame.starts, frame.stops, np.arange(frame.rows), initial, result)
    if initial == 0.0:
        others = np.empty(frame.rows)
        sums_in_order(values, frame.starts, frame.stops, others)
        assert others.tobytes() == result.tobytes()
    for row, (start, stop) in enumerate(zip(frame.starts, frame.stops, strict=True)):
        expected = added_in_order(values[start:stop], initial)
        assert result[row] == expected or (math.isnan(result[row]) and math.isnan(expected))
    assert ordered_cost(frame.starts, frame.stops) <= np.maximum(frame.stops - frame.starts, 0).sum()


@SETTINGS
@given(frames(), st.integers(0, 2**32))
def test_compensated_sums_are_the_exact_sum(frame, seed):
    values = picked(POOL, frame.rows, seed)
    result, magnitudes = np.empty(frame.rows), np.empty(frame.rows)
    compensated_sums(values, frame.starts, frame.stops, True, result, magnitudes)
    for row, (start, stop) in enumerate(zip(frame.starts, frame.stops, strict=True)):
        exact = math.fsum(values[start:stop])
        assert result[row] == pytest.approx(exact, rel=1e-15, abs=1e-28 * magnitudes[row])
        assert magnitudes[row] == pytest.approx(math.fsum(np.abs(values[start:stop])), rel=1e-13)


@SETTINGS
@given(st.lists(st.one_of(st.floats(), st.sampled_from(WILD)), max_size=50), st.sampled_from([0.0, 1e16, math.inf]))
def test_running_sums_are_added_in_order(values, initial):
    result = np.empty(len(values))
    running_sums(np.array(values, np.float64), initial, result)
    expected = [added_in_order(values[: row + 1], initial) for row in range(len(values))]
    np.testing.assert_array_equal(result, np.array(expected))


@SETTINGS
@given(st.lists(st.floats(-1e100, 1e100), max_size=50))
def test_a_compensated_sum_is_the_exact_one_in_two_doubles(values):
    total, error = compensated_sum(np.array(values, np.float64))
    magnitude = math.fsum(map(abs, values))
    assert math.fsum([total, error, *(-value for value in values)]) == pytest.approx(0, abs=1e-28 * magnitude)


@SETTINGS
@given(st.integers(0, 3 * LANES), st.integers(-20, 20), st.integers(0, 2**32), st.booleans())
def test_a_compensated_sum_in_lanes_is_the_exact_one(count, scale, seed, cancels):
    random = np.random.default_rng(seed)
    values = random.normal(size=count) * 10.0 ** random.integers(-abs(scale), abs(scale) + 1, count)
    if cancels:
        values = random.permutation(np.concatenate([values, -values, values[:1]]))
    total, error = compensated_sum(values)
    magnitude = math.fsum(np.abs(values))
    assert math.fsum([total, error, *(-values).tolist()]) == pytest.approx(0, abs=1e-26 * magnitude)


@pytest.mark.parametrize("values", [[1.0, np.inf], [np.nan, 1.0], [np.inf, -np.inf], [1.7e308, 1.7e308]])
@pytest.mark.parametrize("others", [0, 1, LANES - 2, LANES, 2 * LANES + 3])
def test_a_compensated_sum_of_what_is_not_finite_says_so(values, others):
    assert not math.isfinite(sum(compensated_sum(np.array([*values, *np.ones(others)]))))
    assert not math.isfinite(sum(compensated_sum(np.array([*np.ones(others), *values]))))


def test_a_large_value_that_has_left_leaves_no_trace():
    values = np.tile([1e16, 1.0, -1e16, 1.0], 250)
    rows = np.arange(len(values))
    for width in (1, 2, 3, 5, 50, 400):
        starts = np.maximum(rows - width + 1, 0).astype(np.int32)
        stops = (rows + 1).astype(np.int32)
        result = np.empty(len(values))
        compensated_sums(values, starts, stops, False, result, np.empty(0))
        for row in rows:
            assert result[row] == math.fsum(values[starts[row] : stops[row]])


@SETTINGS
@given(frames(), st.integers(0, 2**32))
def test_min_and_max_in_sparks_order(frame, seed):
    floats = picked(WILD, frame.rows, seed)
    longs = picked([0, 1, -5, 2**63 - 1, -(2**63)], frame.rows, seed)
    for values in (floats, longs):
        low, high = values[:0].copy(), values[:0].copy()
        low.resize(frame.rows)
        high.resize(frame.rows)
        sliding_min(values, frame.starts, frame.stops, low)
        sliding_max(values, frame.starts, frame.stops, high)
        for row, (start, stop) in enumerate(zip(frame.starts, frame.stops, strict=True)):
            if start < stop:
                members = values[start:stop].tolist()
                assert same(low[row], min(members, key=order_key)), members
                assert same(high[row], max(members, key=order_key)), members


def order_key(value):
    return (1, 0.0) if value != value else (0, value)


def same(left, right):
    """Equal with the sign of zeros: of equals, Python's min and max too keep the first."""
    return (left != left and right != right) or (left == right and math.copysign(1, left) == math.copysign(1, right))


@SETTINGS
@given(frames(), st.integers(0, 2**32))
def test_moments(frame, seed):
    values = picked([0.0, 1.0, -3.5, 70005.0, 70007.0, 2.0], frame.rows, seed)
    valid = np.random.default_rng(seed).random(frame.rows) < 0.8
    counts, means, squares = valid.astype(float), np.where(valid, values, 0.0), np.zeros(frame.rows)
    slid = [np.empty(frame.rows) for _ in range(3)]
    ordered = [np.empty(frame.rows) for _ in range(3)]
    sliding_moments(counts, means, squares, frame.starts, frame.stops, *slid)
    ordered_moments(counts, means, squares, frame.starts, frame.stops, (0.0, 0.0, 0.0), *ordered)
    for row, (start, stop) in enumerate(zip(frame.starts, frame.stops, strict=True)):
        members = values[start:stop][valid[start:stop]]
        assert slid[0][row] == ordered[0][row] == len(members)
        if len(members):
            expected = float(np.var(members.astype(np.longdouble)) * len(members))
            for result in (slid, ordered):
                assert result[2][row] == pytest.approx(expected, rel=1e-9, abs=1e-9)


@SETTINGS
@given(frames(), st.integers(0, 2**32), st.booleans())
def test_moments_of_pairs(frame, seed, of_regression):
    pool = [0.0, 1.0, -3.5, 70005.0, 70007.0, 2.0]
    x, y = picked(pool, frame.rows, seed), picked(pool, frame.rows, seed + 1)
    valid = np.random.default_rng(seed).random(frame.rows) < 0.8
    zeros = np.zeros((3, frame.rows))
    sets = np.stack([valid.astype(float), np.where(valid, x, 0.0), np.where(valid, y, 0.0), *zeros], axis=1)
    slid, ordered = np.empty((frame.rows, 6)), np.empty((frame.rows, 6))
    sliding_comoments(sets, frame.starts, frame.stops, slid)
    ordered_comoments(sets, of_regression, frame.starts, frame.stops, np.arange(frame.rows), ordered)
    for row, (start, stop) in enumerate(zip(frame.starts, frame.stops, strict=True)):
        members = valid[start:stop]
        xs, ys = (values[start:stop][members].astype(np.longdouble) for values in (x, y))
        assert slid[row, 0] == ordered[row, 0] == len(xs)
        if len(xs):
            dx, dy = xs - xs.mean(), ys - ys.mean()
            expected = [xs.mean(), ys.mean(), (dx * dy).sum(), (dx * dx).sum(), (dy * dy).sum()]
            for result in (slid, ordered):
                assert result[row, 1:].tolist() == pytest.approx([float(one) for one in expected], rel=1e-9, abs=1e-6)


@SETTINGS
@given(
    frames(),
    st.integers(0, 2**32),
    st.sampled_from([(BIT_AND, -1, np.bitwise_and), (BIT_OR, 0, np.bitwise_or), (BIT_XOR, 0, np.bitwise_xor)]),
    st.sampled_from([np.int8, np.int32, np.int64]),
)
def test_bits(frame, seed, of_bits, dtype):
    operation, neutral, reference = of_bits
    values = np.random.default_rng(seed).integers(-128, 128, frame.rows).astype(dtype)
    result = np.full(frame.rows, neutral, dtype)
    sliding_bits(values, operation, frame.starts, frame.stops, result)
    for row, (start, stop) in enumerate(zip(frame.starts, frame.stops, strict=True)):
        assert result[row] == (reference.reduce(values[start:stop]) if start < stop else neutral)


def test_variance_of_two_large_neighbours_is_exact():
    values = np.array([7000000000005.0, 7000000000007.0])
    result = [np.empty(2) for _ in range(3)]
    starts, stops = np.zeros(2, np.int32), np.array([1, 2], np.int32)
    sliding_moments(np.ones(2), values, np.zeros(2), starts, stops, *result)
    assert result[2].tolist() == [0.0, 2.0]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(width=64), max_size=30))
def test_survey_of_doubles(values):
    """NaN, infinities and zeros of both signs count for nothing."""
    there = [value for value in values if math.isfinite(value) and value != 0]
    *found, falls, rises = survey_doubles(np.array(values, np.float64).view(np.int64))
    sizes = [abs(value) for value in there]
    largest, smallest = np.array(found, np.int64).view(np.float64).tolist()
    assert largest == max(sizes, default=0.0)
    assert smallest == min(sizes, default=math.inf)
    assert falls == any(value < 0 for value in there)
    assert rises == any(value > 0 for value in there)


@SETTINGS
@given(frames(), st.integers(0, 2**32), st.sampled_from([0.1, 0.5, 1.0]))
def test_frames_contribute_where_an_element_counts(frame, seed, share):
    counts = (np.random.default_rng(seed).random(frame.rows) < share).astype(np.int64) * 7
    result = np.empty(frame.rows, np.bool_)
    frames_that_contribute(counts, frame.starts, frame.stops, result)
    for row, (start, stop) in enumerate(zip(frame.starts, frame.stops, strict=True)):
        assert result[row] == bool(counts[start:stop].any())


def test_sums_are_divided_by_what_counts():
    sums = np.array([6.0, 6.0, 6.0, np.inf, -0.0])
    divide_by_counts(sums, np.array([0, 1, 4, 2, 3]))
    assert repr(sums.tolist()) == "[6.0, 6.0, 1.5, inf, -0.0]"
