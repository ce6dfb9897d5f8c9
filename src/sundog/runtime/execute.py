"""Runs a planned part of a query: drives the planner's steps, runs its stages, gives out the result.

Nothing is decided here. A step of the planner is a stage whose rows it wants to see; it is run with the stages that it
reads, each once, and the rows are sent back. What is left at the end is the result's stage, which runs when its rows
are asked for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from functools import cache, cached_property
from time import perf_counter
from types import MappingProxyType
from typing import TYPE_CHECKING

from sundog.config import Settings
from sundog.errors import InternalError
from sundog.metrics import Metrics
from sundog.operators.sources import BatchSource, ChainedSources, Source
from sundog.operators.window.ranges.halo import check_row_accounting
from sundog.plan.costs import read_costs
from sundog.plan.logical import Limit, LogicalPlan, Window, spark_has_one_partition
from sundog.plan.lower.planner import Planner, Rows, Sites, Step
from sundog.plan.records import StageRecord, StageRecords
from sundog.plan.sites import executors_site, may_have_one_process
from sundog.plan.stages import (
    BuildRows,
    Exchange,
    FirstSparkKeys,
    Gather,
    Hold,
    Input,
    PairedRows,
    Parts,
    Place,
    Site,
    SparkRows,
    Stage,
    StageGraph,
    StageRows,
)
from sundog.runtime.driver import DriverRuntime
from sundog.runtime.frames import first_keys, frame_from_batches
from sundog.runtime.processes.profiles import cluster_of, executors_of
from sundog.runtime.progress import NO_PROGRESS, ProgressSink
from sundog.runtime.spark import SparkInput, SparkRuntime
from sundog.tree import walk

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class StageRunner:
    """Runs the stages of one graph, each once, those that it reads before it."""

    def __init__(
        self,
        driver: DriverRuntime,
        executors: Callable[[StageRecords], SparkRuntime] | None = None,
        foreign: Mapping[int, DataFrame] | None = None,
    ) -> None:
        """`executors` is called when the first stage runs there. `foreign`: the frames of Spark's rows, by handle."""
        self.records = driver.records
        self._driver = driver
        self._make_executors = executors
        self._foreign = foreign or {}
        self._held: dict[int, list[Source] | SparkInput] = {}

    @cached_property
    def _executors(self) -> SparkRuntime:
        if self._make_executors is None:
            raise InternalError("there are no executors")
        return self._make_executors(self.records)

    def rows(self, stage: Stage) -> Rows:
        """Run a stage, and bring all rows to the driver, in the order of the partitions."""
        partitions = (
            self._driver.gather(stage, self._sources(stage))
            if stage.place is Place.DRIVER
            else self._executors.gather(stage, self._spark_input(stage))
        )
        return [batch for batches in partitions for batch in batches]

    def frame(self, stage: Stage, schema: StructType) -> DataFrame | None:
        """A lazy DataFrame of a stage that runs on executors; None where its rows are on the driver."""
        if stage.place is Place.DRIVER:
            return None
        return self._executors.frame(stage, self._spark_input(stage, for_spark=True), schema)

    def forget(self, graph: StageGraph) -> None:
        """Let go of what stages hold that were given up."""
        for number in graph.given_up:
            self._held.pop(number, None)

    def drain_metrics(self, seconds: float) -> bool:
        """Take over what tasks on executors counted; whether the last stage ran to its end."""
        return self._executors.drain_metrics(seconds)

    def release(self) -> None:
        """Let go of everything held. The action is over."""
        self._held.clear()
        if "_executors" in self.__dict__:
            self._executors.release()

    def _sources(self, stage: Stage) -> list[Source]:
        found: list[Source] = []
        for each in stage.inputs:
            match each:
                case Parts(sources=sources):
                    found += sources
                case StageRows(stage=before):
                    found += self._driver_output(before)
                case FirstSparkKeys():
                    found.append(BatchSource([first_keys(self._foreign[each.handle], each.places, each.rows)]))
                case SparkRows():
                    raise InternalError("rows of a Spark plan are with the executors")
                case PairedRows(build=build, probe=probe):
                    pairs = zip(self._driver_output(build), self._driver_output(probe), strict=True)
                    found += (ChainedSources(pair) for pair in pairs)
                case BuildRows():
                    pass  # its rows are in an operator of this stage
        return found

    def _driver_output(self, stage: Stage) -> list[Source]:
        match stage.output:
            case Gather():
                return [BatchSource(self.rows(stage))]
            case Exchange() as output if stage.place is Place.DRIVER:
                return self._driver.exchange(stage, self._sources(stage), output)
            case Hold() if stage.place is Place.DRIVER:
                if stage.number not in self._held:
                    self._held[stage.number] = self._driver.hold(stage, self._sources(stage))
                held = self._held[stage.number]
                assert isinstance(held, list)
                return held
            case _:
                raise InternalError(f"stage {stage.number} does not put its rows out on the driver")

    def _spark_input(self, stage: Stage, for_spark: bool = False) -> SparkInput:
        """`for_spark`: operators of Spark's own follow in the same tasks, so that each partition has one."""
        tasks = 0 if for_spark else stage.process_tasks
        inputs = [each for each in stage.inputs if not isinstance(each, BuildRows)]
        parts = [each for each in inputs if isinstance(each, Parts)]
        if len(parts) == len(inputs):
            return self._executors.sources([source for each in parts for source in each.sources], tasks)
        if len(inputs) == 1:
            return self._one_spark_input(inputs[0], tasks)
        return self._executors.together([self._one_spark_input(each, 0, place) for place, each in enumerate(inputs)])

    def _one_spark_input(self, given: Input, tasks: int, place: int = 0) -> SparkInput:
        match given:
            case SparkRows():
                return SparkInput(self._foreign[given.handle], columns=given.schema)
            case StageRows(stage=before) if isinstance(before.output, Exchange):
                return self._executors.exchange(before, self._spark_input(before), before.output, tasks)
            case PairedRows(build=build, probe=probe):
                return self._executors.exchange_pair(
                    (build, self._spark_input(build)), (probe, self._spark_input(probe)), tasks
                )
            case StageRows(stage=before) if isinstance(before.output, Hold):
                if before.number not in self._held:
                    self._held[before.number] = self._executors.hold(before, self._spark_input(before), place)
                held = self._held[before.number]
                assert isinstance(held, SparkInput)
                return held
            case _:
                raise InternalError("executors read tables, Spark's rows, and other stages of theirs")


