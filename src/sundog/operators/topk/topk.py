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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from sundog.expr.buffers import Indices
from sundog.expr.dynamic_filters.threshold import LiveThreshold, Threshold
from sundog.expr.evaluate import evaluate
from sundog.expr.nodes import Column
from sundog.expr.ordering import SortKey, select_k
from sundog.expr.printing import render_order
from sundog.operators.base import Operator
from sundog.operators.context import TaskContext
from sundog.operators.costs import TopKCosts


@dataclass(frozen=True)
class TopKOperator(Operator):
    input_schema: pa.Schema
    order: tuple[SortKey, ...]
    limit: int
    offset: int = 0
    costs: TopKCosts = field(kw_only=True)

    @property
    def schema(self) -> pa.Schema:
        return self.input_schema

    def run(self, batches: Iterator[pa.RecordBatch], context: TaskContext) -> Iterator[pa.RecordBatch]:
        names = [_key_name(number, key) for number, key in enumerate(self.order)]
        computed = [
            (name, key.expr) for name, key in zip(names, self.order, strict=True) if name not in self.schema.names
        ]
        held = pa.schema([*self.schema, *((name, expr.dtype) for name, expr in computed)])
        best = BestRows(held, self.order, names, self.limit + self.offset, LiveThreshold(self.order), self.costs)
        for batch in batches:
            context.check_cancelled()
            if batch.num_rows:
                keys = [evaluate(expr, batch) for _, expr in computed]
                rows = pa.RecordBatch.from_arrays([*batch.columns, *keys], schema=held)
                context.metrics.add("rows_pruned_dynamic_filter", best.push_filtered(rows))
        context.metrics.add("threshold_updates", best.filter.generation)
        result = best.finish().slice(self.offset, self.limit)
        if result.num_rows:
            yield result.select(self.schema.names)

    def describe(self) -> str:
        skip = f", skip={self.offset}" if self.offset else ""
        return f"TopK: fetch={self.limit}{skip}, order=[{render_order(self.order)}]"


class BestRows:
    """The k best of all rows pushed so far, and the filter that tells what no longer can be one of them.

    `key_columns` name the columns of `schema` that hold the order's values. Ties are settled by the integer columns
    `position` if there are any (then rows may come in any order), else by the order of arrival. Used by one thread.
    """

    def __init__(
        self,
        schema: pa.Schema,
        order: Sequence[SortKey],
        key_columns: Sequence[str],
        k: int,
        live: LiveThreshold,
        costs: TopKCosts,
        position: Sequence[str] = (),
    ) -> None:
        self.filter = live
        self._order = tuple(order)
        self._keys = tuple(key_columns)
        self._position = tuple(position)
        self._full_order = (*order, *(SortKey(Column(name, schema.field(name).type)) for name in position))
        self._k = k
        self._costs = costs
        self._kept = pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = 0

    def push_filtered(self, rows: pa.RecordBatch) -> int:
        """Take in what the filter lets through, at most k rows of it; returns how many rows the filter dropped."""
        mask = self.filter.snapshot().passing(rows.column(self._keys[0]), ties=len(self._order) > 1)
        dropped = 0 if mask is None else rows.num_rows - int(np.count_nonzero(mask))
        if mask is not None and dropped:
            rows = rows.filter(pa.array(mask))
        if rows.num_rows > self._k:
            rows = rows.take(pa.array(np.sort(self._select(rows))))
        self.push(rows)
        return dropped

    def push(self, rows: pa.RecordBatch) -> None:
        """Take in all of the rows."""
        if rows.num_rows == 0 or self._k == 0:
            return
        self._pending.append(rows)
        self._pending_rows += rows.num_rows
        filling = self._kept.num_rows < self._k
        if self._k <= self._costs.topk_eager_rows or self._pending_rows >= self._k // 2 or filling:
            self._compact()

    def finish(self) -> pa.RecordBatch:
        """The k best rows in order."""
        self._compact()
        return self._kept

    def _select(self, rows: pa.RecordBatch) -> Indices:
        return select_k([rows.column(name) for name in (*self._keys, *self._position)], self._full_order, self._k)

    def _compact(self) -> None:
        if not self._pending:
            return
        rows = pa.concat_batches([self._kept, *self._pending])
        self._pending, self._pending_rows = [], 0
        self._kept = rows.take(pa.array(self._select(rows)))
        if self._kept.num_rows == self._k:
            last = self._k - 1
            position = tuple(self._kept.column(name)[last].as_py() for name in self._position) or None
            self.filter.tighten(Threshold.after_row(self._order, self._kept.column(self._keys[0]), last, position))


def _key_name(number: int, key: SortKey) -> str:
    """Where a key's values are held: in a column of the input, or in one of their own."""
    return key.expr.name if isinstance(key.expr, Column) else f"#key {number}"
