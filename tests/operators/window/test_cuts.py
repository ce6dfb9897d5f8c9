"""Cut points: ranges of equal depth, cut between distinct keys, for any skew; and cuts from a sample."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sundog.expr.calls import Bound, BoundKind
from sundog.expr.ordering import SortKey
from sundog.expr.rank_columns import RankColumn
from sundog.expr.ranks import float_rank
from sundog.operators.context import TaskContext
from sundog.operators.window.frames.order_key import INT64_MAX, INT64_MIN, RangeKey, add_months, reach_overflows
from sundog.operators.window.ranges.carry import SummarizeRange
from sundog.operators.window.ranges.cuts import (
    KeySample,
    PartitionExtremes,
    SampleKeys,
    cut_places,
    cut_ranges,
    estimated_halo,
    extremes_of,
)
from sundog.plan.costs import DRIVER
from tests.operators.window.cases import KEY_TYPES, SETTINGS, call, column, range_frame, rows_frame, tables
from tests.operators.window.reference import compare, plain

LONG = SortKey(column("k0", pa.int64()))


def sample_of(table, order, limit=4096):
    sample = SampleKeys(order, replace(DRIVER, sample_rows_per_task=limit))
    batches = list(sample.run(iter(table.to_batches()), TaskContext(3)))
    return KeySample.from_batches(batches, order)


def long_sample(keys, limit=4096):
    return sample_of(pa.table({"k0": pa.array(keys, pa.int64())}), (LONG,), limit)


class TestCutPlaces:
    def test_equal_weights(self):
        assert cut_places(np.ones(100, np.int64), 4).tolist() == [25, 50, 75]

    def test_a_hot_key_stands_alone_and_the_rest_is_shared(self):
        weights = np.array([1] * 10 + [90] + [1] * 10)
        assert cut_places(weights, 4).tolist() == [10, 11, 16]

    def test_fewer_keys_than_ranges(self):
        assert cut_places(np.array([5, 5]), 8).tolist() == [1]
        assert cut_places(np.array([5]), 8).tolist() == []
        assert cut_places(np.zeros(0, np.int64), 8).tolist() == []

    @settings(max_examples=100, deadline=None)
    @given(st.lists(st.integers(1, 100), max_size=60), st.integers(1, 12))
    def test_no_part_is_much_larger_than_it_must_be(self, weights, ranges):
        places = cut_places(np.array(weights, np.int64), ranges).tolist()
        assert len(places) < ranges
        assert places == sorted(set(places))
        assert 0 not in places
        parts = [sum(weights[a:b]) for a, b in zip([0, *places], [*places, len(weights)], strict=True)]
        if weights:
            assert max(parts) <= 2 * max(sum(weights) / ranges, max(weights)) + max(weights)

    @settings(max_examples=200, deadline=None)
    @given(st.lists(st.integers(0, 2**40) | st.integers(0, 3), max_size=60), st.integers(1, 12))
    def test_one_weight_after_the_other(self, weights, ranges):
        """The same places as going through the weights."""
        places, remaining, parts, current = [], float(sum(weights)), ranges, 0.0
        for place, weight in enumerate(weights):
            if parts > 1 and current > 0 and current + weight / 2 > remaining / parts:
                places.append(place)
                remaining, parts, current = remaining - current, parts - 1, 0.0
            current += weight
        assert cut_places(np.array(weights, np.int64), ranges).tolist() == places


class TestSample:
    def test_extremes_that_statistics_know_are_not_looked_for(self):
        table = pa.table({"k0": pa.array([3, None, 5], pa.int64())})
        sampling = SampleKeys((LONG,), DRIVER, finds_extremes=False)
        found = KeySample.from_batches(list(sampling.run(iter(table.to_batches()), TaskContext(0))), (LONG,))
        assert found.extremes == PartitionExtremes()
        assert found.keys[0].to_pylist() == [3, None, 5]

    @SETTINGS
    @given(st.data(), st.sampled_from(KEY_TYPES), st.sampled_from([4, 4096]))
    def test_extremes_are_those_of_all_rows(self, data, dtype, limit):
        table = data.draw(tables([dtype], [], max_rows=60))
        order = (SortKey(column("k0", dtype)),)
        sample = sample_of(table, order, limit)
        whole = extremes_of(table.column("k0").combine_chunks())
        if table.num_rows:
            assert sample.extremes == whole
        assert len(sample.weights) <= max(2 * limit, 2)

    def test_a_large_input_is_thinned_and_still_weighs_what_it_is(self):
        sample = long_sample(np.arange(100_000), limit=100)
        assert 50 <= len(sample.weights) <= 200
        assert sample.weights.sum() == pytest.approx(100_000, rel=0.02)
        assert sample.extremes == PartitionExtremes(100_000, 0, 0, 99_999)

    def test_extremes_with_nulls_and_nan(self):
        values = pa.array([None, float("nan"), 2.5, None, -1.0])
        assert extremes_of(values) == PartitionExtremes(5, 2, float_rank(-1.0), float_rank(float("nan")))
        assert extremes_of(pa.array([None, None], pa.int64())) == PartitionExtremes(2, 2)

    def test_samples_of_tasks_merge(self):
        tables_ = [pa.table({"k0": pa.array(keys, pa.int64())}) for keys in ([5, 1, None], [9], [])]
        batches = [b for t in tables_ for b in SampleKeys((LONG,), DRIVER).run(iter(t.to_batches()), TaskContext())]
        sample = KeySample.from_batches(batches, (LONG,))
        assert sample.extremes == PartitionExtremes(4, 1, 1, 9)
        assert sample.keys[0].to_pylist() == [5, 1, None, 9]

    def test_statistics_stand_in_for_a_sample(self):
        rows = np.full(10, 100, np.int64)
        lows = list(range(0, 1000, 100))
        ends = (RankColumn.of(ranks, pa.int64()) for ranks in (lows, [low + 99 for low in lows]))
        sample = KeySample.from_statistics(*ends, rows, np.zeros(10, np.int64), LONG, DRIVER)
        assert sample.weights.sum() == 1000
        cuts = cut_ranges(sample, (LONG,), (), 4).cuts
        assert [round(cut, -1) for cut in cuts] == pytest.approx([250, 500, 750], abs=20)


class TestCuts:
    @SETTINGS
    @given(st.data(), st.lists(st.sampled_from([*KEY_TYPES, pa.string()]), min_size=1, max_size=2), st.integers(1, 8))
    def test_every_row_has_one_owner_and_peers_share_it(self, data, types, ranges):
        flags = data.draw(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=2))
        order = tuple(SortKey(column(f"k{n}", t), *flags[n]) for n, t in enumerate(types))
        table = data.draw(tables(types, [], max_rows=40))
        cut = cut_ranges(sample_of(table, order), order, (), ranges)
        arrays = [table.column(f"k{n}").combine_chunks() for n in range(len(types))]
        owners = cut.routes(arrays).owners
        assert cut.count <= ranges
        rows = list(zip(*(plain(array) for array in arrays), strict=True))
        for one in range(table.num_rows):
            for other in range(one):
                pairs = zip(rows[one], rows[other], order, strict=True)
                result = next((sign for left, right, key in pairs if (sign := compare(left, right, key))), 0)
                assert np.sign(owners[one] - owners[other]) in ({0} if result == 0 else {0, result})
        if table.num_rows:
            assert set(owners.tolist()) == set(range(cut.count))

    def test_nulls_at_the_end_may_be_a_range_of_their_own(self):
        order = (SortKey(column("k0", pa.int64()), False, False),)
        table = pa.table({"k0": pa.array([1, 2, 3, *[None] * 30], pa.int64())})
        cut = cut_ranges(sample_of(table, order), order, (), 3)
        assert cut.nulls_apart
        assert cut.routes([table.column("k0").combine_chunks()]).owners.tolist()[3:] == [cut.count - 1] * 30


@pytest.mark.parametrize("ranges", [2, 8, 32, 128])
def test_the_halo_is_known_without_running(ranges):
    """Keys 0 .. 99,999, frames of 100 keys: each cut copies 100 rows."""
    sample = long_sample(np.arange(100_000), 100_000)
    cut = cut_ranges(sample, (LONG,), (range_frame(-100, 0),), ranges)
    assert estimated_halo(sample, cut) == pytest.approx((ranges - 1) / 1000)


class TestReach:
    @pytest.mark.parametrize(
        ("low", "high", "frame", "dtype", "descending", "expected"),
        [
            (-128, 127, range_frame(-1, 0), pa.int8(), False, True),
            (-127, 127, range_frame(-1, 0), pa.int8(), False, False),
            (-127, 127, range_frame(-1, 0), pa.int8(), True, True),
            (0, 2**63 - 1, range_frame(0, 1), pa.int64(), False, True),
            (0, 2**63 - 2, range_frame(0, 1), pa.int64(), False, False),
            (0, 0, range_frame(-(2**63), 0), pa.int64(), True, True),
            (0, 2**63 - 1, range_frame(None, 0), pa.int64(), False, False),
            (0, 2**31 - 40, range_frame(0, 2, "months"), pa.date32(), False, True),
            (0, 20_000, range_frame(-2, 2, "months"), pa.date32(), False, False),
            (0, 10**38 - 1, range_frame(0, Decimal("0.1")), pa.decimal128(38, 1), False, True),
            (float_rank(-1e308), float_rank(1e308), range_frame(-1e308, 1e308), pa.float64(), False, False),
        ],
    )
    def test_overflow(self, low, high, frame, dtype, descending, expected):
        assert reach_overflows(low, high, frame, dtype, descending) is expected
        key = SortKey(column("k0", dtype), descending)
        assert PartitionExtremes(2, 0, low, high).overflows([frame], key) is expected

    def test_no_rows_overflow_nothing(self):
        assert not PartitionExtremes().overflows([range_frame(-1, 0)], LONG)

    def test_a_word_is_held_at_the_ends(self):
        key = RangeKey(pa.int64())
        assert key.move(INT64_MAX - 1, Bound(BoundKind.OFFSET, 5)) == INT64_MAX
        assert key.move(INT64_MIN + 1, Bound(BoundKind.OFFSET, -5)) == INT64_MIN
        months = RangeKey(pa.timestamp("us"))
        assert months.move(INT64_MAX, Bound(BoundKind.OFFSET, 1, "months")) == INT64_MAX

    @settings(max_examples=100, deadline=None)
    @given(st.integers(-100_000, 100_000), st.integers(-30, 30))
    def test_months(self, day, months):
        moved = int(add_months(np.array([day]), months)[0])
        before, after = (np.datetime64(number, "D").item() for number in (day, moved))
        assert (after.year * 12 + after.month) - (before.year * 12 + before.month) == months
        assert after.day == before.day or (after.day < before.day and np.datetime64(moved + 1, "D").item().day == 1)


def test_a_summary_holds_nothing_but_what_it_tells():
    table = pa.table({"k0": pa.array(range(100_000)), "s": [f"text {number}" for number in range(100_000)]})
    before = call("first", rows_frame(-2, -1), column("s"), dtype=pa.string())
    summarized = SummarizeRange(table.schema, (before,), (LONG,))
    (batch,) = summarized.run(iter(table.to_batches()), TaskContext())
    assert batch.nbytes < 10_000


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("frames", [[], [range_frame(-1, 1)]])
def test_ranges_are_cut_at_the_ends_of_the_type(descending, frames):
    """A cut at the least word leaves NULLs alone in the first range."""
    order = (SortKey(column("k0", pa.int64()), descending=descending, nulls_first=True),)
    keys = [None] * 9 + [INT64_MIN] * 9 + [INT64_MAX] * 9
    ranges = cut_ranges(sample_of(pa.table({"k0": pa.array(keys, pa.int64())}), order), order, frames, 3)
    assert sorted(~cut if descending else cut for cut in ranges.cuts) == [INT64_MIN, INT64_MAX]
    routes = ranges.routes([pa.array(keys, pa.int64())])
    assert sorted(np.bincount(routes.owners).tolist()) == [9, 9, 9]
    assert (routes.firsts <= routes.owners).all()
    assert (routes.owners <= routes.lasts).all()
