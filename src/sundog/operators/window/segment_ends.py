"""A window with PARTITION BY over ranges that cut within keys (`ranges/key_ranges.py`).

    rows of a range by key     b b b | c c c c c | d d | e e e e      b began in an earlier range, e goes on in the next

All keys of a range are whole, except the first and the last. Each of these two is treated as a range of a window
without PARTITION BY over the rows of its key. It is summarized and given its carry like such a range
(`ranges/carry.py`), and then computed by itself. The keys between them are computed as after a hash exchange.

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
from sundog.expr.ranks import Rank, rank_at
from sundog.operators.base import Operator
from sundog.operators.context import TaskContext
from sundog.operators.window.frames.range_columns import RangeColumns, owned_span, table_of
from sundog.operators.window.frames.sorted_rows import changes_of
from sundog.operators.window.ranges.carry import (
    SUMMARY_SCHEMA,
    Carry,
    RangeSummary,
    carries_of,
    summarize,
    summary_batch,
)
from sundog.operators.window.window_operator import OverRanges

Key = tuple[Rank | None, ...]


@dataclass(frozen=True)
class SegmentSummary:
    """The summary of the first or the last key of a range: the key, and its rows in this range."""

    key: Key
    part: RangeSummary


@dataclass(frozen=True)
class EndCarries:
    """What a range is given for its first and for its last key; the same for a range with one key."""

    first: Carry = field(default_factory=Carry)
    last: Carry = field(default_factory=Carry)


@dataclass(frozen=True)
class Ends:
    """The places of a range's first and last key among its rows, borrowed ones included. Empty if it owns no rows."""

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
        """All rows in parts: the first key, the last key, and those between."""
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
        yield summary_batch(context.partition, found)

    def _summary(self, number: int, rows: pa.Table) -> SegmentSummary:
        columns = RangeColumns(rows)
        key = tuple(rank_at(columns.values(expr), 0) for expr in self.partition_by)
        return SegmentSummary(key, summarize(number, columns, self.calls, self.order_by))

    name = "SummarizeEnds"

    @property
    def details(self) -> str:
        return "what the first and the last key of each range tell the others"


def carries_of_ends(ranges: Sequence[Sequence[SegmentSummary]], calls: Sequence[WindowCall]) -> list[EndCarries] | None:
    """What each range is given; None if adding up range by range would not give Spark's answer.

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
class SegmentedWindow(OverRanges):
    """Ranges of whole keys between ends of keys. `carries[i]`: what range i must know of the others."""

    carries: tuple[EndCarries, ...] = ()

    def _parts(self, table: pa.Table, number: int) -> Iterator[tuple[pa.Table, tuple[Expr, ...], Carry]]:
        given = self.carries[number] if self.carries else EndCarries()
        ends = Ends.of(RangeColumns(table), self.partition_by)
        for start, stop in ends.parts(table.num_rows):
            rows = table.slice(start, stop - start)
            if (start, stop) == ends.first:
                yield rows, (), given.first
            elif (start, stop) == ends.last:
                yield rows, (), given.last
            else:
                yield rows, self.partition_by, Carry()

    @property
    def details(self) -> str:
        return f"{super().details}, keys cut by range"
