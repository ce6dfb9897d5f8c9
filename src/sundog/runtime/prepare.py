"""Decides how a physical plan runs, from what can be known before it does: settings, footers, a look at a few rows.

    where       the driver for little work, which then costs no Spark job, and the executors for much
    how many    tasks, partitions and ranges: for every slot, none too small to be worth starting or too large for its memory
    which way   rows get together: moved through an exchange, read again, or gathered

The plan that comes out says what was decided, so `explain` can show it without running anything.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sundog.columns.arrow import from_arrow
from sundog.columns.key_layout import KeyLayout
from sundog.columns.key_words import key_numbers
from sundog.config import Settings
from sundog.errors import InternalError
from sundog.expr.calls import AggregateCall, NamedExpr
from sundog.expr.evaluate import evaluate
from sundog.expr.nodes import columns_of, substitute
from sundog.expr.printing import render
from sundog.operators.aggregate.grouping.buckets import grouped_bytes
from sundog.operators.aggregate.grouping.pending import MERGE_COPIES
from sundog.operators.aggregate.grouping.state_merger import MERGED_AT_ONCE, MERGED_BYTES
from sundog.operators.aggregate.grouping.states import StateLayout
from sundog.operators.aggregate.hash_partition import MOST_TARGETS
from sundog.operators.aggregate.key_probe import ProbeKeys
from sundog.operators.aggregate.phases import grouped_by
from sundog.operators.base import Operator
from sundog.operators.scan.scan import scan_tasks
from sundog.operators.topk.row_group_search import Switches
from sundog.operators.topk.topk_plan import TopKPlan, plan_topk
from sundog.operators.window.frames.frame_need import FrameNeed, needs_of
from sundog.operators.window.ranges.own_reads import MAX_READ_AMPLIFICATION
from sundog.operators.window.ranges.scans import plan_range_scans
from sundog.parquet.prune.access_plan import ParquetAccessPlan, plan_access
from sundog.plan.physical import (
    GroupWay,
    ParallelWindow,
    ParquetScan,
    PhysicalPlan,
    RangeWay,
    TopKScan,
    TwoPhaseAggregate,
    narrowed,
    scan_below,
)
from sundog.runtime.driver import DriverRuntime
from sundog.runtime.flow import Flow, Runtime
from sundog.runtime.spark import SparkRuntime, driver_of
from sundog.support import Code, Declined
from sundog.tree import transform_up, walk
from sundog.types import is_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FINAL_TASKS_PER_SLOT = 2  # enough that a large group of one task does not leave the others idle
TASK_BYTES = 4 << 20  # decoding so much takes some 5 ms
_GROUPING_TASK_BYTES = 256 << 20
_SORTED_TIMES = 8  # the memory that a range takes while it is sorted and computed, over the bytes of its columns
_PROBED_ROW_GROUPS = 3
_READ_UNDER_WHERE = 2
_GATHERED_ROWS = 300_000
# What a row and each of its bytes take on their way through a shuffle, in bytes that could be decoded in that time.
_MOVED_ROW, _MOVED_BYTE = 67, 1.35
_MOST_PARTITIONS = 1000
_WAITING = 1.25  # the memory that a share takes while it is merged, over that of its rows
_MOST_SHARES = 8  # with so many the shuffle is as fast for all but narrow rows


def some_row_groups(plan: PhysicalPlan, count: int) -> tuple[ParquetAccessPlan, float, list[Operator]]:
    """A few row groups of a plan that only reads and projects: how to read them, rows in all over theirs, projections."""
    below = scan_below(plan)
    if below is None:
        raise InternalError("only what is simply read has row groups to look at")
    scan, _, projections = below
    access = plan_access(scan.relation, scan.columns, scan.predicate)
    some = access.thinned(count)
    return some, access.rows() / max(some.rows(), 1), projections


@dataclass(frozen=True)
class Leaf:
    """What is to be read, after everything that statistics can say."""

    access: ParquetAccessPlan
    topk: TopKPlan | None = None

    @cached_property
    def column_bytes(self) -> int:
        return self.access.column_bytes() if self.topk is None else self.topk.column_bytes()


@dataclass(frozen=True)
class Prepared:
    """A plan for which everything is decided that the files' footers decide."""

    plan: PhysicalPlan
    leaf: Leaf | None
    runtime: Runtime


