"""Lowering of joins: the smaller side is built first, and its keys prune what the other side reads.

    build side ──► rows on the driver ──► index by key ──► key filters into the scans of the probe side
                                                └──► HashJoin, an operator in the probe side's own pipeline

A chain of joins over a fact table is planned from the top: the last dimension is built first. Its keys are pushed down
to every scan that has the column: to a build side of a join further down, which becomes smaller, or to the fact table.
The fact table is read once, with all filters, and its rows are looked up in all build sides in one pass.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from sundog.columns.key_sets import key_set
from sundog.expr.calls import JoinKind, NamedExpr
from sundog.expr.dynamic_filters.key_set import KeyFilter, KeySet
from sundog.expr.nodes import Column, Expr, Literal, columns_of, substitute
from sundog.expr.raising import can_raise
from sundog.operators.join.build_side import BuildSide, one_batch
from sundog.operators.join.hash_join import HashJoin, JoinSpec
from sundog.operators.join.hot_keys import NO_HOT_KEYS, HotKeys, SampleHotKeys
from sundog.operators.join.partition import JoinPartition, PartitionedJoin
from sundog.operators.project import ProjectOperator
from sundog.plan.costs import Costs
from sundog.plan.logical import Filter, Foreign, Join, LogicalPlan, Project, Scan
from sundog.plan.lower.estimates import (
    estimated_bytes,
    estimated_row_bytes,
    estimated_rows,
    estimated_value_bytes,
    kept_by_keys,
)
from sundog.plan.lower.push_filter import push_filter
from sundog.plan.lower.scan import narrowed, scan_some
from sundog.plan.lower.sizes import join_partitions
from sundog.plan.outputs import Build, Exchange
from sundog.plan.spark_rows import is_collected, row_bytes, spark_input, why_collecting_loses
from sundog.plan.stages import CollectedRows, PairedRows, Pipeline, Place, Stage
from sundog.support import Code, Declined, TooManyBytes
from sundog.tree import walk

if TYPE_CHECKING:
    from sundog.plan.lower.planner import Planner, Steps


@dataclass(frozen=True)
class _Sides:
    """A join with its sides chosen."""

    probe: LogicalPlan
    build: LogicalPlan
    spec: JoinSpec


def lower_join(planner: Planner, plan: Join) -> Steps[Pipeline]:
    """The rows of a join. Its condition may raise only if sundog evaluates it for the same pairs as Spark:
    `front/early_errors.py` declines the others."""
    sides = _sides(planner, plan)
    if is_collected(sides.build):
        _check_collecting_pays(planner, sides)
    if _is_partitioned(planner, sides):
        return (yield from _partitioned(planner, sides))
    probe_rows: Pipeline | None = None
    if _keys_of_probe_prune_more(planner, sides):
        probe_rows, sides = yield from _probe_first(planner, sides)
    before = len(planner.graph.stages)
    built = yield from _build(planner, sides)
    if built.problem is not None:
        if not _may_be_exchanged(sides.spec) or is_collected(sides.build):
            raise Declined.because(Code.COST, built.problem, "Join")
        if built.side is not None:
            sides = replace(sides, probe=_filtered(sides, built.side))
        planner.graph.give_up(planner.graph.since(before), built.problem)
        del built
        return (yield from _partitioned(planner, sides, probe_rows, filters=False))
    if probe_rows is None:
        probe_rows = yield from planner.lower(_filtered(sides, built.side))
    held = None if built.side is None else _narrowed(built.side, sides)
    return probe_rows.joined(HashJoin(sides.spec, held), built.stage)


def _sides(planner: Planner, plan: Join) -> _Sides:
    """Which side is built. Only of an inner join may it be the left one: the other kinds must say of each left row
    whether it has a partner, and do so while they probe."""
    lefts, rights = tuple(key.left for key in plan.keys), tuple(key.right for key in plan.keys)
    null_safe = tuple(key.null_safe for key in plan.keys)
    build_left = plan.kind is JoinKind.INNER and _builds_left(planner, plan)
    probe, build = (plan.right, plan.left) if build_left else (plan.left, plan.right)
    probe_keys, build_keys = (rights, lefts) if build_left else (lefts, rights)
    compared, costs = (probe_keys, build_keys, null_safe), planner.site.costs
    spec = JoinSpec(plan.kind, *compared, plan.condition, plan.schema, plan.exists, costs=costs)
    return _Sides(probe, build, spec)


def _builds_left(planner: Planner, plan: Join) -> bool:
    """Whether the left side of an inner join is built: if it is collected from Spark, or has fewer rows by estimate."""
    if is_collected(plan.left) or is_collected(plan.right):
        return is_collected(plan.left)
    return _rows(planner, plan.left) < _rows(planner, plan.right)


def _rows(planner: Planner, plan: LogicalPlan) -> float:
    return estimated_rows(plan, planner.facts, planner.site.costs)


def _is_partitioned(planner: Planner, sides: _Sides) -> bool:
    """Whether both sides are exchanged. They are for a full outer join, which must know all partners of a build row,
    and for a build side that is too large to be broadcast."""
    if sides.spec.kind is JoinKind.FULL:
        _check_pairs(planner, sides)
        return True
    if planner.site.on_threads or not _may_be_exchanged(sides.spec) or is_collected(sides.build):
        return False
    costs = planner.site.costs
    return estimated_bytes(sides.build, planner.facts, costs) > costs.broadcast_bytes


def _check_pairs(planner: Planner, sides: _Sides) -> None:
    """Decline a full outer join without equal keys if one task, which compares all pairs, would take long."""
    probe, build, most = _rows(planner, sides.probe), _rows(planner, sides.build), planner.site.costs.max_unkeyed_pairs
    if not sides.spec.build_keys and probe * build > most:
        sentence = f"a full outer join without equal keys has about {probe:,.0f} times {build:,.0f} pairs for one task"
        raise Declined.because(Code.COST, f"{sentence}; {most:,} are compared", "Join")


def _may_be_exchanged(spec: JoinSpec) -> bool:
    """Whether a row finds its partners among the rows with its hash. Not for NOT IN, where one NULL decides for all
    rows."""
    return bool(spec.build_keys) and spec.kind is not JoinKind.NULL_AWARE_ANTI


def _partitioned(
    planner: Planner, sides: _Sides, probe_rows: Pipeline | None = None, filters: bool = True
) -> Steps[Pipeline]:
    """A join whose two sides are sent to the tasks that own their keys. `probe_rows`: the probe side, if it is held
    already. `filters`: whether the keys of the build side may be gathered to filter the probe side; not if they filter
    it already, or are known to be too many."""
    spec, graph, sides = sides.spec, planner.graph, _with_different_columns(sides)
    build = yield from planner.lower(sides.build)
    if filters and probe_rows is None and build.place is Place.EXECUTORS and _keys_spare_shuffling(planner, sides):
        build = graph.hold(build)
        sets = yield from _key_sets(planner, build, spec.build_keys, spec, planner.site.costs.gathered_keys)
        sides = replace(sides, probe=_with_filters(sides.probe, spec.probe_keys, spec.null_safe, sets))
    probe = (yield from planner.lower(sides.probe)) if probe_rows is None else probe_rows
    if build.place is not probe.place:
        build, probe = (
            rows if rows.place is Place.DRIVER else graph.gather(rows, "Join", "the other side is on the driver")
            for rows in (build, probe)
        )
    size = planner.facts.size(sides.build), planner.facts.size(sides.probe)
    partitions = join_partitions(size[0], size[1], planner.site) if spec.build_keys else 1
    hot = yield from _hot_keys(planner, sides, partitions)
    parts = (
        JoinPartition(sides.build.schema, spec.build_keys, partitions, spec.null_safe, hot, is_build=True),
        JoinPartition(sides.probe.schema, spec.probe_keys, partitions, spec.null_safe, hot),
    )
    ends = [graph.end(rows, Exchange(part)) for rows, part in zip((build, probe), parts, strict=True)]
    rows = Pipeline(build.place, "Join", (PairedRows(*ends),))
    return rows.then(PartitionedJoin(spec, sides.build.schema))


def _with_different_columns(sides: _Sides) -> _Sides:
    """The sides with a column in one of them, if neither has any: tasks tell the rows of both apart by their columns.

    `SELECT count(*) FROM a FULL JOIN b` reads no column at all.
    """
    if sides.build.schema.names or sides.probe.schema.names:
        return sides
    mark = NamedExpr("build side#", Literal(True, pa.bool_()))
    return replace(sides, build=Project(sides.build, (mark,)))


def _keys_spare_shuffling(planner: Planner, sides: _Sides) -> bool:
    """Whether to compute the build side first and hold it, so that its keys keep probe rows out of the shuffle.

    Held rows cross between Spark and Python once more, and so do their keys, which the driver collects. That must cost
    less than sending the probe rows without a partner, whose number is estimated by the build side's conditions.
    """
    spec, costs, facts = sides.spec, planner.site.costs, planner.facts
    if not spec.kind.drops_left or _filter_count(_filtered(sides, None)) == _filter_count(sides.probe):
        return False
    build, probe = _rows(planner, sides.build), _rows(planner, sides.probe)
    spared = probe * (1 - kept_by_keys(sides.build, facts, costs)) * _shuffle_ns_per_row(sides.probe, costs)
    held = build * _shuffle_ns_per_row(sides.build, costs) * costs.hold_per_shuffle
    return build <= costs.gathered_keys and spared > held


def _shuffle_ns_per_row(plan: LogicalPlan, costs: Costs) -> float:
    return costs.shuffle_ns_per_row + costs.shuffle_ns_per_byte * estimated_row_bytes(plan, costs)


def _filter_count(plan: LogicalPlan) -> int:
    return sum(len(node.filters) for node in walk(plan) if isinstance(node, Scan))


def _key_sets(
    planner: Planner, held: Pipeline, exprs: tuple[Expr, ...], spec: JoinSpec, expected_rows: float
) -> Steps[list[KeySet | None]]:
    """The values of these keys in held rows; a None for each if they are far more than expected, or explain does not
    run it."""
    keys, costs = tuple(NamedExpr(f"key#{number}", key) for number, key in enumerate(exprs)), planner.site.costs
    rows, before = replace(held, purpose="Keys").then(ProjectOperator(keys)), len(planner.graph.stages)
    row_bytes = sum(estimated_value_bytes(key.dtype, costs) for key in exprs)
    max_bytes = int(costs.max_misjudged_broadcast * expected_rows * row_bytes)
    try:
        batches = yield from planner.step(rows, max_bytes=max_bytes)
    except TooManyBytes as problem:
        planner.graph.give_up(planner.graph.since(before), f"{problem.reasons[0].sentence}: no filter by these keys")
        batches = None
    if batches is None:
        return [None] * len(keys)
    return [key_set(column, spec.costs) for column in one_batch(batches, ProjectOperator(keys).schema).columns]


def _hot_keys(planner: Planner, sides: _Sides, partitions: int) -> Steps[HotKeys]:
    """Keys with many probe rows, by a sample of the table that they come from.

    None for a full outer join: if a build row is in several partitions, no task knows that it has no partner.
    """
    spec, costs = sides.spec, planner.site.costs
    if planner.site.on_threads or partitions == 1 or spec.kind is JoinKind.FULL:
        return NO_HOT_KEYS
    keys = tuple(NamedExpr(f"key#{number}", key) for number, key in enumerate(spec.probe_keys))
    found = None if any(map(can_raise, spec.probe_keys)) else _table_below(sides.probe, keys)
    if found is None:
        return NO_HOT_KEYS
    scan, keys = found
    some = planner.facts.access(scan).thinned(costs.probe_row_groups)
    rows = scan_some(scan, some, planner.driver_site, "Sample of join keys", 1)
    least = costs.min_hot_key_factor / partitions
    sizes = costs.hot_key_sample_rows, costs.min_hot_key_sample, costs.max_hot_keys
    sample = SampleHotKeys(keys, spec.null_safe, least, *sizes)
    batches = yield from planner.step(rows.then(sample), is_probe=True)
    shares = [
        (key % (1 << 64), share)
        for batch in batches or ()
        for key, share in zip(*(column.to_pylist() for column in batch.columns), strict=True)
    ]
    return HotKeys.of(shares, partitions, costs.min_hot_key_factor)


def _table_below(plan: LogicalPlan, keys: tuple[NamedExpr, ...]) -> tuple[Scan, tuple[NamedExpr, ...]] | None:
    """The scan that the keys come from, with no other columns, and the keys in terms of it; None if there is no such
    scan.

    Joins and filters above it are ignored, though they may drop rows: hot keys are an estimate.
    """
    names = set().union(*(columns_of(key.expr) for key in keys))
    match plan:
        case Scan():
            narrow = narrowed(plan, names)
            return (narrow, keys) if isinstance(narrow, Scan) and names else None
        case Filter():
            return _table_below(plan.child, keys)
        case Project():
            meaning = {named.name: named.expr for named in plan.exprs}
            below = tuple(NamedExpr(key.name, substitute(key.expr, meaning)) for key in keys)
            return None if any(can_raise(key.expr) for key in below) else _table_below(plan.child, below)
        case Join():
            side = plan.left if names <= set(plan.left.schema.names) else plan.right
            return _table_below(side, keys) if names <= set(side.schema.names) else None
        case _:
            return None


def _check_collecting_pays(planner: Planner, sides: _Sides) -> None:
    """Decline if collecting foreign rows would be most of the work, so that the rest gains nothing."""
    probed, collected = planner.facts.size(sides.probe), spark_input(sides.build)
    problem = None
    if collected is not None and probed is not None:
        problem = why_collecting_loses(collected, probed.rows, planner.site.costs)
    if problem is not None:
        raise Declined(problem)


def lower_collected(planner: Planner, plan: Foreign) -> Pipeline:
    """The rows of a Spark plan on the driver; at most the bytes that a misjudged build side may have."""
    costs = planner.site.costs
    max_bytes = int(costs.broadcast_bytes * costs.max_misjudged_broadcast)
    max_rows = max(1, int(max_bytes / max(row_bytes(plan.schema, costs), 1)))
    rows = CollectedRows(plan.handle, plan.schema, plan.label, max_rows, max_bytes)
    return Pipeline(Place.DRIVER, "Rows of Spark", (rows,))


@dataclass(frozen=True)
class _Built:
    """A build side that was computed. `stage` gave its rows.

    `problem`: why not every process may hold it; None if it may. `side` is None if explain does not run it, or if its
    rows alone are too many.
    """

    stage: Stage
    side: BuildSide | None = None
    problem: str | None = None


def _build(planner: Planner, sides: _Sides) -> Steps[_Built]:
    """The build side, if its rows may be held. Gathering them stops when they are too many."""
    part, max_bytes = planner.for_build_side(sides.build), _max_build_bytes(planner)
    rows = yield from part.lower(sides.build)
    sets_of = _filter_columns(sides.spec.probe_keys, sides.spec.null_safe) if sides.spec.kind.drops_left else ()
    output = Build(sides.spec, sides.build.schema, max_bytes, tuple(sets_of))
    try:
        side, stage = yield from part.build_side(replace(rows, purpose="Build side"), output)
    except TooManyBytes:
        return _Built(planner.graph.stages[-1], problem=_why_not_held(planner, max_bytes + 1, "at least "))
    if side is None:
        return _Built(stage)
    problem = _why_not_held(planner, side.nbytes)
    if problem is None:
        built = planner.graph.built_bytes
        built[planner.site.place] = built.get(planner.site.place, 0) + side.nbytes
    return _Built(stage, side, problem)


def _max_build_bytes(planner: Planner) -> int:
    """The bytes that one more build side may take."""
    site, costs = planner.site, planner.site.costs
    left = costs.max_build_share * site.process_memory_bytes - planner.graph.built_bytes.get(site.place, 0)
    sent = math.inf if site.on_threads else costs.broadcast_bytes * costs.max_misjudged_broadcast
    return int(max(0, min(left, sent)))


def _why_not_held(planner: Planner, nbytes: int, sign: str = "") -> str | None:
    """Why a build side of `nbytes` may not be held by every process; None if it may. `sign`: text before the number.

    All build sides of a plan are held at once: rows of one table are looked up in several of them in one pass.
    """
    site, together = planner.site, planner.graph.built_bytes.get(planner.site.place, 0) + nbytes
    if not site.on_threads and nbytes > site.costs.broadcast_bytes * site.costs.max_misjudged_broadcast:
        return f"one side of a join takes {sign}{nbytes:,} bytes, too many to send to each executor"
    if together > site.costs.max_build_share * site.process_memory_bytes:
        return f"build sides of joins take {sign}{together:,} of the {site.process_memory_bytes:,} bytes of a process"
    return None


def _narrowed(build: BuildSide, sides: _Sides) -> BuildSide:
    """The build side without columns that are only compared."""
    used = set(sides.spec.output.names)
    used |= set() if sides.spec.condition is None else columns_of(sides.spec.condition)
    return build.narrowed([name for name in sides.build.schema.names if name in used])


def _filtered(sides: _Sides, build: BuildSide | None) -> LogicalPlan:
    """The probe side with key filters in its scans: they need not read rows without a partner."""
    spec = sides.spec
    if not spec.kind.drops_left:
        return sides.probe
    sets = [None if build is None else build.key_sets.get(number) for number in range(len(spec.build_keys))]
    return _with_filters(sides.probe, spec.probe_keys, spec.null_safe, sets)


def _with_filters(
    plan: LogicalPlan, keys: tuple[Expr, ...], null_safe: tuple[bool, ...], sets: Sequence[KeySet | None]
) -> LogicalPlan:
    """`plan` with filters of its keys by the values that the other side has."""
    for number, name in _filter_columns(keys, null_safe).items():
        plan = push_filter(plan, KeyFilter(name, sets[number]))
    return plan


def _filter_columns(keys: tuple[Expr, ...], null_safe: tuple[bool, ...]) -> dict[int, str]:
    """The keys that may filter a scan, by their number: plain columns that `=` compares.

    None if one of the keys may raise: Spark computes all keys of all rows.
    """
    if any(map(can_raise, keys)):
        return {}
    found = enumerate(zip(keys, null_safe, strict=True))
    return {number: key.name for number, (key, safe) in found if isinstance(key, Column) and not safe}


def _keys_of_probe_prune_more(planner: Planner, sides: _Sides) -> bool:
    """Whether to read the probe side first: it is small, its rows are kept, and the build side is large.

    `customer LEFT JOIN orders`, `orders WHERE EXISTS (lineitem …)`: only rows of the right side with a key of the left
    are needed.
    """
    if sides.spec.kind in (JoinKind.INNER, JoinKind.NULL_AWARE_ANTI) or not sides.spec.build_keys:
        return False
    if is_collected(sides.build):
        return False
    probe, build, costs = _rows(planner, sides.probe), _rows(planner, sides.build), planner.site.costs
    return probe * costs.min_held_pruning < build and probe <= costs.held_rows


def _probe_first(planner: Planner, sides: _Sides) -> Steps[tuple[Pipeline, _Sides]]:
    """The rows of the probe side, held, and the build side pruned by their keys."""
    spec = sides.spec
    held = planner.graph.hold((yield from planner.lower(sides.probe)))
    sets = yield from _key_sets(planner, held, spec.probe_keys, spec, planner.site.costs.held_rows)
    build = _with_filters(sides.build, spec.build_keys, spec.null_safe, sets)
    return replace(held, purpose="Join"), replace(sides, build=build)
