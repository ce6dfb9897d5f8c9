"""Lowering of windows. Without PARTITION BY, the data tells where to cut, and each range is computed by itself:

    0. read         nothing is sampled or sent if statistics show that the key is clustered: ranges read their own rows
    1. sample       a few thousand order keys of each task, and the extremes of all its rows (PartitionExtremes)
    2. cut          ranges of equal depth; a frame that may leave the key's type is left to Spark
    3. exchange     each row to its range, halo rows to every range whose frames reach them; or, where sending a row
                    costs more than reading it several times, ranges read their own rows after all
    4. summarize    only where a range must know what lies outside its halo: totals, ranks, the last n values
    5. window       sort, compute, drop the halo

Steps 4 and 5 share their input. On driver threads, and where ranges read their own rows, sorted ranges are held. On
executors the sending tasks also summarize the rows (`ranges/part_summaries.py`), or both steps read Spark's shuffle. If
the summaries show that adding up range by range would not give Spark's answer, the planner drops these stages and
computes the window in one range. With PARTITION BY, rows are exchanged by the hash of their partition keys, if the rows
of each key fit a task. Else the same steps run in the order of (partition keys, order keys), and cuts may divide a key.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sundog.columns.arrow import from_arrow
from sundog.columns.key_words import key_numbers
from sundog.errors import InternalError
from sundog.expr.calls import WindowCall
from sundog.expr.evaluate import evaluate
from sundog.expr.nodes import Expr, columns_of, substitute
from sundog.expr.printing import render
from sundog.operators.window.frames.frame_need import FrameNeed
from sundog.operators.window.ranges.carry import Carry, read_summaries
from sundog.operators.window.ranges.cuts import KeySample
from sundog.operators.window.ranges.halo import CountInput, RangeRepartition, RangesToCome
from sundog.operators.window.ranges.key_ranges import have_order, largest_range
from sundog.operators.window.ranges.own_reads import KeepRange
from sundog.operators.window.ranges.part_summaries import PartNeed
from sundog.operators.window.ranges.routes import RowRanges, WordRanges
from sundog.operators.window.ranges.scans import RangeScans, plan_range_scans
from sundog.operators.window.segment_ends import EndCarries, carries_of_ends
from sundog.operators.window.steps import WindowSteps
from sundog.plan.costs import Costs
from sundog.plan.logical import LogicalPlan, Window
from sundog.plan.lower.aggregate import some_rows, spark_keys
from sundog.plan.lower.estimates import estimated_row_bytes
from sundog.plan.lower.facts import Size
from sundog.plan.lower.scan import lower_read, narrowed, scan_below, scan_some
from sundog.plan.lower.sizes import (
    fewest_ranges,
    fits_one_range,
    key_partitions,
    sampled_row_groups,
    sorted_ranges,
    task_count,
    tasks_summarize,
    window_ranges,
)
from sundog.plan.outputs import Exchange
from sundog.plan.spark_rows import FirstKeys
from sundog.plan.stages import Parts, Pipeline, Place, Stage, StageRows, Summaries
from sundog.support import Code, Declined
from sundog.tree import transform_up
from sundog.types import is_text

if TYPE_CHECKING:
    from sundog.plan.lower.planner import Planner, Steps

_BY_STATISTICS, _BY_SAMPLE = "by row-group statistics", "cut by a sample"
_ONE_RANGE = "all rows must be in one range, and may not fit a task's memory"
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


def _after_sample(
    planner: Planner, plan: Window, steps: WindowSteps, possible: _PossibleReads | None
) -> Steps[Pipeline]:
    """Cut where a sample of the order keys says; then send the rows, or have few ranges read their own."""
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
            else:  # even ranges would read more than the estimate from statistics
                possible = _PossibleReads(scans, None)
    rows = held if held is not None else (yield from planner.lower(plan.child))
    if possible is None:
        counted = size if sample is None else _counted(plan.child, sample, size, site.costs)
        return (yield from _over_exchange(planner, steps, rows, sample, counted, sorted_ranges(counted, site)))
    if possible.strategy is not None:  # ranges were given up: they would not add up after an exchange either
        return (yield from _over_exchange(planner, steps, rows, sample, size, 1))
    note = f", reading by statistics instead would read rows {possible.scans.reads.cost:.2f}x"
    return (yield from _over_exchange(planner, steps, rows, sample, size, sorted_ranges(size, site), note))


def _counted(rows: LogicalPlan, sample: KeySample, size: Size | None, costs: Costs) -> Size | None:
    """The size of rows that were all sampled: a filter, a join or a GROUP BY may have left few of the tables' rows. The
    bytes of strings do not follow from a number of rows: then `size`, that of the tables."""
    if any(is_text(field.type) for field in rows.schema):
        return size
    count = int(sample.weights.sum())
    return Size(int(count * estimated_row_bytes(rows, costs)), count)


def _sample(planner: Planner, steps: WindowSteps, rows: Pipeline, extremes: bool = True) -> Steps[KeySample | None]:
    """A sample of the order keys, with the extremes of all if asked for. `rows` need not have other columns."""
    batches = yield from planner.step(replace(rows, purpose="Sample").then(steps.sample(extremes)))
    return None if batches is None else KeySample.from_batches(batches, steps.order_by)


def _sample_some(
    planner: Planner, plan: Window, steps: WindowSteps, keys: LogicalPlan, scans: RangeScans
) -> Steps[KeySample | None]:
    """A sample of a few row groups. Enough if statistics know the extremes of all rows."""
    below = scan_below(keys)
    if below is None:
        raise InternalError("a window that could read its own ranges is over more than a scan")
    access = planner.facts.access(below.scan)
    some = access.thinned(sampled_row_groups(planner.facts.size(plan), planner.site))
    site = planner.site_of_small(size := some.column_bytes())
    tasks = task_count(size, site, site.costs.scan_tasks_per_slot)
    rows = scan_some(below.scan, some, site, "Sample", tasks).then(*below.projections)
    sample = yield from _sample(planner, steps, rows, extremes=False)
    return None if sample is None else sample.standing_for(access.rows() / max(some.rows(), 1), scans.extremes)


def _check_reach(steps: WindowSteps, sample: KeySample) -> None:
    """Decline a frame that may leave the key's type: Spark raises or wraps, as its mode says."""
    if sample.extremes.overflows(steps.need.reach, steps.order_by[0]):
        raise Declined.because(Code.RANGE_OVERFLOW, "key and offset may leave the key's type", "Window")


