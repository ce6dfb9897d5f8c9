"""How a plan runs: operators, exchanges, and where the decisions are taken at run time.

`lower` turns a logical plan into a chain of physical nodes. A node is data; `runtime/execute.py` knows how to run each
kind. Some nodes print as several lines because they *are* several steps, whose parameters (cut points, thresholds)
become known only while they run: `TwoPhaseAggregate` is partial, exchange, final; `ParallelWindow` is range
repartitioning, sort, window, halo drop.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

import pyarrow as pa

from sundog.config import Settings
from sundog.expr.calls import AggregateCall, NamedExpr, WindowCall
from sundog.expr.nodes import Column, Expr, columns_of, substitute
from sundog.expr.ordering import SortKey
from sundog.expr.printing import render, render_order
from sundog.operators.aggregate.final_operator import BestGroups
from sundog.operators.base import Operator
from sundog.operators.expand import ExpandOperator
from sundog.operators.filter import FilterOperator
from sundog.operators.project import ProjectOperator
from sundog.operators.window.ranges.scans import RangeScans
from sundog.plan.logical import (
    Aggregate,
    Expand,
    Filter,
    Foreign,
    Limit,
    LogicalPlan,
    Project,
    Scan,
    Sort,
    TopK,
    Window,
)
from sundog.tree import TreeNode


class PhysicalPlan(TreeNode):
    """Any node. `schema` is its output; `lines` its text, top first, each line one step deeper."""

    __slots__ = ()

    @property
    def schema(self) -> pa.Schema:
        raise NotImplementedError

    def lines(self) -> list[str]:
        raise NotImplementedError


PhysicalPlan.family = PhysicalPlan


@dataclass(frozen=True)
class ParquetScan(PhysicalPlan):
    """Reads a relation in balanced tasks, after pruning by statistics."""

    scan: Scan

    @property
    def schema(self) -> pa.Schema:
        return self.scan.schema

    def lines(self) -> list[str]:
        return [scan_line(self.scan)]


@dataclass(frozen=True)
class ForeignScan(PhysicalPlan):
    """Rows of a Spark plan, handed over as Arrow batches by the executors that hold them."""

    foreign: Foreign

    @property
    def schema(self) -> pa.Schema:
        return self.foreign.schema

    def lines(self) -> list[str]:
        return [f"SparkInput: {self.foreign.label}, columns=[{', '.join(self.foreign.schema.names)}]"]


@dataclass(frozen=True)
class Apply(PhysicalPlan):
    """An operator over each partition of its child."""

    child: PhysicalPlan
    operator: Operator

    @property
    def schema(self) -> pa.Schema:
        return self.operator.schema

    def lines(self) -> list[str]:
        return [self.operator.describe()]


@dataclass(frozen=True)
class TopKScan(PhysicalPlan):
    """Top-k tied to its scan: row groups best first, pruned by the live threshold; other columns for winners only."""

    scan: Scan
    order: tuple[SortKey, ...]
    limit: int
    offset: int
    checks: tuple[Expr, ...]
    dynamic_pruning: bool

    @property
    def schema(self) -> pa.Schema:
        return self.scan.schema

    def lines(self) -> list[str]:
        eligible = ", dynamic_rg_pruning=eligible" if self.dynamic_pruning else ""
        sort_columns = {key.expr.name for key in self.order if isinstance(key.expr, Column)}
        late = [name for name in self.scan.columns if name not in sort_columns]
        lines = [topk_line(self.order, self.limit, self.offset)]
        if late:
            lines.insert(0, f"LateMaterialize: columns=[{', '.join(late)}]")
        if self.checks:
            eligible += f", must_see=[{', '.join(render(expr) for expr in self.checks)}]"
        return [*lines, scan_line(self.scan) + eligible]


@dataclass(frozen=True)
class TopKMerge(PhysicalPlan):
    """Top-k over any input: the k best of each partition, then of all."""

    child: PhysicalPlan
    order: tuple[SortKey, ...]
    limit: int
    offset: int

    @property
    def schema(self) -> pa.Schema:
        return self.child.schema

    def lines(self) -> list[str]:
        return [topk_line(self.order, self.limit, self.offset)]


@dataclass(frozen=True)
class SortAll(PhysicalPlan):
    """Sorts a result where it has to go in any case: on the driver."""

    child: PhysicalPlan
    order: tuple[SortKey, ...]

    @property
    def schema(self) -> pa.Schema:
        return self.child.schema

    def lines(self) -> list[str]:
        return [f"Sort: [{render_order(self.order)}]"]


@dataclass(frozen=True)
class LimitAny(PhysicalPlan):
    """Any `limit` rows: partitions are read until there are enough."""

    child: PhysicalPlan
    limit: int
    offset: int

    @property
    def schema(self) -> pa.Schema:
        return self.child.schema

    def lines(self) -> list[str]:
        return [f"Limit: fetch={self.limit}" + (f", skip={self.offset}" if self.offset else "")]


class GroupWay(Enum):
    """How the rows of one group get together."""

    EXCHANGE = "partial groups are moved by the hash of their keys"
    SHARES = "every task reads all rows and keeps those whose keys it owns"
    GATHER = "there are so few that the driver merges them"


@dataclass(frozen=True)
class TwoPhaseAggregate(PhysicalPlan):
    child: PhysicalPlan
    keys: tuple[NamedExpr, ...]
    aggregates: tuple[AggregateCall, ...]
    output: pa.Schema
    best: BestGroups | None = None
    way: GroupWay = GroupWay.EXCHANGE
    shares: int = 1  # how many, if it runs in shares

    @property
    def schema(self) -> pa.Schema:
        return self.output

    @property
    def hidden(self) -> frozenset[str]:
        """Keys that are not put out."""
        return frozenset(key.name for key in self.keys) - set(self.output.names)

    def lines(self) -> list[str]:
        keys = ", ".join(named_text(key) for key in self.keys)
        calls = ", ".join(call_text(call) for call in self.aggregates)
        names = ", ".join(key.name for key in self.keys)
        move = {
            GroupWay.EXCHANGE: f"HashExchange: keys=[{names}]",
            GroupWay.SHARES: f"HashShares: keys=[{names}], each of {self.shares} tasks reads all rows",
            GroupWay.GATHER: f"Gather: keys=[{names}], few groups are merged on the driver",
        }[self.way]
        best = "" if self.best is None else f", fetch={self.best.limit}, order=[{render_order(self.best.order)}]"
        return [
            f"Aggregate: mode=final, keys=[{names}]{best}",
            move,
            f"Aggregate: mode=partial, keys=[{keys}], aggregates=[{calls}]",
        ]


class RangeWay(Enum):
    """How rows get to the ranges of a window."""

    READ = "each range reads the row groups that statistics show it to need"
    SAMPLE_AND_READ = "the same, after a sample of the key has shown where to cut"
    EXCHANGE = "every row is read once and moved"


@dataclass(frozen=True)
class ParallelWindow(PhysicalPlan):
    child: PhysicalPlan
    calls: tuple[WindowCall, ...]
    partition_by: tuple[Expr, ...]
    order_by: tuple[SortKey, ...]
    output: pa.Schema
    ranges: RangeScans | None = None  # how ranges could read their own rows; known once the footers are
    way: RangeWay = RangeWay.EXCHANGE

    @property
    def schema(self) -> pa.Schema:
        return self.output

    def lines(self) -> list[str]:
        calls = ", ".join(f"{window_text(call)} AS {call.name}" for call in self.calls)
        order = render_order(self.order_by)
        if self.partition_by:
            keys = ", ".join(render(key) for key in self.partition_by)
            return [f"Window: [{calls}]", f"Sort: [{keys}, {order}]", f"HashExchange: keys=[{keys}]"]
        return ["HaloDrop", f"Window: [{calls}]", f"Sort: [{order}]", self._ranges_line(order)]

    def _ranges_line(self, order: str) -> str:
        if self.ranges is None:
            return f"RangeRepartition: order=[{order}]"
        cost = f"{self.ranges.reads.cost:.2f}x"
        if self.way is RangeWay.READ:
            return f"RangeRead: order=[{order}], by row-group statistics, rows_read={cost}"
        if self.way is RangeWay.SAMPLE_AND_READ:
            return f"RangeRead: order=[{order}], cut by a sample, about rows_read={cost}"
        return f"RangeRepartition: order=[{order}], reading by statistics instead would read rows {cost}"


def scan_line(scan: Scan) -> str:
    parts = [f"ParquetScan: {scan.relation.label}", f"files={len(scan.relation.files)}"]
    parts.append(f"columns=[{', '.join(scan.columns)}]")
    if scan.predicate is not None:
        parts.append(f"predicate={render(scan.predicate)}")
    return ", ".join(parts)


def topk_line(order: tuple[SortKey, ...], limit: int, offset: int) -> str:
    return f"TopK: fetch={limit}" + (f", skip={offset}" if offset else "") + f", order=[{render_order(order)}]"


def named_text(named: NamedExpr) -> str:
    return named.name if named.is_passthrough else f"{render(named.expr)} AS {named.name}"


def call_text(call: AggregateCall) -> str:
    distinct = "DISTINCT " if call.distinct else ""
    arguments = ", ".join(render(arg) for arg in call.args) or "*"
    condition = f" FILTER (WHERE {render(call.filter)})" if call.filter is not None else ""
    return f"{call.function}({distinct}{arguments}){condition} AS {call.name}"


def window_text(call: WindowCall) -> str:
    frame = call.frame
    bounds = [
        f"{bound.offset}{' ' + bound.unit if bound.unit else ''}" if bound.offset is not None else bound.kind.value
        for bound in (frame.start, frame.end)
    ]
    arguments = ", ".join(render(arg) for arg in call.args)
    return f"{call.function}({arguments}) {frame.units.upper()} BETWEEN {bounds[0]} AND {bounds[1]}"


def lower(plan: LogicalPlan, settings: Settings) -> PhysicalPlan:
    """The physical plan of an optimised logical plan."""
    match plan:
        case Scan():
            return ParquetScan(plan)
        case Foreign():
            return ForeignScan(plan)
        case Filter():
            return Apply(lower(plan.child, settings), FilterOperator(plan.schema, plan.predicate))
        case Project():
            return Apply(lower(plan.child, settings), ProjectOperator(plan.exprs))
        case Expand():
            return Apply(lower(plan.child, settings), ExpandOperator(plan.projections, plan.schema))
        case TopK():
            if isinstance(plan.child, Scan):  # tied to its scan: the live threshold prunes row groups
                dynamic = settings.topk_dynamic_pruning
                return TopKScan(plan.child, plan.order, plan.limit, plan.offset, plan.checks, dynamic)
            return TopKMerge(_lower_under(plan, settings), plan.order, plan.limit, plan.offset)
        case Sort():
            return SortAll(lower(plan.child, settings), plan.order)
        case Limit():
            return LimitAny(lower(plan.child, settings), plan.limit, plan.offset)
        case Aggregate():
            return TwoPhaseAggregate(lower(plan.child, settings), plan.keys, plan.aggregates, plan.schema)
        case Window():
            child = lower(plan.child, settings)
            return ParallelWindow(child, plan.calls, plan.partition_by, plan.order_by, plan.schema)
        case _:
            raise TypeError(f"no physical form for {type(plan).__name__}")


def _lower_under(plan: TopK, settings: Settings) -> PhysicalPlan:
    """What a top-k chooses from. An aggregate that is ordered by its results can choose by itself before it shows keys."""
    child = lower(plan.child, settings)
    if isinstance(child, TwoPhaseAggregate):
        results = {call.name for call in child.aggregates}
        if set().union(*(columns_of(key.expr) for key in plan.order)) <= results:
            return replace(child, best=BestGroups(plan.order, plan.limit + plan.offset))
    return child


def has_one_partition(plan: PhysicalPlan) -> bool:
    """Whether Spark would have all rows of this in one partition, in order."""
    while isinstance(plan, Apply):
        plan = plan.child
    match plan:
        case TwoPhaseAggregate():
            return not plan.keys
        case ParallelWindow():
            return not plan.partition_by
        case _:
            return isinstance(plan, TopKScan | TopKMerge | LimitAny)


def narrowed(plan: PhysicalPlan, columns: set[str]) -> PhysicalPlan | None:
    """The same rows with fewer columns, where that is just a cheaper scan; None where it would repeat real work.

    None as well where a column is not of the scan: something that the caller looks through computes it.
    """
    match plan:
        case ParquetScan(scan) if not columns <= set(scan.columns):
            return None
        case ParquetScan(scan):
            return ParquetScan(replace(scan, columns=tuple(name for name in scan.columns if name in columns)))
        case Apply(child, ProjectOperator(exprs)):
            kept = tuple(named for named in exprs if named.name in columns)
            below = narrowed(child, set().union(*(columns_of(named.expr) for named in kept)))
            return None if below is None else Apply(below, ProjectOperator(kept))
        case Apply(child, FilterOperator(predicate=predicate)):
            below = narrowed(child, columns | columns_of(predicate))
            return None if below is None else Apply(below, FilterOperator(below.schema, predicate))
        case _:
            return None


def scan_below(plan: PhysicalPlan) -> tuple[Scan, dict[str, Expr], list[Operator]] | None:
    """The scan under nothing but projections, what the plan's columns are in its terms, and the projections in order.

    None where there is anything else between.
    """
    match plan:
        case ParquetScan(scan):
            return scan, {field.name: Column(field.name, field.type) for field in scan.schema}, []
        case Apply(child, ProjectOperator(exprs) as operator):
            found = scan_below(child)
            if found is None:
                return None
            scan, meaning, below = found
            named = {each.name: substitute(each.expr, meaning) for each in exprs}
            return scan, named, [*below, operator]
        case _:
            return None
