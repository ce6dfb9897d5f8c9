"""Scalar subqueries: each is computed once before the plan that reads its value, which then is a constant."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from sundog.config import Settings
from sundog.expr.calls import AggregateCall, Bound, BoundKind, Frame, JoinKey, JoinKind, NamedExpr, WindowCall
from sundog.expr.nodes import And, Column, Compare, CompareOp, Expr, IsNull, Literal, Not, SubqueryValue
from sundog.expr.ordering import SortKey
from sundog.plan.costs import DRIVER
from sundog.plan.explain import render_plan
from sundog.plan.logical import (
    Aggregate,
    Filter,
    Join,
    Limit,
    LogicalPlan,
    Project,
    Scan,
    TopK,
    Window,
)
from sundog.plan.lower.planner import Planner, Rows, Step
from sundog.plan.rules.order import optimize
from sundog.plan.subqueries import plans_read, subqueries_in, two_rows_at_most, with_values
from sundog.runtime.driver import DriverRuntime
from sundog.runtime.execute import StageRunner
from sundog.support import Declined
from sundog.types import DAY_TIME_INTERVAL, TIMESTAMP
from tests.plan.test_lower import ID, KEY, LONG, ROWS, VALUE, keys, scan, sites, total

__all__ = ["scan"]
VALUE_OF_0 = SubqueryValue(0, 0, LONG)
ALL = Frame("rows", Bound(BoundKind.UNBOUNDED_PRECEDING), Bound(BoundKind.UNBOUNDED_FOLLOWING))


def planned(tree: LogicalPlan, subqueries: Mapping[int, LogicalPlan]) -> tuple[Planner, StageRunner, list[Step]]:
    plans = {number: optimize(two_rows_at_most(plan)) for number, plan in subqueries.items()}
    planner = Planner(optimize(tree), Settings(placement="driver"), sites(DRIVER), subqueries=plans)
    runner, steps = StageRunner(DriverRuntime(2, 1 << 30)), []

    def answer(step: Step) -> Rows:
        steps.append(step)
        return runner.answer(step.stage)

    planner.plan(answer)
    return planner, runner, steps


def result(tree: LogicalPlan, subqueries: Mapping[int, LogicalPlan]) -> list[dict[str, Any]]:
    planner, runner, _ = planned(tree, subqueries)
    assert planner.graph.result is not None
    return pa.Table.from_batches(runner.rows(planner.graph.result)).to_pylist()


def where(child: LogicalPlan, op: CompareOp, value: Expr) -> LogicalPlan:
    return Filter(child, Compare(op, ID, value))


def largest(child: LogicalPlan) -> LogicalPlan:
    return Aggregate(child, (), (AggregateCall("max#9", "max", (ID,), LONG),))


def test_the_value_is_a_constant_that_prunes(scan: Scan) -> None:
    tree = Aggregate(where(scan, CompareOp.EQ, VALUE_OF_0), keys(KEY), (total(),))
    planner, runner, steps = planned(tree, {0: largest(scan)})
    assert f"id#1 = {ROWS - 1}" in render_plan(planner.graph)
    assert planner.graph.planned_metrics().as_numbers()["row_groups_pruned_statistics"] == 15
    assert len(steps) == len(planner.graph.subqueries) == 1
    assert planner.graph.result is not None
    assert sum(batch.num_rows for batch in runner.rows(planner.graph.result)) == 1


def test_explain_does_not_run_it_and_shows_it(scan: Scan) -> None:
    tree = Aggregate(where(scan, CompareOp.EQ, VALUE_OF_0), keys(KEY), (total(),))
    planner = Planner(optimize(tree), Settings(), sites(DRIVER), subqueries={0: optimize(largest(scan))})
    text = render_plan(planner.plan(lambda step: None))
    assert "id#1 = subquery0" in text
    assert "Gather: subquery0" in text
    assert "max(id#1)" in text


def test_one_subquery_used_twice_is_computed_once(scan: Scan) -> None:
    twice = And(Compare(CompareOp.LE, ID, VALUE_OF_0), Compare(CompareOp.GE, ID, VALUE_OF_0))
    tree = Aggregate(Filter(scan, twice), keys(KEY), (total(),))
    _, _, steps = planned(tree, {0: largest(scan)})
    assert len(steps) == 1


@pytest.mark.parametrize(("place", "holds"), [("driver", 1), ("auto", 1), ("executors", 0)])
def test_groups_that_the_query_reads_as_well_are_computed_once(scan: Scan, place: str, holds: int) -> None:
    """TPC-H's q15. In one place Catalyst also asks that a key of a join is not NULL, which none is."""
    key = NamedExpr("k#2", KEY)
    known = Filter(scan, Not(IsNull(KEY)))
    tree = Filter(Aggregate(known, (key,), (total(),)), Compare(CompareOp.EQ, Column("sum#9", LONG), VALUE_OF_0))
    most = AggregateCall("max#10", "max", (Column("sum#9", LONG),), LONG)
    subquery = Aggregate(Aggregate(scan, (key,), (total(),)), (), (most,))
    planner = Planner(optimize(tree), Settings(placement=place), sites(DRIVER), subqueries={0: optimize(subquery)})
    text = render_plan(planner.plan(lambda step: None))
    assert text.count("Hold: computed once, read twice") == holds
    assert text.count("ParquetScan") == 2 - holds
    if place == "driver":
        planner, runner, _ = planned(tree, {0: subquery})
        assert planner.graph.result is not None
        found = pa.Table.from_batches(runner.rows(planner.graph.result)).to_pylist()
        assert planner.graph.planned_metrics().get("subplans_shared") == 1
        sums: dict[int, int] = {}
        for each in range(ROWS):
            sums[each * 7919 % 1000] = sums.get(each * 7919 % 1000, 0) + each % 10
        assert {row["sum#9"] for row in found} == {max(sums.values())}


