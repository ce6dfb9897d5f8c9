"""Joins: the smaller side is built first, and its keys prune what the other side reads.

    build side ──► rows on the driver ──► index by key ──► key filters into the scans of the probe side
                                                └──► HashJoin, an operator in the probe side's own pipeline

A chain of joins over a fact table is planned from the top: the last dimension is built first, its keys are pushed down
to whatever scan has the column, which may be the build side of the next join, and so on down to the fact table. It is
read once, with all filters, and probes all build sides in one pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sundog.columns.key_sets import key_set
from sundog.expr.calls import JoinKind, NamedExpr
from sundog.expr.dynamic_filters.key_set import KeyFilter, KeySet
from sundog.expr.nodes import Column, Expr, columns_of, substitute
from sundog.expr.raising import can_raise
from sundog.operators.join.build_side import BuildSide, one_batch
from sundog.operators.join.hash_join import HashJoin, JoinSpec
from sundog.operators.join.hot_keys import NO_HOT_KEYS, HotKeys, SampleHotKeys
from sundog.operators.join.partition import JoinPartition, PartitionedJoin
from sundog.operators.project import ProjectOperator
from sundog.plan.costs import Costs
from sundog.plan.logical import Filter, Join, LogicalPlan, Project, Scan
from sundog.plan.lower.estimates import estimated_bytes, estimated_row_bytes, estimated_rows, kept_by_keys
from sundog.plan.lower.push_filter import push_filter
from sundog.plan.lower.scan import narrowed, scan_some
from sundog.plan.lower.sizes import join_partitions
from sundog.plan.stages import Exchange, PairedRows, Pipeline, Place, Stage
from sundog.support import Code, Declined
from sundog.tree import walk

if TYPE_CHECKING:
    from sundog.plan.lower.planner import Planner, Steps


@dataclass(frozen=True)
class _Sides:
    """A join as it is run."""

    probe: LogicalPlan
    build: LogicalPlan
    spec: JoinSpec


def lower_join(planner: Planner, plan: Join) -> Steps[Pipeline]:
    """The rows of a join. Its condition may raise only if sundog evaluates it for the same pairs as Spark:
    `front/early_errors.py` declines the others."""
    sides = _sides(planner, plan)
    if _is_partitioned(planner, sides):
        return (yield from _partitioned(planner, sides))
    probe_rows: Pipeline | None = None
    if _keys_of_probe_prune_more(planner, sides):
        probe_rows, sides = yield from _probe_first(planner, sides)
    before = len(planner.graph.stages)
    build, stage = yield from _build(planner, sides)
    if build is not None and (problem := _why_not_held(planner, build)) is not None:
        if not _may_be_exchanged(sides.spec):
            raise Declined.because(Code.COST, problem, "Join")
        sides = replace(sides, probe=_filtered(sides, build))
        del build
        planner.graph.give_up(planner.graph.since(before), problem)
        return (yield from _partitioned(planner, sides, probe_rows))
    if probe_rows is None:
        probe_rows = yield from planner.lower(_filtered(sides, build))
    return probe_rows.joined(HashJoin(sides.spec, None if build is None else _narrowed(build, sides)), stage)


def _sides(planner: Planner, plan: Join) -> _Sides:
    """Only an inner join may build either side; the others keep, or mark, rows of the left side as they probe."""
    lefts, rights = tuple(key.left for key in plan.keys), tuple(key.right for key in plan.keys)
    null_safe = tuple(key.null_safe for key in plan.keys)
    left, right = _rows(planner, plan.left), _rows(planner, plan.right)
    build_left = plan.kind is JoinKind.INNER and left < right
    probe, build = (plan.right, plan.left) if build_left else (plan.left, plan.right)
    probe_keys, build_keys = (rights, lefts) if build_left else (lefts, rights)
    compared, costs = (probe_keys, build_keys, null_safe), planner.site.costs
    spec = JoinSpec(plan.kind, *compared, plan.condition, plan.schema, plan.exists, costs=costs)
    return _Sides(probe, build, spec)


def _rows(planner: Planner, plan: LogicalPlan) -> float:
    return estimated_rows(plan, planner.facts, planner.site.costs)


def _is_partitioned(planner: Planner, sides: _Sides) -> bool:
    """Whether both sides are exchanged: a full outer join must know all partners of a build row, and a build side that
    is too large to be sent to every executor stays where it is."""
    if sides.spec.kind is JoinKind.FULL:
        if not sides.spec.build_keys:
            raise Declined.because(Code.UNKNOWN_NODE, "a full outer join without equal keys stays on Spark", "Join")
        return True
    if planner.site.on_threads or not _may_be_exchanged(sides.spec):
        return False
    costs = planner.site.costs
    return estimated_bytes(sides.build, planner.facts, costs) > costs.broadcast_bytes


def _may_be_exchanged(spec: JoinSpec) -> bool:
    """Whether a row has its partners among those that have its hash: not for NOT IN, where a NULL decides for all."""
    return bool(spec.build_keys) and spec.kind is not JoinKind.NULL_AWARE_ANTI


def _partitioned(planner: Planner, sides: _Sides, probe_rows: Pipeline | None = None) -> Steps[Pipeline]:
    """Both sides go to the tasks that own their keys. `probe_rows`: where those of the probe side are held already."""
    spec, graph = sides.spec, planner.graph
    build = yield from planner.lower(sides.build)
    if probe_rows is None and build.place is Place.EXECUTORS and _keys_spare_shuffling(planner, sides):
        build = graph.hold(build)
        sets = yield from _key_sets(planner, build, spec.build_keys, spec)
        sides = replace(sides, probe=_with_filters(sides.probe, spec.probe_keys, spec.null_safe, sets))
    probe = (yield from planner.lower(sides.probe)) if probe_rows is None else probe_rows
    if build.place is not probe.place:
        build, probe = (
            rows if rows.place is Place.DRIVER else graph.gather(rows, "Join", "the other side is on the driver")
            for rows in (build, probe)
        )
    size = planner.facts.size(sides.build), planner.facts.size(sides.probe)
    partitions = join_partitions(size[0], size[1], planner.site)
    hot = yield from _hot_keys(planner, sides, partitions)
    parts = (
        JoinPartition(sides.build.schema, spec.build_keys, partitions, spec.null_safe, hot, is_build=True),
        JoinPartition(sides.probe.schema, spec.probe_keys, partitions, spec.null_safe, hot),
    )
    ends = [graph.end(rows, Exchange(part)) for rows, part in zip((build, probe), parts, strict=True)]
    rows = Pipeline(build.place, "Join", (PairedRows(*ends),))
    return rows.then(PartitionedJoin(spec, sides.build.schema))


def _keys_spare_shuffling(planner: Planner, sides: _Sides) -> bool:
    """Whether to compute the build side first and hold it, so that its keys keep probe rows out of the shuffle.

    Held rows cross between Spark and Python once more, and so do their keys, which the driver puts together. That must
    cost less than to move the probe rows that have no partner, as far as the conditions on the build side tell.
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


