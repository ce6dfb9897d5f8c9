"""A record batch -> the key and argument vectors of an aggregation.

An expression that several aggregates share is evaluated once. Sums of decimals are of one word a value where that is
enough (`columns/short_decimals.py`). FILTER (WHERE ...) shields its argument: an argument that might raise is evaluated
for the rows that pass only, as Spark does in a GROUP BY.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sundog.columns.arrow import batch_in_plain_form, from_arrow, in_plain_form
from sundog.columns.short_decimals import ShortDecimals
from sundog.columns.vectors import Bytes, Ints, Vector
from sundog.expr.calls import AggregateCall, NamedExpr
from sundog.expr.evaluate import evaluate, evaluate_where, predicate_mask
from sundog.expr.nodes import Column, Expr
from sundog.expr.raising import can_raise
from sundog.functions.table import adds_short_decimals
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
    short = ShortDecimals(batch)
    known: dict[Expr, Vector] = {}
    plain: list[pa.RecordBatch] = []  # the batch for `evaluate`, made when it is needed

    def plain_batch() -> pa.RecordBatch:
        if not plain:
            plain.append(_with_wide_decimals(batch))
        return plain[0]

    def vector(expr: Expr, is_summed: bool = False) -> Vector:
        if expr not in known:
            found = short.vector(expr) if is_summed else None
            if found is None:
                array = batch.column(expr.name) if isinstance(expr, Column) else evaluate(expr, plain_batch())
                found = from_arrow(array)
            known[expr] = found
        return known[expr]

    def arguments(call: AggregateCall) -> Arguments:
        is_summed = adds_short_decimals(call)
        if call.filter is None:
            return Arguments([vector(arg, is_summed) for arg in call.args])
        passing = predicate_mask(call.filter, plain_batch())
        args = [
            from_arrow(evaluate_where(arg, plain_batch(), passing)) if can_raise(arg) else vector(arg, is_summed)
            for arg in call.args
        ]
        return Arguments(args, passing.view(np.uint8))

    return Rows(batch.num_rows, [vector(key.expr) for key in keys], [arguments(call) for call in calls])


def _with_wide_decimals(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with decimals of two words, as `evaluate` takes them."""
    if not any(pa.types.is_decimal64(column.type) for column in batch.columns):
        return batch
    columns = [in_plain_form(column) if pa.types.is_decimal64(column.type) else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def sized_batches(batches: Iterator[pa.RecordBatch], costs: GroupingCosts) -> Iterator[pa.RecordBatch]:
    """The same rows, in their order, in batches large enough that the calls cost less than the rows, and small enough
    for the caches. Few rows of long strings count as a large batch."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        if batch.num_rows < costs.min_batch_rows:
            waiting.append(batch_in_plain_form(batch))  # as stored, each batch has another form
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
