"""From a finished search over real files to what the report draws."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pyarrow as pa
import pytest

from sundog.expr.dynamic_filters.threshold import Threshold
from sundog.expr.nodes import Column, Compare, CompareOp, Literal
from sundog.expr.ordering import SortKey
from sundog.operators.topk.topk_plan import TopKPlan, plan_topk
from sundog.operators.topk.topk_scan import TopKSearch
from sundog.parquet.prune.access_plan import plan_access
from sundog.plan.costs import DRIVER
from sundog.plan.lower.topk import TopKNote
from sundog.plan.stages import StageGraph
from sundog.report.details import RowGroupState
from sundog.report.topk_details import Decision, topk_details
from sundog.run import Run
from sundog.types import TIMESTAMP
from tests.parquet.files import relation, write_file


def plan_over(
    folder: Path, groups: list[list[object]], dtype: pa.DataType, descending: bool = True, above: int | None = None
) -> TopKPlan:
    """One file; each list is a row group."""
    tables = [pa.table({"key": pa.array(group, dtype)}) for group in groups]
    path = write_file(folder / "data.parquet", tables)
    column = Column("key", dtype)
    predicate = None if above is None else Compare(CompareOp.GT, column, Literal(above, dtype))
    access = plan_access(relation([path], tables[0].schema), ("key",), predicate)
    return plan_topk(access, (SortKey(column, descending, nulls_first=not descending),), 2)


def bar(plan: TopKPlan, lead: object, generation: int) -> Threshold:
    key = plan.spec.order[0]
    return Threshold(key, True, True, lead, generation=generation)  # type: ignore[arg-type]


def test_row_groups_stand_in_queue_order_with_bounds_and_fate(tmp_path: Path) -> None:
    plan = plan_over(tmp_path, [[1, 2], [30, 40], [10, 20], [5, 9]], pa.int64(), above=4)
    decisions = [
        Decision((0, 1), RowGroupState.READ, plan.initial),
        Decision((0, 2), RowGroupState.PRUNED_DYNAMIC, bar(plan, 31, 1)),
    ]
    details = topk_details(plan, decisions)
    seen = [
        (mark.row_group, mark.low.position, mark.high.position, mark.state)
        for mark in details.row_groups
        if mark.low and mark.high
    ]
    assert seen == [
        (1, 30, 40, RowGroupState.READ),
        (2, 10, 20, RowGroupState.PRUNED_DYNAMIC),
        (3, 5, 9, RowGroupState.NEVER_REACHED),
        (0, 1, 2, RowGroupState.PRUNED_STATISTICS),
    ]
    assert [(step.at, step.value.label) for step in details.thresholds] == [(0, "30"), (1, "31")], (
        "the first is known from statistics"
    )
    assert details.k == 2
    assert details.descending
    assert {mark.file for mark in details.row_groups} == {"data.parquet"}
    assert [mark.rows for mark in details.row_groups] == [2, 2, 2, 2]


def test_a_bar_that_did_not_move_is_one_step(tmp_path: Path) -> None:
    plan = plan_over(tmp_path, [[1, 2], [3, 4], [5, 6]], pa.int64(), descending=False)
    decisions = [Decision(candidate.position, RowGroupState.READ, bar(plan, 2, 1)) for candidate in plan.candidates]
    assert [step.at for step in topk_details(plan, decisions).thresholds] == [0]


def test_times_are_shown_as_times(tmp_path: Path) -> None:
    moments = [datetime(2026, 3, day, tzinfo=timezone.utc) for day in (1, 2, 3, 4)]
    details = topk_details(plan_over(tmp_path, [moments[:2], moments[2:]], TIMESTAMP), [])
    assert details.scale == "linear"
    first = details.row_groups[0]
    assert first.low is not None
    assert first.low.label == "2026-03-03 00:00:00 UTC"


def test_strings_stand_in_order(tmp_path: Path) -> None:
    details = topk_details(plan_over(tmp_path, [["a", "b"], ["y", "z"]], pa.string()), [])
    assert details.scale == "rank"
    assert [mark.low.label for mark in details.row_groups if mark.low] == ["y", "a"]


def test_a_year_that_python_does_not_have_is_shown_as_its_number(tmp_path: Path) -> None:
    micros = 400_000_000_000_000_000
    plan = plan_over(tmp_path, [[0, 1], [2, micros]], TIMESTAMP)
    details = topk_details(plan, [Decision((0, 1), RowGroupState.READ, bar(plan, 5, 1))])
    assert details.row_groups[0].high is not None
    assert details.row_groups[0].high.label == str(micros)
    assert details.thresholds[0].value.label == "5"


def test_nulls_have_no_place(tmp_path: Path) -> None:
    plan = plan_over(tmp_path, [[None, None], [1, 2]], pa.int64())
    details = topk_details(plan, [Decision((0, 0), RowGroupState.READ, bar(plan, None, 1))])
    by_number = {mark.row_group: mark for mark in details.row_groups}
    assert by_number[0].low is None
    assert by_number[1].low is not None
    assert details.thresholds == ()


@pytest.mark.parametrize("descending", [True, False])
def test_it_is_made_when_the_report_is_written(tmp_path: Path, descending: bool) -> None:
    plan = plan_over(tmp_path, [[1, 2], [3, 4]], pa.int64(), descending)
    note = TopKNote(plan, TopKSearch(plan, DRIVER), in_tasks=False)
    run = Run(accelerated=True, graphs=[StageGraph(notes=[note])])
    run.to_html(tmp_path / "report.html")
    assert "</b> never reached" in (tmp_path / "report.html").read_text(encoding="utf-8")
