"""A whole sort, whatever the cut into batches, against a stable sort by the reference."""

from __future__ import annotations

import pickle

import pyarrow as pa
from hypothesis import given, settings

from sundog.expr.nodes import Arith, ArithOp, Column, EvalMode, Literal
from sundog.expr.ordering import SortKey
from sundog.operators.context import TaskContext
from sundog.operators.window.window_operator import SortRange
from tests.operators.reference import first_rows, same_rows
from tests.operators.test_topk import rows, streams

LONG = pa.int64()


@settings(max_examples=120, deadline=None)
@given(streams())
def test_equals_a_stable_sort(stream):
    batch, parts, order = stream
    operator = pickle.loads(pickle.dumps(SortRange(batch.schema, (), order)))
    result = pa.Table.from_batches(operator.run(iter(parts), TaskContext()), batch.schema).combine_chunks()
    (result,) = result.to_batches() or [batch.slice(0, 0)]
    assert same_rows(result, first_rows(batch, order, batch.num_rows, 0))


def test_nothing_in_nothing_out():
    assert list(SortRange(rows().schema, (), (SortKey(Column("x", LONG)),)).run(iter([]), TaskContext())) == []


def test_sort_by_an_expression_that_is_no_column():
    modulo = Arith(ArithOp.MOD, Column("x", LONG), Literal(10, LONG), LONG, EvalMode.LEGACY)
    operator = SortRange(rows(1).schema, (), (SortKey(modulo, descending=True),))
    (result,) = operator.run(iter([rows(10, 29, 31), rows(48, 9)]), TaskContext())
    assert result.to_pydict() == {"x": [29, 9, 48, 31, 10]}
    assert operator.describe() == "Sort: [(x % 10) DESC NULLS FIRST]"