def _over_exchange(
    planner: Planner, steps: WindowSteps, rows: Pipeline, sample: KeySample | None, size: Size | None, ranges: int,
    remark: str = "",
) -> Steps[Pipeline]:  # fmt: skip
    """The rows in key order, with the window's columns; each row is sent to its range."""
    graph = planner.graph
    if sample is None:
        to_come = RangesToCome(steps.input_schema, steps.order_by, ranges, remark)
        return graph.exchange(rows, to_come, "Window").then(steps.sort(None), *steps.over(None))
    _check_reach(steps, sample)
    for count in dict.fromkeys((ranges, 1)):
        before = len(graph.stages)
        move = replace(steps.repartition(sample, count), remark=remark)
        if move.partitions == 1 and not fits_one_range(size, planner.site):
            raise Declined.because(Code.COST, _ONE_RANGE, "Window")
        moved = _moved(planner, steps, rows, move, steps.part_need)
        found = yield from _in_ranges(planner, steps, moved, move, move.partitions)
        if found is not None:
            graph.notes.append(ExchangeNote(steps.calls, move.ranges, sample))
            return found
        graph.give_up(graph.since(before), _NOT_ADDABLE)
    raise InternalError("one range needs nothing of others")


def _over_reads(
    planner: Planner, plan: Window, steps: WindowSteps, scans: RangeScans, cut_by: str
) -> Steps[Pipeline | None]:
    """The same, but each range reads its own row groups; None, with the stages given up, if ranges do not work."""
    graph, below, before = planner.graph, scan_below(plan.child), len(planner.graph.stages)
    if below is None:
        raise InternalError("ranges read their own rows only above a scan")
    sources = tuple(scans.tasks(planner.facts.access(below.scan), planner.site.costs))
    rows = Pipeline(planner.site.place, "Scan", (Parts(sources),)).then(*below.projections)
    keep = steps.keep(scans.reads, cut_by)
    found = yield from _in_ranges(planner, steps, rows.then(keep), keep, len(scans.reads.reads))
    if found is None:
        graph.give_up(graph.since(before), _NOT_ADDABLE)
        return None
    graph.notes.append(ReadsNote(steps.calls, scans))
    return found


def _moved(
    planner: Planner, steps: WindowSteps, rows: Pipeline, move: RangeRepartition, need: PartNeed | None = None
) -> Pipeline:
    """Rows in their ranges, summarized by the tasks that send them if `need` says how; else they are read twice.

    Executors then sort them twice: holding them in order would take them from Python to the JVM, and back twice. Rows
    that were gathered on the driver are held there, even if the site is executors.
    """
    twice = steps.need.two_passes and move.partitions > 1 and rows.place is Place.EXECUTORS
    if twice and tasks_summarize(need, steps.input_schema, move.partitions, planner.site):
        return planner.graph.exchange(rows, replace(move, parts=need), "Window")
    return planner.graph.exchange(rows, move, "Window", readers=2 if twice else 1)


def _for_two_passes(planner: Planner, in_order: Pipeline) -> Pipeline:
    """Sorted ranges that two stages read: computed twice if their input may be read twice, else held."""
    match in_order.inputs:
        case (StageRows(stage=Stage(output=Exchange(is_kept=True))),):
            return in_order
        case _:
            return planner.graph.hold(in_order)


