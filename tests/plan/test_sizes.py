"""Number of ranges of a window: by slots, by the memory of a task, and one range for few rows. No exchange gets more
partitions than can be numbered."""

from __future__ import annotations

import math
from dataclasses import replace

import pyarrow as pa
import pytest

from sundog.columns.key_layout import MAX_TARGETS
from sundog.expr.calls import AggregateCall, NamedExpr
from sundog.expr.nodes import Column
from sundog.expr.ordering import SortKey
from sundog.parquet.reading import FileColumn
from sundog.plan.costs import DRIVER, EXECUTORS
from sundog.plan.logical import Limit, Scan, TopK, Window
from sundog.plan.lower.facts import Size
from sundog.plan.lower.sizes import (
    exchange_partitions,
    fewest_ranges,
    fits_one_range,
    group_partitions,
    join_partitions,
    key_partitions,
    result_of,
    sampled_row_groups,
    sorted_ranges,
    waiting_parts,
    window_ranges,
)
from sundog.plan.outputs import Exchange, Result
from sundog.plan.stages import Place, Site
from sundog.tables.parquet_folder import ParquetFolder
from tests.runtime.toys import Modulo

TASK_BYTES = DRIVER.task_bytes


@pytest.mark.parametrize(
    ("size", "slots", "fewest", "most"),
    [
        (0, 4, 1, 1),
        (3 * TASK_BYTES, 4, 3, 3),
        (100 * TASK_BYTES, 4, 4, 8),
        (20 * TASK_BYTES, 1, 1, 1),
        (1 << 34, 4, 128, 128),  # 16 GiB with 1 GiB a task
    ],
)
def test_ranges(size: int, slots: int, fewest: int, most: int) -> None:
    site = Site(Place.DRIVER, slots, 1 << 30, DRIVER)
    assert (fewest_ranges(Size(size, 1), site), window_ranges(Size(size, 1), site)) == (fewest, most)


@pytest.mark.parametrize("place", Place)
@pytest.mark.parametrize("size", [None, Size(1 << 60, 1 << 60)], ids=["unknown", "huge"])
def test_no_exchange_has_more_partitions_than_can_be_numbered(place: Place, size: Size | None) -> None:
    """Whatever the user's costs are: they decide how a query runs, never what it answers."""
    huge = 10**12
    costs = replace(
        DRIVER,
        final_tasks_per_slot=huge,
        max_exchange_partitions=huge,
        scatter_targets=huge,
        merge_part_rows=1,
        sort_range_rows=1,
    )
    site = Site(place, 4, 1 << 20, costs)
    keys = (NamedExpr("k#1", Column("k#1", pa.int64())),)
    calls = (AggregateCall("n#2", "count", (), pa.int64()),)
    for count in (
        exchange_partitions(size, site),
        group_partitions(keys, calls, size, site),
        join_partitions(size, size, site),
        key_partitions(size, site),
        waiting_parts(2, size, site),
    ):
        assert 1 <= count <= MAX_TARGETS


@pytest.mark.parametrize(
    ("rows", "slots", "ranges"),
    [(1, 4, 8), (8 * DRIVER.sort_range_rows, 4, 8), (8 * DRIVER.sort_range_rows + 1, 4, 12), (10**9, 1, 1)],
)
def test_ranges_that_are_sorted_on_threads_are_small(rows: int, slots: int, ranges: int) -> None:
    size = Size(100 * TASK_BYTES, rows)
    assert sorted_ranges(size, Site(Place.DRIVER, slots, 1 << 34, DRIVER)) == ranges
    executors = Site(Place.EXECUTORS, slots, 1 << 34, EXECUTORS)
    assert sorted_ranges(size, executors) == window_ranges(size, executors)


def test_small_ranges_are_no_more_than_an_exchange_may_have() -> None:
    costs = replace(DRIVER, sort_range_rows=1, max_exchange_partitions=100)
    assert sorted_ranges(Size(100 * TASK_BYTES, 10**9), Site(Place.DRIVER, 4, 1 << 34, costs)) == 100


