"""Ranges that read their own row groups against one range; and what reading that way costs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sundog.expr.buffers import is_narrow, validity_of
from sundog.expr.ordering import SortKey
from sundog.expr.rank_columns import RankColumn
from sundog.expr.ranks import ranks_of
from sundog.metrics import Metrics
from sundog.operators.window.ranges.carry import carries_of, read_summaries
from sundog.operators.window.ranges.cuts import extremes_of
from sundog.operators.window.ranges.halo import check_row_accounting
from sundog.operators.window.ranges.own_reads import ranges_from_statistics
from sundog.operators.window.steps import WindowSteps
from sundog.operators.window.window_operator import serial_window
from sundog.plan.costs import DRIVER
from tests.operators.window.cases import (
    KEY_TYPES,
    SETTINGS,
    aggregate_calls,
    call,
    column,
    inputs,
    place_calls,
    range_frame,
    range_frames,
    rows_frames,
    tables,
)
from tests.operators.window.driving import run
from tests.operators.window.test_halo import check_equal


def statistics(groups, dtype, *, loosened=0):
    """Bounds, rows and NULLs of the key in each row group; bounds may be wider than the data."""
    extremes = [extremes_of(group.column("k0").combine_chunks()) for group in groups]
    lows = [None if e.low is None else e.low - loosened for e in extremes]
    highs = [None if e.high is None else e.high + loosened for e in extremes]
    rows, nulls = (np.array([getattr(e, name) for e in extremes], np.int64) for name in ("rows", "nulls"))
    return RankColumn.of(lows, dtype), RankColumn.of(highs, dtype), rows, nulls


def read_and_compute(steps, groups, plan):
    metrics = Metrics({"window_input_rows": sum(group.num_rows for group in groups)})
    keep = steps.keep(plan, "by statistics")
    parts = [[b for g in read.row_groups for b in groups[g].to_batches()] for read in plan.reads]
    carries = []
    if steps.need.two_passes:
        summaries = run(parts, Metrics(), keep, steps.sort(keep), steps.summarize(keep))
        carries = carries_of(read_summaries([batch for part in summaries for batch in part]), steps.calls)
        if carries is None:
            return None
    results = run(parts, metrics, keep, steps.sort(keep), steps.window(keep, carries), steps.drop())
    check_row_accounting(metrics)
    return pa.Table.from_batches([batch for part in results for batch in part], steps.drop().schema)


@SETTINGS
@given(
    st.data(),
    st.sampled_from([dtype for dtype in KEY_TYPES if is_narrow(dtype)]),
    st.booleans(),
    st.booleans(),
    st.integers(2, 6),
    st.sampled_from([0.0, 0.1, 1.0]),
    st.integers(0, 2**32),
)
def test_reading_ranges_equals_one_range(data, dtype, descending, nulls_first, ranges, disorder, seed):
    order = (SortKey(column("k0", dtype), descending, nulls_first),)
    calls = [*aggregate_calls(data.draw(range_frames(dtype, 12))), *aggregate_calls(data.draw(rows_frames()))[:4]]
    picked = data.draw(
        st.lists(st.sampled_from([*calls, *place_calls()]), min_size=1, max_size=4, unique_by=lambda c: c.name)
    )
    table = data.draw(tables([dtype], inputs(picked), max_rows=60))
    random = np.random.default_rng(seed)
    table = nearly_sorted(table, order, disorder, random)
    groups = [table.slice(start, 7) for start in range(0, table.num_rows, 7)]
    steps = WindowSteps(table.schema, tuple(picked), (), order, DRIVER)
    loosened = 3 if pa.types.is_temporal(dtype) else 0
    plan = ranges_from_statistics(
        *statistics(groups, dtype, loosened=loosened),
        order[0],
        steps.need.reach,
        ranges,
        max_amplification=100.0,
        costs=DRIVER,
    )
    if plan is None or steps.need.kind.name == "ONE_RANGE":
        return
    result = read_and_compute(steps, groups, plan)
    if result is not None:
        check_equal(result, serial_window(table, picked, (), order), picked, in_order=True)


def nearly_sorted(table, order, disorder, random):
    """Sorted by the key, up to a share of rows that lie anywhere."""
    places = np.arange(table.num_rows, dtype=float)
    keys = ranks_of(table.column("k0").combine_chunks())
    keys = np.array([-np.inf if key is None else float(key) for key in keys])
    places[np.argsort(keys, kind="stable")] = np.arange(table.num_rows)
    loose = random.random(table.num_rows) < disorder
    places[loose] = random.uniform(0, table.num_rows, int(loose.sum()))
    return table.take(pa.array(np.argsort(places, kind="stable"))).combine_chunks()


def longs(ranks):
    return RankColumn.of(ranks, pa.int64())


class TestCost:
    key = SortKey(column("k0", pa.int64()))
    frames = (range_frame(-10, 0),)

    def plan(self, lows, highs, rows=1000, ranges=4, nulls=0, max_amplification=DRIVER.max_clustered_reads):
        count = len(lows)
        counts = np.full(count, rows, np.int64), np.full(count, nulls, np.int64)
        return ranges_from_statistics(
            longs(lows), longs(highs), *counts, self.key, self.frames, ranges, max_amplification, DRIVER
        )

    def test_sorted_files_are_read_once_but_for_the_halo(self):
        lows = np.arange(20) * 100
        plan = self.plan(lows.tolist(), (lows + 99).tolist())
        assert len(plan.reads) == 4
        assert [len(read.row_groups) for read in plan.reads] == [5, 6, 6, 6]
        assert plan.cost == pytest.approx(23 / 20)

    def test_a_key_without_order_in_the_files_is_not_read_by_ranges(self):
        plan = self.plan([0] * 20, [1000] * 20)
        assert plan is None or plan.cost > DRIVER.max_clustered_reads

    def test_a_cheap_cut_that_leaves_all_rows_to_one_range_is_none(self):
        """Cut at the greatest of the least keys, a range that owns next to nothing reads half, and the other all."""
        plan = self.plan([number % 2 for number in range(40)], [100_000] * 40, ranges=2)
        assert plan.cost > DRIVER.max_clustered_reads

    def test_one_range_reads_everything_once(self):
        plan = self.plan([0] * 20, [1000] * 20, ranges=1)
        assert [len(read.row_groups) for read in plan.reads] == [20]
        assert plan.cost == 1.0

    def test_overlapping_row_groups_cost_what_they_overlap(self):
        lows = np.arange(40) * 100
        plan = self.plan(lows.tolist(), (lows + 150).tolist(), ranges=4)
        assert 1.0 < plan.cost < 1.25

    def test_few_row_groups_are_cut_inside(self):
        plan = self.plan([0, 10_000], [9_999, 19_999], ranges=4, max_amplification=3.0)
        assert len(plan.reads) == 4
        assert max(read.rows for read in plan.reads) <= 2000

    def test_unknown_numbers_of_nulls_are_looked_for_everywhere(self):
        lows, highs = [0, 100, 200, 300], [99, 199, 299, 399]
        rows, nulls = np.full(4, 1000, np.int64), np.full(4, -1, np.int64)
        plan = ranges_from_statistics(
            longs(lows), longs(highs), rows, nulls, self.key, self.frames, 2, max_amplification=9.0, costs=DRIVER
        )
        assert plan.reads[0].row_groups.tolist() == [0, 1, 2, 3]
        assert plan.reads[0].takes_nulls

    def test_missing_bounds_mean_no_plan(self):
        assert self.plan([0, None, 200], [99, 199, 299]) is None

    def test_row_groups_of_nulls_go_to_the_range_of_nulls(self):
        lows, highs = [*range(0, 1000, 100), None], [*range(99, 1099, 100), None]
        rows, nulls = np.full(11, 1000, np.int64), np.array([0] * 10 + [1000], np.int64)
        plan = ranges_from_statistics(longs(lows), longs(highs), rows, nulls, self.key, self.frames, 2, 1.5, DRIVER)
        assert 10 in plan.reads[0].row_groups
        assert 10 not in plan.reads[1].row_groups


def test_validity_is_what_decides_on_nulls():
    """A NULL slot may hold any bits; the range of NULLs alone must get it."""
    keys = pa.array([None, 5, None, 15], pa.int64())
    assert validity_of(keys).tolist() == [False, True, False, True]
    table = pa.table({"k0": keys, "id": pa.array(range(4))})
    order = (SortKey(column("k0", pa.int64())),)
    steps = WindowSteps(
        table.schema,
        (call("count", range_frame(-1, 1), column("id", pa.int64()), dtype=pa.int64()),),
        (),
        order,
        DRIVER,
    )
    groups = [table.slice(0, 2), table.slice(2, 2)]
    plan = ranges_from_statistics(
        *statistics(groups, pa.int64()), order[0], steps.need.reach, 2, max_amplification=9.0, costs=DRIVER
    )
    result = read_and_compute(steps, groups, plan)
    assert result.column("r").to_pylist() == [2, 2, 1, 1]
