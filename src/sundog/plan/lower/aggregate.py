"""Lowering of GROUP BY: partial groups in each task, brought together by the hash of their keys, merged.

On executors a probe of a few row groups chooses how the rows of a group come together:

    exchange    partial groups are sent by the hash of their keys
    gather      the groups are few enough for the driver to merge them
    shares      every task reads all rows and keeps those whose keys it owns, if that costs less than sending them
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sundog.expr.buffers import is_narrow
from sundog.expr.calls import NamedExpr
from sundog.expr.nodes import Column, Literal, columns_of
from sundog.expr.printing import named_text
from sundog.functions.table import adds_short_decimals, order_decides
from sundog.operators.aggregate.final_operator import BestGroups
from sundog.operators.aggregate.key_probe import ProbeKeys
from sundog.operators.aggregate.phases import aggregate_phases, grouped_by
from sundog.operators.base import Operator
from sundog.plan.logical import Aggregate, Foreign, LogicalPlan, Scan, Window
from sundog.plan.lower.scan import lower_scan, narrowed, scan_below, scan_some
from sundog.plan.lower.sizes import group_partitions, state_layout, waiting_parts
from sundog.plan.spark_rows import FirstKeys, probed_columns, why_left_with
from sundog.plan.stages import FirstSparkKeys, Pipeline, Place
from sundog.support import Code, Declined
from sundog.types import is_text

if TYPE_CHECKING:
    from sundog.plan.lower.planner import Planner, Rows, Steps


@dataclass(frozen=True, eq=False)
class AggregateNote:
    """A GROUP BY for the report: the operators of its phases, in order."""

    keys: str
    phases: tuple[Operator, ...]


@dataclass(frozen=True)
class _Strategy:
    """How the rows of a group come together. `groups`: partial groups of all tasks, if they are gathered."""

    gather: bool = False
    shares: int = 1
    groups: float = math.inf


def lower_aggregate(planner: Planner, plan: Aggregate, best: BestGroups | None = None) -> Steps[Pipeline]:
    """The groups of a GROUP BY. `best`: only these groups of the result are needed."""
    site, size, graph = planner.site, planner.size(plan), planner.graph
    computed = sum(not isinstance(arg, Column | Literal) for call in plan.aggregates for arg in call.args)
    if not plan.keys and computed > site.costs.max_computed_sums:
        raise Declined.because(
            Code.COST, f"{computed} computed arguments and no keys: what Spark compiles well", "Aggregate"
        )
    yield from spark_keys(planner, plan)
    strategy = yield from _strategy(planner, plan)
    rows = yield from _input(planner, plan, strategy.shares)
    partitions = group_partitions(plan.keys, plan.aggregates, size, site)
    merged = _merges_in_process(planner, plan, strategy, rows)
    phases = aggregate_phases(
        plan.keys,
        plan.aggregates,
        partitions,
        site.costs,
        in_process=site.on_threads,
        shares=strategy.shares,
        parts=waiting_parts(strategy.shares, size, site),
        merged=merged,
        merged_again=_merges_again(planner, plan, strategy, rows, partitions),
        hidden=plan.hidden,
        best=best,
    )
    for number, phase in enumerate(phases):
        rows = rows.then(phase.operator)
        if strategy.gather and number == 0:
            merging = phase.partitioner.for_driver(site.process_slots) if merged and phase.partitioner else None
            rows = graph.gather(rows, "Merge groups", "few groups are merged on the driver", merging=merging)
        elif phase.partitioner is not None and not strategy.gather:
            unsplit = site.costs.unsplit_exchange_rows if phase.partitioner.joinable else 0
            rows = graph.exchange(rows, phase.partitioner, "Merge groups", unsplit)
    keys = ", ".join(named_text(key) for key in plan.keys)
    graph.notes.append(AggregateNote(keys, tuple(phase.operator for phase in phases)))
    return rows


def spark_keys(planner: Planner, plan: Aggregate | Window) -> Steps[FirstKeys | None]:
    """What the first foreign rows show of the keys; None if the input is no foreign rows, or the keys are unknown.

    Declines if handing the rows over costs more than sundog gains with keys like these.
    """
    foreign, columns, costs = plan.child, probed_columns(plan), planner.site.costs
    if not isinstance(foreign, Foreign) or columns is None:
        return None
    names = foreign.schema.names
    text = f"{foreign.label}, first {costs.first_key_rows} rows of [{', '.join(columns)}]"
    first = FirstSparkKeys(foreign.handle, tuple(map(names.index, columns)), costs.first_key_rows, text)
    batches = yield from planner.step(Pipeline(Place.DRIVER, "Probe", (first,)), is_probe=True)
    keys = FirstKeys.of(key for batch in batches or [] for key in batch.column(0).to_pylist())
    problem = None if keys is None else why_left_with(plan, foreign, keys, costs)
    if problem is not None:
        raise Declined(problem)
    return keys


def _merges_in_process(planner: Planner, plan: Aggregate, strategy: _Strategy, rows: Pipeline) -> bool:
    """Whether the tasks of an executor merge their groups before sending them. Not if an aggregate depends on order,
    nor if the driver gathers few of them."""
    has_keys = bool(grouped_by(plan.keys, plan.aggregates))
    is_moved = strategy.shares == 1 and has_keys and strategy.groups >= planner.site.costs.min_merged_groups
    return is_moved and not _in_order(plan) and planner.graph.process_tasks(rows) > 0


def _merges_again(planner: Planner, plan: Aggregate, strategy: _Strategy, rows: Pipeline, partitions: int) -> bool:
    """The same for the tasks that count distinct values. Without keys each of them sends one row."""
    if strategy.gather or not plan.keys or _in_order(plan) or rows.place is Place.DRIVER:
        return False
    graph = planner.graph
    return (graph.process_tasks(rows) if strategy.shares > 1 else graph.tasks_of(partitions)) > 0


def _in_order(plan: Aggregate) -> bool:
    return any(order_decides(call) for call in plan.aggregates)


def _input(planner: Planner, plan: Aggregate, shares: int) -> Steps[Pipeline]:
    """The rows to group. Strings that are only grouped by or aggregated are read as stored: nothing is copied. So are
    decimals that are only added up, in eight bytes each."""
    if isinstance(plan.child, Scan):
        as_stored = _unopened_texts(plan) | _summed_decimals(plan, plan.child)
        return lower_scan(planner, plan.child, as_stored=as_stored, times=shares, is_grouped=True)
    below = scan_below(plan.child)
    if shares == 1 or below is None:
        return (yield from planner.lower(plan.child))
    return lower_scan(planner, below.scan, times=shares).then(*below.projections)


def _unopened_texts(plan: Aggregate) -> frozenset[str]:
    """String columns that no expression evaluates."""
    used = [*(key.expr for key in plan.keys), *(arg for call in plan.aggregates for arg in call.args)]
    plain = {expr.name for expr in used if isinstance(expr, Column) and is_text(expr.dtype)}
    computed = [expr for expr in used if not isinstance(expr, Column)]
    computed += [call.filter for call in plan.aggregates if call.filter is not None]
    return frozenset(plain - set().union(*(columns_of(expr) for expr in computed)))


def _summed_decimals(plan: Aggregate, scan: Scan) -> frozenset[str]:
    """Decimal columns that only sums and averages read, and not the WHERE, which would widen them for its tests."""
    summed = [arg for call in plan.aggregates if adds_short_decimals(call) for arg in call.args]
    others = [key.expr for key in plan.keys]
    others += [arg for call in plan.aggregates if not adds_short_decimals(call) for arg in call.args]
    others += [expr for expr in (scan.predicate, *(call.filter for call in plan.aggregates)) if expr is not None]
    names: set[str] = set().union(*map(columns_of, summed))
    names -= set().union(*map(columns_of, others))
    fields = [field for field in scan.schema if field.name in names and pa.types.is_decimal(field.type)]
    return frozenset(field.name for field in fields if is_narrow(field.type))


def _strategy(planner: Planner, plan: Aggregate) -> Steps[_Strategy]:
    site, size = planner.site, planner.facts.size(plan)
    if site.on_threads or size is None:
        return _Strategy()
    keys = grouped_by(plan.keys, plan.aggregates)
    if not keys:
        return _Strategy(gather=True)
    found = yield from _probe(planner, plan.child, keys)
    if found is None:
        return _Strategy()
    known, unseen = found["groups"] * site.slots, found["new_share"] * size.rows
    moved = size.rows if found["gives_up"] else min(size.rows, known + unseen)
    if moved <= site.costs.gather_groups:
        return _Strategy(gather=True, groups=moved)
    return _Strategy(shares=_shares(planner, plan, keys, moved))


def _shares(planner: Planner, plan: Aggregate, keys: tuple[NamedExpr, ...], moved: float) -> int:
    """Number of tasks that each read all rows: a multiple of the slots, enough that a share of the keys fits a task's
    memory. 1 if sending the groups costs less.
    """
    site, costs, below = planner.site, planner.site.costs, scan_below(plan.child)
    if below is None:
        return 1
    access = planner.facts.access(below.scan)
    slots, size, rows = site.slots, access.column_bytes(), access.rows()
    if slots == 1 or size < slots * costs.task_bytes:
        return 1
    if access.predicate is not None:  # every task would evaluate it, and it may leave few rows to send
        return 1
    texts = [column.name for column in access.reading.file_columns if is_text(column.dtype)]
    state_bytes = state_layout(keys, plan.aggregates).single_bytes * rows + access.column_bytes(texts)
    shares = slots * math.ceil(state_bytes * costs.share_memory_factor / (slots * site.task_memory_bytes))
    moving = moved * (costs.shuffle_row_in_reread_bytes + costs.shuffle_byte_in_reread_bytes * size / rows)
    most = min(costs.max_shares, site.max_reads)
    return 1 if shares > most or (shares - 1) * size > moving else shares


def _probe(planner: Planner, child: LogicalPlan, keys: tuple[NamedExpr, ...]) -> Steps[dict[str, Any] | None]:
    """What the first rows of a few row groups show of the keys; None if a probe would need more than a scan."""
    rows = some_rows(planner, child, set().union(*(columns_of(key.expr) for key in keys)))
    if rows is None:
        return None
    batches: Rows | None = yield from planner.step(rows.then(ProbeKeys(keys, planner.driver_site.costs)), is_probe=True)
    found: list[dict[str, Any]] = [row for batch in batches or [] for row in batch.to_pylist()]
    return found[0] if found else None


def some_rows(planner: Planner, plan: LogicalPlan, columns: set[str]) -> Pipeline | None:
    """These columns of rows of a few row groups, read on the driver; None if that would need more than a scan."""
    narrow = narrowed(plan, columns)
    below = None if narrow is None else scan_below(narrow)
    if narrow is None or below is None or not columns <= set(narrow.schema.names):
        return None
    some = planner.facts.access(below.scan).thinned(planner.site.costs.probe_row_groups)
    return scan_some(below.scan, some, planner.driver_site, "Probe", 1).then(*below.projections)