def test_groups_that_read_the_value_of_a_subquery_are_not_shared_with_one(scan: Scan) -> None:
    """The value is not known yet when the subquery is computed."""
    inner = SubqueryValue(1, 0, LONG)
    groups = Aggregate(where(scan, CompareOp.LT, inner), keys(KEY), (total(),))
    most = Aggregate(groups, (), (AggregateCall("max#10", "max", (Column("sum#9", LONG),), LONG),))
    tree = Filter(groups, Compare(CompareOp.EQ, Column("sum#9", LONG), VALUE_OF_0))
    planner, runner, _ = planned(tree, {0: most, 1: largest(scan)})
    assert planner.graph.planned_metrics().get("subplans_shared") == 0
    assert planner.graph.result is not None
    assert sum(batch.num_rows for batch in runner.rows(planner.graph.result)) >= 1


def test_no_row_is_null(scan: Scan) -> None:
    nobody = where(scan, CompareOp.LT, Literal(0, LONG))
    tree = Aggregate(where(scan, CompareOp.GE, VALUE_OF_0), (), (total(),))
    assert result(tree, {0: Project(nobody, (NamedExpr("id#1", ID),))}) == [{"sum#9": None}]


def test_two_rows_are_left_to_spark(scan: Scan) -> None:
    tree = Aggregate(where(scan, CompareOp.EQ, VALUE_OF_0), (), (total(),))
    with pytest.raises(Declined, match="more than one row"):
        result(tree, {0: Project(scan, (NamedExpr("id#1", ID),))})


def test_a_subquery_may_read_the_value_of_another(scan: Scan) -> None:
    inner = SubqueryValue(1, 0, LONG)
    tree = Aggregate(where(scan, CompareOp.EQ, VALUE_OF_0), keys(ID), ())
    found = result(tree, {0: largest(where(scan, CompareOp.LT, inner)), 1: largest(scan)})
    assert found == [{"id#1": ROWS - 2}]


