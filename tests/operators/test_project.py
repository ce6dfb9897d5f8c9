from __future__ import annotations

import pyarrow as pa

from sundog.expr.calls import NamedExpr
from sundog.expr.nodes import Arith, ArithOp, Column, Literal
from sundog.operators.context import TaskContext
from sundog.operators.project import ProjectOperator

LONG = pa.int64()
X = Column("x", LONG)
DOUBLED = NamedExpr("d", Arith(ArithOp.ADD, X, X, LONG))
ROWS = pa.record_batch([pa.array([1, None, 3]), pa.array(["a", "b", "c"])], names=["x", "s"])


def project(*exprs, batches=(ROWS,)):
    return list(ProjectOperator(tuple(exprs)).run(iter(batches), TaskContext()))


def test_computes_renames_and_passes_through():
    (result,) = project(DOUBLED, NamedExpr("x", X), NamedExpr("y", X), NamedExpr("one", Literal(1, LONG)))
    assert result.to_pydict() == {"d": [2, None, 6], "x": [1, None, 3], "y": [1, None, 3], "one": [1, 1, 1]}


def test_no_columns_keep_their_rows():
    (result,) = project()
    assert (result.num_rows, result.num_columns) == (3, 0)


def test_empty_input():
    assert project(DOUBLED, batches=()) == []
    (result,) = project(DOUBLED, batches=(ROWS.slice(0, 0),))
    assert result.num_rows == 0
    assert result.schema.equals(ProjectOperator((DOUBLED,)).schema)


def test_describe():
    assert ProjectOperator((NamedExpr("x", X), DOUBLED)).describe() == "Project: [x, (x + x) AS d]"
