"""Windows. Without PARTITION BY, where to cut is asked of the data; then every range is computed on its own:

    0. read         nothing is sampled or moved where statistics show that the key is clustered: ranges read their own
    1. sample       a few thousand order keys of each task, and what it observed of all (PartitionExtremes)
    2. cut          ranges of equal depth; a frame that may leave the key's type belongs to Spark
    3. exchange     each row to its range, halo rows to every range whose frames reach them; or, where moving a row
                    costs more than reading it several times, ranges read their own after all
    4. summarize    only where a range must know what lies outside its halo: totals, ranks, the last n values
    5. window       sort, compute, drop the halo

Steps 4 and 5 share their input: what a range received is held until it is computed. If the summaries show that adding
up range by range would not give Spark's answer, these stages are given up and the window is computed in one range. With
PARTITION BY, the hash of the keys is all there is to it, as long as the rows of each key fit a task; where one may
not, the same steps run in the order of (partition keys, order keys), and ranges cut through keys.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sundog.columns.arrow import from_arrow
from sundog.columns.key_words import key_numbers
from sundog.errors import InternalError
from sundog.expr.buffers import is_narrow
from sundog.expr.calls import WindowCall
from sundog.expr.evaluate import evaluate
from sundog.expr.nodes import Expr, columns_of, substitute
from sundog.expr.ordering import SortKey
from sundog.expr.printing import render, render_order
from sundog.operators.base import Partitioner
from sundog.operators.context import TaskContext
from sundog.operators.window.frames.frame_need import FrameNeed
from sundog.operators.window.ranges.carry import Carry, carries_of, read_summaries
from sundog.operators.window.ranges.cuts import KeySample
from sundog.operators.window.ranges.halo import CountInput, RangeRepartition
from sundog.operators.window.ranges.key_ranges import largest_range
from sundog.operators.window.ranges.own_reads import KeepRange
from sundog.operators.window.ranges.routes import RowRanges, WordRanges
from sundog.operators.window.ranges.scans import RangeScans, plan_range_scans
from sundog.operators.window.segment_ends import EndCarries, carries_of_ends
from sundog.operators.window.steps import WindowSteps
from sundog.plan.costs import Costs
from sundog.plan.logical import LogicalPlan, Window
from sundog.plan.lower.aggregate import some_rows, spark_keys
from sundog.plan.lower.estimates import estimated_row_bytes
from sundog.plan.lower.facts import Size
from sundog.plan.lower.scan import TableScan, lower_read, narrowed, scan_below, scan_some
from sundog.plan.lower.sizes import fewest_ranges, key_partitions, sorted_ranges, task_count, window_ranges
from sundog.plan.spark_rows import FirstKeys
from sundog.plan.stages import Parts, Pipeline
from sundog.support import Code, Declined
from sundog.tree import transform_up
from sundog.types import is_text

if TYPE_CHECKING:
    from sundog.plan.lower.planner import Planner, Steps

_BY_STATISTICS, _BY_SAMPLE = "by row-group statistics", "cut by a sample"
_NOT_ADDABLE = "adding up range by range would not give Spark's answer"


@dataclass(frozen=True, eq=False)
class ExchangeNote:
    """A window whose rows were sent to their ranges, for the report."""

    calls: tuple[WindowCall, ...]
    ranges: WordRanges | RowRanges
    sample: KeySample


@dataclass(frozen=True, eq=False)
class ReadsNote:
    """A window whose ranges read their own row groups, for the report."""

    calls: tuple[WindowCall, ...]
    scans: RangeScans


@dataclass(frozen=True)
class RangesToCome(Partitioner):
    """Stands for a `RangeRepartition` in a plan that is only explained: a sample will say where to cut."""

    input_schema: pa.Schema
    order_by: tuple[SortKey, ...]
    partitions: int
    remark: str = ""

    @property
    def schema(self) -> pa.Schema:
        return self.input_schema

    def split(self, batches: Iterator[pa.RecordBatch], context: TaskContext) -> Iterator[tuple[int, pa.RecordBatch]]:
        raise InternalError("a plan that was only explained does not run")

    def describe(self) -> str:
        return f"RangeRepartition: order=[{render_order(self.order_by)}], cut by a sample{self.remark}"


def lower_window(planner: Planner, plan: Window) -> Steps[Pipeline]:
    """The rows of a window, with a column for each call."""
    steps = WindowSteps(plan.child.schema, plan.calls, plan.partition_by, plan.order_by, planner.site.costs)
    if plan.partition_by:
        return (yield from _by_key(planner, plan, steps))
    if not plan.order_by:
        return (yield from _without_order(planner, plan, steps))
    possible = _range_scans(planner, plan, steps)
    if possible is not None and possible.strategy == _BY_STATISTICS:
        rows = yield from _over_reads(planner, plan, steps, possible.scans, _BY_STATISTICS)
        if rows is not None:
            return rows
    return (yield from _after_sample(planner, plan, steps, possible))


def _after_sample(planner: Planner, plan: Window, steps: WindowSteps, possible: _RangeScans | None) -> Steps[Pipeline]:
    """Cut where a sample of the order keys says; then move the rows, or have few ranges read their own."""
    size, site = planner.facts.size(plan), planner.site
    keys = narrowed(plan.child, set().union(*(columns_of(key.expr) for key in plan.order_by)))
    held: Pipeline | None = None
    if keys is None:
        held = planner.graph.hold((yield from planner.lower(plan.child)))
        sample = yield from _sample(planner, steps, held)
    elif possible is None:
        sample = yield from _sample(planner, steps, lower_read(planner, keys, again=True))
    else:
        sample = yield from _sample_some(planner, plan, steps, keys, possible.scans)
        if possible.strategy == _BY_SAMPLE:
            scans = possible.scans
            if sample is not None:
                scans = scans.cut_by(sample, steps.need.reach, fewest_ranges(size, site))
            if scans.reads.cost <= site.max_reads:
                rows = yield from _over_reads(planner, plan, steps, scans, _BY_SAMPLE)
                if rows is not None:
                    return rows
            else:  # even ranges would read more than statistics alone had it
                possible = _RangeScans(scans, None)
    rows = held if held is not None else (yield from planner.lower(plan.child))
    if possible is None:
        counted = size if sample is None else _counted(plan.child, sample, size, site.costs)
        return (yield from _over_exchange(planner, steps, rows, sample, sorted_ranges(counted, site)))
    if possible.strategy is not None:  # ranges were given up: they would not add up after an exchange either
        return (yield from _over_exchange(planner, steps, rows, sample, 1))
    remark = f", reading by statistics instead would read rows {possible.scans.reads.cost:.2f}x"
    return (yield from _over_exchange(planner, steps, rows, sample, sorted_ranges(size, site), remark))


def _counted(rows: LogicalPlan, sample: KeySample, size: Size | None, costs: Costs) -> Size | None:
    """The size of rows that were all sampled, which a filter, a join or a GROUP BY may have left few of. That of
    strings is not known by their number: `size` stands, that of the tables."""
    if any(is_text(field.type) for field in rows.schema):
        return size
    count = int(sample.weights.sum())
    return Size(int(count * estimated_row_bytes(rows, costs)), count)


def _sample(planner: Planner, steps: WindowSteps, rows: Pipeline) -> Steps[KeySample | None]:
    """`rows` need not have more columns than the order keys."""
    batches = yield from planner.step(replace(rows, purpose="Sample").then(steps.sample()))
    return None if batches is None else KeySample.from_batches(batches, steps.order_by)


def _sample_some(
    planner: Planner, plan: Window, steps: WindowSteps, keys: LogicalPlan, scans: RangeScans
) -> Steps[KeySample | None]:
    """A sample of a few row groups: where statistics know the extremes of all rows, it need not see them all."""
    below = scan_below(keys)
    if below is None:
        raise InternalError("a window that could read its own ranges is over more than a scan")
    wanted = max(planner.site.costs.sample_row_groups, 2 * window_ranges(planner.facts.size(plan), planner.site))
    access = planner.facts.access(below.scan)
    some = access.thinned(wanted)
    size = some.column_bytes()
    site = planner.site_of_small(size)
    tasks = task_count(size, site, site.costs.scan_tasks_per_slot)
    rows = scan_some(below.scan, some, site, "Sample", tasks).then(*below.projections)
    sample = yield from _sample(planner, steps, rows)
    return None if sample is None else sample.standing_for(access.rows() / max(some.rows(), 1), scans.extremes)


def _check_reach(steps: WindowSteps, sample: KeySample) -> None:
    """A frame that may leave the key's type belongs to Spark, which raises or wraps as its mode wants."""
    if sample.extremes.overflows(steps.need.reach, steps.order_by[0]):
        raise Declined.because(Code.RANGE_OVERFLOW, "key and offset may leave the key's type", "Window")


