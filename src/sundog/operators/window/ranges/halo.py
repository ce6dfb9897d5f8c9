"""Moves rows to their ranges, with the halo that frames reach, and drops the halo afterwards.

    ORDER BY t RANGE BETWEEN 5 PRECEDING AND CURRENT ROW, keys 0 .. 99 cut at 25, 50, 75

    range 0              [  0 .. 24 ]          25 rows
    range 1     [20..24 | 25 .. 49 ]           30 rows: 5 borrowed, 25 owned
    range 2     [45..49 | 50 .. 74 ]           30
    range 3     [70..74 | 75 .. 99 ]           30              115 rows routed, 15 of them halo; 100 come out

A borrowed row carries `__halo` and only what is needed of it, the order keys and the calls' inputs; its other columns
are NULL. Where a frame is wide and keys repeat, borrowed rows of one key are merged before they travel
(`halo_reduction.py`).

Invariant: every row is owned by exactly one range, so as many rows come out of `HaloDrop` as went in
(`check_row_accounting`), or the query fails: never a wrong answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sundog.errors import InternalError
from sundog.expr.calls import WindowCall
from sundog.expr.nodes import columns_of
from sundog.expr.ordering import SortKey
from sundog.expr.printing import render_order
from sundog.functions.framed import Longs
from sundog.kernels.windows.routing import group_borrowed
from sundog.metrics import Metrics
from sundog.operators.base import Operator, Partitioner
from sundog.operators.context import TaskContext
from sundog.operators.window.frames.range_columns import (
    HALO,
    ROW,
    RangeColumns,
    owned_span,
    parts_by_owner,
    picked_rows,
    runs_of,
)
from sundog.operators.window.ranges.halo_reduction import HaloReduction, is_reducible
from sundog.operators.window.ranges.routes import Routes, RowRanges, WordRanges

_ROWS_PER_TASK = 1 << 36  # row numbers of different tasks are this far apart; few bits, to share a word with the key


@dataclass(frozen=True)
class RangeRepartition(Partitioner):
    """Sends each row to its range and, as halo, to those that need it.

    `halo_columns` are what a borrowed row keeps; where no frame reaches out of a range there is no `__halo`. Where the
    order of equal keys shows, it must be the same in every range and every pass: `number_rows` adds `__row`, and
    `ordered` asks for batches in the order of the rows, which on threads costs nothing. `reduction` merges borrowed
    rows of one key.
    """

    input_schema: pa.Schema
    ranges: WordRanges | RowRanges
    halo_columns: tuple[str, ...] = ()
    number_rows: bool = False
    reduction: HaloReduction | None = None
    remark: str = ""  # for explain
    ordered: bool = False

    @property
    def partitions(self) -> int:  # type: ignore[override]
        return self.ranges.count

    @property
    def schema(self) -> pa.Schema:
        fields = [*self.input_schema]
        if self.ranges.has_halo:
            fields.append(pa.field(HALO, pa.bool_()))
        if self.number_rows:
            fields.append(pa.field(ROW, pa.int64()))
        return pa.schema([*fields, *(self.reduction.fields if self.reduction is not None else [])])

    def split(self, batches: Iterator[pa.RecordBatch], context: TaskContext) -> Iterator[tuple[int, pa.RecordBatch]]:
        schema = self.schema
        next_row = context.partition * _ROWS_PER_TASK
        for batch in batches:
            if not batch.num_rows:
                continue
            if self.number_rows:
                numbers = np.arange(next_row, next_row + batch.num_rows, dtype=np.int64)
                batch = batch.append_column(pa.field(ROW, pa.int64()), pa.array(numbers))
                next_row += batch.num_rows
            columns = RangeColumns(pa.Table.from_batches([batch]))
            keys = [columns.values(key.expr) for key in self.ranges.order_by]
            routes = self.ranges.routes(keys)
            yield from self._owned(batch, routes, schema)
            context.metrics.add("window_input_rows", batch.num_rows)
            context.metrics.add("rows_routed", batch.num_rows)
            if routes.copies:
                yield from self._borrowed(batch, keys, routes, schema, context)

    def _owned(self, batch: pa.RecordBatch, routes: Routes, schema: pa.Schema) -> Iterator[tuple[int, pa.RecordBatch]]:
        for number, owned in parts_by_owner(batch, routes.owners, self.ranges.count):
            if owned.schema != schema:
                owned = _fitted(dict(zip(batch.schema.names, owned.columns, strict=True)), schema, False)
            yield number, owned

    def _borrowed(
        self,
        batch: pa.RecordBatch,
        keys: Sequence[pa.Array],
        routes: Routes,
        schema: pa.Schema,
        context: TaskContext,
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        names = [name for name in batch.schema.names if name in self.halo_columns or name == ROW]
        narrow = batch.select(names)
        for number, rows in _borrowed_rows(routes, self.ranges.count):
            borrowed = picked_rows(narrow, rows)
            columns: dict[str, pa.Array] | None = None
            if self.reduction is not None and isinstance(self.ranges, WordRanges):
                columns = self.reduction.reduce(borrowed, self.ranges.words(keys[0].take(pa.array(rows))))
            if columns is None:
                columns = dict(zip(names, borrowed.columns, strict=True))
            result = _fitted(columns, schema, True)
            context.metrics.add("halo_rows", result.num_rows)
            context.metrics.add("rows_routed", result.num_rows)
            context.metrics.add("halo_rows_unreduced", len(rows))
            yield number, result

    def describe(self) -> str:
        reduced = ", reduced halo" if self.reduction is not None else ""
        order = render_order(self.ranges.order_by)
        return f"RangeRepartition: order=[{order}], ranges={self.ranges.count}{reduced}{self.remark}"


def _borrowed_rows(routes: Routes, count: int) -> Iterator[tuple[int, Longs]]:
    """The rows that each range needs and does not own."""
    starts, rows = np.zeros(count + 1, np.int64), np.empty(routes.copies, np.int64)
    group_borrowed(routes.owners, routes.firsts, routes.lasts, starts, rows)
    return runs_of(starts, rows)


def _fitted(columns: dict[str, pa.Array], schema: pa.Schema, halo: bool) -> pa.RecordBatch:
    """The columns under the schema; what is missing is NULL, and `__halo` says whose rows these are."""
    count = len(next(iter(columns.values()))) if columns else 0
    columns = columns | {HALO: pa.repeat(pa.scalar(halo), count)}
    arrays = [columns[field.name] if field.name in columns else pa.nulls(count, field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def halo_columns_of(calls: Sequence[WindowCall], order_by: Sequence[SortKey]) -> tuple[str, ...]:
    """The columns that a borrowed row must keep: keys, arguments and filters."""
    exprs = [key.expr for key in order_by]
    for call in calls:
        exprs += [*call.args, *([call.filter] if call.filter is not None else [])]
    return tuple(sorted(set().union(*(columns_of(expr) for expr in exprs))))


def reduction_of(calls: Sequence[WindowCall], order_by: Sequence[SortKey]) -> HaloReduction | None:
    """How to merge halo rows of one key for these calls; None where a call needs the rows themselves."""
    if not is_reducible(tuple(calls)):
        return None
    keys = tuple(sorted(set().union(*(columns_of(key.expr) for key in order_by))))
    return HaloReduction(tuple(calls), keys)


@dataclass(frozen=True)
class HaloDrop(Operator):
    """Keeps the rows that the range owns, and the columns that the query knows. Without a halo it only counts."""

    output_schema: pa.Schema
    has_halo: bool = True

    @property
    def schema(self) -> pa.Schema:
        return self.output_schema

    def run(self, batches: Iterator[pa.RecordBatch], context: TaskContext) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            first, last = owned_span(batch)
            owned = batch.select(self.output_schema.names).slice(first, last - first)
            context.metrics.add("window_rows", owned.num_rows)
            if owned.num_rows:
                yield owned.cast(self.output_schema) if owned.schema != self.output_schema else owned

    def describe(self) -> str:
        return "HaloDrop" if self.has_halo else "CountOutput: as many rows as went in"


@dataclass(frozen=True)
class CountInput(Operator):
    """Passes rows on to a window that needs no ranges, and counts them."""

    output_schema: pa.Schema

    @property
    def schema(self) -> pa.Schema:
        return self.output_schema

    def run(self, batches: Iterator[pa.RecordBatch], context: TaskContext) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            context.metrics.add("window_input_rows", batch.num_rows)
            yield batch

    def describe(self) -> str:
        return "CountInput: every row is a peer of all others"


ROW_COUNTS = ("window_input_rows", "window_rows", "rows_routed", "halo_rows", "halo_rows_unreduced")


def check_row_accounting(metrics: Metrics) -> None:
    """Every row that went into a window has come out, and no other."""
    received, returned = metrics.get("window_input_rows"), metrics.get("window_rows")
    if received != returned:
        raise InternalError(f"{received:.0f} rows went into windows and {returned:.0f} came out")
