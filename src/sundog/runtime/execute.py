"""Execution of a planned part of a query: answers the planner's steps, runs its stages, returns the result.

Nothing is decided here. A step is a stage whose rows the planner needs; it is run with the stages that it reads, each
once, and its rows are sent back. The last stage is the result's, which runs when its rows are read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from time import perf_counter
from types import MappingProxyType
from typing import TYPE_CHECKING

from sundog.config import Settings
from sundog.errors import InternalError
from sundog.machine import usable_cores, usable_memory_bytes
from sundog.metrics import Metrics
from sundog.operators.context import DEFAULT_MEMORY_BYTES
from sundog.operators.sources import BatchSource, ChainedSources, Source
from sundog.operators.window.ranges.halo import check_row_accounting
from sundog.plan.costs import read_costs
from sundog.plan.lower.planner import Answer, Planner, Rows, Step
from sundog.plan.outputs import Build, Exchange, Gather, Hold, Result
from sundog.plan.records import StageRecord, StageRecords
from sundog.plan.sites import Sites, TravelRule, max_output_bytes, process_share, sites_of, task_limits
from sundog.plan.stages import (
    BuildRows,
    CollectedRows,
    Delivery,
    FirstSparkKeys,
    Input,
    PairedRows,
    Parts,
    Place,
    Site,
    SparkRows,
    Stage,
    StageGraph,
    StageRows,
    Summaries,
)
from sundog.runtime.driver import DriverRuntime
from sundog.runtime.frames import CollectedSource, first_keys, frame_from_batches
from sundog.runtime.processes.profiles import application_of, cluster_of
from sundog.runtime.progress import NO_PROGRESS, ProgressSink
from sundog.runtime.spark import SparkInput, SparkRuntime

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from sundog.plan.logical import LogicalPlan


class StageRunner:
    """Runs the stages of one graph, each once, after the stages that it reads."""

    def __init__(
        self,
        driver: DriverRuntime,
        executors: Callable[[StageRecords], SparkRuntime] | None = None,
        foreign: Mapping[int, DataFrame] | None = None,
        title: str = "",
    ) -> None:
        """`executors` is called when the first stage runs there. `foreign`: the DataFrames of foreign rows, by handle.
        `title`: of the query, in the descriptions of Spark's jobs."""
        self.records = driver.records
        self._driver = driver
        self._make_executors = executors
        self._foreign = foreign or {}
        self._title = title
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

    def answer(self, stage: Stage) -> Answer:
        """The answer to a step of the planner: the rows of a stage, or the build side of a join made of them."""
        rows = self.rows(stage)
        if not isinstance(stage.output, Build):
            return rows
        counts, start = self.records.of(stage).operators[-1], perf_counter()
        built = stage.output.build(rows)
        counts.seconds += perf_counter() - start
        counts.rows, counts.bytes, counts.batches = built.rows, built.nbytes, 1
        return built

    def frame(self, stage: Stage, schema: StructType) -> DataFrame | None:
        """A lazy DataFrame of a stage that runs on executors; None if its rows are on the driver."""
        if stage.place is Place.DRIVER:
            return None
        return self._executors.frame(stage, self._spark_input(stage, for_spark=True), schema)

    def forget(self, graph: StageGraph) -> None:
        """Release what stages hold that were given up."""
        for number in graph.given_up:
            self._held.pop(number, None)

    def drain_metrics(self, seconds: float) -> bool:
        """Collect the counts of tasks on executors; whether the last stage ran to its end."""
        return self._executors.drain_metrics(seconds)

    @property
    def has_all_reports(self) -> bool:
        """Whether the counts of all held rows have arrived; see `SparkRuntime.has_all_reports`."""
        return "_executors" not in self.__dict__ or self._executors.has_all_reports

    def release(self) -> None:
        """Release everything. The action is over."""
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
                    keys = first_keys(self._foreign[each.handle], each.places, each.rows, self._title)
                    found.append(BatchSource([keys]))
                case CollectedRows():
                    found.append(CollectedSource(self._foreign[each.handle], each, self._title))
                case SparkRows() | Summaries():
                    raise InternalError(
                        "rows of a Spark plan, and summaries of rows that are moved, are with the executors"
                    )
                case PairedRows(build=build, probe=probe):
                    pairs = zip(self._driver_output(build), self._driver_output(probe), strict=True)
                    found += (ChainedSources(pair) for pair in pairs)
                case BuildRows():
                    pass  # an operator of this stage has its rows
        return found

    def _driver_output(self, stage: Stage) -> list[Source]:
        match stage.output:
            case Gather():
                return [BatchSource(self.rows(stage))]
            case Exchange(is_kept=False) as output if stage.place is Place.DRIVER:
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
        """`for_spark`: Spark's own operators follow in the same tasks, so each partition needs a task."""
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
            case StageRows(stage=Stage(output=Exchange(is_kept=False) as output) as before):
                return self._executors.exchange(before, self._spark_input(before), output, tasks)
            case StageRows(stage=Stage(output=Exchange(readers=1)) as before):
                return self._kept_exchange(before).without_summaries()
            case StageRows(stage=Stage(output=Exchange()) as before):
                return self._kept_exchange(before)
            case Summaries(stage=before):
                return self._kept_exchange(before).summaries()
            case PairedRows(build=build, probe=probe):
                return self._executors.exchange_pair(
                    (build, self._spark_input(build)), (probe, self._spark_input(probe)), tasks
                )
            case StageRows(stage=Stage(output=Hold()) as before):
                return self._kept(before, lambda: self._executors.hold(before, self._spark_input(before), place))
            case _:
                raise InternalError("executors read tables, Spark's rows, and other stages of theirs")

    def _kept_exchange(self, stage: Stage) -> SparkInput:
        assert isinstance(stage.output, Exchange)
        output, tasks = stage.output, stage.output.process_tasks
        return self._kept(stage, lambda: self._executors.exchange(stage, self._spark_input(stage), output, tasks))

    def _kept(self, stage: Stage, make: Callable[[], SparkInput]) -> SparkInput:
        """A stage's output that several stages read; made for the first of them."""
        if stage.number not in self._held:
            self._held[stage.number] = make()
        held = self._held[stage.number]
        assert isinstance(held, SparkInput)
        return held


