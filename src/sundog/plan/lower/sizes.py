"""Numbers of tasks, partitions and ranges, by the size of the input and the site.

Every slot gets work, no task is so small that starting it costs more than running it, and none exceeds a task's memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import pyarrow as pa

from sundog.columns.key_layout import MAX_TARGETS, KeyLayout
from sundog.expr.calls import AggregateCall, NamedExpr
from sundog.operators.aggregate.grouping.buckets import grouped_bytes
from sundog.operators.aggregate.grouping.pending import MERGE_COPIES
from sundog.operators.aggregate.grouping.states import StateLayout
from sundog.operators.aggregate.phases import grouped_by
from sundog.operators.window.ranges.part_summaries import PartNeed
from sundog.parquet.prune.access_plan import ParquetAccessPlan
from sundog.plan.logical import LogicalPlan, may_stop_early, spark_has_one_partition
from sundog.plan.lower.estimates import estimated_value_bytes
from sundog.plan.lower.facts import Size
from sundog.plan.outputs import Result
from sundog.plan.stages import Site

_COALESCED_BYTES = 1 << 20  # Spark's spark.sql.adaptive.coalescePartitions.minPartitionSize


def task_count(column_bytes: int, site: Site, per_slot: int = 1) -> int:
    """Number of tasks: at least `task_bytes` each, at most `per_slot` for each slot, above the slots a multiple of
    them."""
    count = int(max(1, min(site.slots * per_slot, column_bytes // max(site.costs.task_bytes, 1))))
    return count if count <= site.slots else count - count % site.slots


def scan_task_count(access: ParquetAccessPlan, site: Site) -> int:
    return task_count(access.column_bytes(), site, site.costs.scan_tasks_per_slot)


def grouping_task_count(access: ParquetAccessPlan, site: Site) -> int:
    """Number of tasks for rows that are grouped as they are read.

    Each task builds a table of its groups, which are the same in all tasks: so as few tasks as keep the slots evenly
    busy. If a WHERE may leave some tasks more rows than others, as many as a plain scan has.
    """
    size, per_slot = access.column_bytes(), site.costs.scan_tasks_per_slot
    if access.predicate is None:
        per_slot = min(per_slot, size // (site.slots * site.costs.grouping_task_bytes) + 1)
    return task_count(size, site, per_slot)


def exchange_partitions(size: Size | None, site: Site) -> int:
    """Partitions of an exchange: enough to keep every slot busy; one if the input is too small to divide."""
    if size is None:
        return min(MAX_TARGETS, site.slots * site.costs.final_tasks_per_slot)
    return min(MAX_TARGETS, task_count(size.column_bytes, site, site.costs.final_tasks_per_slot))


def group_partitions(
    keys: tuple[NamedExpr, ...], aggregates: tuple[AggregateCall, ...], size: Size | None, site: Site
) -> int:
    """Partitions of partial groups.

    On threads, each is small enough to be merged in one go, and their number is a multiple of the slots. On executors,
    each fits a task's memory even if every row is a group: groups that do not fit are spilled, which doubles the time.
    """
    partitions = exchange_partitions(size, site)
    if size is None or partitions == 1:
        return partitions
    if site.on_threads:
        words = KeyLayout.of([key.expr.dtype for key in keys]).value_words
        rounds = grouped_bytes(size.rows, words) // site.costs.merge_part_bytes // site.slots + 1
        return max(partitions, min(site.costs.scatter_targets, MAX_TARGETS, rounds * site.slots))
    row_bytes = state_layout(grouped_by(keys, aggregates), aggregates).row_bytes
    needed = MERGE_COPIES * (row_bytes * size.rows + size.column_bytes) / site.task_memory_bytes
    fitting = site.slots * math.ceil(needed / site.slots)
    return max(partitions, min(site.costs.max_exchange_partitions, MAX_TARGETS, fitting))


def state_layout(grouped: tuple[NamedExpr, ...], aggregates: tuple[AggregateCall, ...]) -> StateLayout:
    """The columns of the partial groups that the partial aggregation makes."""
    return StateLayout.of(grouped, tuple(call for call in aggregates if not call.distinct), in_process=True)


def waiting_parts(shares: int, size: Size | None, site: Site) -> int:
    """Parts in which a task collects its share of the keys, so that each is merged in one go; for an exchange, 1.

    A part holds less than what is merged in one go (`waiting_part_share`), since parts differ in size.
    """
    if shares == 1 or size is None:
        return 1
    part_rows = int(site.costs.merge_part_rows * site.costs.waiting_part_share) or 1
    return min(MAX_TARGETS, size.rows // shares // part_rows + 1)


def fewest_ranges(size: Size | None, site: Site) -> int:
    """Ranges of a window: one for every slot, and each small enough to be sorted in a task's memory."""
    if size is None:
        return site.slots
    by_memory = math.ceil(size.column_bytes * site.costs.sort_memory_factor / site.task_memory_bytes)
    return max(min(site.slots, task_count(size.column_bytes, site)), by_memory)