def prepare(plan: PhysicalPlan, session: SparkSession, settings: Settings, executors_unusable: str | None) -> Prepared:
    """Plan the access, choose the place, and choose how the rows of a range or of a group get together."""
    leaf = _plan_leaf(plan)
    runtime = _choose_runtime(plan, leaf, session, settings, executors_unusable)
    for node in walk(plan):
        if isinstance(node, ParallelWindow) and node.partition_by:
            _check_largest_partition(node, leaf, runtime)
    if leaf is not None:
        plan = transform_up(plan, lambda node: _with_way(_with_ranges(node, leaf, runtime), leaf, runtime))
    return Prepared(plan, leaf, runtime)


def _check_largest_partition(window: ParallelWindow, leaf: Leaf | None, runtime: Runtime) -> None:
    """On executors all rows of a key must fit a task's memory; Spark, which sorts on disk, takes those that may not."""
    if isinstance(runtime, DriverRuntime):
        return
    room, size = runtime.task_memory_bytes, leaf.column_bytes * _SORTED_TIMES if leaf is not None else math.inf
    if size > room and _largest_share(window, runtime) * size > room:
        keys = ", ".join(render(key) for key in window.partition_by)
        raise Declined.because(Code.COST, f"the rows of one value of {keys} may not fit a task's memory", "Window")


def _largest_share(window: ParallelWindow, runtime: Runtime) -> float:
    """The share of rows that a window's most frequent key has in a few row groups; 1 where that is no cheap look."""
    columns: set[str] = set().union(*(columns_of(key) for key in window.partition_by))
    same_rows = transform_up(window.child, lambda node: node.child if isinstance(node, ParallelWindow) else node)
    probed = _some_rows(same_rows, columns, runtime)
    batches = [batch for batch in probed.collect() if batch.num_rows] if probed is not None else []
    if not batches:
        return 1.0
    numbers = key_numbers([from_arrow(evaluate(key, pa.concat_batches(batches))) for key in window.partition_by])
    return int(np.bincount(numbers).max()) / len(numbers)


def _with_ranges(plan: PhysicalPlan, leaf: Leaf, runtime: Runtime) -> PhysicalPlan:
    """A window right above its scan, with how its ranges could read their own rows."""
    if not isinstance(plan, ParallelWindow) or plan.partition_by or not plan.order_by:
        return plan
    need, below = needs_of(plan.calls), scan_below(plan.child)
    if below is None or need.kind is FrameNeed.ONE_RANGE:
        return plan
    key = replace(plan.order_by[0], expr=substitute(plan.order_by[0].expr, below[1]))
    for ranges, way, most_read in (
        (window_ranges(leaf, runtime), RangeWay.READ, MAX_READ_AMPLIFICATION),
        (fewest_ranges(leaf, runtime), RangeWay.SAMPLE_AND_READ, runtime.most_read),
    ):
        scans = plan_range_scans(leaf.access, key, need.reach, ranges)
        if scans is None or scans.extremes.overflows(need.reach, key):
            return plan
        scans = replace(scans, reads=replace(scans.reads, key=plan.order_by[0]))
        if scans.reads.cost <= most_read:
            return replace(plan, ranges=scans, way=way)
    return replace(plan, ranges=scans)


def _with_way(plan: PhysicalPlan, leaf: Leaf, runtime: Runtime) -> PhysicalPlan:
    """An aggregate on executors without an exchange, if it has no keys, or a look at some keys shows a better way."""
    if not isinstance(plan, TwoPhaseAggregate) or isinstance(runtime, DriverRuntime):
        return plan
    keys = grouped_by(plan.keys, plan.aggregates)
    if not keys:
        return replace(plan, way=GroupWay.GATHER)
    found = _probe(plan, keys, runtime)
    if found is None:
        return plan
    rows = leaf.access.rows()
    known, unseen = found["groups"] * runtime.parallelism, found["new_share"] * rows
    moved = rows if found["gives_up"] else min(rows, known + unseen)
    if moved <= _GATHERED_ROWS:
        return replace(plan, way=GroupWay.GATHER)
    shares = _shares(_states(keys, plan.aggregates), leaf, moved, runtime)
    return replace(plan, way=GroupWay.SHARES, shares=shares) if shares > 1 else plan


