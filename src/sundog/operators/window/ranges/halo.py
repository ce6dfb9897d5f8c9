"""Moves rows to their ranges, with the halo that frames reach, and drops the halo afterwards.

    ORDER BY t RANGE BETWEEN 5 PRECEDING AND CURRENT ROW, keys 0 .. 99 cut at 25, 50, 75

    range 0              [  0 .. 24 ]          25 rows
    range 1     [20..24 | 25 .. 49 ]           30 rows: 5 borrowed, 25 owned
    range 2     [45..49 | 50 .. 74 ]           30
    range 3     [70..74 | 75 .. 99 ]           30              115 rows routed, 15 of them halo; 100 come out

A borrowed row carries `__halo` and only the order keys and the calls' inputs; its other columns are NULL. If a frame is
wide and keys repeat, borrowed rows of one key are merged before they travel (`halo_reduction.py`).

Invariant: every row is owned by exactly one range, so as many rows come out of `HaloDrop` as went in
(`check_row_accounting`), or the query fails: never a wrong answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
    RangeColumns,
    owned_span,
    parts_by_owner,
    picked_rows,
    runs_of,
)
from sundog.operators.window.ranges.carry import summary_batch
from sundog.operators.window.ranges.halo_reduction import HaloReduction, is_reducible
from sundog.operators.window.ranges.part_summaries import PartNeed, PartSummaries
from sundog.operators.window.ranges.routes import Routes, RowRanges, WordRanges


@dataclass(frozen=True)
class RangeRepartition(Partitioner):
    """Sends each row to its range and, as halo, to those that need it.

    `halo_columns`: the columns of a borrowed row; if no frame reaches beyond a range, there is no `__halo`. If the
    order of equal keys changes results, it must be that of the input in every range and every pass: `ordered` then asks
    for batches in the order of the rows, and sorting keeps the order of equal keys. Instead, rows could carry numbers:
    that was one more column to send and to sort by. `reduction` merges borrowed rows of one key. `parts`: what each
    task must summarize of the rows that it sends (`part_summaries.py`).
    """

    input_schema: pa.Schema
    ranges: WordRanges | RowRanges
    halo_columns: tuple[str, ...] = ()
    reduction: HaloReduction | None = None
    remark: str = ""  # for explain
    ordered: bool = False
    parts: PartNeed | None = None

    @property
    def summarizes(self) -> bool:
        return self.parts is not None

    @property
    def partitions(self) -> int:  # type: ignore[override]
        return self.ranges.count

    @property
    def schema(self) -> pa.Schema:
        fields = [*self.input_schema]
        if self.ranges.has_halo:
            fields.append(pa.field(HALO, pa.bool_()))
        return pa.schema([*fields, *(self.reduction.fields if self.reduction is not None else [])])

    def split(self, batches: Iterator[pa.RecordBatch], context: TaskContext) -> Iterator[tuple[int, pa.RecordBatch]]:
        schema = self.schema
        summaries = None if self.parts is None else PartSummaries(self.parts)
        for batch in batches:
            if not batch.num_rows:
                continue
            columns = RangeColumns(pa.Table.from_batches([batch]))
            keys = [columns.values(key.expr) for key in self.ranges.order_by]
            routes = self.ranges.routes(keys)
            for number, owned in self._owned(batch, routes, schema):
                if summaries is not None:
                    summaries.add(number, owned)
                yield number, owned
            context.metrics.add("window_input_rows", batch.num_rows)
            context.metrics.add("rows_routed", batch.num_rows)
            if routes.copies:
                yield from self._borrowed(batch, keys, routes, schema, context)
        if summaries is not None:
            yield self.partitions, summary_batch(context.partition, summaries.found())

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
        names = [name for name in batch.schema.names if name in self.halo_columns]
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

    name = "RangeRepartition"

    @property
    def details(self) -> str:
        reduced = ", reduced halo" if self.reduction is not None else ""
        order = render_order(self.ranges.order_by)
        summarized = ", summarized by the sending tasks" if self.summarizes else ""
        return f"order=[{order}], ranges={self.ranges.count}{reduced}{self.remark}{summarized}"

    @property
    def planned_metrics(self) -> Mapping[str, float]:
        return {"ranges": self.partitions}


@dataclass(frozen=True)
class RangesToCome(Partitioner):
    """Takes the place of a `RangeRepartition` in a plan that is only explained: a sample will give the cuts."""

    input_schema: pa.Schema
    order_by: tuple[SortKey, ...]
    partitions: int
    remark: str = ""

    @property
    def schema(self) -> pa.Schema:
        return self.input_schema

    def split(self, batches: Iterator[pa.RecordBatch], context: TaskContext) -> Iterator[tuple[int, pa.RecordBatch]]:
        raise InternalError("a plan that was only explained does not run")

    name = "RangeRepartition"

    @property
    def details(self) -> str:
        return f"order=[{render_order(self.order_by)}], cut by a sample{self.remark}"


def _borrowed_rows(routes: Routes, count: int) -> Iterator[tuple[int, Longs]]:
    """The rows that each range needs but does not own."""
    starts, rows = np.zeros(count + 1, np.int64), np.empty(routes.copies, np.int64)
    group_borrowed(routes.owners, routes.firsts, routes.lasts, starts, rows)
    return runs_of(starts, rows)


def _fitted(columns: dict[str, pa.Array], schema: pa.Schema, halo: bool) -> pa.RecordBatch:
    """The columns under the schema; missing ones are NULL, and `__halo` says whether the rows are borrowed."""
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


def reduction_of(
    calls: Sequence[WindowCall], order_by: Sequence[SortKey], min_repetition: float
) -> HaloReduction | None:
    """How to merge halo rows of one key for these calls; None where a call needs the rows themselves."""
    if not is_reducible(tuple(calls)):
        return None
    keys = tuple(sorted(set().union(*(columns_of(key.expr) for key in order_by))))
    return HaloReduction(tuple(calls), keys, min_repetition)


@dataclass(frozen=True)
class HaloDrop(Operator):
    """Keeps the rows that the range owns, and the columns of the query. Without a halo it only counts."""

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

    @property
    def name(self) -> str:
        return "HaloDrop" if self.has_halo else "CountOutput"

    @property
    def details(self) -> str:
        return "" if self.has_halo else "as many rows as went in"


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

    name = "CountInput"

    @property
    def details(self) -> str:
        return "every row is a peer of all others"


def check_row_accounting(metrics: Metrics) -> None:
    """Check that every row that went into a window has come out, and no other; unless a join stopped reading early."""
    received, returned = metrics.get("window_input_rows"), metrics.get("window_rows")
    if metrics.get("join_probes_skipped") and returned <= received:
        return
    if received != returned:
        raise InternalError(f"{received:.0f} rows went into windows and {returned:.0f} came out")