def _key_sets(planner: Planner, held: Pipeline, exprs: tuple[Expr, ...], spec: JoinSpec) -> Steps[list[KeySet | None]]:
    """The values of these keys in held rows; of each None where explain does not run it."""
    keys = tuple(NamedExpr(f"key#{number}", key) for number, key in enumerate(exprs))
    batches = yield from planner.step(replace(held, purpose="Keys").then(ProjectOperator(keys)))
    if batches is None:
        return [None] * len(keys)
    return [key_set(column, spec.costs) for column in one_batch(batches, ProjectOperator(keys).schema).columns]


def _hot_keys(planner: Planner, sides: _Sides, partitions: int) -> Steps[HotKeys]:
    """Keys of many probe rows, as a sample of the table that they come from shows them.

    A full outer join has none: of a build row in several partitions none could say that it has no partner.
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
    sample = SampleHotKeys(keys, spec.null_safe, least, costs.hot_key_sample_rows)
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

    Joins and filters above it are left out, which may drop rows: that a key is hot is a guess.
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


def _build(planner: Planner, sides: _Sides) -> Steps[tuple[BuildSide | None, Stage]]:
    """The build side, and the stage that gave its rows; None where explain does not run it."""
    part = planner.for_build_side(sides.build)
    rows = yield from part.lower(sides.build)
    batches = yield from part.step(replace(rows, purpose="Build side"))
    stage = planner.graph.stages[-1]
    if batches is None:
        return None, stage
    return sides.spec.build_side(batches, sides.build.schema), stage


def _why_not_held(planner: Planner, build: BuildSide) -> str | None:
    """Why not every process may hold a build side that was estimated smaller than it is; None if it may.

    All build sides of a plan are held together: those of one table's joins are probed in one pass.
    """
    site, built = planner.site, planner.graph.built_bytes
    together = built.get(site.place, 0) + build.nbytes
    if not site.on_threads and build.nbytes > site.costs.broadcast_bytes * site.costs.max_misjudged_broadcast:
        return f"one side of a join takes {build.nbytes:,} bytes, too many to send to each executor"
    if together > site.costs.max_build_share * site.process_memory_bytes:
        return f"build sides of joins take {together:,} of the {site.process_memory_bytes:,} bytes of a process"
    built[site.place] = together
    planner.graph.metrics.add("join_build_rows", build.rows)
    return None


def _narrowed(build: BuildSide, sides: _Sides) -> BuildSide:
    """Without columns that were only compared."""
    used = set(sides.spec.output.names)
    used |= set() if sides.spec.condition is None else columns_of(sides.spec.condition)
    return build.narrowed([name for name in sides.build.schema.names if name in used])


def _filtered(sides: _Sides, build: BuildSide | None) -> LogicalPlan:
    """The probe side, whose scans need not read rows without a partner."""
    spec = sides.spec
    if not spec.kind.drops_left:
        return sides.probe
    sets = [None if build is None else build.key_set(key, spec.costs) for key in spec.build_keys]
    return _with_filters(sides.probe, spec.probe_keys, spec.null_safe, sets)


def _with_filters(
    plan: LogicalPlan, keys: tuple[Expr, ...], null_safe: tuple[bool, ...], sets: Sequence[KeySet | None]
) -> LogicalPlan:
    """`plan` with filters of those of its keys that are plain columns, by the values that the other side has.

    No filters if one of the keys may raise: Spark computes all keys of all rows.
    """
    if any(map(can_raise, keys)):
        return plan
    for key, safe, known in zip(keys, null_safe, sets, strict=True):
        if isinstance(key, Column) and not safe:
            plan = push_filter(plan, KeyFilter(key.name, known))
    return plan


def _keys_of_probe_prune_more(planner: Planner, sides: _Sides) -> bool:
    """Whether to read the probe side first: it is small, its rows are kept, and the build side is large.

    `customer LEFT JOIN orders`, `orders WHERE EXISTS (lineitem …)`: only rows of the right side with a key of the left
    are needed.
    """
    if sides.spec.kind in (JoinKind.INNER, JoinKind.NULL_AWARE_ANTI) or not sides.spec.build_keys:
        return False
    probe, build, costs = _rows(planner, sides.probe), _rows(planner, sides.build), planner.site.costs
    return probe * costs.min_held_pruning < build and probe <= costs.held_rows


def _probe_first(planner: Planner, sides: _Sides) -> Steps[tuple[Pipeline, _Sides]]:
    """The rows of the probe side, held, and the build side pruned by their keys."""
    spec = sides.spec
    held = planner.graph.hold((yield from planner.lower(sides.probe)))
    sets = yield from _key_sets(planner, held, spec.probe_keys, spec)
    build = _with_filters(sides.build, spec.build_keys, spec.null_safe, sets)
    return replace(held, purpose="Join"), replace(sides, build=build)
