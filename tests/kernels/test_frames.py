"""Frame bounds against a search over the whole segment."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sundog.kernels.windows.frames import (
    moved_places,
    rows_at_distance,
    segment_bounds,
    starts_at_bound,
    starts_at_distance,
    stops_at_bound,
    stops_at_distance,
    word_changes,
)
from tests.kernels.frame_cases import segment_of, segment_offsets

SETTINGS = settings(max_examples=60, deadline=None)


def sorted_words(offsets, seed, spread):
    random = np.random.default_rng(seed)
    words = random.integers(-spread, spread + 1, offsets[-1])
    for first, last in itertools.pairwise(offsets):
        words[first:last].sort()
    return words


@SETTINGS
@given(segment_offsets(), st.integers(0, 2**32), st.sampled_from([1, 5, 100]), st.integers(-12, 12))
def test_bounds_at_a_distance(offsets, seed, spread, distance):
    words = sorted_words(offsets, seed, spread)
    starts, stops = np.empty(len(words), np.int32), np.empty(len(words), np.int32)
    starts_at_distance(words, distance, offsets, starts)
    stops_at_distance(words, distance, offsets, stops)
    for row, word in enumerate(words):
        first, last = segment_of(offsets, row)
        assert starts[row] == first + (words[first:last] < word + distance).sum()
        assert stops[row] == first + (words[first:last] <= word + distance).sum()


@SETTINGS
@given(segment_offsets(), st.integers(0, 2**32), st.sampled_from([1, 5, 100]))
def test_bounds_never_go_back(offsets, seed, spread):
    words = sorted_words(offsets, seed, spread)
    bounds = np.random.default_rng(seed + 1).integers(-spread, spread + 1, len(words))
    starts, stops = np.empty(len(words), np.int32), np.empty(len(words), np.int32)
    starts_at_bound(words, bounds, offsets, starts)
    stops_at_bound(words, bounds, offsets, stops)
    for row in range(len(words)):
        first, last = segment_of(offsets, row)
        highest = bounds[first : row + 1].max()
        assert starts[row] == first + (words[first:last] < highest).sum()
        assert stops[row] == first + (words[first:last] <= highest).sum()


@SETTINGS
@given(segment_offsets(), st.one_of(st.integers(-40, 40), st.sampled_from([-(2**31), 2**31 - 1])))
def test_row_distances_stay_in_the_segment(offsets, distance):
    result = np.empty(offsets[-1], np.int32)
    rows_at_distance(distance, offsets, result)
    starts, stops = np.empty(offsets[-1], np.int32), np.empty(offsets[-1], np.int32)
    segment_bounds(offsets, starts, stops)
    for row in range(offsets[-1]):
        first, last = segment_of(offsets, row)
        assert (starts[row], stops[row]) == (first, last)
        assert result[row] == min(max(row + distance, first), last)


def test_changes_add_to_what_is_set():
    changes = np.array([True, False, True, False, False])
    word_changes(np.array([1, 1, 1, 2, 2]), changes)
    assert changes.tolist() == [True, False, True, True, False]


@SETTINGS
@given(st.lists(st.integers(0, 50), max_size=20), *(st.integers(-5, 60) for _ in range(2)), st.integers(-30, 30))
def test_moved_places_stay_within_both_bounds(places, low, width, shift):
    high, count = low + abs(width), 40
    result = np.empty(len(places), np.int32)
    moved_places(np.array(places, np.int32), low, high, shift, count, result)
    assert result.tolist() == [min(max(min(max(place, low), high) + shift, 0), count) for place in places]