def test_a_column_of_several_is_taken_by_its_place(scan: Scan) -> None:
    both = Aggregate(scan, (), (AggregateCall("min#8", "min", (ID,), LONG), AggregateCall("max#9", "max", (ID,), LONG)))
    tree = Aggregate(where(scan, CompareOp.EQ, SubqueryValue(0, 1, LONG)), keys(ID), ())
    assert result(tree, {0: both}) == [{"id#1": ROWS - 1}]


@pytest.mark.parametrize(
    ("value", "dtype", "literal"),
    [
        (dt.date(1970, 1, 11), pa.date32(), 10),
        (dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.timezone.utc), TIMESTAMP, 1_000_000),
        (dt.timedelta(seconds=2), DAY_TIME_INTERVAL, 2_000_000),
        (Decimal("1.50"), pa.decimal128(7, 2), Decimal("1.50")),
        ("é", pa.string(), "é"),
        (None, pa.date32(), None),
    ],
)
def test_values_are_those_that_constants_have(scan: Scan, value: Any, dtype: pa.DataType, literal: Any) -> None:
    """As `front/expressions/literals.py` reads them: dates and times as integers."""
    tree = Project(scan, (NamedExpr("x#7", SubqueryValue(0, 0, dtype)),))
    planner = Planner(tree, Settings(placement="driver"), sites(DRIVER), subqueries={0: largest(scan)})
    batch = pa.RecordBatch.from_arrays([pa.array([value], dtype)], ["max#9"])
    planner.plan(lambda step: [batch])
    assert planner.tree == Project(scan, (NamedExpr("x#7", Literal(literal, dtype)),))


def test_values_are_found_and_replaced_in_every_kind_of_node(scan: Scan) -> None:
    def holding(expr: Expr) -> LogicalPlan:
        call = WindowCall("w#8", "max", (expr,), LONG, ALL, filter=Compare(CompareOp.LT, KEY, expr))
        grouped = AggregateCall("a#9", "max", (expr,), LONG, filter=Compare(CompareOp.LT, KEY, expr))
        right = replace(scan, table=replace(scan.table, label="u"))  # type: ignore[type-var]
        join = Join(scan, right, JoinKind.SEMI, (JoinKey(ID, expr),), Compare(CompareOp.LT, KEY, expr))
        plan: LogicalPlan = Filter(join, Compare(CompareOp.LT, ID, expr))
        plan = Window(plan, (call,), (expr,), (SortKey(expr),))
        plan = TopK(plan, (SortKey(expr),), 5, checks=(expr,))
        return Aggregate(plan, (NamedExpr("key#7", expr),), (grouped,))

    plan = holding(VALUE_OF_0)
    assert subqueries_in(plan) == [0]
    assert subqueries_in(holding(VALUE)) == []
    assert with_values(plan, {0: (5,)}) == holding(Literal(5, LONG))
    assert with_values(plan, {0: None}) == holding(Literal(None, LONG))
    assert with_values(plan, {1: (5,)}) is plan


def test_a_subquery_that_may_have_many_rows_stops_at_two(scan: Scan) -> None:
    assert two_rows_at_most(scan) == Limit(scan, 2)
    assert two_rows_at_most(largest(scan)) == largest(scan)


def test_the_value_of_a_subquery_has_no_other_name_than_its_number() -> None:
    from sundog.expr.printing import render

    assert render(Compare(CompareOp.EQ, Column("x#1", LONG), VALUE_OF_0)) == "(x#1 = subquery0)"
    assert render(SubqueryValue(2, 1, LONG)) == "subquery2.1"


def test_a_plan_reads_its_subqueries_and_theirs(scan: Scan) -> None:
    inner = where(scan, CompareOp.LT, SubqueryValue(1, 0, LONG))
    plans = {0: inner, 1: largest(scan), 2: scan}
    tree = where(scan, CompareOp.EQ, VALUE_OF_0)
    assert plans_read(tree, plans) == [tree, inner, plans[1]]
    assert plans_read(scan, plans) == [scan]
