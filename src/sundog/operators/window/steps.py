"""The steps of a parallel window, in the order in which a runtime takes them.

    steps = WindowSteps(schema, calls, partition_by, order_by)
    sample = KeySample.from_batches(scan.then(steps.sample()).collect(), order_by)       or from statistics
    if sample.extremes.overflows(steps.need.reach, order_by[0]): hand the query back to Spark
    move = steps.repartition(sample, ranges)
    sorted = scan.exchange(move).then(steps.sort(move))
    if steps.need.two_passes and move.partitions > 1:
        summaries = read_summaries(sorted.then(steps.summarize(move)).collect())
        carries = carries_of(summaries, calls)         None: start again with ranges = 1
    result = sorted.then(steps.window(move, carries), steps.drop()).collect()
    check_row_accounting(metrics)

Where row-group statistics show the key to be clustered, no row need move (`ranges/own_reads.py`):

    ranges = ranges_from_statistics(lows, highs, rows, nulls, order_by[0], steps.need.reach, count)      None: as above
    move = steps.keep(ranges)
    sorted = (one scan task per range, of the row groups ranges.reads[i].row_groups).then(move, steps.sort(move))

With PARTITION BY rows are moved by hash instead, and there is no sample, no halo and no carry:

    result = scan.exchange(steps.by_key(partitions)).then(steps.sort(None), steps.window(None), steps.drop()).collect()

Without ORDER BY all rows are alike: the partitions of the scan serve as ranges (`sort(None)`, summaries and carries).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from sundog.expr.calls import WindowCall
from sundog.expr.nodes import Expr
from sundog.expr.ordering import SortKey
from sundog.operators.window.frames.frame_need import FrameNeed, Need, needs_of
from sundog.operators.window.key_partition import KeyPartition
from sundog.operators.window.ranges.carry import Carry, SummarizeRange
from sundog.operators.window.ranges.cuts import KeySample, SampleKeys, cut_ranges, estimated_halo
from sundog.operators.window.ranges.halo import HaloDrop, RangeRepartition, halo_columns_of, reduction_of
from sundog.operators.window.ranges.own_reads import KeepRange, RangeReads
from sundog.operators.window.window_operator import SortRange, WindowOperator

# Merging halo rows of one key takes columns in every row. It pays if the halo is large and keys repeat within a batch.
REDUCE_ABOVE = 0.1
REDUCE_REPEATED = 2.0


@dataclass(frozen=True)
class WindowSteps:
    """What to do, as operators; when and where is the runtime's business."""

    input_schema: pa.Schema
    calls: tuple[WindowCall, ...]
    partition_by: tuple[Expr, ...]
    order_by: tuple[SortKey, ...]

    @cached_property
    def need(self) -> Need:
        return needs_of(self.calls)

    def sample(self) -> SampleKeys:
        return SampleKeys(self.order_by)

    def repartition(self, sample: KeySample, ranges: int) -> RangeRepartition:
        """Cuts of equal depth. One range where the calls cannot do with more."""
        reach = self.need.reach
        count = 1 if self.need.kind is FrameNeed.ONE_RANGE else ranges
        cut = cut_ranges(sample, self.order_by, reach, count)
        reduction = reduction_of(self.calls, self.order_by)
        if sample.repetition < REDUCE_REPEATED or estimated_halo(sample, cut) <= REDUCE_ABOVE:
            reduction = None
        columns = halo_columns_of(self.calls, self.order_by)
        return RangeRepartition(self.input_schema, cut, columns, self.need.order_sensitive, reduction)

    def by_key(self, partitions: int) -> KeyPartition:
        """Instead of `repartition`, with PARTITION BY."""
        return KeyPartition(self.input_schema, self.partition_by, partitions)

    def keep(self, ranges: RangeReads, cut_by: str) -> KeepRange:
        """Instead of `repartition`, where each range reads its own rows (`ranges_from_statistics`)."""
        return KeepRange(self.input_schema, ranges, cut_by)

    def sort(self, move: RangeRepartition | KeepRange | None) -> SortRange:
        return SortRange(self._moved_schema(move), self.partition_by, self.order_by)

    def summarize(self, move: RangeRepartition | KeepRange | None) -> SummarizeRange:
        return SummarizeRange(self._moved_schema(move), self.calls, self.order_by)

    def window(self, move: RangeRepartition | KeepRange | None, carries: Sequence[Carry] = ()) -> WindowOperator:
        return WindowOperator(self._moved_schema(move), self.calls, self.partition_by, self.order_by, tuple(carries))

    def drop(self, has_halo: bool = True) -> HaloDrop:
        fields = [pa.field(call.name, call.dtype) for call in self.calls]
        return HaloDrop(pa.schema([*self.input_schema, *fields]), has_halo)

    def _moved_schema(self, move: RangeRepartition | KeepRange | None) -> pa.Schema:
        return self.input_schema if move is None else move.schema