def test_an_input_too_small_to_share_out_is_one_range() -> None:
    assert sorted_ranges(Size(TASK_BYTES, 10**9), Site(Place.DRIVER, 4, 1 << 34, DRIVER)) == 1
    assert sorted_ranges(None, Site(Place.DRIVER, 4, 1 << 34, DRIVER)) == window_ranges(
        None, Site(Place.DRIVER, 4, 1 << 34, DRIVER)
    )


@pytest.mark.parametrize(
    ("rows", "unsplit_rows", "expected"),
    [
        ([], 10, []),
        ([3, 3, 3, 3], 0, [[0], [1], [2], [3]]),
        ([0, 0, 5], 0, [[0], [1], [2]]),
        ([3, 3, 3, 3], 6, [[0, 1], [2, 3]]),
        ([3, 3, 3, 3], 100, [[0, 1, 2, 3]]),
        ([20, 0, 1, 9, 1], 10, [[0], [1, 2, 3], [4]]),
    ],
)
def test_small_partitions_beside_each_other_are_one_on_threads(
    rows: list[int], unsplit_rows: int, expected: list[list[int]]
) -> None:
    joined = Exchange(Modulo(max(len(rows), 1)), unsplit_rows).joined(rows)
    assert [list(group) for group in joined] == expected


def test_the_plan_says_what_becomes_of_its_rows() -> None:
    """Whether they are one partition where Spark has one, and whether a limit may end the tasks early."""
    scan = Scan(ParquetFolder((), (FileColumn("k", "k", pa.int64()),)), ("k",))
    keys = (SortKey(Column("k", pa.int64())),)
    window = Window(scan, (), (), keys)
    few = Result(1 << 20)
    assert result_of(scan, ()) == few
    assert result_of(window, ()) == result_of(TopK(scan, keys, 3), ()) == Result(math.inf)
    assert result_of(Limit(window, 3), ()) == Result(math.inf, may_stop_early=True)
    assert result_of(scan, [Limit(window, 3)]) == Result(1 << 20, may_stop_early=True)
    assert result_of(scan, [window]) == few


def test_a_sample_has_row_groups_for_every_range() -> None:
    site = Site(Place.DRIVER, 16, 1 << 30, DRIVER)
    few, many = Size(1, 1), Size(100 * TASK_BYTES, 1)
    assert (sampled_row_groups(few, site), sampled_row_groups(many, site)) == (8, 64)
    other = replace(site, costs=replace(DRIVER, sample_row_groups_per_range=0, sample_row_groups=5))
    assert sampled_row_groups(many, other) == 5


def test_parts_and_partitions_are_as_small_as_the_costs_say() -> None:
    size = Size(1 << 34, 1 << 24)
    site = Site(Place.DRIVER, 1, 1 << 30, DRIVER)
    small = replace(site, costs=replace(DRIVER, waiting_part_share=0.25, key_partitions_per_range=5))
    assert waiting_parts(2, size, site) == (1 << 23) // (3 << 19) + 1
    assert waiting_parts(2, size, small) == (1 << 23) // (1 << 19) + 1
    assert (key_partitions(size, site), key_partitions(size, small)) == (256, 640)


def test_rows_of_one_range_must_fit_a_task_of_an_executor() -> None:
    site = Site(Place.EXECUTORS, 2, 1 << 20, EXECUTORS)
    fitting = Size(int((1 << 20) / EXECUTORS.one_range_memory_factor), 1000)
    assert fits_one_range(fitting, site)
    assert not fits_one_range(Size(fitting.column_bytes + 1, 1000), site)
    assert fits_one_range(None, site)
    assert fits_one_range(Size(1 << 40, 1000), Site(Place.DRIVER, 2, 1 << 20, DRIVER))
