"""From the cut points of a window to what the report draws."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import numpy as np
import pyarrow as pa
import pytest

from sundog.expr.calls import WindowCall
from sundog.expr.nodes import Column
from sundog.expr.ordering import SortKey
from sundog.expr.rank_columns import RankColumn
from sundog.operators.context import TaskContext
from sundog.operators.window.ranges.cuts import KeySample, SampleKeys, cut_ranges
from sundog.operators.window.ranges.own_reads import RowGroupKeys, ranges_from_statistics
from sundog.operators.window.ranges.scans import RangeScans
from sundog.plan.costs import DRIVER
from sundog.plan.stages import StageGraph
from sundog.report.details import RangeMark, WindowDetails
from sundog.report.html import Section, render_report
from sundog.report.window_details import details_of_exchange, details_of_reads
from sundog.run import Run
from sundog.types import TIMESTAMP
from tests.operators.window.cases import call, column, range_frame

LONG = pa.int64()


def summing(start: object, end: object, unit: str | None = None) -> WindowCall:
    return call("sum", range_frame(start, end, unit), column("x", LONG), dtype=LONG)


def exchange(array: pa.Array, the_call: WindowCall, ranges: int, descending: bool = False) -> WindowDetails:
    key = SortKey(Column("t", array.type), descending, nulls_first=not descending)
    batch = pa.record_batch({"t": array, "x": pa.array([1] * len(array), LONG)})
    sampled = list(SampleKeys((key,), DRIVER).run(iter([batch]), TaskContext()))
    sample = KeySample.from_batches(sampled, (key,))
    cut = cut_ranges(sample, (key,), [the_call.frame], ranges)
    return details_of_exchange([the_call, the_call], cut, sample)


def keys_of(mark: RangeMark) -> list[str | None]:
    return [point.label if point else None for point in (mark.halo_low, mark.low, mark.high, mark.halo_high)]


def test_ranges_and_how_far_they_borrow() -> None:
    details = exchange(pa.array(range(100), LONG), summing(-5, 0), 4)
    assert [keys_of(mark) for mark in details.ranges] == [
        [None, "0", "24", None],
        ["20", "25", "49", None],
        ["45", "50", "74", None],
        ["70", "75", "99", None],
    ]
    assert sum(mark.rows for mark in details.ranges) == 100
    assert details.scale == "linear"
    assert details.frames == ("sum(x) RANGE BETWEEN -5 AND CURRENT ROW",), "calls of one kind are named once"
    assert details.cut_by == "a sample of the key"


def test_frames_that_look_ahead_borrow_behind() -> None:
    details = exchange(pa.array(range(100), LONG), summing(-1, 2), 2)
    assert [keys_of(mark) for mark in details.ranges] == [[None, "0", "49", "51"], ["49", "50", "99", None]]


def test_descending_ranges_come_in_the_order_of_the_query() -> None:
    details = exchange(pa.array(range(100), LONG), summing(-5, 0), 2, descending=True)
    first, second = details.ranges
    assert first.high is not None
    assert first.high.label == "99"
    assert second.low is not None
    assert second.low.label == "0"
    assert second.halo_high is not None, "what comes before in a descending order is greater"
    assert second.halo_low is None


def test_a_halo_does_not_reach_past_the_data() -> None:
    details = exchange(pa.array(range(100), LONG), summing(-1000, 1000), 2)
    assert [keys_of(mark) for mark in details.ranges] == [[None, "0", "49", "99"], ["0", "50", "99", None]]


def test_times_are_shown_as_times() -> None:
    start = datetime(2026, 3, 1, tzinfo=timezone.utc)
    moments = pa.array([start + timedelta(minutes=minute) for minute in range(60)], TIMESTAMP)
    details = exchange(moments, summing(-60_000_000, 0, "us"), 2)
    low = details.ranges[1].low
    assert low is not None
    assert low.label == "2026-03-01 00:30:00 UTC"


def test_strings_have_ranges_without_a_halo() -> None:
    letters = pa.array([chr(97 + number) for number in range(26)], pa.string())
    details = exchange(letters, call("row_number", range_frame(None, 0), dtype=pa.int32()), 2)
    assert details.scale == "rank"
    assert not any(mark.borrows for mark in details.ranges)
    assert [keys_of(mark)[1] for mark in details.ranges] == ["a", "n"]


@pytest.mark.parametrize("descending", [True, False])
def test_nulls_alone_have_no_place_on_the_axis(descending: bool) -> None:
    array = pa.array([None] * 50 + list(range(50)), LONG)
    details = exchange(array, summing(-1, 0), 2, descending)
    assert sum(mark.rows for mark in details.ranges) == 100
    run = Run(accelerated=True, graphs=[StageGraph(notes=[details])])
    assert "Window: ranges and their halos" in render_report([Section(run)])


def test_no_rows_at_all() -> None:
    details = exchange(pa.array([], LONG), summing(-1, 0), 4)
    assert [keys_of(mark) for mark in details.ranges] == [[None, None, None, None]]


def test_ranges_that_read_their_own_row_groups() -> None:
    key = SortKey(Column("t", LONG), False, True)
    frame = summing(-5, 0)
    lows, highs = (RankColumn.of(values, LONG) for values in ([0, 20, 40, 60], [19, 39, 59, 79]))
    rows, nulls = np.full(4, 1000, np.int64), np.zeros(4, np.int64)
    reads = ranges_from_statistics(lows, highs, rows, nulls, key, [frame.frame], 2, 1.5, DRIVER)
    sample = KeySample.from_statistics(lows, highs, rows, nulls, key, DRIVER)
    row_groups = RowGroupKeys.of_ranks(lows, highs, rows, nulls, key)
    assert reads is not None
    assert sample is not None
    assert row_groups is not None
    scans = RangeScans(reads, np.arange(4), sample.extremes, row_groups)
    details = details_of_reads([frame], scans)
    assert [keys_of(mark) for mark in details.ranges] == [[None, "0", "39", None], ["35", "40", "79", None]]
    assert details.moved_by == "reading them straight from the files"
    assert details.cut_by == "row-group statistics"
    skewed = KeySample((pa.array([0, 10, 20, 30, 79], LONG),), np.full(5, 800, np.int64), sample.extremes)
    details = details_of_reads([frame], scans.cut_by(skewed, [frame.frame], 2))
    assert details.cut_by == "a sample of the key"
    assert [keys_of(mark) for mark in details.ranges] == [[None, "0", "29", None], ["25", "30", "79", None]]
    assert [mark.rows for mark in details.ranges] == [2400, 1600]