def _shares(states: StateLayout, leaf: Leaf, moved: float, runtime: Runtime) -> int:
    """In how many tasks to read all rows, each for its share of the keys: a few for each slot, so that a share fits a task's
    memory. 1 where moving the groups costs less."""
    slots, size, rows = runtime.parallelism, leaf.column_bytes, leaf.access.rows()
    if not 1 < slots <= runtime.most_read or size < slots * TASK_BYTES:
        return 1
    if leaf.access.predicate is not None:  # it would be computed in every task, and may leave little to move
        return 1
    texts = [column.name for column in leaf.access.relation.file_columns if is_text(column.dtype)]
    waiting = (states.single_bytes * rows + leaf.access.column_bytes(texts)) * _WAITING
    shares = slots * math.ceil(waiting / (slots * runtime.task_memory_bytes))
    if shares > _MOST_SHARES or (shares - 1) * size > moved * (_MOVED_ROW + _MOVED_BYTE * size / rows):
        return 1
    return shares


def _states(grouped: tuple[NamedExpr, ...], aggregates: tuple[AggregateCall, ...]) -> StateLayout:
    """The partial groups of the first phase."""
    return StateLayout.of(grouped, tuple(call for call in aggregates if not call.distinct), in_process=True)


def _probe(plan: TwoPhaseAggregate, keys: tuple[NamedExpr, ...], runtime: Runtime) -> dict[str, Any] | None:
    """What the first rows of a few row groups, read on the driver, say of the keys; None where that is no cheap look."""
    probed = _some_rows(plan.child, set().union(*(columns_of(key.expr) for key in keys)), runtime)
    if probed is None:
        return None
    found: list[dict[str, Any]] = [row for batch in probed.then(ProbeKeys(keys)).collect() for row in batch.to_pylist()]
    return found[0] if found else None


def _some_rows(plan: PhysicalPlan, columns: set[str], runtime: Runtime) -> Flow | None:
    """These columns of the rows of a few row groups, read on the driver; None where that is no cheap look."""
    narrow = narrowed(plan, columns)
    if narrow is None or scan_below(narrow) is None or not columns <= set(narrow.schema.names):
        return None
    some, _, projections = some_row_groups(narrow, _PROBED_ROW_GROUPS)
    return driver_of(runtime).start(scan_tasks(some, 1, again=True), "Probe").then(*projections)


def _plan_leaf(plan: PhysicalPlan) -> Leaf | None:
    """Read the footers and prune; None for a plan over rows of Spark's."""
    leaves = [node for node in walk(plan) if not node.children]
    if len(leaves) != 1:
        raise InternalError("a plan has one leaf")
    leaf = leaves[0]
    if not isinstance(leaf, ParquetScan | TopKScan):
        return None
    access = plan_access(leaf.scan.relation, leaf.scan.columns, leaf.scan.predicate)
    if isinstance(leaf, ParquetScan):
        return Leaf(access)
    switches = Switches() if leaf.dynamic_pruning else Switches.static_only()
    return Leaf(access, plan_topk(access, leaf.order, leaf.limit + leaf.offset, leaf.checks, switches))


def _choose_runtime(
    plan: PhysicalPlan, leaf: Leaf | None, session: SparkSession, settings: Settings, executors_unusable: str | None
) -> Runtime:
    """`auto`: the driver for what fits it, the executors for the rest and for rows that are theirs already."""
    wish = settings.placement
    if wish == "auto":
        fits = leaf is not None and leaf.column_bytes <= settings.driver_max_bytes * _most_read(plan, leaf)
        wish = "driver" if fits or executors_unusable else "executors"
    if wish == "driver" and leaf is not None:
        return DriverRuntime(os.cpu_count() or 1, settings.task_memory_bytes)
    if executors_unusable:
        raise Declined.because(Code.PLACEMENT, executors_unusable)
    return SparkRuntime(session, settings.task_memory_bytes, settings.exchange_block_bytes)


