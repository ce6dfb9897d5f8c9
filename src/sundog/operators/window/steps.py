"""The operators of one parallel window, made from its calls, PARTITION BY and ORDER BY.

`plan/lower/window.py` puts them into stages and decides which strategy runs:

    ranges, rows moved     [scan -> sample]    scan =repartition=> sort -> window -> drop
    ranges, rows read      scan of the range's own row groups -> keep -> sort -> window -> drop
    two passes             ... sort =hold=> [summarize]    then    window(carries) -> drop
      on executors, moved  scan =repartition=> [summaries]    then    sort -> window(carries) -> drop
      or, of whole ranges  scan =repartition=> sort -> [summarize]    then    sort -> window(carries) -> drop
    PARTITION BY           scan =by_key=> sort -> window -> drop
    no ORDER BY            scan =hold=> [summarize]    then    window(carries) -> drop

Brackets are steps whose rows go back to the planner: a sample gives the cuts, summaries give the carries. `=x=>` ends
a stage. `KeepRange` replaces the exchange if row-group statistics show which rows a range needs
(`ranges/own_reads.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from sundog.expr.calls import WindowCall
from sundog.expr.nodes import Expr
from sundog.expr.ordering import SortKey
from sundog.operators.base import Operator
from sundog.operators.costs import WindowCosts
from sundog.operators.window.frames.frame_need import FrameNeed, Need, needs_of
from sundog.operators.window.key_partition import KeyPartition
from sundog.operators.window.ranges.carry import Carry, SummarizeRange, carries_of, read_summaries
from sundog.operators.window.ranges.cuts import KeySample, SampleKeys, cut_ranges, estimated_halo
from sundog.operators.window.ranges.halo import HaloDrop, RangeRepartition, halo_columns_of, reduction_of
from sundog.operators.window.ranges.key_ranges import KeyRanges, composite_order, cut_inside_keys
from sundog.operators.window.ranges.own_reads import KeepRange, RangeReads
from sundog.operators.window.ranges.part_summaries import PartNeed, merged_parts, part_need
from sundog.operators.window.segment_ends import EndCarries, SegmentedWindow, SummarizeEnds
from sundog.operators.window.window_operator import SortRange, WindowOperator


@dataclass(frozen=True)
class WindowSteps:
    """The specs of all operators that a window may need; the planner chooses among them."""

    input_schema: pa.Schema
    calls: tuple[WindowCall, ...]
    partition_by: tuple[Expr, ...]
    order_by: tuple[SortKey, ...]
    costs: WindowCosts

    @cached_property
    def need(self) -> Need:
        return needs_of(self.calls)

    def sample(self, finds_extremes: bool = True) -> SampleKeys:
        return SampleKeys(self.order_by, self.costs, finds_extremes)

    def repartition(self, sample: KeySample, ranges: int) -> RangeRepartition:
        """Cuts of equal depth. One range if the calls cannot be computed in several.

        Merging halo rows of one key takes columns in every row: it pays if the halo is large and keys repeat.
        """
        reach = self.need.reach
        count = 1 if self.need.kind is FrameNeed.ONE_RANGE else ranges
        cut = cut_ranges(sample, self.order_by, reach, count)
        least = self.costs.min_reduced_repetition
        reduction = reduction_of(self.calls, self.order_by, least)
        repeats = sample.repetition >= least
        if not repeats or estimated_halo(sample, cut) <= self.costs.min_reduced_halo:
            reduction = None
        columns = halo_columns_of(self.calls, self.order_by)
        return RangeRepartition(self.input_schema, cut, columns, reduction, ordered=self.need.order_sensitive)

    def by_key(self, partitions: int) -> KeyPartition:
        """The exchange for a window with PARTITION BY."""
        return KeyPartition(self.input_schema, self.partition_by, partitions)

    @property
    def inside_keys(self) -> InsideKeys:
        """The operators for PARTITION BY with a key that does not fit a task."""
        return InsideKeys(self, composite_order(self.partition_by, self.order_by))

    def keep(self, ranges: RangeReads, cut_by: str) -> KeepRange:
        """Instead of `repartition`, if each range reads its own rows (`ranges/own_reads.py`)."""
        return KeepRange(self.input_schema, ranges.keys_only, cut_by)

    def sort(self, move: RangeRepartition | KeepRange | None) -> SortRange:
        return SortRange(self.moved_schema(move), self.partition_by, self.order_by)

    def summarize(self, move: RangeRepartition | KeepRange | None) -> SummarizeRange:
        return SummarizeRange(self.moved_schema(move), self.calls, self.order_by)

    @cached_property
    def part_need(self) -> PartNeed | None:
        """What tasks that send rows to ranges must summarize; None if ranges are summarized as a whole."""
        return part_need(self.calls, self.order_by)

    def carries(
        self, batches: Sequence[pa.RecordBatch], move: RangeRepartition | KeepRange | None
    ) -> Sequence[Carry] | None:
        """The carry of each range, from the summaries of ranges or of parts; None if ranges do not add up."""
        summaries = read_summaries(batches)
        if isinstance(move, RangeRepartition) and move.parts is not None:
            summaries = list(merged_parts(summaries, move.partitions, move.parts))
        return carries_of(summaries, self.calls)

    def window(self, move: RangeRepartition | KeepRange | None, carries: Sequence[Carry] = ()) -> WindowOperator:
        return WindowOperator(self.moved_schema(move), self.calls, self.partition_by, self.order_by, tuple(carries))

    def over(self, move: RangeRepartition | KeepRange | None, carries: Sequence[Carry] = ()) -> tuple[Operator, ...]:
        """The operators over each sorted range: the calls, then dropping halo rows. An ORDER BY has no calls."""
        return (self.window(move, carries), self.drop()) if self.calls else (self.drop(has_halo=False),)

    def drop(self, has_halo: bool = True) -> HaloDrop:
        fields = [pa.field(call.name, call.dtype) for call in self.calls]
        return HaloDrop(pa.schema([*self.input_schema, *fields]), has_halo)

    def moved_schema(self, move: RangeRepartition | KeepRange | None) -> pa.Schema:
        return self.input_schema if move is None else move.schema


@dataclass(frozen=True)
class InsideKeys:
    """The specs of a window with PARTITION BY whose ranges cut within keys: `order` has the partition keys first."""

    steps: WindowSteps
    order: tuple[SortKey, ...]

    def sample(self) -> SampleKeys:
        """A sample with the window's own keys first: extremes are those of the first key, along which frames reach."""
        steps = self.steps
        return SampleKeys((*steps.order_by, *self.order[: len(steps.partition_by)]), steps.costs)

    def read_sample(self, batches: Sequence[pa.RecordBatch]) -> KeySample:
        """The samples of all tasks, with the keys in the order of `order`."""
        own = len(self.steps.order_by)
        found = KeySample.from_batches(batches, self.sample().order_by)
        return replace(found, keys=(*found.keys[own:], *found.keys[:own]))

    def cut(self, sample: KeySample, ranges: int) -> KeyRanges:
        return cut_inside_keys(sample, self.order, len(self.steps.partition_by), self.steps.need.reach, ranges)

    def repartition(self, ranges: KeyRanges) -> RangeRepartition:
        columns = halo_columns_of(self.steps.calls, self.order)
        return RangeRepartition(self.steps.input_schema, ranges, columns, ordered=self.steps.need.order_sensitive)

    def sort(self, move: RangeRepartition | None) -> SortRange:
        return SortRange(self.steps.moved_schema(move), (), self.order)

    def summarize(self, move: RangeRepartition) -> SummarizeEnds:
        return SummarizeEnds(move.schema, self.steps.calls, self.steps.partition_by, self.steps.order_by)

    def window(self, move: RangeRepartition | None, carries: Sequence[EndCarries] = ()) -> SegmentedWindow:
        steps = self.steps
        schema = steps.moved_schema(move)
        return SegmentedWindow(schema, steps.calls, steps.partition_by, steps.order_by, tuple(carries))
