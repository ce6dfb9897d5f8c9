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
from sundog.plan.costs import DRIVER, EXECUTORS
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
from sundog.plan.lower.facts import Facts
from sundog.plan.lower.planner import Planner, Rows, Step
from sundog.plan.rules.order import optimize
from sundog.plan.subqueries import plans_read, subqueries_in, two_rows_at_most, with_values
from sundog.runtime.driver import DriverRuntime
from sundog.runtime.execute import StageRunner
from sundog.support import Declined, TooManyBytes
from sundog.tree import walk
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


def best_groups(scan: Scan, other: Scan | None = None, **changed: Any) -> tuple[LogicalPlan, LogicalPlan]:
    """TPC-H's q15: the query, and its subquery. In one place Catalyst also asks that a key of a join is not NULL, which
    none is. `other`, `changed`: what the subquery reads, and how its groups differ."""
    key = NamedExpr("k#2", KEY)
    known = Filter(scan, Not(IsNull(KEY)))
    tree = Filter(Aggregate(known, (key,), (total(),)), Compare(CompareOp.EQ, Column("sum#9", LONG), VALUE_OF_0))
    most = AggregateCall("max#10", "max", (Column("sum#9", LONG),), LONG)
    groups = replace(Aggregate(other or scan, (key,), (total(),)), **changed)
    return tree, Aggregate(groups, (), (most,))


def explained(
    tree: LogicalPlan,
    subquery: LogicalPlan,
    place: str = "executors",
    settings: Mapping[str, Any] | None = None,
    **numbers: float,
) -> str:
    """The plan without running it, not even its probes. `numbers`: costs."""
    costs = replace(DRIVER, **numbers), replace(EXECUTORS, **numbers)  # type: ignore[arg-type]
    wanted = Settings(placement=place, **(settings or {}))  # type: ignore[arg-type]
    planner = Planner(optimize(tree), wanted, sites(*costs), subqueries={0: optimize(subquery)})
    return render_plan(planner.plan(lambda step: None))


HELD = "Hold: computed once, read twice"
ON_EXECUTORS = """\
Filter: (sum#9 = subquery0)
  Hold: computed once, read twice
    Aggregate: mode=final, keys=[k#2]
      HashExchange: keys=[k#2]
        Aggregate: mode=partial, keys=[k#2], aggregates=[sum(v#3) AS sum#9]
          ParquetScan: t, files=4, columns=[k#2, v#3], predicate=(k#2 IS NOT NULL)
Gather: subquery0
  Aggregate: mode=final, keys=[]
    Gather: few groups are merged on the driver
      Aggregate: mode=partial, keys=[], aggregates=[max(sum#9) AS max#10]
        Project: [sum#9]
          HeldRows: of the Hold above, stage 1"""


@pytest.mark.parametrize("place", ["driver", "auto", "executors"])
def test_groups_that_the_query_reads_as_well_are_computed_once(scan: Scan, place: str) -> None:
    tree, subquery = best_groups(scan)
    text = explained(tree, subquery, place)
    assert text.count(HELD) == text.count("HeldRows") == text.count("ParquetScan") == 1
    if place == "driver":
        planner, runner, _ = planned(tree, {0: subquery})
        assert planner.graph.result is not None
        found = pa.Table.from_batches(runner.rows(planner.graph.result)).to_pylist()
        assert planner.graph.planned_metrics().get("subplans_shared") == 1
        sums: dict[int, int] = {}
        for each in range(ROWS):
            sums[each * 7919 % 1000] = sums.get(each * 7919 % 1000, 0) + each % 10
        assert {row["sum#9"] for row in found} == {max(sums.values())}


@pytest.mark.parametrize("gather_groups", [0, 1600])
def test_few_rows_of_executors_are_held_on_the_driver(scan: Scan, gather_groups: int) -> None:
    """8,000 rows are 1,600 groups by estimate."""
    text = explained(*best_groups(scan), gather_groups=gather_groups)
    lines = text.splitlines()
    if gather_groups:
        assert lines.pop(2).strip() == "Gather: few rows are held on the driver"
    assert [line.strip() for line in lines[:6]] == [line.strip() for line in ON_EXECUTORS.splitlines()[:6]]
    assert text.count("HeldRows") == 1


@pytest.mark.parametrize("place", ["driver", "executors"])
@pytest.mark.parametrize(
    "changed",
    [
        {"aggregates": (replace(total(), function="max"),)},
        {"aggregates": (replace(total(), filter=Compare(CompareOp.GT, VALUE, Literal(3, LONG))),)},
        {"aggregates": (replace(total(), ansi=False),)},
        {"keys": (NamedExpr("k#2", VALUE),)},
    ],
)
def test_other_groups_are_not_shared_with_a_subquery(scan: Scan, place: str, changed: dict[str, Any]) -> None:
    text = explained(*best_groups(scan, **changed), place)
    assert "Hold" not in text
    assert text.count("ParquetScan") == 2


@pytest.mark.parametrize("place", ["driver", "executors"])
def test_groups_of_another_snapshot_files_or_conditions_are_not_shared(scan: Scan, place: str) -> None:
    table = scan.table
    fewer = replace(scan, table=replace(table, files=table.files[1:]))  # type: ignore[type-var]
    later = replace(scan, table=replace(table, label="t v2"))  # type: ignore[type-var]
    others = [fewer, later, where(scan, CompareOp.GT, Literal(5, LONG))]
    for other in others:
        assert "Hold" not in explained(*best_groups(scan, other), place)  # type: ignore[arg-type]


