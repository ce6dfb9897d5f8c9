"""Rounds of a top-k on executors: their number grows with the logarithm of the row groups, whichever of these must be
read."""

from __future__ import annotations

import math
from collections.abc import Callable

import pyarrow as pa
import pytest

from sundog.expr.dynamic_filters.threshold import Threshold
from sundog.expr.nodes import And, Column, Compare, CompareOp, Expr, Literal
from sundog.expr.ordering import SortKey
from sundog.operators.topk.topk_plan import plan_topk
from sundog.operators.topk.topk_scan import TopKSearch
from sundog.parquet.prune.access_plan import plan_access
from sundog.plan.costs import EXECUTORS
from sundog.simulate.synthetic import COLUMNS, SyntheticColumn, SyntheticTable

LONG = pa.int64()
TIME = Column("time#1", LONG)
MAYBE = Compare(CompareOp.LT, Column("user#2", LONG), Literal(50, LONG))


def search(row_groups: int, where: Expr | None, clustering: float = 1.0) -> TopKSearch:
    columns = (SyntheticColumn("time", LONG, 8.0, clustering), *COLUMNS[1:])
    made = SyntheticTable.of(
        rows=1000 * row_groups, row_groups=row_groups, files=max(row_groups // 10, 1), columns=columns
    )
    names = tuple(column.name for column in made.table.file_columns)
    access = plan_access(made.table, names, where, get_footers=lambda *_: made.footers)
    return TopKSearch(plan_topk(access, (SortKey(TIME, descending=True, nulls_first=False),), 10), EXECUTORS)


def sizes_of_rounds(found: TopKSearch, slots: int, after_round: Callable[[TopKSearch], None]) -> list[int]:
    sizes = []
    while tasks := found.next_round(slots):
        assert len(tasks) <= slots
        sizes.append(sum(len(task.candidates) for task in tasks))
        after_round(found)
    return sizes


@pytest.mark.parametrize("slots", [2, 64, 1000])
@pytest.mark.parametrize("row_groups", [100, 10_000])
def test_all_row_groups_are_read_in_few_rounds_if_no_row_is_found(row_groups: int, slots: int) -> None:
    sizes = sizes_of_rounds(search(row_groups, MAYBE), slots, lambda _: None)
    assert sum(sizes) == row_groups
    most = 1 + max(math.log(row_groups / slots, EXECUTORS.topk_round_growth), 0)
    assert len(sizes) <= math.ceil(most) + 1


def test_rounds_grow_by_the_factor_of_the_costs() -> None:
    sizes = sizes_of_rounds(search(100_000, MAYBE), 100, lambda _: None)
    assert sizes == [100, 400, 1600, 6400, 25_600, 65_900]


def test_a_threshold_that_spares_nothing_makes_rounds_grow_faster() -> None:
    """Keys from everywhere in each row group: the best of one round says nothing of the others."""
    key = SortKey(TIME, descending=True, nulls_first=False)

    def loose(found: TopKSearch) -> None:
        found.filter.tighten(Threshold(key, True, True, 17))

    scattered = search(100_000, MAYBE, clustering=0.0)
    assert (
        len(sizes_of_rounds(scattered, 4, loose))
        <= math.ceil(math.log(100_000 / 4, EXECUTORS.topk_round_growth**2)) + 2
    )


def test_a_threshold_of_the_first_round_ends_the_search() -> None:
    where = And(MAYBE, Compare(CompareOp.GE, TIME, Literal(5, LONG)))
    key = SortKey(TIME, descending=True, nulls_first=False)

    def tight(found: TopKSearch) -> None:
        found.filter.tighten(Threshold(key, True, True, 10_000 * 1000 - 1500))

    found = search(10_000, where)
    assert sizes_of_rounds(found, 1, tight) == [1, 1]
    assert found.scan_counted["row_groups_pruned_dynamic_filter"] == 9_998
    assert found.counted["topk_rounds"] == 2