class Execution:
    """One part of a query while it runs. Its result is taken either by `batches` or by `to_dataframe`."""

    def __init__(
        self,
        session: SparkSession,
        graph: StageGraph,
        runner: StageRunner,
        planning_seconds: float,
    ) -> None:
        self.graph = graph
        self.planning_seconds = planning_seconds
        self._session = session
        self._runner = runner
        self._lazy_since: float | None = None

    @property
    def placement(self) -> str:
        assert self.graph.site is not None
        return self.graph.site.place.value

    @property
    def metrics(self) -> Metrics:
        total = self._runner.records.total(self.graph.given_up)
        total.merge(self.graph.planned_metrics())
        return total

    @property
    def stages(self) -> list[StageRecord]:
        return self._runner.records.in_order()

    @property
    def _result(self) -> Stage:
        assert self.graph.result is not None
        return self.graph.result

    @property
    def _output(self) -> Result:
        assert isinstance(self._result.output, Result)
        return self._result.output

    def batches(self) -> Rows:
        """Run it, and bring all rows to the driver."""
        result = self._runner.rows(self._result)
        if not self._output.may_stop_early and self._runner.has_all_reports:
            check_row_accounting(self.metrics)
        output = self._runner.records.of(self._result).operators[-1]
        output.metrics.add("output_rows", sum(batch.num_rows for batch in result))
        return result

    def to_dataframe(self, schema: StructType) -> DataFrame:
        """The result as a Spark DataFrame with `schema`; lazy if it is on executors."""
        lazy = self._runner.frame(self._result, schema)
        if lazy is not None:
            self._lazy_since = perf_counter()
            return lazy
        return frame_from_batches(self._session, self.batches(), schema, self._output)

    def finish(self, check: bool = True) -> None:
        """Ends the action: collect the metrics of lazy stages. `check`: that no row was lost or added."""
        complete = False
        if self._lazy_since is not None:
            complete = self._runner.drain_metrics(perf_counter() - self._lazy_since)
        complete = complete and self._runner.has_all_reports
        self._runner.release()
        if check and complete and not self._output.may_stop_early:
            check_row_accounting(self.metrics)