def _over_exchange(
    planner: Planner, steps: WindowSteps, rows: Pipeline, sample: KeySample | None, ranges: int, remark: str = ""
) -> Steps[Pipeline]:
    """The rows in key order, with the window's columns; each row moved to its range."""
    graph = planner.graph
    if sample is None:
        to_come = RangesToCome(steps.input_schema, steps.order_by, ranges, remark)
        return graph.exchange(rows, to_come, "Window").then(steps.sort(None), steps.window(None), steps.drop())
    _check_reach(steps, sample)
    for count in dict.fromkeys((ranges, 1)):
        before = len(graph.stages)
        move = replace(steps.repartition(sample, count, planner.site.on_threads), remark=remark)
        moved = graph.exchange(rows, move, "Window")
        found = yield from _in_ranges(planner, steps, moved, move, move.partitions)
        if found is not None:
            graph.metrics.add("ranges", move.partitions)
            graph.notes.append(ExchangeNote(steps.calls, move.ranges, sample))
            return found
        graph.give_up(graph.since(before), _NOT_ADDABLE)
    raise InternalError("one range needs nothing of others")


def _over_reads(
    planner: Planner, plan: Window, steps: WindowSteps, scans: RangeScans, cut_by: str
) -> Steps[Pipeline | None]:
    """The same where each range reads its own row groups; None, with the stages given up, where ranges will not do."""
    graph, below = planner.graph, scan_below(plan.child)
    if below is None:
        raise InternalError("ranges read their own rows only above a scan")
    before = len(graph.stages)
    sources = tuple(scans.tasks(planner.facts.access(below.scan), planner.site.costs))
    rows = Pipeline(planner.site.place, "Scan", (Parts(sources, (TableScan(below.scan),)),)).then(*below.projections)
    keep = steps.keep(scans.reads, cut_by)
    found = yield from _in_ranges(planner, steps, rows.then(keep), keep, len(scans.reads.reads))
    if found is None:
        graph.give_up(graph.since(before), _NOT_ADDABLE)
        return None
    graph.metrics.add("ranges", len(scans.reads.reads))
    graph.notes.append(ReadsNote(steps.calls, scans))
    return found


