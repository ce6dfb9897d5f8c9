"""128-bit arithmetic in halves against Python's integers."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sundog.kernels.windows.wide_sums import wide_frame_totals, wide_quotients, wide_totals
from tests.kernels.frame_cases import frames

NUMBERS = st.one_of(
    st.integers(-(10**30), 10**30), st.sampled_from([0, 1, -1, 2**64, -(2**64), 2**64 - 1, -(2**63), 10**33])
)


def halves(numbers):
    lows = np.array([number & (2**64 - 1) for number in numbers], np.uint64)
    highs = np.array([number >> 64 for number in numbers], np.int64)
    return lows, highs


def whole(lows, highs):
    return [(int(high) << 64) | int(low) for low, high in zip(lows, highs, strict=True)]


@settings(max_examples=60, deadline=None)
@given(frames(), st.lists(NUMBERS, min_size=1, max_size=10), st.integers(0, 2**32))
def test_frame_sums(frame, pool, seed):
    picked = np.random.default_rng(seed).integers(0, len(pool), frame.rows)
    numbers = [pool[place] for place in picked]
    lows, highs = halves(numbers)
    total_lows, total_highs = np.empty(frame.rows + 1, np.uint64), np.empty(frame.rows + 1, np.int64)
    wide_totals(lows, highs, total_lows, total_highs)
    result = np.empty(frame.rows, np.uint64), np.empty(frame.rows, np.int64)
    wide_frame_totals(total_lows, total_highs, frame.starts, frame.stops, *result)
    expected = [sum(numbers[start:stop]) for start, stop in zip(frame.starts, frame.stops, strict=True)]
    assert whole(*result) == expected


@settings(max_examples=200, deadline=None)
@given(NUMBERS, st.one_of(st.integers(0, 50), st.integers(0, 2**31 - 1)), st.sampled_from([1, 10, 1000, 10000]))
def test_quotients_round_half_up(number, count, factor):
    lows, highs = halves([number])
    wide_quotients(lows, highs, np.array([count]), factor)
    expected = 0
    if count:
        expected = (2 * abs(number) * factor + count) // (2 * count)
        expected = -expected if number < 0 else expected
    assert whole(lows, highs) == [expected]
