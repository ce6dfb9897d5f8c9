"""The bounded top-k of a stream, whatever the cut into batches, against a stable sort of everything."""

from __future__ import annotations

import pickle
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sundog.expr.dynamic_filters.threshold import LiveThreshold
from sundog.expr.nodes import Arith, ArithOp, Column, EvalMode, Literal
from sundog.expr.ordering import SortKey
from sundog.operators.context import TaskCancelled, TaskContext
from sundog.operators.topk.topk import BestRows, TopKOperator
from sundog.plan.costs import DRIVER
from tests.operators.reference import first_rows, same_rows
from tests.oracle.batches import ALL_TYPES, record_batches

LONG = pa.int64()


@st.composite
def streams(draw):
    types = draw(st.lists(st.sampled_from(ALL_TYPES), min_size=1, max_size=3))
    schema = pa.schema([(f"c{i}", dtype) for i, dtype in enumerate(types)])
    batch = draw(record_batches(schema, max_size=80))
    order = tuple(
        SortKey(Column(f"c{i}", dtype), draw(st.booleans()), draw(st.booleans())) for i, dtype in enumerate(types[:2])
    )
    cuts = sorted(draw(st.lists(st.integers(0, batch.num_rows), max_size=6)))
    bounds = [0, *cuts, batch.num_rows]
    parts = [batch.slice(a, b - a) for a, b in pairwise(bounds)]
    return batch, parts, order


@settings(max_examples=120, deadline=None)
@given(streams(), st.integers(0, 20), st.integers(0, 10))
def test_equals_a_stable_sort(stream, limit, offset):
    batch, parts, order = stream
    operator = pickle.loads(pickle.dumps(TopKOperator(batch.schema, order, limit, offset, costs=DRIVER)))
    result = list(operator.run(iter(parts), TaskContext()))
    expected = first_rows(batch, order, limit, offset)
    assert len(result) == (1 if expected.num_rows else 0)
    if result:
        assert same_rows(result[0], expected)


@settings(max_examples=50, deadline=None)
@given(streams(), st.integers(1, 20), st.integers(0, 5))
def test_merging_partial_results_is_the_same_as_one_operator(stream, limit, offset):
    batch, parts, order = stream
    partial = TopKOperator(batch.schema, order, limit + offset, costs=DRIVER)
    results = [out for part in parts for out in partial.run(iter([part]), TaskContext())]
    final = list(TopKOperator(batch.schema, order, limit, offset, costs=DRIVER).run(iter(results), TaskContext()))
    expected = first_rows(batch, order, limit, offset)
    assert same_rows(final[0], expected) if final else expected.num_rows == 0


def rows(*xs):
    return pa.record_batch([pa.array(xs, LONG)], names=["x"])


def test_sort_by_an_expression_that_is_no_column():
    modulo = Arith(ArithOp.MOD, Column("x", LONG), Literal(10, LONG), LONG, EvalMode.LEGACY)
    operator = TopKOperator(rows(1).schema, (SortKey(modulo, descending=True),), 3, costs=DRIVER)
    (result,) = operator.run(iter([rows(10, 29, 31), rows(48, 9)]), TaskContext())
    assert result.to_pydict() == {"x": [29, 9, 48]}


def test_the_threshold_drops_rows_before_they_are_looked_at():
    context = TaskContext()
    operator = TopKOperator(rows(1).schema, (SortKey(Column("x", LONG)),), 2, costs=DRIVER)
    list(operator.run(iter([rows(1, 2, 3), rows(2, 3, 4), rows(0, 9)]), context))
    assert context.metrics.get("rows_pruned_dynamic_filter") == 4
    assert context.metrics.get("threshold_updates") == 2


def test_large_k_is_merged_from_time_to_time_only():
    order = (SortKey(Column("x", LONG)),)
    operator = TopKOperator(rows(1).schema, order, 5000, costs=DRIVER)
    batches = [rows(*range(start, start + 1000)) for start in range(20_000, 0, -1000)]
    (result,) = operator.run(iter(batches), TaskContext())
    assert result.column(0).to_pylist() == list(range(1000, 6000))


def test_ties_can_be_settled_by_position_whatever_the_order_of_arrival():
    schema = pa.schema([("x", LONG), ("at", LONG)])
    order = (SortKey(Column("x", LONG)),)
    best = BestRows(schema, order, ["x"], 2, LiveThreshold(order), DRIVER, ["at"])
    for at in (9, 3, 5):
        best.push(pa.record_batch([pa.array([7]), pa.array([at])], schema=schema))
    assert best.finish().column("at").to_pylist() == [3, 5]
    assert best.filter.snapshot().position == (5,)


def test_cancellation():
    context = TaskContext()
    context.cancelled.set()
    with pytest.raises(TaskCancelled):
        list(TopKOperator(rows(1).schema, (SortKey(Column("x", LONG)),), 2, costs=DRIVER).run(iter([rows(1)]), context))


def test_describe():
    operator = TopKOperator(rows(1).schema, (SortKey(Column("x", LONG), True, False),), 5, 2, costs=DRIVER)
    assert operator.describe() == "TopK: fetch=5, skip=2, order=[x DESC NULLS LAST]"
