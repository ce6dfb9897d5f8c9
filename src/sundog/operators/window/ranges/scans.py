"""The scan of a window whose ranges read their own rows (`own_reads.py`): its row groups and its cost.

    row groups     0    1    2    3    4        range 0 reads 0, 1; range 1 reads 1, 2, 3; range 2 reads 3, 4
    at home in     0    0    1    1    2        row groups 1 and 3 are read twice and counted once

Each row group is counted by the first range that reads it, its home. So the rows that entered the window are counted
without relying on the statistics that chose the reads. If these were wrong, a row would be missing at the end, and
`check_row_accounting` would raise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from sundog.expr.buffers import Bools, Indices
from sundog.expr.calls import Frame
from sundog.expr.ordering import SortKey
from sundog.operators.base import Described
from sundog.operators.context import TaskContext
from sundog.operators.costs import ScanCosts, WindowCosts
from sundog.operators.scan.scan import ScanTask
from sundog.operators.scan.table_scan import TableScan
from sundog.operators.sources import Source
from sundog.operators.window.ranges.cuts import KeySample, PartitionExtremes, cut_ranges
from sundog.operators.window.ranges.own_reads import RangeReads, RowGroupKeys, ranges_from_statistics
from sundog.operators.window.ranges.routes import WordRanges
from sundog.parquet.meta.bounds import expression_bounds
from sundog.parquet.prune.access_plan import ParquetAccessPlan


@dataclass(frozen=True)
class RangeScans:
    """What each range reads: `reads` by the places of row groups in `slots`; `extremes` of the key, by statistics.

    `sampled_rows`: the rows of each range, if a sample has shown them.
    """

    reads: RangeReads
    slots: Indices  # of the access plan's row groups, those that are left to read
    extremes: PartitionExtremes
    keys: RowGroupKeys
    sampled_rows: tuple[int, ...] = ()

    def cut_by(self, sample: KeySample, frames: Sequence[Frame], ranges: int) -> RangeScans:
        """The same row groups, with ranges that a sample of the key shows to be even."""
        leading = replace(sample, keys=sample.keys[:1])
        cut = cut_ranges(leading, (self.reads.key,), frames, ranges)
        assert isinstance(cut, WordRanges), "a key with bounds per row group has words"
        reads = self.keys.reads(self.reads.key, cut)
        owners = np.minimum(cut.routes(leading.keys).owners, len(reads.reads) - 1)
        rows = np.bincount(owners, weights=sample.weights, minlength=len(reads.reads)).astype(np.int64)
        return replace(self, reads=reads, sampled_rows=tuple(rows.tolist()))

    def tasks(self, access: ParquetAccessPlan, costs: ScanCosts) -> list[RangeScan]:
        """One source per range."""
        shown = TableScan(access.scanned, access.columns, access.predicate, counted=access.scanned.counted)
        home = np.full(len(self.slots), len(self.reads.reads), np.int64)
        for number, read in reversed(list(enumerate(self.reads.reads))):
            home[read.row_groups] = number
        return [
            RangeScan(tuple(self._parts(access, costs, read.row_groups, home[read.row_groups] == number)), shown)
            for number, read in enumerate(self.reads.reads)
        ]

    def _parts(
        self, access: ParquetAccessPlan, costs: ScanCosts, groups: Indices, at_home: Bools
    ) -> Iterator[ScanTask]:
        """Scans in file order; a new one starts where the home of the row groups changes."""
        changes = np.flatnonzero(np.diff(at_home)) + 1
        for start, stop in pairwise([0, *changes.tolist(), len(groups)] if len(groups) else []):
            slices = access.slices(self.slots[groups[start:stop]])
            again = not at_home[start]
            yield ScanTask(
                access.reading,
                slices,
                access.columns,
                access.predicate,
                again=again,
                table=access.scanned,
                costs=costs,
            )


@dataclass(frozen=True)
class RangeScan(Source):
    """What one range reads. Rows of row groups with their home here are counted as the window's input."""

    parts: tuple[ScanTask, ...]
    whole: TableScan  # of all ranges together

    @property
    def steps(self) -> tuple[Described, ...]:
        return (self.whole,)

    def read(self, context: TaskContext) -> Iterator[pa.RecordBatch]:
        for part in self.parts:
            for batch in part.read(context):
                if not part.again:
                    context.metrics.add("window_input_rows", batch.num_rows)
                yield batch


def plan_range_scans(
    access: ParquetAccessPlan,
    key: SortKey,
    frames: Sequence[Frame],
    ranges: int,
    max_reads: float,
    costs: WindowCosts,
) -> RangeScans | None:
    """How `ranges` ranges would read their own rows, whatever it costs; None if statistics cannot tell.

    Among cuts that read each row at most `max_reads` times, the most even wins; else the one that reads least.
    """
    slots = access.left
    bounds = expression_bounds(key.expr, access.statistics).take(slots)
    rows = access.statistics.rows[slots]
    reads = ranges_from_statistics(
        bounds.low, bounds.high, rows, bounds.null_counts, key, frames, ranges, max_reads, costs
    )
    row_groups = RowGroupKeys.of_ranks(bounds.low, bounds.high, rows, bounds.null_counts, key)
    if reads is None or row_groups is None:
        return None
    extremes = PartitionExtremes.of_row_groups(bounds.low, bounds.high, rows, bounds.null_counts)
    return RangeScans(reads, slots, extremes, row_groups)
