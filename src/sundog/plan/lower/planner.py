"""The planner: lowers a logical plan into the graph of stages that runs it. This folder decides how and where.

    graph = Planner(tree, settings, sites).plan(answer)

`answer` is given a step, a stage whose rows the planner must see before it can go on, and returns these rows. Inside,
lowering a shape is a generator that yields its steps.

Some facts only the data has: the number of keys, where to cut a range, whether a top-k needs another round. Asking for
one is a step, so a shape's lowering reads from top to bottom as it runs. Explain does not run a query: it answers None
to every step but the probes, which are bounded, and the planner ends the graph with what it knows.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from types import MappingProxyType
from typing import TypeVar

import pyarrow as pa

from sundog.config import Settings
from sundog.errors import InternalError
from sundog.expr.calls import NamedExpr
from sundog.expr.nodes import Column
from sundog.operators.expand import ExpandOperator
from sundog.operators.filter import FilterOperator
from sundog.operators.join.build_side import BuildSide
from sundog.operators.limit import LimitOperator
from sundog.operators.project import ProjectOperator
from sundog.operators.scan.scan import limit_scan
from sundog.operators.window.window_operator import SortRange
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
    title_of,
)
from sundog.plan.lower.aggregate import lower_aggregate
from sundog.plan.lower.estimates import estimated_bytes, read_share
from sundog.plan.lower.facts import Facts, Size, compared_columns
from sundog.plan.lower.footers import read_footers_of_many
from sundog.plan.lower.join import lower_collected, lower_join
from sundog.plan.lower.scan import lower_local_rows, lower_scan, lower_union, scan_below
from sundog.plan.lower.sizes import result_of, sorted_ranges
from sundog.plan.lower.subqueries import compute_subqueries, share_with_subqueries
from sundog.plan.lower.topk import lower_topk
from sundog.plan.lower.window import lower_window
from sundog.plan.outputs import Build, Gather
from sundog.plan.sharing import Occurrence, share_subplans
from sundog.plan.sites import Sites
from sundog.plan.spark_rows import most_bytes, spark_input
from sundog.plan.stages import Delivery, Parts, Pipeline, Place, Site, SparkRows, Stage, StageGraph
from sundog.plan.subqueries import plans_read
from sundog.support import Code, Declined, TooManyBytes
from sundog.tree import children_first, walk

T = TypeVar("T")


@dataclass(frozen=True)
class Step:
    """A stage that ends on the driver, and whose rows the planner must see. `is_probe`: explain runs it too."""

    stage: Stage
    is_probe: bool = False


Rows = list[pa.RecordBatch]
Answer = Rows | BuildSide
Steps = Generator[Step, Answer | None, T]
"""A part of planning: yields steps, is sent their rows (None: not available now), returns what it planned."""


@dataclass
class SharedSubplans:
    """The shared subplans of a query and its subqueries. Each has one of the `numbers`.

    `held`: the rows, as the first reader planned them. `gathered`: those that executors compute and the driver holds,
    with the bytes that their rows may take.
    """

    numbers: Iterator[int] = field(default_factory=count)
    held: dict[int, Pipeline] = field(default_factory=dict)
    gathered: dict[int, int] = field(default_factory=dict)


class Planner:
    """Plans one part of a query. `site` is where most of it runs.

    `delivery` FOR_GOOD: rows are handed out as executors make them (into a table, to a user's function), so the planner
    declines whatever might fail only then. `subqueries`: the plans of the scalar subqueries of the query, by number.
    """

    def __init__(
        self,
        tree: LogicalPlan,
        settings: Settings,
        sites: Sites,
        delivery: Delivery = Delivery.DRIVER,
        subqueries: Mapping[int, LogicalPlan] = MappingProxyType({}),
    ) -> None:
        self.tree = tree
        trees = plans_read(tree, subqueries) if subqueries else [tree]
        self.graph = StageGraph(for_spark=delivery is not Delivery.DRIVER, title=title_of(trees))
        compared = frozenset[str]().union(*map(compared_columns, trees))
        self.facts = Facts(settings.topk_dynamic_pruning, sites.driver.costs, compared)
        self._settings = settings
        self._sites = sites
        self._delivery = delivery
        self._subqueries = subqueries
        self.shared = SharedSubplans()

    @cached_property
    def site(self) -> Site:
        """The site for placement `auto`: the driver for what fits it, executors for the rest, for foreign rows, and for
        rows that they hold."""
        wish, size = self._settings.placement, self.facts.size(self.tree)
        if wish == "auto":
            fits = size is not None and size.column_bytes <= self._driver_read_bytes
            fits = fits and not self._reads_held_on_executors(self.tree)
            wish = "driver" if fits or self._sites.problem else "executors"
        if wish == "driver" and size is not None:
            return self._sites.driver
        if self._sites.problem:
            raise Declined.because(Code.PLACEMENT, self._sites.problem)
        return self._sites.executors()

    @property
    def _driver_read_bytes(self) -> float:
        """Bytes that the driver may read. A window holds all of them. An aggregate or a join does not hold what a WHERE
        drops, so it may read more; in a local session, executors would use the same machine, so more still."""
        bytes_held, costs = self._settings.driver_max_bytes, self._sites.driver.costs
        if any(isinstance(node, Window) for node in walk(self.tree)):
            return bytes_held
        is_filtered = all(scan.predicate is not None for scan in self._scans)
        bytes_read = bytes_held * (costs.filtered_read_factor if is_filtered else 1)
        most = (self._sites.local_memory_bytes or 0) * costs.max_local_share
        return max(bytes_read, min(bytes_read * costs.local_read_factor, most))

    @property
    def dynamic_pruning(self) -> bool:
        return self._settings.topk_dynamic_pruning

    def size(self, plan: LogicalPlan) -> Size | None:
        """What a plan reads. For foreign rows by Spark's statistics, too much rather than too little."""
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
        """Where to decode a small step of `size` bytes: on the driver, which needs no Spark job, if it is small; else
        at the plan's own site."""
        return self.driver_site if size <= self.site.costs.small_step_bytes else self.site

    def for_build_side(self, tree: LogicalPlan) -> Planner:
        """A planner of a part of the plan whose rows all go to the driver. The part runs there if it is small enough.

        It adds its stages to the same graph.
        """
        part = Planner(tree, self._settings, self._sites, self._delivery)
        part.graph, part.facts, part.shared = self.graph, self.facts, self.shared
        size = self.facts.size(tree)
        small = size is not None and size.column_bytes <= self.site.costs.small_step_bytes
        part.site = self._sites.driver if small else self.site
        return part

    def plan(self, answer: Callable[[Step], Answer | None]) -> StageGraph:
        """The finished graph. `answer` gives the rows of a step; None if the step is not run now."""
        result = result_of(self.tree, self._subqueries.values())
        steps, found, problem = self._lower_query(), None, None
        while True:
            try:
                step = steps.send(found) if problem is None else steps.throw(problem)
            except StopIteration as done:
                self.graph.end(done.value, result)
                return self.graph
            found = problem = None  # a build side that was given up is not kept while the next step runs
            try:
                found = answer(step)
            except TooManyBytes as too_many:
                problem = too_many

    def _lower_query(self) -> Steps[Pipeline]:
        """The same as `lower_all`, after what the plan and its subqueries have in common was found."""
        if self._subqueries:
            self.tree, self._subqueries = yield from share_with_subqueries(self, self._subqueries)
        return (yield from self.lower_all())

    def lower_all(self) -> Steps[Pipeline]:
        """The open stage that gives the rows of the whole plan."""
        self.tree = yield from compute_subqueries(self, self._subqueries)
        yield from self.read_footers()
        self.graph.site = self.site
        self.tree = share_subplans(self.tree, self.is_worth_sharing, self.shared.numbers, self.facts.tested_predicate)
        self._check_files()
        return (yield from self.lower(self.tree))

    def read_footers(self) -> Steps[None]:
        """Have executors, if they may be used, read the footers of tables with many files."""
        if self._settings.placement != "driver" and not self._sites.problem:
            yield from read_footers_of_many(self, self._scans)

    def inside(self, plan: LogicalPlan) -> Planner:
        """A planner of another plan, for the same graph."""
        planner = Planner(plan, self._settings, self._sites, subqueries=self._subqueries)
        planner.graph, planner.facts, planner.shared = self.graph, self.facts, self.shared
        return planner

    @property
    def _scans(self) -> list[Scan]:
        """All scans, each once even in a subplan that is read several times."""
        return [node for node in children_first(self.tree) if isinstance(node, Scan)]

    def _check_files(self) -> None:
        for scan in self._scans:
            access = self.facts.access(scan)
            handed_out = self._delivery is Delivery.FOR_GOOD and not self.site.on_threads
            refusable = access.refusable_file() if handed_out else None
            if refusable is not None:
                raise Declined.because(Code.FILE_SCHEMA, f"{refusable} may hold dates or times that only Spark reads")

    def step(self, rows: Pipeline, is_probe: bool = False, max_bytes: int | None = None) -> Steps[Rows | None]:
        """The rows of a pipeline on the driver, before planning goes on; None if explain does not run it.

        Raises TooManyBytes if they are more than `max_bytes`. Where that is not caught, the whole part is declined.
        """
        return _rows_of((yield Step(self.graph.end(rows, Gather(max_bytes=max_bytes)), is_probe)))

    def build_side(self, rows: Pipeline, output: Build) -> Steps[tuple[BuildSide | None, Stage]]:
        """The build side of a join, and the stage that makes it; the build side is None if explain does not run it.

        Raises TooManyBytes if its rows are more than the output allows.
        """
        stage = self.graph.end(rows, output)
        built = yield Step(stage)
        if isinstance(built, list):
            raise InternalError(f"stage {stage.number} gave rows instead of a build side")
        return built, stage

    def subquery(self, rows: Pipeline, number: int) -> Steps[Rows | None]:
        """The rows of a subquery, before the plan that reads its value is planned."""
        return _rows_of((yield Step(self.graph.subquery(rows, number))))

    def lower(self, plan: LogicalPlan) -> Steps[Pipeline]:
        """The open stage that gives the rows of `plan`; the stages before it are in the graph."""
        match plan:
            case Scan():
                return lower_scan(self, plan)
            case Foreign(collected=True):
                return lower_collected(self, plan)
            case Foreign():
                return Pipeline(Place.EXECUTORS, "Rows of Spark", (SparkRows(plan.handle, plan.schema, plan.label),))
            case LocalRows():
                return lower_local_rows(self, plan)
            case Filter():
                kept = FilterOperator(plan.schema, plan.predicate, self.site.costs)
                return (yield from self.lower(plan.child)).then(kept)
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
                return (yield from self._sort(plan))
            case Limit():
                return (yield from self._limit(plan))
            case Aggregate():
                return (yield from lower_aggregate(self, plan))
            case Window():
                return (yield from lower_window(self, plan))
            case _:
                raise InternalError(f"nothing runs a {type(plan).__name__}")

    def _lower_shared(self, plan: Shared) -> Steps[Pipeline]:
        """The rows of a shared subplan: the first reader plans it, the others read the held rows."""
        if plan.number not in self.shared.held:
            rows = yield from self.lower(plan.child)
            if plan.number in self.shared.gathered and rows.place is Place.EXECUTORS:
                max_bytes = self.shared.gathered[plan.number]
                rows = self.graph.gather(rows, rows.purpose, "few rows are held on the driver", max_bytes)
            self.shared.held[plan.number] = self.graph.hold(rows, plan.readers, shared=True)
        rows = self.shared.held[plan.number]
        if rows.place is Place.EXECUTORS and self.site.on_threads:  # a small build side; the first reader was not small
            rows = self.graph.gather(rows, rows.purpose, "executors hold them")
        if all(source == name for source, name in plan.columns) and len(plan.columns) == len(plan.child.schema):
            return rows
        types = {field.name: field.type for field in plan.child.schema}
        return rows.then(ProjectOperator(tuple(NamedExpr(name, Column(of, types[of])) for of, name in plan.columns)))

    def _reads_held_on_executors(self, plan: LogicalPlan) -> bool:
        """Whether a plan reads a shared subplan whose first reader ran on executors, so that its rows are there."""
        held = {number for number, rows in self.shared.held.items() if rows.place is Place.EXECUTORS}
        return bool(held) and any(isinstance(node, Shared) and node.number in held for node in walk(plan))

    def is_worth_sharing(self, tree: LogicalPlan, places: Sequence[Occurrence]) -> bool:
        """Whether computing a subplan once costs less than reading it in each place, after the filters of that
        place."""
        costs = self.site.costs
        if estimated_bytes(places[0].node, self.facts, costs) > costs.shared_bytes:
            return False
        same = [each.node for each in places]
        reads = sum(read_share(tree, each.path, same, self.facts, costs) for each in places)
        return reads > costs.min_shared_reads

    def _sort(self, plan: Sort) -> Steps[Pipeline]:
        """Rows of a table in ranges of the order, as a window without calls has them; few rows, and those that are
        computed from others, in one range on the driver."""
        size = self.facts.size(plan.child)
        if scan_below(plan.child) is not None and sorted_ranges(size, self.site) > 1:
            in_ranges = yield from lower_window(self, Window(plan.child, (), (), plan.order))
            return replace(in_ranges, purpose="Sort")
        rows = yield from self.lower(plan.child)
        return self.graph.gather(rows, "Sort").then(SortRange(plan.schema, (), plan.order))

    def _limit(self, plan: Limit) -> Steps[Pipeline]:
        """A limit. Over a scan: one task that stops at enough rows. Else: at most `wanted` rows of each task."""
        wanted = plan.limit + plan.offset
        limit = LimitOperator(plan.schema, plan.limit, plan.offset)
        if isinstance(plan.child, Scan):
            sources = (limit_scan(self.facts.access(plan.child), wanted, self.site.costs),)
            return Pipeline(self.site.place, "Scan", (Parts(sources),)).then(limit)
        rows = yield from self.lower(plan.child)
        return self.graph.gather(rows.then(LimitOperator(plan.schema, wanted)), "Limit").then(limit)


def _rows_of(found: Answer | None) -> Rows | None:
    """The answer to a step that asks for rows."""
    if isinstance(found, BuildSide):
        raise InternalError("a step that asks for rows was given a build side")
    return found
