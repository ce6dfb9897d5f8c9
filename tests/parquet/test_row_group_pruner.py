from __future__ import annotations

import logging
import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sundog.expr.dynamic_filters.threshold import LiveThreshold, Threshold, best_leads, order_place
from sundog.expr.nodes import Column
from sundog.expr.ordering import SortKey
from sundog.expr.rank_columns import RankColumn
from sundog.expr.ranks import NAN_RANK, float_rank
from sundog.metrics import Metrics
from sundog.parquet.meta.statistics import Bounds
from sundog.parquet.prune.row_group_pruner import Candidate, RowGroupPruner, initial_threshold

LONG = pa.int64()
DOWN = SortKey(Column("c", LONG), descending=True, nulls_first=False)


def key(descending, nulls_first) -> SortKey:
    return SortKey(Column("c", LONG), descending, nulls_first)


def bounds(low, high, null_count, rows=10, dtype=LONG) -> Bounds:
    low, high = (RankColumn.of([end], dtype) for end in (low, high))
    return Bounds.stored(dtype, low, high, np.array([null_count]), np.array([rows]))


def best_place(found, sort_key):
    best, is_null = best_leads(found, sort_key)
    if is_null[0]:
        return order_place(None, sort_key)
    return None if best[0] is None else order_place(best[0], sort_key)


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


def test_candidates_travel_by_pickle():
    assert pickle.loads(pickle.dumps(candidate(5, 1))) == candidate(5, 1)


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
    assert best_place(bounds(5, 9, null_count), sort_key) == order_place(expected, sort_key)


def test_best_place_is_unknown_without_the_bound():
    assert best_place(bounds(None, 9, 0), key(False, False)) is None
    assert best_place(bounds(5, None, 0), key(True, False)) is None
    assert best_place(bounds(None, None, 2), key(True, True)) == (0,)


def sure_rows(low, high, null_count, rows, sort_key):
    """(value, count): at least `count` rows of a row group are no worse than the value (None is NULL)."""
    edge = low if sort_key.descending else high
    if null_count < 0:
        return [(edge, rows)] if sort_key.nulls_first and edge is not None else []
    nulls = [(None, null_count)] if sort_key.nulls_first and null_count else []
    return [*nulls, *([(edge, rows - null_count)] if edge is not None and rows > null_count else [])]


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
def test_rows_that_are_sure_set_the_threshold(low, high, null_count, descending, nulls_first, expected):
    sort_key, found = key(descending, nulls_first), bounds(low, high, null_count)
    assert sure_rows(low, high, null_count, 10, sort_key) == expected
    for k in range(1, 12):
        check_threshold(found, [(low, high, null_count, 10)], sort_key, k)


def check_threshold(found, groups, sort_key, k):
    """Against rows that are counted one value after the other."""
    sure = [entry for group in groups for entry in sure_rows(*group, sort_key)]
    total, lead, bounded = 0, None, False
    for rank, count in sorted(sure, key=lambda entry: order_place(entry[0], sort_key)):
        total += count
        if total >= k:
            lead, bounded = rank, True
            break
    threshold = initial_threshold(found, np.array([group[3] for group in groups], np.int64), (sort_key,), k)
    assert (threshold.bounded, threshold.lead, threshold.position) == (bounded, lead, None)


RANKS = {
    LONG: st.one_of(st.integers(-5, 5), st.sampled_from([-(2**63), 2**63 - 1])),
    pa.string(): st.binary(max_size=3),
    pa.decimal128(30, 2): st.integers(-(10**25), 10**25),
}


@given(st.data(), st.sampled_from(list(RANKS)), st.booleans(), st.booleans(), st.integers(1, 60))
def test_initial_threshold_of_many_row_groups(data, dtype, descending, nulls_first, k):
    sort_key = SortKey(Column("c", dtype), descending, nulls_first)
    groups = []
    for _ in range(data.draw(st.integers(0, 6))):
        ends = data.draw(st.tuples(*[st.one_of(st.none(), RANKS[dtype])] * 2))
        if None not in ends:
            ends = tuple(sorted(ends))
        rows = data.draw(st.integers(1, 20))
        groups.append((*ends, data.draw(st.integers(-1, rows)), rows))
    low, high = (RankColumn.of([group[end] for group in groups], dtype) for end in (0, 1))
    counts, rows = (np.array([group[place] for group in groups], np.int64) for place in (2, 3))
    check_threshold(Bounds.stored(dtype, low, high, counts, rows), groups, sort_key, k)


@pytest.mark.parametrize(("k", "lead"), [(1, 600), (1000, 600), (1001, 100), (1500, 100), (2000, 100)])
def test_initial_threshold(k, lead):
    low, high = RankColumn.of([100, 600], LONG), RankColumn.of([200, 900], LONG)
    rows = np.full(2, 1000)
    found = Bounds.stored(LONG, low, high, np.zeros(2, np.int64), rows)
    assert initial_threshold(found, rows, (DOWN,), k).lead == lead
    assert not initial_threshold(found, rows, (DOWN,), 2001).bounded


def test_nan_may_hide_above_the_bounds():
    down = SortKey(Column("c", pa.float64()), descending=True, nulls_first=False)
    hidden = bounds(float_rank(1.0), NAN_RANK, 0, dtype=pa.float64())
    assert best_place(hidden, down) == order_place(NAN_RANK, down)
    assert initial_threshold(hidden, np.array([10]), (down,), 10).lead == float_rank(1.0)
