"""`ORDER BY` without LIMIT, over rows that are on the driver already: the last step of a result that the user asked
for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from sundog.expr.evaluate import evaluate
from sundog.expr.ordering import SortKey, sort_indices
from sundog.expr.printing import render_order
from sundog.operators.base import Operator
from sundog.operators.context import TaskContext


@dataclass(frozen=True)
class SortOperator(Operator):
    input_schema: pa.Schema
    order: tuple[SortKey, ...]

    @property
    def schema(self) -> pa.Schema:
        return self.input_schema

    def run(self, batches: Iterator[pa.RecordBatch], context: TaskContext) -> Iterator[pa.RecordBatch]:
        rows = list(batches)
        context.check_cancelled()
        if rows:
            whole = pa.concat_batches(rows)
            keys = [evaluate(key.expr, whole) for key in self.order]
            yield whole.take(pa.array(sort_indices(keys, self.order)))

    def describe(self) -> str:
        return f"Sort: [{render_order(self.order)}]"