def execute(
    tree: LogicalPlan,
    session: SparkSession,
    settings: Settings,
    foreign: Mapping[int, DataFrame],
    executors_unusable: str | None,
    on_graph: Callable[[StageGraph], None],
    progress: ProgressSink = NO_PROGRESS,
    delivery: Delivery = Delivery.DRIVER,
    subqueries: Mapping[int, LogicalPlan] = MappingProxyType({}),
) -> Execution:
    """Plan a part of a query and run the steps that planning needs; the result's stage runs when it is read.

    `on_graph` is called with the graph at once, so that it is known even if a step fails. `delivery`, `subqueries`: see
    `Planner`.
    Raises FileProblem and FileSchemaProblem for files that only Spark can judge: Spark then runs the query.
    """
    started = perf_counter()
    sites = _sites(session, settings, executors_unusable)
    planner = Planner(tree, settings, sites, delivery, subqueries)
    on_graph(planner.graph)
    runner = _runner(session, settings, foreign, progress, sites.executors, planner.graph.title)
    in_steps = 0.0

    def answer(step: Step) -> Answer:
        nonlocal in_steps
        runner.forget(planner.graph)
        begun = perf_counter()
        found = runner.answer(step.stage)
        in_steps += perf_counter() - begun
        return found

    try:
        planner.plan(answer)
    except BaseException:  # also KeyboardInterrupt
        runner.release()
        raise
    return Execution(session, planner.graph, runner, perf_counter() - started - in_steps)


def explain(
    tree: LogicalPlan,
    session: SparkSession,
    settings: Settings,
    foreign: Mapping[int, DataFrame],
    executors_unusable: str | None,
    subqueries: Mapping[int, LogicalPlan] = MappingProxyType({}),
) -> StageGraph:
    """The graph as far as it is known without running the query: only probes are run."""
    sites = _sites(session, settings, executors_unusable)
    planner = Planner(tree, settings, sites, subqueries=subqueries)
    runner = _runner(session, settings, foreign, NO_PROGRESS, sites.executors, planner.graph.title)
    try:
        return planner.plan(lambda step: runner.answer(step.stage) if step.is_probe else None)
    finally:
        runner.release()


def _runner(
    session: SparkSession,
    settings: Settings,
    foreign: Mapping[int, DataFrame],
    progress: ProgressSink,
    site: Callable[[], Site],
    title: str,
) -> StageRunner:
    """`site` is that of the executors."""
    memory, block_bytes = settings.task_memory_bytes or DEFAULT_MEMORY_BYTES, settings.exchange_block_bytes

    def executors(records: StageRecords) -> SparkRuntime:
        where = site()
        cluster = cluster_of(session)
        limits = task_limits(where.task_memory_bytes, block_bytes, where.costs, process_share(cluster, where))
        travel = TravelRule.of(cluster, where.costs)
        return SparkRuntime(session, limits, progress, records, where.process_slots, travel, title)

    output = max_output_bytes(usable_memory_bytes(), settings.driver_max_bytes, read_costs(settings.costs).driver)
    return StageRunner(
        DriverRuntime(usable_cores(), memory, progress, max_output_bytes=output), executors, foreign, title
    )


def _sites(session: SparkSession, settings: Settings, executors_unusable: str | None) -> Sites:
    application = application_of(session)
    return sites_of(application, usable_cores(), usable_memory_bytes(), settings, executors_unusable)
