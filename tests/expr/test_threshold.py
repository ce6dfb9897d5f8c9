"""The threshold of a top-k only tightens, and passes exactly the rows that can still be among the k best."""

from __future__ import annotations

import math
import pickle
from threading import Thread

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sundog.expr.dynamic_filters.threshold import LiveThreshold, Threshold, order_place
from sundog.expr.nodes import Column
from sundog.expr.ordering import SortKey
from sundog.expr.ranks import NAN_RANK, float_rank, ranks_of
from tests.oracle.batches import ALL_TYPES, arrow_arrays

LONG, DOUBLE = pa.int64(), pa.float64()


def key(dtype=LONG, descending=False, nulls_first=True) -> SortKey:
    return SortKey(Column("c", dtype), descending, nulls_first)


def threshold_at(lead, sort_key, single=True, position=None) -> Threshold:
    return Threshold(sort_key, single, True, lead, position)


keys = st.builds(lambda d, n: (d, n), st.booleans(), st.booleans())


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(ALL_TYPES).flatmap(lambda dtype: arrow_arrays(dtype, 1, 25)), keys, st.booleans(), st.data())
def test_mask_agrees_with_places(array, direction, ties, data):
    """Row by row, for every type, direction and place of NULLs, with the threshold at any of the values."""
    sort_key = key(array.type, *direction)
    row = data.draw(st.integers(0, len(array) - 1))
    threshold = Threshold.after_row([sort_key], array, row)
    mask = threshold.passing(array, ties)
    limit = order_place(threshold.lead, sort_key)
    places = [order_place(rank, sort_key) for rank in ranks_of(array)]
    expected = [place < limit or (ties and place == limit) for place in places]
    assert (mask.tolist() if mask is not None else [True] * len(array)) == expected


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(ALL_TYPES).flatmap(lambda dtype: arrow_arrays(dtype, 2, 25)), st.integers(0, 5))
def test_mask_of_a_slice(array, start):
    sort_key = key(array.type)
    threshold = Threshold.after_row([sort_key], array, 0)
    whole, part = threshold.passing(array), threshold.passing(array.slice(start))
    assert (whole is None) == (part is None) or part is None or part.all()
    if whole is not None and part is not None:
        assert part.tolist() == whole.tolist()[start:]


@pytest.mark.parametrize(
    ("descending", "nulls_first", "values", "at", "kept"),
    [
        (True, False, [None, math.nan, 600.0, 500.0, 499.0], 500.0, [False, True, True, True, False]),
        (True, True, [None, math.nan, 600.0, 500.0, 499.0], 500.0, [True, True, True, True, False]),
        (False, True, [None, math.nan, 1.0, -0.0, 0.0, -1.0], 0.0, [True, False, False, True, True, True]),
        (False, False, [None, math.nan, 1.0, -1.0], math.nan, [False, True, True, True]),
        (True, False, [None, math.nan, math.inf], math.nan, [False, True, False]),
    ],
)
def test_nulls_nan_and_zeros(descending, nulls_first, values, at, kept):
    threshold = threshold_at(float_rank(at), key(DOUBLE, descending, nulls_first))
    assert threshold.passing(pa.array(values, DOUBLE)).tolist() == kept


def test_a_threshold_at_null():
    first, last = threshold_at(None, key(nulls_first=True)), threshold_at(None, key(nulls_first=False))
    values = pa.array([1, None, 2])
    assert first.passing(values).tolist() == [False, True, False]
    assert first.passing(values, ties=False).tolist() == [False, False, False]
    assert last.passing(values) is None
    assert last.passing(values, ties=False).tolist() == [True, False, True]


def test_no_threshold_lets_everything_through():
    unbounded = Threshold(key(), True)
    assert unbounded.passing(pa.array([1, None])) is None
    assert unbounded.can_win(order_place(5, key()), (0, 0))


def test_ties_of_a_single_key_are_settled_by_place_in_the_table():
    threshold = threshold_at(7, key(), position=(1, 3, 42))
    at_threshold = order_place(7, key())
    assert threshold.can_win(at_threshold, (0, 9))
    assert threshold.can_win(at_threshold, (1, 3))  # the row's own row group: rows before it can win
    assert not threshold.can_win(at_threshold, (1, 4))
    assert not threshold.can_win(at_threshold, (2, 0))
    assert threshold.can_win(order_place(6, key()), (9, 9))
    assert not threshold.can_win(order_place(8, key()), (0, 0))


def test_ties_on_the_leading_of_several_keys_stay_alive():
    threshold = threshold_at(7, key(), single=False, position=(0, 0, 0))
    assert threshold.can_win(order_place(7, key()), (5, 5))
    assert threshold.ties_can_win((5, 5))
    assert not threshold.can_win(order_place(8, key()), (0, 0))


def test_a_threshold_without_a_row_keeps_ties_alive():
    assert threshold_at(7, key()).can_win(order_place(7, key()), (9, 9))


def test_unknown_statistics_can_always_win():
    assert threshold_at(7, key()).can_win(None, (0, 0))


def test_the_filter_only_tightens():
    live = LiveThreshold([key(descending=True)])
    down = key(descending=True)
    assert live.generation == 0
    assert live.tighten(threshold_at(500, down))
    assert not live.tighten(threshold_at(400, down))
    assert not live.tighten(threshold_at(500, down))
    assert not live.tighten(Threshold(down, True))
    assert live.tighten(threshold_at(500, down, position=(3, 0, 0)))  # the same value, now with a row behind it
    assert live.tighten(threshold_at(500, down, position=(1, 0, 0)))
    assert not live.tighten(threshold_at(500, down, position=(2, 0, 0)))
    assert not live.tighten(threshold_at(500, down))
    assert live.tighten(threshold_at(700, down))
    assert live.generation == 4
    assert live.snapshot().lead == 700


def test_of_several_keys_only_the_leading_one_moves_the_threshold():
    order = [key(), key(DOUBLE)]
    live = LiveThreshold(order)
    leads = pa.array([3, 3, 2])
    assert live.tighten(Threshold.after_row(order, leads, 0, (0, 0, 5)))
    assert not live.tighten(Threshold.after_row(order, leads, 1, (0, 0, 4)))
    assert live.tighten(Threshold.after_row(order, leads, 2, (0, 0, 9)))


def test_nan_and_null_bars_compare():
    down = key(DOUBLE, descending=True, nulls_first=False)
    live = LiveThreshold([down])
    assert live.tighten(threshold_at(None, down))
    assert live.tighten(threshold_at(float_rank(1.0), down))
    assert live.tighten(threshold_at(NAN_RANK, down))
    assert not live.tighten(threshold_at(float_rank(math.inf), down))


def test_filter_and_snapshot_travel_by_pickle():
    live = LiveThreshold([key(pa.string(), descending=True)])
    live.tighten(threshold_at(b"m", key(pa.string(), descending=True), position=(0, 1, 2)))
    again = pickle.loads(pickle.dumps(live))
    assert again.snapshot() == live.snapshot()
    assert again.tighten(threshold_at(b"z", key(pa.string(), descending=True)))
    assert live.snapshot().lead == b"m"


def test_threads_never_loosen_it():
    live = LiveThreshold([key()])

    def feed(start):
        for value in range(start, 0, -3):
            live.tighten(threshold_at(value, key()))

    threads = [Thread(target=feed, args=(3000 + i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert live.snapshot().lead == 1
    assert 1 <= live.generation <= 3003