class Execution:
    """One part of a query while it runs. `batches` and `to_dataframe` are the two ways to take its result."""

    def __init__(
        self,
        session: SparkSession,
        tree: LogicalPlan,
        subqueries: Iterable[LogicalPlan],
        graph: StageGraph,
        runner: StageRunner,
        planning_seconds: float,
    ) -> None:
        self.graph = graph
        self.planning_seconds = planning_seconds
        self._session = session
        self._tree = tree
        self._subqueries = tuple(subqueries)
        self._runner = runner
        self._lazy_since: float | None = None

    @property
    def placement(self) -> str:
        assert self.graph.site is not None
        return self.graph.site.place.value

    @property
    def metrics(self) -> Metrics:
        total = self._runner.records.total(self.graph.given_up)
        total.merge(self.graph.metrics)
        return total

    @property
    def stages(self) -> list[StageRecord]:
        return self._runner.records.in_order()

    @property
    def _result(self) -> Stage:
        assert self.graph.result is not None
        return self.graph.result

    def batches(self) -> Rows:
        """Run it, and bring all rows to the driver."""
        result = self._runner.rows(self._result)
        if not self._may_stop_early:
            check_row_accounting(self.metrics)
        self.graph.metrics.add("output_rows", sum(batch.num_rows for batch in result))
        return result

    def to_dataframe(self, schema: StructType) -> DataFrame:
        """The result as a Spark DataFrame with `schema`: lazy where it comes from executors."""
        lazy = self._runner.frame(self._result, schema)
        if lazy is not None:
            self._lazy_since = perf_counter()
            return lazy
        one_partition = spark_has_one_partition(self._tree)
        return frame_from_batches(self._session, self.batches(), schema, one_partition=one_partition)

    def finish(self, check: bool = True) -> None:
        """After the action: take over the metrics of what Spark ran lazily. `check`: no row was lost or made up."""
        complete = False
        if self._lazy_since is not None:
            complete = self._runner.drain_metrics(perf_counter() - self._lazy_since)
        self._runner.release()
        if check and complete and not self._may_stop_early:
            check_row_accounting(self.metrics)

    @property
    def _may_stop_early(self) -> bool:
        """Whether a limit above a window may have enough before the window has given out all its rows."""
        trees = (self._tree, *self._subqueries)
        limits = [node for tree in trees for node in walk(tree) if isinstance(node, Limit)]
        return any(isinstance(node, Window) for limit in limits for node in walk(limit))


