"""Kernels that find rows near a row (lag, first, last), against plain Python."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sundog.kernels.windows.picks import gather_found, nth_places, places_away

FRAMES = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=30)


def bounds(frames):
    return (np.array([frame[end] for frame in frames], np.int32) for end in (0, 1))


@settings(max_examples=100, deadline=None)
@given(FRAMES, st.one_of(st.integers(0, 40), st.just(2**31 - 1)))
def test_nth_places(frames, number):
    """Empty frames, also those whose start lies behind their stop, and numbers beyond the frame."""
    places, found = np.empty(len(frames), np.int64), np.empty(len(frames), np.bool_)
    nth_places(*bounds(frames), number, places, found)
    for (start, stop), place, is_found in zip(frames, places.tolist(), found.tolist(), strict=True):
        rows = list(range(start, stop))
        assert is_found == (len(rows) >= max(number, 1))
        if is_found:
            assert place == rows[number - 1]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30), st.integers(0, 30)), max_size=30), st.integers(-40, 40)
)
def test_places_away(rows, distance):
    places, found = np.empty(len(rows), np.int64), np.empty(len(rows), np.bool_)
    starts, stops, numbers = (np.array([row[part] for row in rows], np.int32) for part in range(3))
    places_away(numbers.astype(np.int64), distance, starts, stops, places, found)
    assert places.tolist() == [row[2] + distance for row in rows]
    assert found.tolist() == [row[2] + distance in range(row[0], row[1]) for row in rows]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=30))
def test_gather_found_reads_nothing_at_places_that_are_not_found(picks):
    values = np.array([1.5, -0.0, np.inf, 4.0, 5.0])
    found = np.array([pick[1] for pick in picks], np.bool_)
    places = np.array([place if is_found else 10**12 for place, is_found in picks], np.int64)
    result = np.empty(len(picks))
    gather_found(values, places, found, result)
    assert result.tolist() == [values[place] if is_found else 0.0 for place, is_found in picks]
