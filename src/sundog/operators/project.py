"""`SELECT expressions`: a new batch of as many rows, one column per expression."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from sundog.expr.calls import NamedExpr
from sundog.expr.evaluate import evaluate
from sundog.expr.nodes import Column
from sundog.expr.printing import render
from sundog.operators.base import Operator
from sundog.operators.context import TaskContext


@dataclass(frozen=True)
class ProjectOperator(Operator):
    exprs: tuple[NamedExpr, ...]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(named.name, named.expr.dtype) for named in self.exprs])

    def run(self, batches: Iterator[pa.RecordBatch], context: TaskContext) -> Iterator[pa.RecordBatch]:
        schema = self.schema
        for batch in batches:
            yield self._project(batch, schema)

    def _project(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        if not self.exprs:
            return batch.select([])
        arrays = [
            batch.column(named.expr.name) if isinstance(named.expr, Column) else evaluate(named.expr, batch)
            for named in self.exprs
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    name = "Project"

    @property
    def details(self) -> str:
        parts = [
            named.name if named.is_passthrough else f"{render(named.expr)} AS {named.name}" for named in self.exprs
        ]
        return f"[{', '.join(parts)}]"
