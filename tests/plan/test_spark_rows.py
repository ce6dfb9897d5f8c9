"""Rows that only Spark can read: when they are taken, by which figures, and what the plan is. Without Spark."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from sundog.config import Settings
from sundog.expr.calls import AggregateCall, Bound, BoundKind, Frame, NamedExpr, WindowCall
from sundog.expr.nodes import Column, Expr
from sundog.expr.ordering import SortKey
from sundog.plan.costs import DRIVER, EXECUTORS
from sundog.plan.explain import render_plan
from sundog.plan.logical import Aggregate, Foreign, LogicalPlan, RowsEstimate, Window
from sundog.plan.lower.planner import Planner, Rows, Step
from sundog.plan.rules.order import optimize
from sundog.plan.sites import Sites
from sundog.plan.spark_rows import FirstKeys, why_left_to_spark
from sundog.plan.stages import Place, Site
from sundog.support import Code, Declined

LONG = pa.int64()
KEY, VALUE = Column("k#1", LONG), Column("v#2", LONG)
HERE = Bound(BoundKind.CURRENT_ROW)
MILLION = 1_000_000


def rows_of_spark(rows: float | None, counted: bool = True, moves_rows: bool = False) -> Foreign:
    estimate = None if rows is None else RowsEstimate(rows, counted=counted)
    return Foreign(0, (("k#1", LONG), ("v#2", LONG)), "InMemoryRelation", estimate, moves_rows)


def grouped(child: Foreign, *keys: Column) -> Aggregate:
    named = tuple(NamedExpr(key.name, key) for key in keys)
    return Aggregate(child, named, (AggregateCall("sum#3", "sum", (VALUE,), LONG),))


def windowed(child: Foreign, *keys: Expr, start: Bound) -> Window:
    call = WindowCall("sum#3", "sum", (VALUE,), LONG, Frame("rows", start, HERE))
    return Window(child, (call,), keys, (SortKey(VALUE, False, True),))


def sliding(child: Foreign, *keys: Expr, rows: int = 100) -> Window:
    return windowed(child, *keys, start=Bound(BoundKind.OFFSET, -rows))


def running(child: Foreign, *keys: Expr) -> Window:
    return windowed(child, *keys, start=Bound(BoundKind.UNBOUNDED_PRECEDING))


def lowered(tree: LogicalPlan, first: np.ndarray, memory: int = 1 << 30) -> str:
    """The plan on executors, where the keys of the first rows are these."""
    executors = Site(Place.EXECUTORS, 2, memory, EXECUTORS)
    planner = Planner(optimize(tree), Settings(), Sites(Site(Place.DRIVER, 2, memory, DRIVER), lambda: executors))

    def answer(step: Step) -> Rows | None:
        return [pa.record_batch({"key": pa.array(first, LONG)})] if step.is_probe else None

    return render_plan(planner.plan(answer))


MANY = np.random.default_rng(1).integers(0, 2 * MILLION, 1 << 15)
FEW = np.arange(1 << 15) % 1000


def test_many_groups_are_exchanged() -> None:
    assert (
        lowered(grouped(rows_of_spark(20 * MILLION), KEY), MANY)
        == """\
Aggregate: mode=final, keys=[k#1]
  HashExchange: keys=[k#1]
    Aggregate: mode=partial, keys=[k#1], aggregates=[sum(v#2) AS sum#3]
      SparkInput: InMemoryRelation, columns=[k#1, v#2]"""
    )


def test_partitions_of_a_window_are_exchanged() -> None:
    assert (
        lowered(sliding(rows_of_spark(MILLION), KEY), FEW)
        == """\
CountOutput: as many rows as went in
  Window: [sum(v#2) ROWS BETWEEN -100 AND CURRENT ROW AS sum#3]
    Sort: [k#1, v#2 ASC NULLS FIRST]
      HashExchange: keys=[k#1]
        SparkInput: InMemoryRelation, columns=[k#1, v#2]"""
    )


@pytest.mark.parametrize(
    ("shape", "first", "sentence"),
    [
        (
            grouped(rows_of_spark(20 * MILLION), KEY),
            FEW,
            "some 1,000 keys, about 20,000,000 rows of Spark's, each 330 ns",
        ),
        (sliding(rows_of_spark(MILLION), KEY), MANY, "won, 1 needed"),
    ],
)
def test_the_first_rows_may_show_that_it_does_not_pay(shape: LogicalPlan, first: np.ndarray, sentence: str) -> None:
    with pytest.raises(Declined) as declined:
        lowered(shape, first)
    (reason,) = declined.value.reasons
    assert reason.code is Code.COST
    assert sentence in reason.sentence


def test_rows_of_one_key_must_fit_the_memory_of_a_task() -> None:
    for counted, memory in ((True, 64 << 20), (False, 256 << 20)):  # a guess may be four times too low
        taken = sliding(rows_of_spark(MILLION, counted), KEY)
        assert "Window" in lowered(taken, FEW, memory)
        with pytest.raises(Declined, match="may not fit a task's memory"):
            lowered(taken, np.zeros(1 << 15, np.int64), memory)


@pytest.mark.parametrize(
    ("shape", "sentence"),
    [
        (grouped(rows_of_spark(20 * MILLION), KEY), None),
        (grouped(rows_of_spark(MILLION), KEY), "about 1,000,000 rows of Spark's, each 330 ns to hand over"),
        (grouped(rows_of_spark(100 * MILLION)), "s lost"),
        (grouped(rows_of_spark(None), KEY), "Spark does not know how many rows there are"),
        (grouped(rows_of_spark(20 * MILLION, moves_rows=True), KEY), "how many keys rows of Spark's have"),
        (sliding(rows_of_spark(MILLION), KEY), None),
        (sliding(rows_of_spark(MILLION), KEY, rows=10), "s won, 1 needed"),
        (running(rows_of_spark(MILLION), KEY), "s won, 1 needed"),
        (running(rows_of_spark(20 * MILLION), KEY), None),
        (running(rows_of_spark(None)), None),
    ],
)
def test_what_is_left_to_spark_before_anything_is_read(shape: LogicalPlan, sentence: str | None) -> None:
    reason = why_left_to_spark(shape, EXECUTORS)
    if sentence is None:
        assert reason is None
    else:
        assert reason is not None
        assert sentence in reason.sentence
        assert reason.code is Code.COST


def test_conditions_are_taken_to_drop_rows() -> None:
    all_rows = rows_of_spark(6 * MILLION)
    some = replace(all_rows, estimate=RowsEstimate(6 * MILLION, conditions=2, counted=True))
    assert why_left_to_spark(grouped(all_rows, KEY), EXECUTORS) is None
    assert "about 1,500,000 rows" in str(why_left_to_spark(grouped(some, KEY), EXECUTORS))


@pytest.mark.parametrize(("distinct", "rows"), [(100, 1 << 15), (9_000, 1 << 15), (400_000, 1 << 15)])
def test_the_keys_of_all_rows_are_told_from_the_first(distinct: int, rows: int) -> None:
    keys = np.random.default_rng(7).integers(0, distinct, rows)
    found = FirstKeys.of(keys.tolist())
    assert found is not None
    assert found.distinct == pytest.approx(distinct, rel=0.2)
    assert found.largest_share == np.bincount(keys).max() / rows
    assert FirstKeys.of([]) is None
