"""Estimates of rows and bytes: how they are computed, and that a plan follows them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from sundog.expr.calls import AggregateCall, JoinKey, JoinKind, NamedExpr
from sundog.expr.nodes import And, Column, Compare, CompareOp, Expr, In, IsNull, Like, Literal, Not, Or
from sundog.plan.costs import DRIVER, EXECUTORS
from sundog.plan.logical import Aggregate, Filter, Foreign, Join, Limit, LogicalPlan, Project, Scan, Union
from sundog.plan.lower.estimates import estimated_bytes, estimated_rows, kept_by_keys, kept_share
from sundog.plan.lower.facts import Facts
from tests.plan.test_joins import written
from tests.plan.test_lower import explain

LONG, TEXT = pa.int64(), pa.string()
COSTS = replace(
    DRIVER, kept_by_equality=0.1, kept_by_range=0.25, kept_by_match=0.125, kept_by_other=0.5, groups_per_row=0.5
)
ID, NAME = Column("id#1", LONG), Column("name#2", TEXT)
ONE = Literal(1, LONG)
EQUAL, LESS = Compare(CompareOp.EQ, ID, ONE), Compare(CompareOp.LT, ID, ONE)


@pytest.fixture(scope="module")
def scan(tmp_path_factory: pytest.TempPathFactory) -> Scan:
    """1000 rows: id#1, name#2."""
    return _scan(tmp_path_factory.mktemp("estimates") / "rows", 1000, 1)


def _scan(folder: Path, rows: int, first_id: int) -> Scan:
    table = pa.table({"id": range(rows), "name": [f"name {number}" for number in range(rows)]})
    return written(folder, folder.name, table, 1, rows, first_id)


@pytest.mark.parametrize(
    ("predicate", "share"),
    [
        (None, 1),
        (EQUAL, 0.1),
        (Compare(CompareOp.NULL_SAFE_EQ, ID, ONE), 0.1),
        (LESS, 0.25),
        (IsNull(ID), 0.1),
        (Not(IsNull(ID)), 1),
        (Not(LESS), 0.75),
        (And(EQUAL, LESS), 0.025),
        (Or(EQUAL, LESS), 0.35),
        (In(ID, (1, 2, 3)), 0.3),
        (In(ID, tuple(range(100))), 0.5),
        (Like(NAME, "a%"), 0.125),
        (Column("flag#3", pa.bool_()), 0.5),
    ],
)
def test_a_predicate_keeps_a_share_by_its_kind(predicate: Expr | None, share: float) -> None:
    assert kept_share(predicate, COSTS) == pytest.approx(share)


def test_no_share_is_negative_whatever_the_costs_are() -> None:
    assert kept_share(Not(LESS), replace(COSTS, kept_by_range=7.0)) == 0


def test_rows_of_every_node(scan: Scan) -> None:
    count = (AggregateCall("n#9", "count", (), LONG),)
    rows: list[tuple[LogicalPlan, float]] = [
        (scan, 1000),
        (Foreign(0, (("x#5", LONG),)), 1e9),
        (Filter(scan, LESS), 250),
        (Project(scan, (NamedExpr("id#1", ID),)), 1000),
        (Union((scan, Filter(scan, LESS))), 1250),
        (Aggregate(scan, (), count), 1),
        (Aggregate(scan, (NamedExpr("id#1", ID),), count), 500),
        (Limit(scan, 5), 5),
        (Limit(Filter(scan, LESS), 2000), 250),
    ]
    for plan, expected in rows:
        assert estimated_rows(plan, Facts(True, COSTS), COSTS) == pytest.approx(expected), plan


def test_keys_are_estimated_by_conditions_not_by_groups(scan: Scan) -> None:
    count = (AggregateCall("n#9", "count", (), LONG),)
    few = Filter(scan, EQUAL)
    grouped = Aggregate(few, (NamedExpr("id#1", ID),), count)
    other = replace(scan, predicate=LESS)
    key = (JoinKey(ID, ID),)
    shares: list[tuple[LogicalPlan, float]] = [
        (scan, 1),
        (few, 0.1),
        (other, 0.25),
        (Project(few, (NamedExpr("id#1", ID),)), 0.1),
        (grouped, 0.1),
        (Join(few, other, JoinKind.INNER, key), 0.025),
        (Join(few, other, JoinKind.SEMI, key), 0.1),
        (Join(few, other, JoinKind.ANTI, key), 1),
        (Limit(few, 5), 1),
        (Union((few, few)), 1),
        (Foreign(0, (("x#5", LONG),)), 1),
    ]
    for plan, expected in shares:
        assert kept_by_keys(plan, Facts(True, COSTS), COSTS) == pytest.approx(expected), plan


def test_bytes_are_those_of_the_columns_types(scan: Scan) -> None:
    costs = replace(COSTS, number_bytes=4, string_bytes=6)
    assert estimated_bytes(Filter(scan, LESS), Facts(True, COSTS), costs) == 250 * (4 + 6)
    only_id = Project(scan, (NamedExpr("id#1", ID),))
    assert estimated_bytes(only_id, Facts(True, COSTS), costs) == 1000 * 4


def test_a_join_builds_the_side_that_is_estimated_smaller(scan: Scan, tmp_path: Path) -> None:
    other = _scan(tmp_path / "other", 600, 11)
    key = JoinKey(ID, Column("id#11", LONG))
    tree = Aggregate(
        Join(Filter(scan, LESS), other, JoinKind.INNER, (key,)), (), (AggregateCall("n#9", "count", (), LONG),)
    )
    assert "HashJoin: inner, id#11 = id#1" in explain(tree, "driver", kept_by_range=0.25)
    assert "HashJoin: inner, id#1 = id#11" in explain(tree, "driver", kept_by_range=0.75)


def test_the_other_side_is_read_by_the_keys_of_one_that_is_smaller_by_a_factor(scan: Scan, tmp_path: Path) -> None:
    other = _scan(tmp_path / "other", 3000, 11)
    key = JoinKey(ID, Column("id#11", LONG))
    tree = Aggregate(Join(scan, other, JoinKind.LEFT, (key,)), (), (AggregateCall("n#9", "count", (), LONG),))
    assert "join_filters=[id#11]" in explain(tree, "driver", min_held_pruning=2)
    assert "join_filters" not in explain(tree, "driver", min_held_pruning=4)


def test_a_build_side_is_exchanged_where_its_bytes_are_estimated_too_many(scan: Scan, tmp_path: Path) -> None:
    other = _scan(tmp_path / "other", 600, 11)
    tree = Aggregate(
        Join(scan, other, JoinKind.INNER, (JoinKey(ID, Column("id#11", LONG)),)),
        (),
        (AggregateCall("n#9", "count", (), LONG),),
    )
    limit = EXECUTORS.number_bytes * 600
    assert "PartitionedJoin" not in explain(tree, broadcast_bytes=limit)
    assert "PartitionedJoin" in explain(tree, broadcast_bytes=limit, number_bytes=EXECUTORS.number_bytes + 1)