def _in_ranges(
    planner: Planner, steps: WindowSteps, ranges: Pipeline, move: RangeRepartition | KeepRange, count: int
) -> Steps[Pipeline | None]:
    """The window over ranges of rows, in key order; None where they cannot be computed apart from each other."""
    in_order = ranges.then(steps.sort(move))
    carries: Sequence[Carry] = ()
    if steps.need.two_passes and count > 1:
        in_order = planner.graph.hold(in_order)
        found = yield from _carries(planner, steps, in_order, move)
        if found is None:
            return None
        carries = found
    return replace(in_order, purpose="Window").then(steps.window(move, carries), steps.drop())


def _carries(
    planner: Planner, steps: WindowSteps, rows: Pipeline, move: RangeRepartition | KeepRange | None
) -> Steps[Sequence[Carry] | None]:
    """What each range is told of the others; None where that would not give Spark's answer."""
    batches = yield from planner.step(replace(rows, purpose="Summarize").then(steps.summarize(move)))
    return () if batches is None else carries_of(read_summaries(batches), steps.calls)


def _without_order(planner: Planner, plan: Window, steps: WindowSteps) -> Steps[Pipeline]:
    """All rows are peers: the partitions serve as ranges as they are."""
    rows = yield from planner.lower(plan.child)
    held = planner.graph.hold(rows.then(CountInput(steps.input_schema)))
    carries = yield from _carries(planner, steps, held, None)
    if carries is None:
        raise Declined.because(Code.FRAME, "the sum over all rows depends on their order", "Window")
    return replace(held, purpose="Window").then(steps.window(None, carries), steps.drop(has_halo=False))


