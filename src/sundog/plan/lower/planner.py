"""Lowers a logical plan into the graph of stages that runs it. Every decision about how and where is taken below here.

    graph = Planner(tree, settings, sites).plan(answer)

`answer` is given a step, which is a stage whose rows the planner must see before it can go on, and gives them back.
Inside, lowering a shape is a generator that yields its steps.

What only the data can tell (how many keys there are, where to cut a range, whether a top-k needs another round) is such
a step, so a shape's lowering reads from top to bottom as it runs. Explain does not run a query: it answers None to
every step but the probes, which are cheap and bounded, and the planner then ends the graph with what it knows.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TypeVar

import pyarrow as pa

from sundog.config import Settings
from sundog.errors import InternalError
from sundog.expr.calls import NamedExpr
from sundog.expr.nodes import Column
from sundog.operators.expand import ExpandOperator
from sundog.operators.filter import FilterOperator
from sundog.operators.limit import LimitOperator
from sundog.operators.project import ProjectOperator
from sundog.operators.scan.scan import limit_scan
from sundog.operators.sort import SortOperator
from sundog.plan.logical import (
    Aggregate,
    Expand,
    Filter,
    Foreign,
    Join,
    Limit,
    LocalRows,
    LogicalPlan,
    Project,
    Scan,
    Shared,
    Sort,
    TopK,
    Union,
    Window,
)
from sundog.plan.lower.aggregate import lower_aggregate
from sundog.plan.lower.estimates import estimated_bytes, read_share
from sundog.plan.lower.facts import Facts, Size, compared_columns
from sundog.plan.lower.footers import read_footers_of_many
from sundog.plan.lower.join import lower_join
from sundog.plan.lower.scan import TableScan, lower_local_rows, lower_scan, lower_union
from sundog.plan.lower.subqueries import compute_subqueries
from sundog.plan.lower.topk import lower_topk
from sundog.plan.lower.window import lower_window
from sundog.plan.sharing import Occurrence, share_subplans
from sundog.plan.spark_rows import most_bytes, spark_input
from sundog.plan.stages import Gather, Parts, Pipeline, Place, Result, Site, SparkRows, Stage, StageGraph
from sundog.support import Code, Declined
from sundog.tree import children_first, walk

T = TypeVar("T")


@dataclass(frozen=True)
class Step:
    """A stage that ends on the driver, and whose rows the planner has to see. `is_probe`: explain runs it too."""

    stage: Stage
    is_probe: bool = False


Rows = list[pa.RecordBatch]
Steps = Generator[Step, Rows | None, T]
"""A part of planning: yields steps, is sent their rows (None: not to be had now), returns what it planned."""


@dataclass(frozen=True)
class Sites:
    """The places there are. `executors` is asked for only where they are used; `problem` says why they cannot be."""

    driver: Site
    executors: Callable[[], Site]
    problem: str | None = None


class Planner:
    """Plans one part of a query. `site` is where most of it runs.

    `for_good`: rows are handed out as executors make them (into a table, to a user's function), so that the query could
    not be given back to Spark in the middle. What may be found out only then declines before. `subqueries`: the plans
    of the scalar subqueries of the query, by number.
    """

    def __init__(
        self,
        tree: LogicalPlan,
        settings: Settings,
        sites: Sites,
        for_good: bool = False,
        subqueries: Mapping[int, LogicalPlan] = MappingProxyType({}),
    ) -> None:
        self.tree = tree
        self.graph = StageGraph()
        self.facts = Facts(settings.topk_dynamic_pruning, compared_columns(tree))
        self._settings = settings
        self._sites = sites
        self._for_good = for_good
        self._subqueries = subqueries
        self._shared: dict[int, Pipeline] = {}  # by number, as planned by the first reader

    @cached_property
    def site(self) -> Site:
        """`auto`: the driver for what fits it, the executors for the rest and for rows that are theirs already."""
        wish, size = self._settings.placement, self.facts.size(self.tree)
        if wish == "auto":
            limit = self._settings.driver_max_bytes * self._read_factor
            fits = size is not None and size.column_bytes <= limit
            wish = "driver" if fits or self._sites.problem else "executors"
        if wish == "driver" and size is not None:
            return self._sites.driver
        if self._sites.problem:
            raise Declined.because(Code.PLACEMENT, self._sites.problem)
        return self._sites.executors()

    @property
    def _read_factor(self) -> float:
        """How many times as much may be read as may be held: what a WHERE drops is not held, but a window keeps all."""
        holds_all = any(scan.predicate is None for scan in self._scans)
        holds_all |= any(isinstance(node, Window) for node in walk(self.tree))
        return 1 if holds_all else self._sites.driver.costs.filtered_read_factor

    @property
    def dynamic_pruning(self) -> bool:
        return self._settings.topk_dynamic_pruning

    def size(self, plan: LogicalPlan) -> Size | None:
        """What a plan reads. Of rows of Spark's what its statistics say, rather too much than too little."""
        foreign = spark_input(plan.child) if isinstance(plan, Aggregate | Window) else None
        size = None if foreign is None else most_bytes(foreign, self.site.costs)
        if foreign is None or foreign.estimate is None or size is None:
            return self.facts.size(plan)
        return Size(int(size), int(foreign.estimate.rows))

    @property
    def driver_site(self) -> Site:
        return self._sites.driver

    @property
    def executors_site(self) -> Site:
        return self._sites.executors()

    def site_of_small(self, size: int) -> Site:
        """Where to decode so many bytes of a small step: the driver, which needs no Spark job, or the plan's own
        site."""
        return self.driver_site if size <= self.site.costs.small_step_bytes else self.site

    def for_build_side(self, tree: LogicalPlan) -> Planner:
        """A planner of a part of the plan, whose rows all go to the driver: it runs there, if it is small enough.

        It adds its stages to the same graph.
        """
        part = Planner(tree, self._settings, self._sites, self._for_good)
        part.graph, part.facts, part._shared = self.graph, self.facts, self._shared
        size = self.facts.size(tree)
        small = size is not None and size.column_bytes <= self.site.costs.small_step_bytes
        part.site = self._sites.driver if small else self.site
        return part

    def plan(self, answer: Callable[[Step], Rows | None]) -> StageGraph:
        """The finished graph. `answer` gives the rows of a step; None where it is not to be run now."""
        steps, rows = self.lower_all(), None
        while True:
            try:
                step = steps.send(rows)
            except StopIteration as done:
                self.graph.end(done.value, Result())
                return self.graph
            rows = answer(step)

    def lower_all(self) -> Steps[Pipeline]:
        """The open stage that gives the rows of the whole plan."""
        self.tree = yield from compute_subqueries(self, self._subqueries)
        if self._settings.placement != "driver" and not self._sites.problem:
            yield from read_footers_of_many(self, self._scans)
        self.graph.site = self.site
        self.tree = share_subplans(self.tree, self._is_worth_sharing)
        self._check_files()
        return (yield from self.lower(self.tree))

    def inside(self, plan: LogicalPlan) -> Planner:
        """A planner of another plan, for the same graph."""
        planner = Planner(plan, self._settings, self._sites, subqueries=self._subqueries)
        planner.graph = self.graph
        return planner

    @property
    def _scans(self) -> list[Scan]:
        """Each once, also in subplans that are read several times."""
        return [node for node in children_first(self.tree) if isinstance(node, Scan)]

    def _check_files(self) -> None:
        for scan in self._scans:
            access = self.facts.access(scan)
            access.count(self.graph.metrics)
            refusable = access.refusable_file() if self._for_good and not self.site.on_threads else None
            if refusable is not None:
                raise Declined.because(Code.FILE_SCHEMA, f"{refusable} may hold dates or times that only Spark reads")

    def step(self, rows: Pipeline, is_probe: bool = False) -> Steps[Rows | None]:
        """The rows of a pipeline on the driver, before planning goes on; None where explain does not run it."""
        return (yield Step(self.graph.end(rows, Gather()), is_probe))

    def subquery(self, rows: Pipeline, number: int) -> Steps[Rows | None]:
        """The rows of a subquery, before the plan that reads its value is planned."""
        return (yield Step(self.graph.subquery(rows, number)))

    def lower(self, plan: LogicalPlan) -> Steps[Pipeline]:
        """The open stage that gives the rows of `plan`; the stages before it are in the graph."""
        match plan:
            case Scan():
                return lower_scan(self, plan)
            case Foreign():
                return Pipeline(Place.EXECUTORS, "Rows of Spark", (SparkRows(plan.handle, plan.schema, plan.label),))
            case LocalRows():
                return lower_local_rows(self, plan)
            case Filter():
                return (yield from self.lower(plan.child)).then(FilterOperator(plan.schema, plan.predicate))
            case Project():
                return (yield from self.lower(plan.child)).then(ProjectOperator(plan.exprs))
            case Expand():
                return (yield from self.lower(plan.child)).then(ExpandOperator(plan.projections, plan.schema))
            case Union():
                return (yield from lower_union(self, plan))
            case Join():
                return (yield from lower_join(self, plan))
            case TopK():
                return (yield from lower_topk(self, plan))
            case Shared():
                return (yield from self._lower_shared(plan))
            case Sort():
                rows = yield from self.lower(plan.child)
                return self.graph.gather(rows, "Sort").then(SortOperator(plan.schema, plan.order))
            case Limit():
                return (yield from self._limit(plan))
            case Aggregate():
                return (yield from lower_aggregate(self, plan))
            case Window():
                return (yield from lower_window(self, plan))
            case _:
                raise InternalError(f"nothing runs a {type(plan).__name__}")

    def _lower_shared(self, plan: Shared) -> Steps[Pipeline]:
        """The first reader plans the rows, the others find them held."""
        if plan.number not in self._shared:
            self._shared[plan.number] = self.graph.hold((yield from self.lower(plan.child)), plan.readers)
            self.graph.metrics.add("subplans_shared")
        rows = self._shared[plan.number]
        if all(source == name for source, name in plan.columns) and len(plan.columns) == len(plan.child.schema):
            return rows
        types = {field.name: field.type for field in plan.child.schema}
        return rows.then(ProjectOperator(tuple(NamedExpr(name, Column(of, types[of])) for of, name in plan.columns)))

    def _is_worth_sharing(self, tree: LogicalPlan, places: Sequence[Occurrence]) -> bool:
        """Whether computing a subplan once for all costs less than what the filters of its places leave of it."""
        costs = self.site.costs
        if estimated_bytes(places[0].node, self.facts, costs) > costs.shared_bytes:
            return False
        same = [each.node for each in places]
        reads = sum(read_share(tree, each.path, same, self.facts, costs) for each in places)
        return reads > costs.min_shared_reads

    def _limit(self, plan: Limit) -> Steps[Pipeline]:
        """One task that stops as soon as there are enough rows, where that is all there is to do."""
        wanted = plan.limit + plan.offset
        limit = LimitOperator(plan.schema, plan.limit, plan.offset)
        if isinstance(plan.child, Scan):
            sources = (limit_scan(self.facts.access(plan.child), wanted, self.site.costs),)
            return Pipeline(self.site.place, "Scan", (Parts(sources, (TableScan(plan.child),)),)).then(limit)
        rows = yield from self.lower(plan.child)
        return self.graph.gather(rows.then(LimitOperator(plan.schema, wanted)), "Limit").then(limit)
