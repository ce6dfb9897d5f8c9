from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from sundog.expr.nodes import Column, Compare, CompareOp, Literal
from sundog.operators.context import TaskContext
from sundog.operators.filter import FilterOperator, keep_rows
from sundog.plan.costs import DRIVER

SCHEMA = pa.schema([("x", pa.int64()), ("s", pa.string())])
ABOVE_TWO = Compare(CompareOp.GT, Column("x", pa.int64()), Literal(2, pa.int64()))


def batch(*xs):
    return pa.record_batch([pa.array(xs, pa.int64()), pa.array([str(x) for x in xs])], schema=SCHEMA)


def test_keeps_rows_for_which_it_is_true_and_counts_the_rest():
    operator = pickle.loads(pickle.dumps(FilterOperator(SCHEMA, ABOVE_TWO, DRIVER)))
    context = TaskContext()
    batches = [batch(1, 3, None, 5), batch(), batch(0), batch(7, 8)]
    result = list(operator.run(iter(batches), context))
    assert [b.column("s").to_pylist() for b in result] == [["3", "5"], ["7", "8"]]
    assert all(b.schema.equals(SCHEMA) for b in result)
    assert context.metrics.get("rows_filtered") == 3


def test_no_batches():
    assert list(FilterOperator(SCHEMA, ABOVE_TWO, DRIVER).run(iter([]), TaskContext())) == []


def test_describe():
    assert FilterOperator(SCHEMA, ABOVE_TWO, DRIVER).describe() == "Filter: (x > 2)"


@pytest.mark.parametrize("rows_per_gathered_row", [1, DRIVER.rows_per_gathered_row, 10**9])
@pytest.mark.parametrize("every", [1, 3, 50, 10**6])
def test_keep_rows_few_and_many_gathered_or_by_mask(every, rows_per_gathered_row):
    rows = batch(*range(1000))
    mask = np.arange(1000) % every == 0
    costs = replace(DRIVER, rows_per_gathered_row=rows_per_gathered_row)
    assert keep_rows(rows, mask, costs).column("x").to_pylist() == list(range(0, 1000, every))
    assert keep_rows(rows, ~mask, costs).num_rows == 1000 - int(mask.sum())


def test_keep_rows_of_a_batch_without_columns():
    rows = batch(1, 2, 3).select([])
    assert keep_rows(rows, np.array([True, False, True]), DRIVER).num_rows == 2


@pytest.mark.parametrize("every", [1, 3, 500])
def test_rows_of_views_do_not_hold_on_to_the_bytes_of_others(every):
    texts = [None if number % 7 == 0 else f"a text of some length, number {number}" * 20 for number in range(3000)]
    views = pa.array(texts, pa.string_view())
    rows = pa.record_batch({"x": list(range(3000)), "s": views})
    kept = keep_rows(rows, np.arange(3000) % every == 0, DRIVER)
    assert kept.schema == rows.schema
    assert kept.column("s").to_pylist() == texts[::every]
    assert kept.column("x").to_pylist() == list(range(0, 3000, every))
    held = sum(buffer.size for buffer in kept.column("s").buffers()[1:] if buffer is not None)
    assert held <= 2 * sum(len(text) + 16 for text in texts[::every] if text is not None) + (1 << 16) + 16 * 3000
