"""Subplans that are used several times: which are equal, which are computed once, and the resulting plans."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pyarrow as pa
import pytest

from sundog.expr.calls import AggregateCall, JoinKey, JoinKind, NamedExpr
from sundog.expr.nodes import Column, Compare, CompareOp, Literal
from sundog.expr.ordering import SortKey
from sundog.plan.equal_plans import EqualPlans
from sundog.plan.logical import (
    Aggregate,
    Expand,
    Filter,
    Join,
    Limit,
    LocalRows,
    LogicalPlan,
    Project,
    Scan,
    Shared,
    TopK,
    Union,
    Window,
)
from sundog.plan.rules.order import optimize
from sundog.plan.sharing import share_subplans
from sundog.tree import walk
from tests.plan import test_lower
from tests.plan.test_lower import DOUBLE, LONG, explain, run

scan = test_lower.scan


def copy(scan: Scan, first: int) -> Scan:
    """The same table under other column ids, as Catalyst reads a CTE for the second time."""
    names = {name: f"{name.partition('#')[0]}#{first + at}" for at, name in enumerate(scan.columns)}
    columns = tuple(replace(column, name=names[column.name]) for column in scan.table.file_columns)
    return Scan(replace(scan.table, file_columns=columns), tuple(names.values()))  # type: ignore[type-var]


def of(scan: Scan, name: str) -> Column:
    return next(Column(f.name, f.type) for f in scan.schema if f.name.startswith(f"{name}#"))


def groups(scan: Scan, number: int, above: float = 3, function: str = "sum") -> Aggregate:
    kept = Filter(scan, Compare(CompareOp.GT, of(scan, "v"), Literal(int(above), LONG)))
    call = AggregateCall(f"total#{number}", function, (of(scan, "id"),), LONG)
    keys = (NamedExpr(f"key#{number + 1}", of(scan, "k")), NamedExpr(f"v#{number + 2}", of(scan, "v")))
    return Aggregate(kept, keys, (call,))


def twice(one: LogicalPlan, two: LogicalPlan) -> LogicalPlan:
    left, right = (Column(plan.schema.names[0], LONG) for plan in (one, two))
    return Join(one, two, JoinKind.INNER, (JoinKey(left, right),))


def numbers(one: LogicalPlan, two: LogicalPlan) -> tuple[int, int]:
    both = EqualPlans(Join(one, two, JoinKind.INNER, ()))
    return both.of(one).number, both.of(two).number


def test_names_of_columns_do_not_matter(scan: Scan) -> None:
    one, two = numbers(groups(scan, 100), groups(copy(scan, 50), 200))
    assert one == two


@pytest.mark.parametrize("other", [{"above": 4}, {"function": "max"}])
def test_other_constants_and_functions_are_other_rows(scan: Scan, other: dict[str, str]) -> None:
    one, two = numbers(groups(scan, 100), groups(copy(scan, 50), 200, **other))  # type: ignore[arg-type]
    assert one != two


def test_other_files_are_other_rows(scan: Scan) -> None:
    there = copy(scan, 50)
    fewer = replace(there, table=replace(there.table, files=there.table.files[1:]))  # type: ignore[type-var]
    one, two = numbers(groups(scan, 100), groups(fewer, 200))
    assert one != two


def shapes(scan: Scan, first: int) -> list[LogicalPlan]:
    """Nodes of each kind, under columns of their own."""
    key, value, wild = of(scan, "k"), of(scan, "v"), of(scan, "w")
    number = NamedExpr(f"n#{first}", Literal(1, LONG))
    order = (SortKey(value, True, False),)
    call = test_lower.WindowCall(f"r#{first}", "row_number", (), pa.int32(), test_lower.WHOLE)
    inner = copy(scan, first + 10)
    return [
        Filter(scan, Compare(CompareOp.EQ, wild, Literal(0.0, DOUBLE))),
        Filter(scan, Compare(CompareOp.EQ, wild, Literal(-0.0, DOUBLE))),
        Project(scan, (NamedExpr(key.name, key), number)),
        Project(scan, (NamedExpr(value.name, value), number)),
        Window(scan, (call,), (key,), order),
        Window(scan, (call,), (value,), order),
        TopK(scan, order, 5),
        TopK(scan, order, 6),
        Expand(scan, ((key,), (value,)), (f"x#{first}",)),
        Expand(scan, ((value,), (key,)), (f"x#{first}",)),
        Union((Project(scan, (NamedExpr(key.name, key),)), Project(scan, (NamedExpr(key.name, value),)))),
        Union((Project(scan, (NamedExpr(key.name, value),)), Project(scan, (NamedExpr(key.name, key),)))),
        Join(scan, inner, JoinKind.INNER, (JoinKey(key, of(inner, "v")),)),
        Join(scan, inner, JoinKind.INNER, (JoinKey(value, of(inner, "k")),)),
        Join(scan, inner, JoinKind.LEFT, (JoinKey(key, of(inner, "v")),)),
        Join(scan, inner, JoinKind.INNER, (), Compare(CompareOp.LT, key, of(inner, "k"))),
        Join(scan, inner, JoinKind.INNER, (), Compare(CompareOp.LT, of(inner, "k"), key)),
        LocalRows(pa.RecordBatch.from_pydict({f"x#{first}": [1, 2]})),
        LocalRows(pa.RecordBatch.from_pydict({f"x#{first}": [1, 3]})),
    ]


def test_each_plan_is_equal_to_its_copy_and_to_no_other(scan: Scan) -> None:
    one, two = shapes(scan, 300), shapes(copy(scan, 50), 400)
    both = EqualPlans(Union((*one, *two)))  # no plan that runs: a list with a root
    first, second = ([both.of(plan).number for plan in plans] for plans in (one, two))
    assert first == second
    assert len(set(first)) == len(one)


def test_a_limit_without_an_order_has_no_equal(scan: Scan) -> None:
    one, two = numbers(Limit(scan, 5), Limit(copy(scan, 50), 5))
    assert one != two


def test_groups_that_are_read_twice_are_computed_once(scan: Scan) -> None:
    tree = twice(groups(scan, 100), groups(copy(scan, 50), 200))
    shared, alone = run(tree), run(tree, shared_bytes=0)
    tables = [pa.Table.from_batches(planned.rows) for planned in (shared, alone)]
    order = [(name, "ascending") for name in tables[0].column_names]
    assert tables[0].num_rows > 0
    assert tables[0].sort_by(order) == tables[1].sort_by(order)
    assert shared.graph.planned_metrics().get("subplans_shared") == 1
    assert alone.graph.planned_metrics().get("subplans_shared") == 0
    scanned = [sum(record.metrics.get("row_groups_scanned") for record in each.records) for each in (shared, alone)]
    assert scanned[1] == 2 * scanned[0] > 0


def test_explain_shows_the_rows_once(scan: Scan) -> None:
    tree = twice(groups(scan, 100), groups(copy(scan, 50), 200))
    for place in ("driver", "executors"):
        text = explain(tree, place)
        assert text.count("Hold: computed once, read twice") == 1
        assert text.count("HeldRows: of the Hold above") == 1
        assert text.count("ParquetScan") == 1


def test_a_column_that_only_one_place_shows_is_there(scan: Scan) -> None:
    first, second = groups(scan, 100), groups(copy(scan, 50), 200)
    left = Project(first, (NamedExpr("key#101", Column("key#101", LONG)),))
    tree = optimize(twice(left, second))
    shared = [node for node in walk(share_subplans(tree, lambda *_: True, count())) if isinstance(node, Shared)]
    assert [len(node.schema) for node in shared] == [2, 3]
    assert len(shared[0].child.schema) == 3
    found = pa.Table.from_batches(run(tree).rows)
    assert found.num_rows == pa.Table.from_batches(run(tree, shared_bytes=0).rows).num_rows > 0


@pytest.mark.parametrize("first_shows_more", [False, True])
def test_windows_are_shared_only_if_they_show_the_same_columns(scan: Scan, first_shows_more: bool) -> None:
    def ranked(scan: Scan, number: int, shows_v: bool) -> Project:
        """Ranks of groups with one key of theirs, or both: the other is hidden below the window."""
        below = groups(scan, number)
        total = SortKey(Column(f"total#{number}", LONG), False, True)
        call = test_lower.WindowCall(f"r#{number + 3}", "rank", (), pa.int32(), test_lower.RUNNING)
        window = Window(below, (call,), (), (total,))
        names = [f"key#{number + 1}", call.name, *([f"v#{number + 2}"] if shows_v else [])]
        columns = (Column(name, window.schema.field(name).type) for name in names)
        return Project(
            window, tuple(NamedExpr(f"{name}0", column) for name, column in zip(names, columns, strict=True))
        )

    one, two = ranked(scan, 100, first_shows_more), ranked(copy(scan, 50), 200, not first_shows_more)
    tree = optimize(twice(one, two))
    shared = [node for node in walk(share_subplans(tree, lambda *_: True, count())) if isinstance(node, Shared)]
    assert [type(node.child) for node in shared] == [Aggregate, Aggregate]
    same = optimize(twice(ranked(scan, 100, True), ranked(copy(scan, 50), 200, True)))
    shared = [node for node in walk(share_subplans(same, lambda *_: True, count())) if isinstance(node, Shared)]
    assert [type(node.child) for node in shared] == [Window, Window]
    found = pa.Table.from_batches(run(tree).rows)
    assert found.num_rows == pa.Table.from_batches(run(tree, shared_bytes=0).rows).num_rows > 0


def test_groups_whose_places_filter_them_are_computed_there(scan: Scan) -> None:
    """Each place reads a twentieth of the keys: both together less than all of them."""
    sides = []
    for number, (table, few) in enumerate(((scan, copy(scan, 70)), (copy(scan, 50), copy(scan, 90)))):
        rare = Filter(few, Compare(CompareOp.EQ, of(few, "id"), Literal(number, LONG)))
        grouped = groups(table, 100 * (number + 1), function="max")  # a sum may raise for any row
        keys = (JoinKey(Column(grouped.keys[0].name, LONG), of(few, "k")),)
        sides.append(Join(grouped, rare, JoinKind.INNER, keys))
    tree = Aggregate(twice(*sides), (), (AggregateCall("n#900", "count", (), LONG),))
    assert run(tree).graph.planned_metrics().get("subplans_shared") == 0
    assert run(tree, min_shared_reads=0.001).graph.planned_metrics().get("subplans_shared") == 1


def test_the_largest_subplan_is_shared_and_inner_ones_with_other_places(scan: Scan) -> None:
    def upper(scan: Scan, number: int) -> Aggregate:
        inner = groups(scan, number)
        call = AggregateCall(f"n#{number + 5}", "count", (), LONG)
        return Aggregate(inner, (NamedExpr(f"t#{number + 6}", Column(inner.aggregates[0].name, LONG)),), (call,))

    pair = twice(upper(scan, 100), upper(copy(scan, 50), 200))
    tree = twice(pair, groups(copy(scan, 80), 300))
    shared = [
        node for node in walk(share_subplans(optimize(tree), lambda *_: True, count())) if isinstance(node, Shared)
    ]
    assert {(node.number, node.readers) for node in shared} == {(0, 2), (1, 2)}
    result = run(tree)
    assert result.graph.planned_metrics().get("subplans_shared") == 2
    assert sum(b.num_rows for b in result.rows) == sum(b.num_rows for b in run(tree, shared_bytes=0).rows)


def test_a_small_build_side_gathers_what_executors_hold_for_its_first_reader(scan: Scan) -> None:
    """The left side of the outer join is read first, as it is smaller than the right one."""
    first, second, fact = groups(scan, 100), groups(copy(scan, 50), 200), copy(scan, 80)
    key = NamedExpr("t#300", Column("total#200", LONG))
    again = Aggregate(second, (key,), (AggregateCall("n#301", "count", (), LONG),))
    right = Join(fact, again, JoinKind.LEFT, (JoinKey(of(fact, "k"), Column("t#300", LONG)),))
    tree = Join(first, right, JoinKind.LEFT, (JoinKey(Column("total#100", LONG), of(fact, "v")),))
    assert explain(tree, "executors", gather_groups=0).count("Gather: executors hold them") == 1
    assert explain(tree, "executors", gather_groups=0, small_step_bytes=0).count("Gather: executors hold them") == 0
    assert "executors hold them" not in explain(tree, "driver")
