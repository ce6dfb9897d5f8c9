"""How many: tasks, partitions and ranges, from the size of the input and the site that it runs at.

Always for every slot, none so small that starting it costs more than running it, none too large for a task's memory.
"""

from __future__ import annotations

import math

from sundog.columns.key_layout import MAX_TARGETS, KeyLayout
from sundog.expr.calls import AggregateCall, NamedExpr
from sundog.operators.aggregate.grouping.buckets import grouped_bytes
from sundog.operators.aggregate.grouping.pending import MERGE_COPIES
from sundog.operators.aggregate.grouping.states import StateLayout
from sundog.operators.aggregate.phases import grouped_by
from sundog.parquet.prune.access_plan import ParquetAccessPlan
from sundog.plan.lower.facts import Size
from sundog.plan.stages import Site


def task_count(column_bytes: int, site: Site, per_slot: int = 1) -> int:
    """Number of tasks: at least `task_bytes` each, at most `per_slot` for each slot, above the slots a multiple of
    them."""
    count = int(max(1, min(site.slots * per_slot, column_bytes // max(site.costs.task_bytes, 1))))
    return count if count <= site.slots else count - count % site.slots


def scan_task_count(access: ParquetAccessPlan, site: Site) -> int:
    return task_count(access.column_bytes(), site, site.costs.scan_tasks_per_slot)


def grouping_task_count(access: ParquetAccessPlan, site: Site) -> int:
    """Tasks for rows that are grouped as they are read.

    Each task builds a table of the groups that it meets, which are the same in all: as few tasks as possible, if all
    have as much to do. Where a WHERE may leave one more than another, as many as a scan has.
    """
    size, per_slot = access.column_bytes(), site.costs.scan_tasks_per_slot
    if access.predicate is None:
        per_slot = min(per_slot, size // (site.slots * site.costs.grouping_task_bytes) + 1)
    return task_count(size, site, per_slot)


def exchange_partitions(size: Size | None, site: Site) -> int:
    """Partitions of an exchange: enough to keep every slot busy; one if the input is too small to share out."""
    if size is None:
        return min(MAX_TARGETS, site.slots * site.costs.final_tasks_per_slot)
    return min(MAX_TARGETS, task_count(size.column_bytes, site, site.costs.final_tasks_per_slot))


def group_partitions(
    keys: tuple[NamedExpr, ...], aggregates: tuple[AggregateCall, ...], size: Size | None, site: Site
) -> int:
    """Partitions of partial groups.

    On threads, of a size that is merged at once, equally many for each slot. On executors, so small that a task merges
    its groups in memory even if every row is one: groups that do not fit are spilled, which doubles the time.
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
    """The columns of the partial groups that the first phase makes."""
    return StateLayout.of(grouped, tuple(call for call in aggregates if not call.distinct), in_process=True)


def waiting_parts(shares: int, size: Size | None, site: Site) -> int:
    """Parts in which a share of the keys waits, so that each is merged at once; an exchange has partitions instead.

    Of three quarters of what is merged at once, since parts are not all of one size.
    """
    if shares == 1 or size is None:
        return 1
    return min(MAX_TARGETS, size.rows // shares // (3 * site.costs.merge_part_rows // 4 or 1) + 1)


def fewest_ranges(size: Size | None, site: Site) -> int:
    """Ranges of a window: one for every slot, and none that does not fit a task's memory while it is sorted."""
    if size is None:
        return site.slots
    by_memory = math.ceil(size.column_bytes * site.costs.sort_memory_factor / site.task_memory_bytes)
    return max(min(site.slots, task_count(size.column_bytes, site)), by_memory)


def window_ranges(size: Size | None, site: Site) -> int:
    """Number of ranges, chosen for load balance."""
    fewest = fewest_ranges(size, site)
    return fewest if site.slots == 1 else max(fewest, exchange_partitions(size, site))


def sorted_ranges(size: Size | None, site: Site) -> int:
    """Ranges of a window whose rows are moved before they are sorted: on threads so small that the caches help, which
    costs no more exchanges there; a multiple of the slots."""
    ranges = window_ranges(size, site)
    if size is None or not site.on_threads or ranges == 1:
        return ranges
    small = math.ceil(size.rows / site.costs.sort_range_rows)
    return max(ranges, min(site.costs.max_exchange_partitions, MAX_TARGETS, site.slots * math.ceil(small / site.slots)))


def join_partitions(build: Size | None, probe: Size | None, site: Site) -> int:
    """Partitions of a join whose two sides are exchanged: enough to keep every slot busy, and to fit a task's
    memory."""
    if build is None or probe is None:
        return exchange_partitions(None, site)
    both = Size(build.column_bytes + probe.column_bytes, build.rows + probe.rows)
    by_memory = math.ceil(both.column_bytes * site.costs.join_memory_factor / site.task_memory_bytes)
    return max(exchange_partitions(both, site), min(site.costs.max_exchange_partitions, MAX_TARGETS, by_memory))


def key_partitions(size: Size | None, site: Site) -> int:
    """Partitions of a window with PARTITION BY: enough to keep every slot busy, and half as large as would fit a
    task's memory."""
    return max(exchange_partitions(size, site), min(MAX_TARGETS, 2 * fewest_ranges(size, site)))