def fits_one_range(size: Size | None, site: Site) -> bool:
    """Whether one task can sort and compute all rows. On threads they are in this process's memory anyway."""
    if site.on_threads or size is None:
        return True
    return size.column_bytes * site.costs.one_range_memory_factor <= site.task_memory_bytes


def window_ranges(size: Size | None, site: Site) -> int:
    """Number of ranges, chosen for load balance."""
    fewest = fewest_ranges(size, site)
    return fewest if site.slots == 1 else max(fewest, exchange_partitions(size, site))


def sampled_row_groups(size: Size | None, site: Site) -> int:
    """Row groups whose keys show where to cut a window's ranges."""
    per_range = int(site.costs.sample_row_groups_per_range * window_ranges(size, site))
    return max(site.costs.sample_row_groups, per_range)


def sorted_ranges(size: Size | None, site: Site) -> int:
    """Ranges of a window whose rows are sent before they are sorted. On threads, where an exchange costs the same for
    more of them, small enough for the caches; a multiple of the slots."""
    ranges = window_ranges(size, site)
    if size is None or not site.on_threads or ranges == 1:
        return ranges
    small = math.ceil(size.rows / site.costs.sort_range_rows)
    return max(ranges, min(site.costs.max_exchange_partitions, MAX_TARGETS, site.slots * math.ceil(small / site.slots)))


def tasks_summarize(need: PartNeed | None, schema: pa.Schema, ranges: int, site: Site) -> bool:
    """Whether the tasks that send rows to `ranges` ranges also send the summaries that the ranges need of each other.

    Not if these would have so many rows that the driver reads less from one summary of each whole range.
    """
    if need is None:
        return False
    row_bytes = sum(estimated_value_bytes(schema.field(name).type, site.costs) for name in need.columns)
    tasks = site.slots * site.costs.scan_tasks_per_slot
    return 2 * need.edges * ranges * tasks * row_bytes <= site.costs.max_summary_bytes


def join_partitions(build: Size | None, probe: Size | None, site: Site) -> int:
    """Partitions of a join whose two sides are exchanged: enough to keep every slot busy, and each small enough for a
    task's memory."""
    if build is None or probe is None:
        return exchange_partitions(None, site)
    both = Size(build.column_bytes + probe.column_bytes, build.rows + probe.rows)
    by_memory = math.ceil(both.column_bytes * site.costs.join_memory_factor / site.task_memory_bytes)
    return max(exchange_partitions(both, site), min(site.costs.max_exchange_partitions, MAX_TARGETS, by_memory))


def key_partitions(size: Size | None, site: Site) -> int:
    """Partitions of a window with PARTITION BY: enough to keep every slot busy, and each smaller than a task's
    memory allows (`key_partitions_per_range`)."""
    by_memory = int(site.costs.key_partitions_per_range * fewest_ranges(size, site))
    return max(exchange_partitions(size, site), min(MAX_TARGETS, by_memory))


def result_of(tree: LogicalPlan, subqueries: Iterable[LogicalPlan]) -> Result:
    """The output of the last stage. Rows are in one partition if Spark has one, or adaptive execution makes one."""
    one_partition_bytes = math.inf if spark_has_one_partition(tree) else _COALESCED_BYTES
    return Result(one_partition_bytes, any(map(may_stop_early, (tree, *subqueries))))
