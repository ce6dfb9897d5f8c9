"""`ORDER BY keys LIMIT k OFFSET n` over any stream of batches: at most k + n rows are ever kept.

Plain Spark does the same row by row with a priority queue. Here a batch is first cut down to the rows that can still
beat the worst kept row, by one vectorised comparison of the leading key, and then to its own k best. These are
collected, and from time to time merged with the kept rows.

    batch ──► drop rows past the threshold ──► k best of the batch ──► pending ─┬─ compact ──► kept (k rows, sorted)
                       ▲                                                         │
                       └──────────────── worst kept row ◄────────────────────────┘

Rows that tie in all keys keep the order in which they came. The same operator merges partial results: given the k best
of each part in the parts' order, it returns the same rows as one operator over all rows.
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

    name = "TopK"

    @property
    def details(self) -> str:
        return topk_text(self.order, self.limit, self.offset)


def topk_text(order: tuple[SortKey, ...], limit: int, offset: int) -> str:
    """The order and limit of a top-k, as a line of explain."""
    skip = f", skip={offset}" if offset else ""
    return f"fetch={limit}{skip}, order=[{render_order(order)}]"


class BestRows:
    """The k best of all rows pushed so far, and the filter that drops rows that can no longer be among them.

    `key_columns` name the columns of `schema` that hold the order's values. Ties are broken by the integer columns
    `position`, if there are any, and rows may then come in any order; else by the order of arrival. For one thread.
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
        """Take at most k of the rows that pass the filter; returns how many rows the filter dropped."""
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
        if (
            self._k <= self._costs.topk_eager_rows
            or self._pending_rows >= self._k * self._costs.topk_pending_share
            or filling
        ):
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
    """The column that holds a key's values: a column of the input, or one of their own."""
    return key.expr.name if isinstance(key.expr, Column) else f"#key {number}"