def test_shared_rows_that_are_too_many_for_the_driver_are_held_by_executors(scan: Scan) -> None:
    tree, subquery = best_groups(scan)
    planner = Planner(
        optimize(tree), Settings(placement="executors"), sites(DRIVER), subqueries={0: optimize(subquery)}
    )
    tried: list[str] = []

    def answer(step: Step) -> Rows | None:
        if step.is_probe:
            return None
        tried.append(render_plan(replace(planner.graph, result=None, subqueries=[step.stage])))
        if len(tried) == 1:
            raise TooManyBytes.than(10)
        return [pa.record_batch({"max#10": pa.array([36], LONG)})]

    text = render_plan(planner.plan(answer))
    assert [each.count("few rows are held on the driver") for each in tried] == [1, 0]
    assert "few rows are held on the driver" not in text
    assert text.count(HELD) == text.count("HeldRows") == text.count("ParquetScan") == 1
    assert "(sum#9 = 36)" in text
    assert len(planner.graph.subqueries) == 1
    assert all("executors hold them" in reason for reason in planner.graph.given_up.values())
    assert planner.graph.planned_metrics().get("subplans_shared") == 1


def test_rows_that_are_too_many_anyway_are_left_to_spark(scan: Scan) -> None:
    tree, subquery = best_groups(scan)
    planner = Planner(
        optimize(tree), Settings(placement="executors"), sites(DRIVER), subqueries={0: optimize(subquery)}
    )
    tried: list[Step] = []

    def answer(step: Step) -> Rows | None:
        if not step.is_probe:
            tried.append(step)
            raise TooManyBytes.than(10)
        return None

    with pytest.raises(TooManyBytes):
        planner.plan(answer)
    assert len(tried) == 2


@pytest.mark.parametrize(("kind", "on_driver"), [(JoinKind.INNER, 1), (JoinKind.LEFT, 0), (JoinKind.FULL, 0)])
def test_rows_are_not_held_on_the_driver_where_a_join_would_bring_others_there(
    scan: Scan, kind: JoinKind, on_driver: int
) -> None:
    groups, subquery = best_groups(scan)
    names = [name.replace("#", "#9") for name in scan.columns]
    columns = tuple(replace(each, name=each.name.replace("#", "#9")) for each in scan.table.file_columns)
    other = Scan(replace(scan.table, file_columns=columns), tuple(names))  # type: ignore[type-var]
    tree = Join(groups, other, kind, (JoinKey(KEY, Column("k#92", LONG)),))
    text = explained(tree, subquery)
    assert text.count("HeldRows") == 1
    assert text.count("few rows are held on the driver") == on_driver


def test_groups_are_not_shared_by_plans_that_run_in_two_places(scan: Scan) -> None:
    """The subquery's table fits the driver, the query's two tables do not."""
    groups, subquery = best_groups(scan)
    names = [name.replace("#", "#9") for name in scan.columns]
    columns = tuple(replace(each, name=each.name.replace("#", "#9")) for each in scan.table.file_columns)
    other = Scan(replace(scan.table, file_columns=columns), tuple(names))  # type: ignore[type-var]
    tree = Join(groups, other, JoinKind.INNER, (JoinKey(KEY, Column("k#92", LONG)),))
    for fitting, holds in ((100_000, 0), (1 << 20, 1), (1, 1)):
        settings = {"driver_max_bytes": fitting}
        text = explained(tree, subquery, "auto", settings, filtered_read_factor=1)
        assert text.count(HELD) == holds, fitting


def test_footers_of_many_files_are_not_read_before_a_value_that_may_rule_them_out(scan: Scan) -> None:
    groups, subquery = best_groups(scan)
    other = Scan(replace(scan.table, label="u"), scan.columns)  # type: ignore[type-var]
    late = Aggregate(where(other, CompareOp.EQ, VALUE_OF_0), (), (replace(total(), name="sum#20"),))
    tree = Join(groups, late, JoinKind.INNER, ())
    assert explained(tree, subquery, "driver").count(HELD) == 1
    assert explained(tree, subquery, "driver", footer_job_files=4).count(HELD) == 0


def test_what_is_in_common_is_looked_for_without_footers(scan: Scan, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing can be, the subquery is planned first, and its value may rule out files."""
    tree, subquery = best_groups(scan, keys=(NamedExpr("k#2", VALUE),))
    read: list[object] = []
    accessed = Facts.access
    monkeypatch.setattr(Facts, "access", lambda self, each: read.append(each) or accessed(self, each))
    planner = Planner(
        optimize(tree), Settings(placement="executors"), sites(DRIVER), subqueries={0: optimize(subquery)}
    )

    class Stop(Exception):
        pass

    def answer(step: Step) -> Rows | None:
        if step.is_probe:
            return None
        raise Stop

    with pytest.raises(Stop):
        planner.plan(answer)
    main = {id(node) for node in walk(planner.tree)}
    assert read
    assert not any(id(each) in main for each in read)


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