def _by_key(planner: Planner, plan: Window, steps: WindowSteps) -> Steps[Pipeline]:
    """With PARTITION BY: each task has all rows of its keys, or ranges cut through keys that fit no task."""
    keys = yield from spark_keys(planner, plan)
    if not (yield from _keys_fit_tasks(planner, plan, keys)):
        if keys is not None:  # holding Spark's rows to sample them is no part of what was found to pay
            raise _too_large(plan, plan.partition_by)
        return (yield from _inside_keys(planner, plan, steps))
    rows = yield from planner.lower(plan.child)
    if steps.need.reach:
        narrow = narrowed(plan.child, columns_of(plan.order_by[0].expr))
        rows = planner.graph.hold(rows) if narrow is None else rows
        sample = yield from _sample(planner, steps, rows if narrow is None else lower_read(planner, narrow, again=True))
        if sample is not None:
            _check_reach(steps, sample)
    move = steps.by_key(key_partitions(planner.size(plan), planner.site))
    moved = planner.graph.exchange(rows, move, "Window")
    return moved.then(steps.sort(None), steps.window(None), steps.drop(has_halo=False))


def _inside_keys(planner: Planner, plan: Window, steps: WindowSteps) -> Steps[Pipeline]:
    """With PARTITION BY: ranges of the partition keys and then the order keys, as without PARTITION BY."""
    graph, size, inside = planner.graph, planner.size(plan), steps.inside_keys
    if size is None or not plan.order_by or steps.need.kind is FrameNeed.ONE_RANGE or not _have_order(plan):
        raise _too_large(plan, plan.partition_by)
    narrow = narrowed(plan.child, set().union(*(columns_of(key.expr) for key in inside.order)))
    ranges = key_partitions(size, planner.site)
    rows = yield from planner.lower(plan.child)
    if narrow is None:
        rows = graph.hold(rows)
    read = rows if narrow is None else lower_read(planner, narrow, again=True)
    batches = yield from planner.step(replace(read, purpose="Sample").then(inside.sample()))
    if batches is None:
        moved = graph.exchange(rows, RangesToCome(steps.input_schema, inside.order, ranges), "Window")
        return moved.then(inside.sort(None), inside.window(None), steps.drop())
    sample = inside.read_sample(batches)
    _check_reach(steps, sample)
    cut = inside.cut(sample, ranges)
    needed = size.column_bytes * planner.site.costs.sort_memory_factor
    if largest_range(sample, cut) * needed > planner.site.task_memory_bytes:
        raise _too_large(plan, [key.expr for key in inside.order])
    move = inside.repartition(cut)
    in_order = graph.exchange(rows, move, "Window").then(inside.sort(move))
    graph.metrics.add("ranges", move.partitions)
    carries: Sequence[EndCarries] = ()
    if steps.need.two_passes and move.partitions > 1:
        in_order = graph.hold(in_order)
        told = yield from planner.step(replace(in_order, purpose="Summarize").then(inside.summarize(move)))
        found = carries_of_ends(read_summaries(told or []), steps.calls)
        if found is None:
            raise _too_large(plan, plan.partition_by, f", and {_NOT_ADDABLE}")
        carries = found
    return replace(in_order, purpose="Window").then(inside.window(move, carries), steps.drop())


