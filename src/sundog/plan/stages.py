"""The plan that runs: a graph of stages.

    inputs ──► operator ──► operator ──► output
    table parts, rows of Spark's,        exchange to the next stage, gather on the driver, hold for several readers,
    rows of another stage,               or the result
    build sides of joins

A stage runs its operators over each partition of its inputs, one task each, at one place: on driver threads or on
Spark's executors. The planner (`plan/lower`) makes stages, a runtime runs them and decides nothing. Explain, the report
and the tests walk these objects; what was counted is found by the stage's number and the operator's place in its chain:
0 is the input, 1 the first operator, and the one after the last is the output.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Protocol

import pyarrow as pa

from sundog.metrics import Metrics
from sundog.operators.base import Operator, Partitioner
from sundog.operators.sources import Source
from sundog.plan.costs import Costs


class Place(Enum):
    """Where a stage runs."""

    DRIVER = "driver"
    EXECUTORS = "executors"


@dataclass(frozen=True)
class Site:
    """A place as the planner sees it: tasks at once, memory of each, costs.

    `executors`: the executors of which each has one process, whose threads run the tasks of all its slots; 0: each slot
    has a process of its own.
    """

    place: Place
    slots: int
    task_memory_bytes: int
    costs: Costs
    executors: int = 0

    @property
    def executor_slots(self) -> int:
        """Tasks at once in the process of an executor."""
        return self.slots // self.executors if self.executors else 1

    @property
    def process_memory_bytes(self) -> int:
        """The budgets of all tasks that run in one process at once, together."""
        return self.task_memory_bytes * (self.slots if self.on_threads else self.executor_slots)

    @property
    def max_reads(self) -> float:
        """How many times all rows may be read, whatever else would cost: the work must shrink as slots become more."""
        return math.inf if self.slots <= self.costs.few_slots else self.costs.max_reads_by_many

    @property
    def on_threads(self) -> bool:
        """Whether tasks share the memory of one process."""
        return self.place is Place.DRIVER


class Described(Protocol):
    """Anything that has a line in explain."""

    def describe(self) -> str: ...


@dataclass(frozen=True, eq=False)
class Parts:
    """Input: one task for each source. `reads` say what the sources do, the last step first.

    `done_by`: where the planner has seen the rows already, the stages that took each of these steps.
    """

    sources: tuple[Source, ...]
    reads: tuple[Described, ...]
    done_by: tuple[tuple[Stage, ...], ...] = ()


@dataclass(frozen=True, eq=False)
class SparkRows:
    """Input: the rows of a Spark plan, in its own partitions, handed over by the executors that hold them."""

    handle: int
    schema: pa.Schema
    label: str

    def describe(self) -> str:
        return f"SparkInput: {self.label}, columns=[{', '.join(self.schema.names)}]"


@dataclass(frozen=True, eq=False)
class FirstSparkKeys:
    """Input on the driver: a hash of some columns, one column of integers, of the first rows of a Spark plan."""

    handle: int
    places: tuple[int, ...]
    rows: int
    text: str

    def describe(self) -> str:
        return f"SparkInput: {self.text}"


@dataclass(frozen=True, eq=False)
class StageRows:
    """Input: what another stage puts out."""

    stage: Stage


@dataclass(frozen=True, eq=False)
class BuildRows:
    """Input beside the one that is read: a stage whose rows the planner has put into an operator of this stage.

    `operator` is that operator's place in the chain.
    """

    stage: Stage
    operator: int


@dataclass(frozen=True, eq=False)
class PairedRows:
    """Input: partition by partition what two stages put out by the same hash, that of `build` first."""

    build: Stage
    probe: Stage


Input = Parts | SparkRows | FirstSparkKeys | StageRows | BuildRows | PairedRows


@dataclass(frozen=True)
class Exchange:
    """Output: rows move to the partitions of the next stage.

    Where tasks share memory, neighbouring partitions of together fewer rows than `unsplit_rows` become one.
    """

    partitioner: Partitioner
    unsplit_rows: int = 0

    def describe(self) -> str:
        return self.partitioner.describe()


@dataclass(frozen=True)
class Gather:
    """Output: all rows to the driver, in the order of the partitions."""

    reason: str = ""

    def describe(self) -> str:
        return f"Gather: {self.reason}" if self.reason else "Gather"


@dataclass(frozen=True)
class Hold:
    """Output: rows stay where they are, for several readers."""

    readers: int = 2

    def describe(self) -> str:
        return f"Hold: computed once, read {'twice' if self.readers == 2 else f'{self.readers} times'}"


@dataclass(frozen=True)
class Result:
    """Output: rows of the part of the query that was planned, to the caller."""

    def describe(self) -> str:
        return "Result"


Output = Exchange | Gather | Hold | Result


@dataclass(frozen=True, eq=False)
class Stage:
    """Operators over each partition of the inputs, at one place. `purpose` is its name in progress and report.

    `process_tasks`: the tasks of Spark's that run its partitions, each on the threads of one executor's process; 0:
    each partition is a task of its own.
    """

    number: int
    place: Place
    purpose: str
    inputs: tuple[Input, ...]
    operators: tuple[Operator, ...]
    output: Output
    process_tasks: int = 0

    def input_of(self, partition: int) -> int | None:
        """Which of several inputs a partition reads, if all are parts of tables; else None."""
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
    """All stages of one plan in the order in which they were planned, and what the planner knows beside them.

    `metrics` are what planning itself counted. `notes` are facts about shapes that only the planner has, for pictures
    in the report. A stage that was given up stays in the list: it ran, but its rows are not part of the answer.
    `subqueries` are the last stages of scalar subqueries, whose values are constants in the stages after them.
    `built_bytes`: of the build sides of joins that each process of a place holds.
    """

    stages: list[Stage] = field(default_factory=list)
    result: Stage | None = None
    site: Site | None = None
    given_up: dict[int, str] = field(default_factory=dict)
    metrics: Metrics = field(default_factory=Metrics)
    notes: list[Any] = field(default_factory=list)
    subqueries: list[Stage] = field(default_factory=list)
    built_bytes: dict[Place, int] = field(default_factory=dict)

    def end(self, rows: Pipeline, output: Output) -> Stage:
        tasks = 0 if isinstance(output, Hold) else self.process_tasks(rows)
        stage = Stage(len(self.stages), rows.place, rows.purpose, rows.inputs, rows.operators, output, tasks)
        self.stages.append(stage)
        if isinstance(output, Result):
            self.result = stage
        return stage

    def exchange(self, rows: Pipeline, partitioner: Partitioner, purpose: str, unsplit_rows: int = 0) -> Pipeline:
        """The rows in the partitions of `partitioner`."""
        stage = self.end(rows, Exchange(partitioner, unsplit_rows))
        return Pipeline(rows.place, purpose, (StageRows(stage),))

    def hold(self, rows: Pipeline, readers: int = 2) -> Pipeline:
        """The same rows, computed once and readable several times."""
        return Pipeline(rows.place, rows.purpose, (StageRows(self.end(rows, Hold(readers))),))

    def process_tasks(self, rows: Pipeline) -> int:
        """The tasks that share out the partitions of a stage between the processes of executors; 0: nothing to share.

        What Spark's own operators do in the same tasks keeps its tasks, and its profile if it has one. They may follow
        upon rows that were held, and Spark's scheduler would see one stage from before the hold to behind it.
        """
        if self.site is None or not self.site.executors or rows.place is Place.DRIVER:
            return 0
        inputs = [each for each in rows.inputs if not isinstance(each, BuildRows)]
        parts = [len(each.sources) for each in inputs if isinstance(each, Parts)]
        if len(parts) == len(inputs):
            return self.site.executors if sum(parts) > self.site.executors else 0
        match inputs:
            case [StageRows(stage=before)] | [PairedRows(build=before)] if isinstance(before.output, Exchange):
                partitions = before.output.partitioner.partitions
                tasks = max(self.site.executors, math.ceil(partitions / self.site.executor_slots))
                return tasks if tasks < partitions else 0
            case _:
                return 0

    def gather(self, rows: Pipeline, purpose: str, reason: str = "") -> Pipeline:
        """All rows in one partition on the driver."""
        return Pipeline(Place.DRIVER, purpose, (StageRows(self.end(rows, Gather(reason))),))

    def subquery(self, rows: Pipeline, number: int) -> Stage:
        """The rows of a scalar subquery on the driver."""
        self.subqueries.append(self.end(rows, Gather(f"subquery{number}")))
        return self.subqueries[-1]

    def give_up(self, stages: Iterable[Stage], reason: str) -> None:
        """Mark stages that ran but whose rows are not part of the answer."""
        self.given_up |= {stage.number: reason for stage in stages}

    def since(self, count: int) -> Sequence[Stage]:
        """Stages that were planned after the first `count`."""
        return self.stages[count:]
