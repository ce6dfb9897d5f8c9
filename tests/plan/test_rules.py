"""Each rule on a small tree: what it does, what it leaves alone, and that the whole list run twice is the list run
once."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pytest

from sundog.errors import InternalError
from sundog.expr.calls import AggregateCall, Bound, BoundKind, Frame, JoinKey, JoinKind, NamedExpr, WindowCall
from sundog.expr.nodes import And, Arith, ArithOp, Column, Compare, CompareOp, EvalMode, Expr, Literal
from sundog.expr.ordering import SortKey
from sundog.parquet.reading import DataFile, FileColumn, PartitionColumn
from sundog.plan.logical import Aggregate, Expand, Filter, Join, Limit, LogicalPlan, Project, Scan, Sort, TopK, Window
from sundog.plan.rules.check_plan import check_plan
from sundog.plan.rules.merge_projects import merge_projects
from sundog.plan.rules.order import RULES, optimize
from sundog.plan.rules.prune_columns import prune_columns
from sundog.plan.rules.pull_projection import pull_projection
from sundog.plan.rules.push_predicate import push_predicate
from sundog.tables.parquet_folder import ParquetFolder

LONG = pa.int64()
A, B, C, P = (Column(name, LONG) for name in ("a#1", "b#2", "c#3", "p#4"))
RELATION = ParquetFolder(
    (DataFile("/t/f.parquet", 1, 1, (7,)),),
    tuple(FileColumn(column.name, column.name[0], LONG) for column in (A, B, C)),
    (PartitionColumn(P.name, 0, LONG),),
)
SCAN = Scan(RELATION, ("a#1", "b#2", "c#3"))
WHOLE = Frame("rows", Bound(BoundKind.UNBOUNDED_PRECEDING), Bound(BoundKind.UNBOUNDED_FOLLOWING))


def keep(*columns: Column) -> tuple[NamedExpr, ...]:
    return tuple(NamedExpr(column.name, column) for column in columns)


def plus(left: Expr, right: Expr, mode: EvalMode = EvalMode.LEGACY) -> Arith:
    return Arith(ArithOp.ADD, left, right, LONG, mode)


def positive(column: Column) -> Compare:
    return Compare(CompareOp.GT, column, Literal(0, LONG))


def by(column: Expr) -> tuple[SortKey, ...]:
    return (SortKey(column, False, True),)


def total(column: Column, name: str = "s#9", filter: Expr | None = None) -> AggregateCall:
    return AggregateCall(name, "sum", (column,), LONG, filter)


def window(child: LogicalPlan, *args: Column, name: str = "w#8") -> Window:
    return Window(child, (WindowCall(name, "count", args, LONG, WHOLE),), (), ())


# --- push_predicate --------------------------------------------------------------------------------------------------


def test_filters_move_into_their_scan_in_order() -> None:
    pushed = push_predicate(Filter(Filter(SCAN, positive(A)), positive(B)))
    assert pushed == Scan(RELATION, SCAN.columns, And(positive(A), positive(B)))


def test_a_filter_over_anything_else_stays() -> None:
    plan = Filter(Limit(SCAN, 3), positive(A))
    assert push_predicate(plan) is plan


# --- merge_projects --------------------------------------------------------------------------------------------------


def test_two_projections_become_one() -> None:
    lower = Project(SCAN, (NamedExpr("x#5", plus(A, B)), *keep(C)))
    merged = merge_projects(Project(lower, (NamedExpr("y#6", plus(Column("x#5", LONG), C)),)))
    assert merged == Project(SCAN, (NamedExpr("y#6", plus(plus(A, B), C)),))


def test_what_would_be_computed_twice_is_not_merged() -> None:
    x = Column("x#5", LONG)
    plan = Project(Project(SCAN, (NamedExpr("x#5", plus(A, B)),)), (NamedExpr("y#6", plus(x, x)),))
    assert merge_projects(plan) is plan


def test_a_computed_column_that_nobody_reads_keeps_its_projection_since_it_may_raise() -> None:
    plan = Project(Project(SCAN, (NamedExpr("x#5", plus(A, B, EvalMode.ANSI)), *keep(C))), keep(C))
    assert merge_projects(plan) is plan


# --- pull_projection -------------------------------------------------------------------------------------------------


def test_a_projection_that_cannot_raise_moves_above_a_topk() -> None:
    exprs = (NamedExpr("x#5", plus(A, B)), *keep(C))
    pulled = pull_projection(TopK(Project(SCAN, exprs), by(Column("x#5", LONG)), 3, 1))
    assert pulled == Project(TopK(SCAN, by(plus(A, B)), 3, 1), exprs)


def test_over_a_scan_what_can_raise_is_left_behind_as_a_check() -> None:
    raising = plus(A, B, EvalMode.ANSI)
    exprs = (NamedExpr("x#5", raising), *keep(C))
    pulled = pull_projection(TopK(Project(SCAN, exprs), by(C), 3))
    assert pulled == Project(TopK(SCAN, by(C), 3, 0, (raising,)), exprs)


def test_over_anything_else_what_can_raise_stays() -> None:
    below = Aggregate(SCAN, keep(A), (total(B),))
    plan = TopK(Project(below, (NamedExpr("x#5", plus(A, A, EvalMode.ANSI)),)), by(Column("x#5", LONG)), 3)
    assert pull_projection(plan) is plan


# --- prune_columns ---------------------------------------------------------------------------------------------------


def test_a_scan_keeps_only_the_columns_that_are_read() -> None:
    assert prune_columns(Project(SCAN, keep(C))) == Scan(RELATION, ("c#3",))


@pytest.mark.parametrize(
    ("plan", "read"),
    [
        (Project(Filter(SCAN, positive(B)), keep(A)), {"a#1", "b#2"}),
        (Project(TopK(SCAN, by(B), 3), keep(A)), {"a#1", "b#2"}),
        (Project(TopK(SCAN, by(B), 3, 0, (positive(C),)), keep(A)), {"a#1", "b#2", "c#3"}),
        (Project(Sort(SCAN, by(C)), keep(A)), {"a#1", "c#3"}),
        (Project(Limit(SCAN, 3), keep(B)), {"b#2"}),
        (Project(Aggregate(SCAN, keep(A), (total(B, filter=positive(C)),)), keep(A)), {"a#1", "b#2", "c#3"}),
        (Project(window(SCAN, B), (NamedExpr("w#8", Column("w#8", LONG)),)), {"b#2"}),
        (Project(Expand(SCAN, ((A, B), (A, C)), ("x#5", "y#6")), (NamedExpr("x#5", Column("x#5", LONG)),)), {"a#1"}),
    ],
)
def test_what_an_operator_reads_is_kept_for_it(plan: LogicalPlan, read: set[str]) -> None:
    node = prune_columns(plan)
    while node.children:
        (node,) = node.children
    assert set(node.schema.names) == read


def test_keys_that_nobody_reads_are_hidden_but_never_all_columns() -> None:
    pruned = prune_columns(Project(Aggregate(SCAN, keep(A, B), (total(C),)), (NamedExpr("s#9", Column("s#9", LONG)),)))
    assert isinstance(pruned, Aggregate)
    assert pruned.hidden == {"a#1", "b#2"}
    alone = prune_columns(Project(Aggregate(SCAN, keep(A, B), ()), (NamedExpr("one#7", Literal(1, LONG)),)))
    assert isinstance(alone, Project)
    assert alone.child.schema.names == ["a#1"]


def test_a_window_that_reads_nothing_carries_a_constant_below_and_hides_it_above() -> None:
    pruned = prune_columns(window(Project(SCAN, ())))
    assert pruned.schema.names == ["w#8"]
    (carrying,) = pruned.children
    assert isinstance(carrying, Window)
    assert carrying.child.schema.names == ["row#carried"]
    assert prune_columns(pruned) == pruned


# --- check_plan ------------------------------------------------------------------------------------------------------

MISSING = Column("gone#99", LONG)


@dataclass(frozen=True)
class Distinct(LogicalPlan):
    """A node that no rule knows."""

    child: LogicalPlan
    keys: tuple[NamedExpr, ...]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(key.name, key.expr.dtype) for key in self.keys])


READS_WHAT_IS_NOT_THERE: dict[str, LogicalPlan] = {
    "Scan": Scan(RELATION, ("a#1",), positive(MISSING)),
    "Filter": Filter(SCAN, positive(MISSING)),
    "Project": Project(SCAN, keep(MISSING)),
    "Expand": Expand(SCAN, ((A,), (MISSING,)), ("x#5",)),
    "TopK order": TopK(SCAN, by(MISSING), 3),
    "TopK check": TopK(SCAN, by(A), 3, 0, (positive(MISSING),)),
    "Sort": Sort(SCAN, by(MISSING)),
    "Aggregate key": Aggregate(SCAN, keep(MISSING), (total(A),)),
    "Aggregate argument": Aggregate(SCAN, keep(A), (total(MISSING),)),
    "Aggregate filter": Aggregate(SCAN, keep(A), (total(A, filter=positive(MISSING)),)),
    "Join key": Join(SCAN, SCAN, JoinKind.SEMI, (JoinKey(A, MISSING),)),
    "Join condition": Join(SCAN, SCAN, JoinKind.SEMI, (JoinKey(A, A),), positive(MISSING)),
    "Distinct, which no rule knows": Distinct(SCAN, keep(MISSING)),
    "Window argument": window(SCAN, MISSING),
    "Window partition": Window(SCAN, window(SCAN).calls, (MISSING,), ()),
    "Window order": Window(SCAN, window(SCAN).calls, (), by(MISSING)),
    "below": Limit(Filter(SCAN, positive(MISSING)), 3),
}
TWO_OF_ONE_NAME: dict[str, LogicalPlan] = {
    "Project": Project(SCAN, keep(A, A)),
    "Expand": Expand(SCAN, ((A, B),), ("x#5", "x#5")),
    "Aggregate": Aggregate(SCAN, keep(A), (total(B, name="a#1"),)),
    "Window": window(SCAN, name="a#1"),
    "below": Project(Project(SCAN, keep(A, A)), keep(A)),
}


@pytest.mark.parametrize("name", READS_WHAT_IS_NOT_THERE)
def test_a_plan_that_reads_what_is_not_there_is_refused(name: str) -> None:
    node = "Filter" if name == "below" else name.split()[0].strip(",")
    with pytest.raises(
        InternalError, match=f"{node} reads gone#99, which its input|a join key reads gone#99 of the other"
    ):
        check_plan(READS_WHAT_IS_NOT_THERE[name])


@pytest.mark.parametrize("name", TWO_OF_ONE_NAME)
def test_a_plan_with_two_columns_of_one_name_is_refused(name: str) -> None:
    with pytest.raises(InternalError, match="two columns of one name"):
        check_plan(TWO_OF_ONE_NAME[name])


def test_a_partition_column_is_there_to_be_read() -> None:
    plan = Scan(RELATION, ("a#1", "p#4"), positive(P))
    assert check_plan(plan) is plan


# --- the list --------------------------------------------------------------------------------------------------------

SOUND: list[LogicalPlan] = [
    TopK(Project(Filter(SCAN, positive(A)), (NamedExpr("x#5", plus(A, B)), *keep(C))), by(Column("x#5", LONG)), 3),
    Project(Aggregate(Filter(SCAN, positive(C)), keep(A, B), (total(C),)), keep(A)),
    window(Project(Filter(SCAN, positive(A)), ())),
    Project(Project(window(SCAN, B), keep(A, Column("w#8", LONG))), keep(Column("w#8", LONG))),
    Sort(
        Aggregate(Expand(SCAN, ((A, B), (A, C)), ("x#5", "y#6")), keep(Column("x#5", LONG)), ()),
        by(Column("x#5", LONG)),
    ),
]


@pytest.mark.parametrize("number", range(len(SOUND)))
def test_the_list_run_twice_is_the_list_run_once_and_keeps_the_columns(number: int) -> None:
    once = optimize(SOUND[number])
    assert once.schema == SOUND[number].schema
    assert optimize(once) == once


def test_the_last_rule_is_the_check() -> None:
    assert RULES[-1] is check_plan
    with pytest.raises(InternalError):
        optimize(Project(SCAN, keep(MISSING)))
