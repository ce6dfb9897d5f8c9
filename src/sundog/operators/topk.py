"""`ORDER BY keys LIMIT k OFFSET n` over any stream of batches: at most k + n rows are ever kept.

Plain Spark does the same with one row object at a time in a priority queue. Here a batch is first cut down to the rows
that the worst kept row does not already beat, which is one vectorised comparison on the leading key; then to its own
k best; then it waits, and from time to time everything that waits is merged with what is kept.

    batch ──► drop rows past the threshold ──► k best of the batch ──► pending ─┬─ compact ──► kept (k rows, sorted)
                       ▲                                                         │
                       └──────────────── worst kept row ◄────────────────────────┘

Rows that tie in all keys keep the order in which they came. The same operator merges partial results: fed with the k
best of each part in the parts' order, it gives what one operator over everything would have given.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sundog.expr.evaluate import evaluate
from sundog.expr.nodes import Column
from sundog.expr.ordering import SortKey, select_k
from sundog.expr.printing import render_order
from sundog.expr.threshold import DynamicFilter, Threshold
from sundog.operators.base import Operator
from sundog.operators.context import TaskContext

_COMPACT_ROWS = 4096


@dataclass(frozen=True)
class TopKOperator(Operator):
    input_schema: pa.Schema
    order: tuple[SortKey, ...]
    limit: int
    offset: int = 0

    @property
    def schema(self) -> pa.Schema:
        return self.input_schema

    def run(self, batches: Iterator[pa.RecordBatch], context: TaskContext) -> Iterator[pa.RecordBatch]:
        best = BestRows(self.input_schema, self.order, self.limit + self.offset)
        for batch in batches:
            context.check_cancelled()
            dropped = best.push(batch)
            context.metrics.add("rows_pruned_dynamic_filter", dropped)
        context.metrics.add("threshold_updates", best.filter.generation)
        result = best.finish().slice(self.offset, self.limit)
        if result.num_rows:
            yield result

    def describe(self) -> str:
        skip = f", skip={self.offset}" if self.offset else ""
        return f"TopK: fetch={self.limit}{skip}, order=[{render_order(self.order)}]"


class BestRows:
    """The k best of all rows pushed so far. Belongs to one task; `filter` may be looked at from outside."""

    def __init__(self, schema: pa.Schema, order: tuple[SortKey, ...], k: int) -> None:
        self._schema = schema
        self._order = order
        self._k = k
        self._keys = _key_columns(schema, order)
        self._held_schema = pa.schema([*schema, *(field for field in self._keys if field.name not in schema.names)])
        self._kept = _empty(self._held_schema)
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = 0
        self.filter = DynamicFilter(order)

    def push(self, batch: pa.RecordBatch) -> int:
        """Take the batch in; returns how many of its rows the threshold dropped."""
        if batch.num_rows == 0 or self._k == 0:
            return 0
        rows = self._with_keys(batch)
        mask = self.filter.snapshot().keep_mask(rows.column(self._keys[0].name), ties=len(self._order) > 1)
        dropped: int = 0
        if mask is not None:
            dropped = rows.num_rows - int(np.count_nonzero(mask))
            if dropped == rows.num_rows:
                return dropped
            if dropped:
                rows = rows.filter(pa.array(mask))
        if rows.num_rows > self._k:
            chosen = np.sort(self._select(rows))
            rows = rows.take(pa.array(chosen))
        self._pending.append(rows)
        self._pending_rows += rows.num_rows
        if self._pending_rows >= max(self._k, _COMPACT_ROWS) or self._kept.num_rows < self._k <= self._pending_rows:
            self._compact()
        return dropped

    def finish(self) -> pa.RecordBatch:
        """The k best rows in order."""
        self._compact()
        return self._kept.select(self._schema.names)

    def _with_keys(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        extra = [
            evaluate(key.expr, batch)
            for key, field in zip(self._order, self._keys, strict=True)
            if field.name not in self._schema.names
        ]
        return pa.RecordBatch.from_arrays([*batch.columns, *extra], schema=self._held_schema)

    def _select(self, rows: pa.RecordBatch) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return select_k([rows.column(field.name) for field in self._keys], self._order, self._k)

    def _compact(self) -> None:
        if not self._pending:
            return
        rows = pa.concat_batches([self._kept, *self._pending])
        self._pending, self._pending_rows = [], 0
        self._kept = rows.take(pa.array(self._select(rows)))
        if self._kept.num_rows == self._k:
            worst = Threshold.after_row(self._order, self._kept.column(self._keys[0].name), self._k - 1)
            self.filter.tighten(worst)


def _key_columns(schema: pa.Schema, order: tuple[SortKey, ...]) -> list[pa.Field]:
    """Where each key's values are held: in a column of the input, or in one of their own."""
    fields = []
    for number, key in enumerate(order):
        name = key.expr.name if isinstance(key.expr, Column) else f"key {number}"
        fields.append(pa.field(name, key.expr.dtype))
    return fields


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)
