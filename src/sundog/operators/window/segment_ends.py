"""A window with PARTITION BY over ranges that cut through keys (`ranges/key_ranges.py`).

    rows of a range by key     b b b | c c c c c | d d | e e e e        b began in a range before, e goes on in the next

All keys of a range are whole but for the first and the last. Each of these two is a part of a window without
PARTITION BY, that of its key: it is summarized and given its carry as such a range is (`ranges/carry.py`), and then
computed by itself. The keys between them are computed as after a hash exchange.

Invariant: ranges come in the order of (partition keys, order keys), and so do the rows in each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise

import numpy as np
import pyarrow as pa

from sundog.expr.calls import WindowCall
from sundog.expr.nodes import Expr
from sundog.expr.ordering import SortKey
from sundog.expr.printing import window_text
from sundog.expr.ranks import Rank, rank_at
from sundog.operators.base import Operator
from sundog.operators.context import TaskContext
from sundog.operators.window.frames.range_columns import RangeColumns, batches_of, owned_span, table_of
from sundog.operators.window.frames.sorted_rows import changes_of
from sundog.operators.window.ranges.carry import SUMMARY_SCHEMA, Carry, RangeSummary, carries_of, summarize, told_by
from sundog.operators.window.window_operator import window_table

Key = tuple[Rank | None, ...]


@dataclass(frozen=True)
class SegmentSummary:
    """The summary of the first or the last key of a range: the key, and its rows in this range."""

    key: Key
    part: RangeSummary


@dataclass(frozen=True)
class EndCarries:
    """What a range is given for its first and for its last key; of a range with one key, both are the same."""

    first: Carry = field(default_factory=Carry)
    last: Carry = field(default_factory=Carry)


@dataclass(frozen=True)
class Ends:
    """Where a range's first and last key lie among its rows, borrowed ones included. Empty if the range owns none."""

    first: tuple[int, int]
    last: tuple[int, int]

    @classmethod
    def of(cls, columns: RangeColumns, partition_by: Sequence[Expr]) -> Ends:
        low, high = owned_span(columns.table)
        if low == high:
            return cls((0, 0), (0, 0))
        changes = changes_of(columns.count, [columns.values(expr) for expr in partition_by])
        borders = np.append(np.flatnonzero(changes), columns.count)
        first, last = (int(np.searchsorted(borders, row, side="right")) for row in (low, high - 1))
        return cls(
            (int(borders[first - 1]), int(borders[first])),
            (int(borders[last - 1]), int(borders[last])),
        )

    def parts(self, count: int) -> list[tuple[int, int]]:
        """All rows, with the first and the last key apart from the others."""
        return [pair for pair in pairwise(sorted({0, *self.first, *self.last, count})) if pair[0] < pair[1]]


@dataclass(frozen=True)
class SummarizeEnds(Operator):
    """The summaries of the first and the last key of one sorted range, as one row."""

    input_schema: pa.Schema
    calls: tuple[WindowCall, ...]
    partition_by: tuple[Expr, ...]
    order_by: tuple[SortKey, ...]

    @property
    def schema(self) -> pa.Schema:
        return SUMMARY_SCHEMA

    def run(self, batches: Iterator[pa.RecordBatch], context: TaskContext) -> Iterator[pa.RecordBatch]:
        table = table_of(batches, self.input_schema)
        first, last = owned_span(table)
        table = table.slice(first, last - first)
        ends = Ends.of(RangeColumns(table), self.partition_by)
        found = [
            self._summary(context.partition, table.slice(start, stop - start))
            for start, stop in dict.fromkeys((ends.first, ends.last))
            if start < stop
        ]
        yield told_by(context.partition, found)

    def _summary(self, number: int, rows: pa.Table) -> SegmentSummary:
        columns = RangeColumns(rows)
        key = tuple(rank_at(columns.values(expr), 0) for expr in self.partition_by)
        return SegmentSummary(key, summarize(number, columns, self.calls, self.order_by))

    def describe(self) -> str:
        return "SummarizeEnds: what the first and the last key of each range tell the others"


def carries_of_ends(ranges: Sequence[Sequence[SegmentSummary]], calls: Sequence[WindowCall]) -> list[EndCarries] | None:
    """What each range is given; None where adding up range by range would not give Spark's answer.

    Parts of one key are neighbours, since ranges are in the order of the keys: each such run is a window of its own.
    """
    parts = [(number, part) for number, found in enumerate(ranges) for part in found]
    given: list[list[Carry]] = [[] for _ in ranges]
    for _, run in groupby(parts, key=lambda part: part[1].key):
        pieces = list(run)
        carries = carries_of([piece.part for _, piece in pieces], calls) if len(pieces) > 1 else [Carry()]
        if carries is None:
            return None
        for (number, _), carry in zip(pieces, carries, strict=True):
            given[number].append(carry)
    return [EndCarries(each[0], each[-1]) if each else EndCarries() for each in given]


@dataclass(frozen=True)
class SegmentedWindow(Operator):
    """The calls over each range of whole keys and ends of keys. `carries[i]` is what range i is told of the others."""

    input_schema: pa.Schema
    calls: tuple[WindowCall, ...]
    partition_by: tuple[Expr, ...]
    order_by: tuple[SortKey, ...]
    carries: tuple[EndCarries, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        fields = [pa.field(call.name, call.dtype) for call in self.calls]
        return pa.schema([*self.input_schema, *fields])

    def run(self, batches: Iterator[pa.RecordBatch], context: TaskContext) -> Iterator[pa.RecordBatch]:
        table = table_of(batches, self.input_schema)
        if not table.num_rows:
            return
        given = self.carries[context.partition] if self.carries else EndCarries()
        ends = Ends.of(RangeColumns(table), self.partition_by)
        for start, stop in ends.parts(table.num_rows):
            context.check_cancelled()
            rows = table.slice(start, stop - start)
            with context.metrics.timed("compute_seconds"):
                result = self._part(rows, (start, stop), ends, given)
            yield from batches_of(result)

    def _part(self, rows: pa.Table, span: tuple[int, int], ends: Ends, given: EndCarries) -> pa.Table:
        if span == ends.first:
            return window_table(rows, self.calls, (), self.order_by, given.first)
        if span == ends.last:
            return window_table(rows, self.calls, (), self.order_by, given.last)
        return window_table(rows, self.calls, self.partition_by, self.order_by, Carry())

    def describe(self) -> str:
        calls = ", ".join(f"{window_text(call)} AS {call.name}" for call in self.calls)
        return f"Window: [{calls}], keys cut by range"
