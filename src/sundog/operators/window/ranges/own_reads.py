"""Ranges that read their own rows: no shuffle if row-group statistics show that the key is clustered.

Files of logs and events are nearly sorted by time. Then the rows of a range, and the halo around them, are in few row
groups, and the statistics show which:

    row groups   [0..9] [8..19] [20..31] [30..41]          cut at 20, RANGE 5 PRECEDING
    range 0      reads 1, 2            owns keys below 20
    range 1      reads 2, 3, 4         owns keys from 20 on, needs those from 15 on: row group 2 is read twice

Each task then keeps the rows it needs (`KeepRange`), marks those it does not own, and goes on as after an exchange. The
cost is known before anything is read: the read amplification, rows read divided by rows. Above `max_clustered_reads` an
exchange in memory is cheaper. Spark's shuffle costs as much for a row as decoding it several times, so a few ranges
read their own rows even if the key is not clustered. A sample then gives the cuts, since statistics do not show how the
keys of a row group are distributed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.expr.buffers import Bools, is_narrow, validity_of
from sundog.expr.calls import Frame
from sundog.expr.ordering import SortKey
from sundog.expr.printing import render_order
from sundog.expr.rank_columns import RankColumn
from sundog.kernels.windows.routing import keep_needed
from sundog.operators.base import Operator
from sundog.operators.context import TaskContext
from sundog.operators.costs import WindowCosts
from sundog.operators.window.frames.order_key import INT64_MAX, INT64_MIN, RangeKey
from sundog.operators.window.frames.range_columns import HALO, RangeColumns, picked_rows
from sundog.operators.window.ranges.cuts import KeySample, cut_places, cut_ranges
from sundog.operators.window.ranges.routes import WordRanges

Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RangeRead:
    """What one range reads: row groups by number; the words that it owns and those that it needs, bounds included."""

    row_groups: Longs
    rows: int
    owned: tuple[int, int]
    needed: tuple[int, int]
    takes_nulls: bool


@dataclass(frozen=True)
class RangeReads:
    """All ranges, and the read amplification. Row groups must be read in ascending order, so that ties keep one
    order."""

    key: SortKey
    reads: tuple[RangeRead, ...]
    cost: float

    @property
    def keys_only(self) -> RangeReads:
        """The same without row groups: what a task must know to keep the rows of its range."""
        none = np.zeros(0, np.int64)
        return replace(self, reads=tuple(replace(read, row_groups=none) for read in self.reads))


@dataclass(frozen=True)
class RowGroupKeys:
    """Statistics of the key, one entry per row group, as words: least, greatest, rows, NULLs (-1: unknown).

    A row group without values has least > greatest.
    """

    lows: Longs
    highs: Longs
    rows: Longs
    nulls: Longs

    @classmethod
    def of_ranks(
        cls, lows: RankColumn, highs: RankColumn, rows: Longs, nulls: Longs, key: SortKey
    ) -> RowGroupKeys | None:
        """None if bounds are missing or the key has no words."""
        if not is_narrow(key.expr.dtype) or lows.words is None or highs.words is None:
            return None
        empty = rows == nulls
        if not (empty | (lows.known & highs.known)).all():
            return None
        ends = (~highs.words, ~lows.words) if key.descending else (lows.words, highs.words)
        least, greatest = np.minimum(*ends), np.maximum(*ends)
        return cls(np.where(empty, INT64_MAX, least), np.where(empty, INT64_MIN, greatest), rows, nulls)

    @cached_property
    def _by_low(self) -> tuple[Longs, Longs, Longs]:
        """Row groups with values by their least key; these keys; and the greatest key of all up to each one."""
        there = np.flatnonzero(self.lows <= self.highs)
        order = there[np.argsort(self.lows[there], kind="stable")]
        return order, self.lows[order], np.maximum.accumulate(self.highs[order])

    def _meeting(self, low: int, high: int) -> Longs:
        """The row groups that may hold a key from `low` to `high`, in their own order.

        With a clustered key these are neighbours in the order of their least keys, so that few are compared.
        """
        order, lows, reached = self._by_low
        first = int(np.searchsorted(reached, low))
        behind = int(np.searchsorted(lows, high, side="right"))
        picked = order[first:behind]
        return np.sort(picked[self.highs[picked] >= low])

    def reads(self, key: SortKey, cut: WordRanges) -> RangeReads:
        """What each range of a cut must read."""
        reads = []
        starts, stops = [INT64_MIN, *cut.cuts], [*(word - 1 for word in cut.cuts), INT64_MAX]
        null_range = 0 if key.nulls_first else len(starts) - 1
        for number, (first, last) in enumerate(zip(starts, stops, strict=True)):
            low, high = min(cut.lows[number], first), max(cut.highs[number], last)
            picked = self._meeting(low, high)
            if number == null_range:
                picked = np.union1d(picked, np.flatnonzero(self.nulls != 0))
            rows = int(self.rows[picked].sum())
            reads.append(RangeRead(picked, rows, (first, last), (low, high), number == null_range))
        return RangeReads(key, tuple(reads), sum(read.rows for read in reads) / int(self.rows.sum()))


def ranges_from_statistics(
    lows: RankColumn,
    highs: RankColumn,
    rows: Longs,
    nulls: Longs,
    key: SortKey,
    frames: Sequence[Frame],
    ranges: int,
    max_amplification: float,
    costs: WindowCosts,
) -> RangeReads | None:
    """What each of at most `ranges` ranges reads: by the most even of the affordable cuts, or by the cheapest cut; None
    if statistics cannot tell.

    `lows` and `highs` are the key's bounds per row group, `nulls` its NULLs, -1 where unknown: as
    `parquet/meta/statistics.py` gives them. They need not be exact, but must hold for every row, NaN included.
    """
    groups = RowGroupKeys.of_ranks(lows, highs, rows, nulls, key)
    if groups is None or not int(rows.sum()):
        return None
    candidates = [_aligned_cuts(groups, key, frames, ranges)]
    sample = KeySample.from_statistics(lows, highs, rows, nulls, key, costs)
    if sample is not None:
        inside = cut_ranges(sample, (key,), frames, ranges)
        candidates += [inside] if isinstance(inside, WordRanges) else []
        candidates = _even(candidates, sample, costs.max_range_imbalance)
    plans = [groups.reads(key, cut) for cut in candidates if cut.count > 1 or ranges == 1]
    affordable = [plan for plan in plans if plan.cost <= max_amplification]
    if not affordable:
        return min(plans, key=lambda plan: plan.cost, default=None)
    return min(affordable, key=lambda plan: (max(read.rows for read in plan.reads), -len(plan.reads)))


def _aligned_cuts(groups: RowGroupKeys, key: SortKey, frames: Sequence[Frame], ranges: int) -> WordRanges:
    """Cuts where row groups begin, so that clustered ones are read once, except for the halo."""
    there = np.flatnonzero(groups.lows <= groups.highs)
    order = there[np.argsort(groups.lows[there], kind="stable")]
    begins, firsts = np.unique(groups.lows[order], return_index=True)
    weights = np.add.reduceat(groups.rows[order], firsts) if len(order) else np.zeros(0, np.int64)
    return WordRanges.reaching((key,), tuple(begins[cut_places(weights, ranges)].tolist()), False, frames)


def _even(candidates: Sequence[WordRanges], sample: KeySample, max_imbalance: float) -> list[WordRanges]:
    """The cuts whose largest range is not much larger than that of the best one: others leave the work to one task."""
    sizes = [np.bincount(cut.routes(sample.keys).owners, weights=sample.weights).max() for cut in candidates]
    return [cut for cut, size in zip(candidates, sizes, strict=True) if size <= max_imbalance * min(sizes)]


@dataclass(frozen=True)
class KeepRange(Operator):
    """Of the rows that a range has read, those that it owns or needs; the latter marked as halo."""

    input_schema: pa.Schema
    ranges: RangeReads
    cut_by: str = "by row-group statistics"

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([*self.input_schema, pa.field(HALO, pa.bool_())])

    def run(self, batches: Iterator[pa.RecordBatch], context: TaskContext) -> Iterator[pa.RecordBatch]:
        read = self.ranges.reads[context.partition]
        key = RangeKey(self.ranges.key.expr.dtype, self.ranges.key.descending)
        schema = self.schema
        for batch in batches:
            if not batch.num_rows:
                continue
            array = RangeColumns(pa.Table.from_batches([batch])).values(self.ranges.key.expr)
            rows, halo = _kept(key.words(array), validity_of(array), read)
            if not len(rows):
                continue
            borrowed = int(np.count_nonzero(halo))
            context.metrics.add("rows_routed", len(rows))
            context.metrics.add("halo_rows", borrowed)
            context.metrics.add("halo_rows_unreduced", borrowed)
            yield pa.RecordBatch.from_arrays([*picked_rows(batch, rows).columns, pa.array(halo)], schema=schema)

    name = "RangeRead"

    @property
    def details(self) -> str:
        order = render_order([self.ranges.key])
        return f"order=[{order}], {self.cut_by}, rows_read={self.ranges.cost:.2f}x"

    @property
    def planned_metrics(self) -> Mapping[str, float]:
        return {"ranges": len(self.ranges.reads)}


def _kept(words: Longs, valid: Bools | None, read: RangeRead) -> tuple[Longs, Bools]:
    """The rows that a range owns or needs, and which of them are halo. One range owns all NULLs."""
    rows, halo = np.empty(len(words), np.int64), np.empty(len(words), np.bool_)
    there = np.empty(0, np.bool_) if valid is None else valid
    kept = keep_needed(words, there, read.owned, read.needed, read.takes_nulls, rows, halo)
    return rows[:kept], halo[:kept]