def execute(
    tree: LogicalPlan,
    session: SparkSession,
    settings: Settings,
    foreign: Mapping[int, DataFrame],
    executors_unusable: str | None,
    on_graph: Callable[[StageGraph], None],
    progress: ProgressSink = NO_PROGRESS,
    for_good: bool = False,
    subqueries: Mapping[int, LogicalPlan] = MappingProxyType({}),
) -> Execution:
    """Plan a part of a query, running the steps that planning needs; its result runs when it is taken.

    `on_graph` is given the graph at once, so that it is known also where a step fails. `for_good`, `subqueries`: see
    `Planner`.
    Raises FileProblem and FileSchemaProblem for files that only Spark can judge: the query is then Spark's.
    """
    started = perf_counter()
    sites = sites_of(session, settings, executors_unusable)
    planner = Planner(tree, settings, sites, for_good, subqueries)
    on_graph(planner.graph)
    runner = _runner(session, settings, foreign, progress, sites.executors)
    in_steps = 0.0

    def answer(step: Step) -> Rows:
        nonlocal in_steps
        runner.forget(planner.graph)
        begun = perf_counter()
        rows = runner.rows(step.stage)
        in_steps += perf_counter() - begun
        return rows

    try:
        planner.plan(answer)
    except BaseException:  # also where the user stops it
        runner.release()
        raise
    return Execution(session, tree, subqueries.values(), planner.graph, runner, perf_counter() - started - in_steps)


def explain(
    tree: LogicalPlan,
    session: SparkSession,
    settings: Settings,
    foreign: Mapping[int, DataFrame],
    executors_unusable: str | None,
    subqueries: Mapping[int, LogicalPlan] = MappingProxyType({}),
) -> StageGraph:
    """The graph as far as it is known without running the query: only probes are run."""
    sites = sites_of(session, settings, executors_unusable)
    planner = Planner(tree, settings, sites, subqueries=subqueries)
    runner = _runner(session, settings, foreign, NO_PROGRESS, sites.executors)
    try:
        return planner.plan(lambda step: runner.rows(step.stage) if step.is_probe else None)
    finally:
        runner.release()


def _runner(
    session: SparkSession,
    settings: Settings,
    foreign: Mapping[int, DataFrame],
    progress: ProgressSink,
    site: Callable[[], Site],
) -> StageRunner:
    """`site` is that of the executors."""
    memory, block_bytes = settings.task_memory_bytes, settings.exchange_block_bytes

    def executors(records: StageRecords) -> SparkRuntime:
        return SparkRuntime(session, site().task_memory_bytes, block_bytes, progress, records, site().executor_slots)

    return StageRunner(DriverRuntime(_driver_slots(), memory, progress), executors, foreign)


def sites_of(session: SparkSession, settings: Settings, executors_unusable: str | None) -> Sites:
    """The places that there are in this session."""
    costs, memory = read_costs(settings.costs), settings.task_memory_bytes

    @cache
    def executors() -> Site:
        cluster = cluster_of(session)
        found = executors_of(session) if may_have_one_process(cluster, settings.executor_process) else None
        return executors_site(cluster, found, session.sparkContext.defaultParallelism, memory, costs.executors)

    return Sites(Site(Place.DRIVER, _driver_slots(), memory, costs.driver), executors, executors_unusable)


def _driver_slots() -> int:
    return os.cpu_count() or 1
