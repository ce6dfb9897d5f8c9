"""The plan that runs: a graph of stages.

    inputs ──► operator ──► operator ──► output
    table parts, rows of Spark's,        exchange to the next stage, gather on the driver, hold for several readers,
    rows of another stage,               or the result
    build sides of joins

A stage runs its operators over each partition of its inputs, one task each, at one place: on driver threads or on
Spark's executors. The planner (`plan/lower`) makes stages, a runtime runs them and decides nothing. Explain, the report
and the tests walk these objects. Counts belong to a stage's number and a position in its chain: 0 is the input, 1 the
first operator, and the one after the last operator is the output.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

import pyarrow as pa

from sundog.metrics import Metrics
from sundog.operators.base import Described, Operator, Partitioner
from sundog.operators.sources import Source
from sundog.plan.costs import Costs
from sundog.plan.outputs import Exchange, Gather, Hold, Output, Result
from sundog.support import Code, Declined


class Place(Enum):
    """Where a stage runs."""

    DRIVER = "driver"
    EXECUTORS = "executors"


@dataclass(frozen=True)
class Site:
    """A place as the planner sees it: tasks at once, memory of each, costs.

    `processes`: number of processes on the executors, each of which runs the tasks of several slots on its threads; 0:
    each slot has a process of its own.
    """

    place: Place
    slots: int
    task_memory_bytes: int
    costs: Costs
    processes: int = 0

    @property
    def process_slots(self) -> int:
        """Tasks at once in a process of an executor."""
        return self.slots // self.processes if self.processes else 1

    @property
    def process_memory_bytes(self) -> int:
        """The budgets of all tasks that run in one process at once, together."""
        return self.task_memory_bytes * (self.slots if self.on_threads else self.process_slots)

    @property
    def max_reads(self) -> float:
        """How many times all rows may be read, even if another strategy costs more: with many slots, a limit."""
        return math.inf if self.slots <= self.costs.few_slots else self.costs.max_reads_by_many

    @property
    def on_threads(self) -> bool:
        """Whether tasks share the memory of one process."""
        return self.place is Place.DRIVER


class Delivery(Enum):
    """Where the rows of a result go."""

    DRIVER = "the driver gathers them"
    SPARK = "they go on in a plan of Spark's"
    FOR_GOOD = "rows to Spark as they are made. They cannot be recalled: no fallback once the query runs"


@dataclass(frozen=True, eq=False)
class Parts:
    """Input: one task for each source; all take the same steps.

    `done_by`: for each of these steps the stages that took it, if the planner has seen the rows already, and which of
    their steps it was.
    """

    sources: tuple[Source, ...]
    done_by: tuple[tuple[tuple[Stage, int], ...], ...] = ()

    @property
    def steps(self) -> tuple[Described, ...]:
        """The steps of the sources, the last step first."""
        return self.sources[0].steps if self.sources else ()


@dataclass(frozen=True, eq=False)
class SparkRows(Described):
    """Input: the rows of a Spark plan, in its own partitions, handed over by the executors that hold them."""

    handle: int
    schema: pa.Schema
    label: str

    name = "SparkInput"

    @property
    def details(self) -> str:
        return f"{self.label}, columns=[{', '.join(self.schema.names)}]"


@dataclass(frozen=True, eq=False)
class FirstSparkKeys(Described):
    """Input on the driver: a hash of some columns, one column of integers, of the first rows of a Spark plan."""

    handle: int
    places: tuple[int, ...]
    rows: int
    text: str

    name = "SparkInput"

    @property
    def details(self) -> str:
        return self.text


@dataclass(frozen=True, eq=False)
class CollectedRows(Described):
    """Input on the driver: all rows of a Spark plan, which Spark computes once."""

    handle: int
    schema: pa.Schema
    label: str
    max_rows: int
    max_bytes: int

    name = "SparkInput"

    @property
    def details(self) -> str:
        return f"{self.label}, columns=[{', '.join(self.schema.names)}], collected once"

    def check(self, rows: int, nbytes: int) -> None:
        """Declines so many rows or bytes, as soon as they have arrived."""
        if rows > self.max_rows or nbytes > self.max_bytes:
            raise Declined.because(
                Code.COST,
                f"one side of a join has {rows:,} rows of Spark's or more, {nbytes:,} bytes; at most "
                f"{self.max_rows:,} rows and {self.max_bytes:,} bytes are collected",
                "Join",
            )


@dataclass(frozen=True, eq=False)
class StageRows:
    """Input: the output of another stage."""

    stage: Stage


@dataclass(frozen=True, eq=False)
class Summaries(Described):
    """Input: the summaries that the tasks of a stage made of the rows that they sent, without these rows. One
    partition."""

    stage: Stage

    name = "Summaries"

    @property
    def details(self) -> str:
        return "what each task tells of the rows that it sent"


@dataclass(frozen=True, eq=False)
class BuildRows:
    """Input beside another: a stage whose rows the planner has put into an operator of this stage, as a build side.

    `operator` is that operator's position in the chain.
    """

    stage: Stage
    operator: int


@dataclass(frozen=True, eq=False)
class PairedRows:
    """Input: the same partition of two stages that exchange by the same hash; the rows of `build` come first."""

    build: Stage
    probe: Stage


Input = Parts | SparkRows | FirstSparkKeys | CollectedRows | StageRows | Summaries | BuildRows | PairedRows


@dataclass(frozen=True, eq=False)
class Stage:
    """Operators over each partition of the inputs, at one place. `purpose` is its name in progress and report.

    `process_tasks`: the number of Spark tasks that run its partitions, each on the threads of one process; 0: each
    partition is a task of its own.
    """

    number: int
    place: Place
    purpose: str
    inputs: tuple[Input, ...]
    operators: tuple[Operator, ...]
    output: Output
    process_tasks: int = 0

    @property
    def steps(self) -> Iterator[Described]:
        """All its steps, in no order. An input that is the output of another stage is described there."""
        for each in self.inputs:
            if isinstance(each, Parts):
                yield from each.steps
        yield from self.operators
        yield self.output

    def input_of(self, partition: int) -> int | None:
        """The number of the input that a partition reads, if there are several and all are parts of tables; else
        None."""
        sizes = [len(each.sources) for each in self.inputs if isinstance(each, Parts)]
        if len(sizes) < max(len(self.inputs), 2):
            return None
        return next((at for at in range(len(sizes)) if 0 <= partition < sum(sizes[: at + 1])), None)


@dataclass(frozen=True)
class Pipeline:
    """A stage that the planner has not ended yet."""

    place: Place
    purpose: str
    inputs: tuple[Input, ...]
    operators: tuple[Operator, ...] = ()

    def then(self, *operators: Operator) -> Pipeline:
        """The same rows after some more operators."""
        return replace(self, operators=(*self.operators, *operators))

    def joined(self, operator: Operator, build: Stage) -> Pipeline:
        """The same rows after a join with those of `build`, which `operator` holds."""
        rows = self.then(operator)
        return replace(rows, inputs=(*rows.inputs, BuildRows(build, len(rows.operators))))


@dataclass
class StageGraph:
    """All stages of one plan in the order in which they were planned, and facts that only the planner has.

    `notes` are facts about shapes, for pictures in the report. A stage that was given up stays in the list: it ran, but
    its rows are not part of the answer.
    `subqueries` are the last stages of scalar subqueries, whose values are constants in the stages after them.
    `built_bytes`: of the build sides of joins that each process of a place holds. `for_spark`: rows of the result go on
    in Spark's own operators. `title`: the shapes and joins of the query.
    """

    stages: list[Stage] = field(default_factory=list)
    result: Stage | None = None
    site: Site | None = None
    given_up: dict[int, str] = field(default_factory=dict)
    notes: list[Any] = field(default_factory=list)
    subqueries: list[Stage] = field(default_factory=list)
    built_bytes: dict[Place, int] = field(default_factory=dict)
    for_spark: bool = False
    title: str = ""

    def end(self, rows: Pipeline, output: Output) -> Stage:
        tasks = 0 if isinstance(output, Hold) else self.process_tasks(rows)
        stage = Stage(len(self.stages), rows.place, rows.purpose, rows.inputs, rows.operators, output, tasks)
        self.stages.append(stage)
        if isinstance(output, Result):
            self.result = stage
        return stage

    def exchange(
        self, rows: Pipeline, partitioner: Partitioner, purpose: str, unsplit_rows: int = 0, readers: int = 1
    ) -> Pipeline:
        """The rows in the partitions of `partitioner`."""
        output = Exchange(partitioner, unsplit_rows, readers)
        if output.is_kept and rows.place is Place.EXECUTORS and not self.for_spark:
            output = replace(output, process_tasks=self.tasks_of(partitioner.partitions))
        stage = self.end(rows, output)
        return Pipeline(rows.place, purpose, (StageRows(stage),))

    def hold(self, rows: Pipeline, readers: int = 2, shared: bool = False) -> Pipeline:
        """The same rows, computed once and readable several times."""
        return Pipeline(rows.place, rows.purpose, (StageRows(self.end(rows, Hold(readers, shared))),))

    def process_tasks(self, rows: Pipeline) -> int:
        """Number of Spark tasks among which the partitions of a stage are divided, one per process; 0: a task for each.

        Spark's own operators keep their tasks, and their resource profile. They may read held rows, and for Spark's
        scheduler everything from before the hold to behind it is one stage. The partitions of an exchange that is kept
        are divided once for all readers, the last of which may be Spark.
        """
        if self.site is None or not self.site.processes or rows.place is Place.DRIVER:
            return 0
        inputs = [each for each in rows.inputs if not isinstance(each, BuildRows)]
        parts = [len(each.sources) for each in inputs if isinstance(each, Parts)]
        if len(parts) == len(inputs):
            return self.site.processes if sum(parts) > self.site.processes else 0
        match inputs:
            case [StageRows(stage=Stage(output=Exchange(is_kept=True) as kept))]:
                return kept.process_tasks
            case [StageRows(stage=Stage(output=Exchange() as moved))] | [
                PairedRows(build=Stage(output=Exchange() as moved))
            ]:
                return self.tasks_of(moved.partitioner.partitions)
            case _:
                return 0

    def tasks_of(self, partitions: int) -> int:
        """The same for the partitions of an exchange."""
        if self.site is None or not self.site.processes:
            return 0
        tasks = max(self.site.processes, math.ceil(partitions / self.site.process_slots))
        return tasks if tasks < partitions else 0

    def gather(
        self,
        rows: Pipeline,
        purpose: str,
        reason: str = "",
        max_bytes: int | None = None,
        merging: Partitioner | None = None,
    ) -> Pipeline:
        """All rows in one partition on the driver. Running it raises TooManyBytes if they are more than `max_bytes`."""
        return Pipeline(Place.DRIVER, purpose, (StageRows(self.end(rows, Gather(reason, max_bytes, merging))),))

    def subquery(self, rows: Pipeline, number: int) -> Stage:
        """The rows of a scalar subquery on the driver."""
        self.subqueries.append(self.end(rows, Gather(f"subquery{number}")))
        return self.subqueries[-1]

    def give_up(self, stages: Iterable[Stage], reason: str) -> None:
        """Mark stages that ran but whose rows are not part of the answer."""
        self.given_up |= {stage.number: reason for stage in stages}

    def planned_metrics(self) -> Metrics:
        """Counts made by planning, of all steps of stages that were not given up."""
        total = Metrics()
        for stage in self.stages:
            for step in stage.steps if stage.number not in self.given_up else ():
                total.merge(step.planned_metrics)
        return total

    def since(self, count: int) -> Sequence[Stage]:
        """Stages that were planned after the first `count`."""
        return self.stages[count:]