def _have_order(plan: Window) -> bool:
    """Whether rows can be put into the order of their partition keys; of nested values there are only hashes."""
    types = [key.dtype for key in plan.partition_by]
    return all(is_narrow(dtype) or is_text(dtype) or pa.types.is_decimal(dtype) for dtype in types)


def _too_large(plan: Window, keys: Sequence[Expr], more: str = "") -> Declined:
    names = ", ".join(render(key) for key in keys)
    return Declined.because(Code.COST, f"the rows of one value of {names} may not fit a task's memory{more}", "Window")


def _keys_fit_tasks(planner: Planner, plan: Window, keys: FirstKeys | None) -> Steps[bool]:
    """Whether all rows of a key fit a task's memory, as they must after a hash exchange on executors.

    `keys`: what is known of those of Spark's rows.
    """
    site, size = planner.site, planner.size(plan)
    if site.on_threads:
        return True
    needed = math.inf if size is None else size.column_bytes * site.costs.sort_memory_factor
    if needed <= site.task_memory_bytes:
        return True
    share = (yield from _largest_share(planner, plan)) if keys is None else keys.largest_share
    return share * needed <= site.task_memory_bytes


def _largest_share(planner: Planner, plan: Window) -> Steps[float]:
    """The share of rows of the most frequent key in a few row groups; 1 if probing would need more than a scan."""
    columns: set[str] = set().union(*(columns_of(key) for key in plan.partition_by))
    same_rows = transform_up(plan.child, lambda node: node.child if isinstance(node, Window) else node)
    rows = some_rows(planner, same_rows, columns)
    if rows is None:
        return 1.0
    batches = [batch for batch in (yield from planner.step(rows, is_probe=True)) or [] if batch.num_rows]
    if not batches:
        return 1.0
    numbers = key_numbers([from_arrow(evaluate(key, pa.concat_batches(batches))) for key in plan.partition_by])
    return int(np.bincount(numbers).max()) / len(numbers)


@dataclass(frozen=True)
class _RangeScans:
    """How ranges could read their own rows, and which strategy pays for it; None: an exchange is cheaper."""

    scans: RangeScans
    strategy: str | None


def _range_scans(planner: Planner, plan: Window, steps: WindowSteps) -> _RangeScans | None:
    """What statistics say of a window right above its scan; None where they say nothing."""
    below = scan_below(plan.child)
    if below is None or steps.need.kind is FrameNeed.ONE_RANGE:
        return None
    site, size, access = planner.site, planner.facts.size(plan), planner.facts.access(below.scan)
    key = replace(plan.order_by[0], expr=substitute(plan.order_by[0].expr, below.meaning))
    found: _RangeScans | None = None
    for ranges, strategy, max_reads in (
        (window_ranges(size, site), _BY_STATISTICS, site.costs.max_clustered_reads),
        (fewest_ranges(size, site), _BY_SAMPLE, site.costs.max_scattered_reads),
    ):
        scans = plan_range_scans(access, key, steps.need.reach, ranges, site.costs.max_clustered_reads, site.costs)
        if scans is None or scans.extremes.overflows(steps.need.reach, key):
            return None
        scans = replace(scans, reads=replace(scans.reads, key=plan.order_by[0]))
        if scans.reads.cost <= min(max_reads, site.max_reads):
            return _RangeScans(scans, strategy)
        found = _RangeScans(scans, None)
    return found
