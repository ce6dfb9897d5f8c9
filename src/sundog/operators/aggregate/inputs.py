"""A record batch -> the key and argument vectors of an aggregation.

An expression that several aggregates share is evaluated once. FILTER (WHERE ...) shields its argument: an argument that
might raise is evaluated for the rows that pass only, as Spark does in a GROUP BY.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sundog.columns.arrow import from_arrow, plain_text
from sundog.columns.vectors import Bytes, Ints, Vector
from sundog.expr.calls import AggregateCall, NamedExpr
from sundog.expr.evaluate import evaluate, evaluate_where, predicate_mask
from sundog.expr.nodes import Expr
from sundog.expr.raising import can_raise
from sundog.operators.costs import GroupingCosts


@dataclass(frozen=True, eq=False)
class Arguments:
    """The input of one aggregate call for some rows: its arguments, or partial states where it merges; and its
    FILTER."""

    vectors: Sequence[Vector]
    rows: Bytes | None = None
    merging: bool = False

    def take(self, rows: Ints) -> Arguments:
        passing = None if self.rows is None else self.rows.take(rows)
        return Arguments([vector.take(rows) for vector in self.vectors], passing, self.merging)

    def slice(self, start: int, end: int) -> Arguments:
        rows = None if self.rows is None else self.rows[start:end]
        return Arguments([vector.slice(start, end) for vector in self.vectors], rows, self.merging)


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows to be aggregated: their keys, and what each call takes."""

    length: int
    keys: list[Vector]
    calls: list[Arguments]

    def take(self, rows: Ints) -> Rows:
        return Rows(len(rows), [key.take(rows) for key in self.keys], [call.take(rows) for call in self.calls])

    def slice(self, start: int, end: int) -> Rows:
        keys = [key.slice(start, end) for key in self.keys]
        return Rows(end - start, keys, [call.slice(start, end) for call in self.calls])


def evaluate_rows(keys: tuple[NamedExpr, ...], calls: tuple[AggregateCall, ...], batch: pa.RecordBatch) -> Rows:
    known: dict[Expr, Vector] = {}

    def vector(expr: Expr) -> Vector:
        if expr not in known:
            known[expr] = from_arrow(evaluate(expr, batch))
        return known[expr]

    def arguments(call: AggregateCall) -> Arguments:
        if call.filter is None:
            return Arguments([vector(arg) for arg in call.args])
        passing = predicate_mask(call.filter, batch)
        args = [from_arrow(evaluate_where(arg, batch, passing)) if can_raise(arg) else vector(arg) for arg in call.args]
        return Arguments(args, passing.view(np.uint8))

    return Rows(batch.num_rows, [vector(key.expr) for key in keys], [arguments(call) for call in calls])


def sized_batches(batches: Iterator[pa.RecordBatch], costs: GroupingCosts) -> Iterator[pa.RecordBatch]:
    """The same rows, in their order, in batches large enough that the calls cost less than the rows, and small enough
    for the caches. Few rows of long strings count as a large batch."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        if batch.num_rows < costs.min_batch_rows:
            waiting.append(_with_plain_strings(batch))
            rows += batch.num_rows
            size += waiting[-1].nbytes
            if rows < costs.min_batch_rows and size < costs.max_joined_bytes:
                continue
            batch = pa.concat_batches(waiting)
            waiting, rows, size = [], 0, 0
        elif waiting:  # rows collected before this batch, which is large enough by itself
            yield pa.concat_batches(waiting)
            waiting, rows, size = [], 0, 0
        pieces = -(-batch.num_rows // costs.max_batch_rows)
        for piece in range(pieces):
            start, end = (batch.num_rows * at // pieces for at in (piece, piece + 1))
            yield batch.slice(start, end - start)
    if waiting:
        yield pa.concat_batches(waiting)


def _with_plain_strings(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Batches with plain strings: these are joined, and stored strings have another form in each batch."""
    arrays = [plain_text(column) for column in batch.columns]
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names) if arrays else batch
