from __future__ import annotations

import logging
import pickle

import numpy as np
import pyarrow as pa
import pytest

from sundog.expr.dynamic_filters.threshold import LiveThreshold, Threshold, order_place
from sundog.expr.nodes import Column
from sundog.expr.ordering import SortKey
from sundog.expr.ranks import NAN_RANK, float_rank
from sundog.metrics import Metrics
from sundog.parquet.meta.statistics import Bounds
from sundog.parquet.prune.row_group_pruner import Candidate, RowGroupPruner, best_place, initial_threshold, sure_rows

LONG = pa.int64()
DOWN = SortKey(Column("c", LONG), descending=True, nulls_first=False)


def key(descending, nulls_first) -> SortKey:
    return SortKey(Column("c", LONG), descending, nulls_first)


def bounds(low, high, null_count, rows=10) -> Bounds:
    def one(value):
        array = np.full(1, None, np.object_)
        array[0] = value
        return array

    nulls, values = np.array([null_count != 0]), np.array([null_count != rows])
    return Bounds(LONG, one(low), one(high), nulls, values, np.array([null_count]), np.array([True]))


def candidate(high, number=0, must_read=False) -> Candidate:
    best = None if high is None else order_place(high, DOWN)
    return Candidate(0, number, 10, True, best, must_read)


def filter_at(lead, position=None) -> LiveThreshold:
    live = LiveThreshold([DOWN])
    live.tighten(Threshold(DOWN, True, True, lead, position))
    return live


def test_the_trace():
    """RG1 600..900 fills the heap, the threshold is 500; RG2 700..800 can win, RG7 10..50 cannot."""
    live = LiveThreshold([DOWN])
    pruner = RowGroupPruner(live, Metrics())
    assert not pruner.should_skip(candidate(900, 1))
    live.tighten(Threshold(DOWN, True, True, 500, (0, 1, 9)))
    assert not pruner.should_skip(candidate(800, 2))
    assert pruner.should_skip(candidate(50, 7))


def test_it_follows_the_generation():
    live = filter_at(10)
    pruner = RowGroupPruner(live, Metrics())
    assert not pruner.should_skip(candidate(20))
    live.tighten(Threshold(DOWN, True, True, 30))
    assert pruner.should_skip(candidate(20))


def test_unknown_and_must_read_are_never_skipped():
    pruner = RowGroupPruner(filter_at(500), Metrics())
    assert not pruner.should_skip(candidate(None))
    assert not pruner.should_skip(candidate(1, must_read=True))


def test_any_error_is_logged_counted_and_the_row_group_read(caplog):
    metrics = Metrics()
    pruner = RowGroupPruner(filter_at(500), metrics)
    broken = Candidate(2, 3, 10, True, (1, b"not comparable with a number"), False)
    with caplog.at_level(logging.WARNING):
        assert not pruner.should_skip(broken)
    assert metrics.get("predicate_evaluation_errors") == 1
    assert "row group 3 of file 2" in caplog.text


def test_candidates_travel_by_pickle_and_sort_best_first():
    queue = [candidate(None, 0), candidate(5, 1), candidate(9, 2), candidate(5, 0)]
    queue = pickle.loads(pickle.dumps(queue))
    queue.sort(key=Candidate.sort_key)
    assert [c.row_group for c in queue] == [2, 0, 1, 0]
    assert queue[-1].best is None


@pytest.mark.parametrize(
    ("descending", "nulls_first", "null_count", "expected"),
    [
        (False, True, 0, 5),
        (False, True, 3, None),  # a NULL may be there, and is the best
        (False, True, -1, None),
        (False, False, 3, 5),
        (True, False, -1, 9),
        (True, True, 1, None),
        (True, False, 10, None),  # nothing but NULLs
    ],
)
def test_best_place(descending, nulls_first, null_count, expected):
    sort_key = key(descending, nulls_first)
    assert best_place(bounds(5, 9, null_count), 0, sort_key) == order_place(expected, sort_key)


def test_best_place_is_unknown_without_the_bound():
    assert best_place(bounds(None, 9, 0), 0, key(False, False)) is None
    assert best_place(bounds(5, None, 0), 0, key(True, False)) is None
    assert best_place(bounds(None, None, 2), 0, key(True, True)) == (0,)


@pytest.mark.parametrize(
    ("low", "high", "null_count", "descending", "nulls_first", "expected"),
    [
        (5, 9, 0, True, False, [(5, 10)]),
        (5, 9, 0, False, False, [(9, 10)]),
        (5, 9, 3, True, False, [(5, 7)]),
        (5, 9, 3, True, True, [(None, 3), (5, 7)]),
        (5, 9, -1, True, True, [(5, 10)]),
        (5, 9, -1, True, False, []),
        (None, 9, 3, True, True, [(None, 3)]),
        (None, None, 0, False, False, []),
        (None, None, 10, False, True, [(None, 10)]),
        (None, None, 10, False, False, []),
    ],
)
def test_sure_rows(low, high, null_count, descending, nulls_first, expected):
    assert list(sure_rows(bounds(low, high, null_count), 0, 10, key(descending, nulls_first))) == expected


@pytest.mark.parametrize(("k", "lead"), [(1, 600), (1000, 600), (1001, 100), (1500, 100), (2000, 100)])
def test_initial_threshold(k, lead):
    threshold = initial_threshold([(100, 1000), (600, 1000)], (DOWN,), k)
    assert threshold.bounded
    assert threshold.lead == lead
    assert threshold.position is None


def test_initial_threshold_needs_k_sure_rows():
    assert not initial_threshold([(100, 1000), (600, 1000)], (DOWN,), 2001).bounded
    assert not initial_threshold([], (DOWN,), 1).bounded


def test_initial_threshold_counts_nulls_where_they_sort():
    first = key(False, True)
    assert initial_threshold([(9, 5), (None, 3)], (first,), 3).lead is None
    assert initial_threshold([(9, 5), (None, 3)], (first,), 4).lead == 9


def test_nan_may_hide_above_the_bounds():
    down = SortKey(Column("c", pa.float64()), descending=True, nulls_first=False)
    hidden = bounds(float_rank(1.0), NAN_RANK, 0)
    assert best_place(hidden, 0, down) == order_place(NAN_RANK, down)
    assert list(sure_rows(hidden, 0, 10, down)) == [(float_rank(1.0), 10)]
