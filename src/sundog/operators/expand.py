"""`Expand`: each row once for each of several projections. Catalyst plans ROLLUP, CUBE and GROUPING SETS so, and
DISTINCT over several lists of arguments, and groups the multiplied rows in one pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from sundog.expr.evaluate import evaluate
from sundog.expr.nodes import Expr
from sundog.expr.printing import render
from sundog.operators.base import Operator
from sundog.operators.context import TaskContext


@dataclass(frozen=True)
class ExpandOperator(Operator):
    projections: tuple[tuple[Expr, ...], ...]
    output: pa.Schema

    @property
    def schema(self) -> pa.Schema:
        return self.output

    def run(self, batches: Iterator[pa.RecordBatch], context: TaskContext) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for exprs in self.projections:
                context.check_cancelled()
                yield self._project(exprs, batch)

    def _project(self, exprs: tuple[Expr, ...], batch: pa.RecordBatch) -> pa.RecordBatch:
        if not exprs:
            return batch.select([])
        return pa.RecordBatch.from_arrays([_plain(evaluate(expr, batch)) for expr in exprs], schema=self.output)

    name = "Expand"

    @property
    def details(self) -> str:
        lists = ", ".join(f"[{', '.join(map(render, exprs))}]" for exprs in self.projections)
        return f"[{lists}] AS [{', '.join(self.output.names)}]"


def _plain(array: pa.Array) -> pa.Array:
    """Without dictionaries: one projection passes a column on that another replaces by NULL, and theirs would
    differ."""
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
