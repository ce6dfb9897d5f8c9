"""Expand puts out every row once for each projection, batch by batch."""

from __future__ import annotations

import pyarrow as pa

from sundog.expr.nodes import Column, Literal
from sundog.operators.context import TaskContext
from sundog.operators.expand import ExpandOperator

S, N = Column("s", pa.string()), Column("n", pa.int64())
ROLLUP = ((N, S, Literal(0, pa.int64())), (N, Literal(None, pa.string()), Literal(1, pa.int64())))
OUTPUT = pa.schema([("n", pa.int64()), ("s2", pa.string()), ("id", pa.int64())])


def rows(operator: ExpandOperator, *batches: pa.RecordBatch) -> list[dict[str, object]]:
    found = list(operator.run(iter(batches), TaskContext()))
    return [row for batch in found for row in batch.to_pylist()]


def test_rows_are_multiplied() -> None:
    batch = pa.record_batch({"s": ["a", "b"], "n": [1, 2]})
    assert rows(ExpandOperator(ROLLUP, OUTPUT), batch) == [
        {"n": 1, "s2": "a", "id": 0},
        {"n": 2, "s2": "b", "id": 0},
        {"n": 1, "s2": None, "id": 1},
        {"n": 2, "s2": None, "id": 1},
    ]


def test_dictionary_columns_come_out_plain() -> None:
    batch = pa.record_batch({"s": pa.array(["a", "a"]).dictionary_encode(), "n": [1, 2]})
    found = list(ExpandOperator(ROLLUP, OUTPUT).run(iter([batch]), TaskContext()))
    assert {batch.schema for batch in found} == {OUTPUT}


def test_rows_without_columns_are_still_counted() -> None:
    batch = pa.record_batch({"s": ["a", "b"], "n": [1, 2]})
    found = list(ExpandOperator(((), (), ()), pa.schema([])).run(iter([batch]), TaskContext()))
    assert sum(batch.num_rows for batch in found) == 6


def test_describe() -> None:
    assert ExpandOperator(ROLLUP, OUTPUT).describe() == "Expand: [[n, s, 0], [n, NULL, 1]] AS [n, s2, id]"