def _in_ranges(
    planner: Planner, steps: WindowSteps, ranges: Pipeline, move: RangeRepartition | KeepRange, count: int
) -> Steps[Pipeline | None]:
    """The window over ranges of rows, in key order; None if they cannot be computed separately."""
    in_order = ranges.then(steps.sort(move))
    carries: Sequence[Carry] = ()
    if steps.need.two_passes and count > 1:
        in_order = _for_two_passes(planner, in_order)
        found = yield from _carries(planner, steps, in_order, move)
        if found is None:
            return None
        carries = found
    return replace(in_order, purpose="Window").then(*steps.over(move, carries))


def _carries(
    planner: Planner, steps: WindowSteps, rows: Pipeline, move: RangeRepartition | KeepRange | None
) -> Steps[Sequence[Carry] | None]:
    """What each range must know of the others; None if that would not give Spark's answer."""
    match rows.inputs:
        case (StageRows(stage=Stage(output=Exchange(partitioner=RangeRepartition() as move)) as sent),) if move.parts:
            summaries = Pipeline(rows.place, "Summarize", (Summaries(sent),))
        case _:
            summaries = replace(rows, purpose="Summarize").then(steps.summarize(move))
    batches = yield from planner.step(summaries)
    return () if batches is None else steps.carries(batches, move)


def _without_order(planner: Planner, plan: Window, steps: WindowSteps) -> Steps[Pipeline]:
    """A window without order: all rows are peers, so the partitions serve as ranges unchanged."""
    rows = yield from planner.lower(plan.child)
    held = planner.graph.hold(rows.then(CountInput(steps.input_schema)))
    carries = yield from _carries(planner, steps, held, None)
    if carries is None:
        raise Declined.because(Code.FRAME, "the sum over all rows depends on their order", "Window")
    return replace(held, purpose="Window").then(steps.window(None, carries), steps.drop(has_halo=False))


def _by_key(planner: Planner, plan: Window, steps: WindowSteps) -> Steps[Pipeline]:
    """A window with PARTITION BY: each task has all rows of its keys, or, if a key fits no task, ranges within keys."""
    keys = yield from spark_keys(planner, plan)
    if not (yield from _keys_fit_tasks(planner, plan, keys)):
        if keys is not None:  # holding foreign rows to sample them was not part of the costs that were compared
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
    if size is None or not plan.order_by or steps.need.kind is FrameNeed.ONE_RANGE or not have_order(plan.partition_by):
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
    in_order = _moved(planner, steps, rows, move).then(inside.sort(move))
    carries: Sequence[EndCarries] = ()
    if steps.need.two_passes and move.partitions > 1:
        in_order = _for_two_passes(planner, in_order)
        summaries = yield from planner.step(replace(in_order, purpose="Summarize").then(inside.summarize(move)))
        found = carries_of_ends(read_summaries(summaries or []), steps.calls)
        if found is None:
            raise _too_large(plan, plan.partition_by, f", and {_NOT_ADDABLE}")
        carries = found
    return replace(in_order, purpose="Window").then(inside.window(move, carries), steps.drop())


def _too_large(plan: Window, keys: Sequence[Expr], more: str = "") -> Declined:
    names = ", ".join(render(key) for key in keys)
    return Declined.because(Code.COST, f"the rows of one value of {names} may not fit a task's memory{more}", "Window")


def _keys_fit_tasks(planner: Planner, plan: Window, keys: FirstKeys | None) -> Steps[bool]:
    """Whether all rows of a key fit a task's memory, as they must after a hash exchange on executors.

    `keys`: what is known of the keys of foreign rows.
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
    """The share of rows of the most frequent key in a few row groups; 1 if a probe would need more than a scan."""
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
class _PossibleReads:
    """Range reads that statistics allow. `strategy`: the cheapest, None if an exchange is cheaper."""

    scans: RangeScans
    strategy: str | None


def _range_scans(planner: Planner, plan: Window, steps: WindowSteps) -> _PossibleReads | None:
    """What statistics show for a window right above its scan; None if they show nothing."""
    below = scan_below(plan.child)
    if below is None or steps.need.kind is FrameNeed.ONE_RANGE:
        return None
    site, size, access = planner.site, planner.facts.size(plan), planner.facts.access(below.scan)
    key = replace(plan.order_by[0], expr=substitute(plan.order_by[0].expr, below.meaning))
    found = None
    for ranges, strategy, max_reads in (
        (window_ranges(size, site), _BY_STATISTICS, site.costs.max_clustered_reads),
        (fewest_ranges(size, site), _BY_SAMPLE, site.costs.max_scattered_reads),
    ):
        scans = plan_range_scans(access, key, steps.need.reach, ranges, site.costs.max_clustered_reads, site.costs)
        if scans is None or scans.extremes.overflows(steps.need.reach, key):
            return None
        scans = replace(scans, reads=replace(scans.reads, key=plan.order_by[0]))
        if scans.reads.cost <= min(max_reads, site.max_reads):
            return _PossibleReads(scans, strategy)
        found = _PossibleReads(scans, None)
    return found
