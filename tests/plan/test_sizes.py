"""How many ranges a window gets: for the slots, for the memory of a task, and none for next to nothing; and that no
exchange gets more partitions than can be numbered."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from sundog.columns.key_layout import MAX_TARGETS
from sundog.expr.calls import AggregateCall, NamedExpr
from sundog.expr.nodes import Column
from sundog.plan.costs import DRIVER, EXECUTORS
from sundog.plan.lower.facts import Size
from sundog.plan.lower.sizes import (
    exchange_partitions,
    fewest_ranges,
    group_partitions,
    join_partitions,
    key_partitions,
    sorted_ranges,
    waiting_parts,
    window_ranges,
)
from sundog.plan.stages import Place, Site

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