def _most_read(plan: PhysicalPlan, leaf: Leaf) -> int:
    """How many times as much may be read as may be held: what a WHERE drops is not held, but a window may keep it all."""
    holds_all = leaf.access.predicate is None or any(isinstance(node, ParallelWindow) for node in walk(plan))
    return 1 if holds_all else _READ_UNDER_WHERE


def task_count(column_bytes: int, slots: int, per_slot: int = 1) -> int:
    """Tasks for so much input: none so small that starting it costs more than running it, and as many for each slot."""
    count = max(1, min(slots * per_slot, column_bytes // TASK_BYTES))
    return count if count <= slots else count - count % slots


def grouping_task_count(access: ParquetAccessPlan, runtime: Runtime) -> int:
    """Tasks for rows that are grouped as they are read. Each makes a table of the groups it meets, which are the same in all:
    as few as possible, if all have as much to do, and as many as even out where a WHERE may leave one more than another."""
    size, slots, per_slot = access.column_bytes(), runtime.parallelism, runtime.scan_tasks_per_slot
    if access.predicate is None:
        per_slot = min(per_slot, size // (slots * _GROUPING_TASK_BYTES) + 1)
    return task_count(size, slots, per_slot)


def exchange_partitions(leaf: Leaf | None, runtime: Runtime) -> int:
    """As many as keep every slot busy; one where the input is too small to share out."""
    slots = runtime.parallelism
    if leaf is None:
        return slots * FINAL_TASKS_PER_SLOT
    return task_count(leaf.column_bytes, slots, FINAL_TASKS_PER_SLOT)


def group_partitions(
    keys: tuple[NamedExpr, ...], aggregates: tuple[AggregateCall, ...], leaf: Leaf | None, runtime: Runtime
) -> int:
    """As many as keep every slot busy; on threads, of a size that is merged at once, and as many for each; else, so small
    that a task merges its groups in memory even if every row is one. Groups that do not fit are spilled, which doubles the
    time."""
    partitions = exchange_partitions(leaf, runtime)
    if leaf is None or partitions == 1:
        return partitions
    rows = leaf.access.rows()
    if isinstance(runtime, DriverRuntime):
        words = KeyLayout.of([key.expr.dtype for key in keys]).value_words
        slots = runtime.parallelism
        rounds = grouped_bytes(rows, words) // MERGED_BYTES // slots + 1
        return max(partitions, min(MOST_TARGETS, rounds * slots))
    row_bytes = _states(grouped_by(keys, aggregates), aggregates).row_bytes
    fitting = MERGE_COPIES * (row_bytes * rows + leaf.column_bytes) / runtime.task_memory_bytes
    slots = runtime.parallelism
    return max(partitions, min(_MOST_PARTITIONS, slots * math.ceil(fitting / slots)))


def waiting_parts(shares: int, leaf: Leaf | None) -> int:
    """Parts in which a share of the keys waits, so that each is merged at once; an exchange has partitions instead."""
    return 1 if shares == 1 or leaf is None else leaf.access.rows() // shares // MERGED_AT_ONCE + 1


def key_partitions(leaf: Leaf | None, runtime: Runtime) -> int:
    """Of a window with PARTITION BY: as many as keep every slot busy, and half as large as would fit a task's memory."""
    return max(exchange_partitions(leaf, runtime), 2 * fewest_ranges(leaf, runtime))


def fewest_ranges(leaf: Leaf | None, runtime: Runtime) -> int:
    """Of a window: one for every slot, and none that would not fit a task's memory when it is sorted and computed."""
    if leaf is None:
        return runtime.parallelism
    by_memory = -(-leaf.column_bytes * _SORTED_TIMES // runtime.task_memory_bytes)
    return max(min(runtime.parallelism, task_count(leaf.column_bytes, runtime.parallelism)), by_memory)


def window_ranges(leaf: Leaf | None, runtime: Runtime) -> int:
    """As many as even out, where there is more than one slot."""
    fewest = fewest_ranges(leaf, runtime)
    return fewest if runtime.parallelism == 1 else max(fewest, exchange_partitions(leaf, runtime))
