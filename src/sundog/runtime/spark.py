"""Runs stages on Spark's executors: each is a `mapInArrow`, each exchange a shuffle of Arrow blocks by partition id.

Spark owns scheduling, retries, speculation, shuffle and locality. The counts of a stage's tasks travel in an
accumulator keyed by (stage, partition): those of a retry replace those of the lost attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from sundog.errors import InternalError
from sundog.metrics import METRICS, OperatorCounts, OperatorValues
from sundog.operators.base import Partitioner
from sundog.operators.context import TaskLimits
from sundog.operators.sources import Source
from sundog.plan.outputs import Build, Exchange, Gather
from sundog.plan.records import StageRecords
from sundog.plan.sites import TravelRule
from sundog.plan.stages import PairedRows, Stage, StageRows, Summaries
from sundog.runtime.blocks import (
    BLOCK_SCHEMA,
    SOURCE,
    TARGET,
    LatestAttempt,
    StageFunction,
    StageValues,
    gathered_blocks,
)
from sundog.runtime.broadcasts import SharedValues
from sundog.runtime.cancel import current_watch
from sundog.runtime.exchange import STAGE_SOURCES, BlockOrder
from sundog.runtime.frames import collect_arrow, collect_as_they_come, moved_once, only_partitions, own_errors
from sundog.runtime.processes.profiles import profile_of
from sundog.runtime.processes.stage import ProcessFunction, task_column
from sundog.runtime.progress import NO_PROGRESS, ProgressSink, spark_progress
from sundog.runtime.sessions import described_as, session_for_blocks, tagged_for
from sundog.runtime.worker_errors import ErrorChannel
from sundog.versions import spark_version


@dataclass(frozen=True)
class SparkInput:
    """The input of a stage: `payloads`, pickled sources; or a frame with `columns` of Spark's; or a frame of blocks.

    `address`: the column of a block that has its partition. `tasks`: one for each partition; None: as many as Spark
    makes. `process_tasks`: the tasks among which partitions are divided, each on threads of one process; 0: none.
    """

    frame: DataFrame | None = None
    payloads: tuple[bytes, ...] = ()
    columns: pa.Schema | None = None
    tasks: int | None = None
    address: int = TARGET
    order: BlockOrder = BlockOrder.ANY
    process_tasks: int = 0

    def summaries(self) -> SparkInput:
        """For an exchange that summarizes its rows: the last partition alone, which has the summaries."""
        last_alone = [False] * self._shuffled_partitions + [True]
        return replace(self, frame=self._part(last_alone), tasks=1, process_tasks=0)

    def without_summaries(self) -> SparkInput:
        """For an exchange that summarizes its rows: those rows."""
        return replace(self, frame=self._part([True] * self._shuffled_partitions + [False]))

    @property
    def _shuffled_partitions(self) -> int:
        assert self.tasks is not None
        return self.process_tasks or self.tasks

    def _part(self, kept: Sequence[bool]) -> DataFrame:
        assert self.frame is not None
        return only_partitions(self.frame, kept)


class SparkRuntime:
    """Runs stages in one session. `release` frees everything that it holds."""

    def __init__(
        self,
        session: SparkSession,
        limits: TaskLimits,
        progress: ProgressSink = NO_PROGRESS,
        records: StageRecords | None = None,
        process_cores: int = 1,
        travel: TravelRule | None = None,
        title: str = "",
    ) -> None:
        self.session = session
        self.progress = progress
        self.records = StageRecords() if records is None else records
        self.held: list[DataFrame] = []
        self._held_stages: list[int] = []
        self._limits = limits
        self._process_cores = process_cores
        self._title = title
        self._shared = SharedValues(session.sparkContext, travel or TravelRule())
        self._accumulator = session.sparkContext.accumulator({}, LatestAttempt())
        self._errors = ErrorChannel.open()
        self._reported: StageValues = {}
        self._tasks: dict[int, int | None] = {}
        self._stages: dict[int, Stage] = {}

    def sources(self, sources: Sequence[Source], process_tasks: int = 0) -> SparkInput:
        """A partition for each source."""
        payloads = tuple(self._shared.dump(source) for source in sources)
        return SparkInput(payloads=payloads, tasks=max(1, len(payloads)), process_tasks=process_tasks)

    def exchange(self, stage: Stage, given: SparkInput, output: Exchange, process_tasks: int = 0) -> SparkInput:
        """The input of the next stage, of `process_tasks` tasks, or of several stages. Nothing runs yet."""
        partitioner = output.partitioner
        blocks = self._frame(stage, given, partitioner=partitioner)
        moved = _moved(blocks, partitioner.partitions, process_tasks, partitioner.summarizes)
        if output.is_kept:
            moved = moved_once(moved)
        order = BlockOrder.BY_SOURCE if partitioner.ordered else BlockOrder.ANY
        return SparkInput(moved, tasks=partitioner.partitions, order=order, process_tasks=process_tasks)

    def exchange_pair(
        self, build: tuple[Stage, SparkInput], probe: tuple[Stage, SparkInput], process_tasks: int = 0
    ) -> SparkInput:
        """The input of the next stage from two stages with equally many partitions: blocks of the first come before the
        second's.

        Both go through one shuffle.
        """
        frames, partitions = [], 0
        for number, (stage, given) in enumerate((build, probe)):
            if not isinstance(stage.output, Exchange):
                raise InternalError("the two sides of a join are exchanged")
            partitioner = stage.output.partitioner
            partitions = partitioner.partitions
            frames.append(self._frame(stage, given, partitioner, first_source=number * STAGE_SOURCES))
        moved = _moved(frames[0].union(frames[1]), partitions, process_tasks)
        return SparkInput(moved, tasks=partitions, order=BlockOrder.BUILD_FIRST, process_tasks=process_tasks)

    def together(self, inputs: Sequence[SparkInput]) -> SparkInput:
        """The partitions of several held inputs, one after the other."""
        frames = [each.frame for each in inputs if each.frame is not None]
        if len(frames) < len(inputs) or any(each.address != SOURCE for each in inputs):
            raise InternalError("on executors only held rows are read together")
        union = frames[0]
        for frame in frames[1:]:
            union = union.union(frame)
        return SparkInput(union, address=SOURCE)

    def hold(self, stage: Stage, given: SparkInput, place: int = 0) -> SparkInput:
        """The input of several stages, computed when the first reads it. `place`: among the inputs of a union."""
        blocks = self._frame(stage, given, first_source=place * STAGE_SOURCES)
        blocks.persist()
        self.held.append(blocks)
        self._held_stages.append(stage.number)
        return SparkInput(blocks, tasks=given.tasks, address=SOURCE)

    def gather(self, stage: Stage, given: SparkInput) -> list[list[pa.RecordBatch]]:
        """Run a stage, and bring the rows of each partition to the driver; empty ones at the end may be left out.

        Raises TooManyBytes if they are more than may be gathered, and cancels what still runs.
        """
        start, output = perf_counter(), stage.output
        max_bytes = output.max_bytes if isinstance(output, Gather | Build) else None
        merging = output.merging if isinstance(output, Gather) else None
        try:
            current_watch().check()
            with (
                spark_progress(self.session, self.progress, stage.purpose),
                tagged_for(self.session),
                described_as(self.session, self._description(stage)),
            ):
                partitions = self._gathered(self._frame(stage, given, merging, max_bytes=max_bytes), max_bytes)
        finally:
            self.drain_metrics(perf_counter() - start)
        return [partitions.get(index, []) for index in range(max(partitions, default=-1) + 1)]

    def _description(self, stage: Stage) -> str:
        """The text for a job in Spark's UI: the shapes of the query, and the purposes of the stages in the job."""
        return ": ".join(filter(None, ("sundog", self._title, ", ".join(_steps(stage)))))

    def _gathered(self, frame: DataFrame, max_bytes: int | None) -> dict[int, list[pa.RecordBatch]]:
        if max_bytes is None:
            return gathered_blocks(collect_arrow(frame), None)
        with own_errors():
            partitions, _ = collect_as_they_come(frame, lambda batches: gathered_blocks(batches, max_bytes))
        return partitions

    def frame(self, stage: Stage, given: SparkInput, schema: StructType) -> DataFrame:
        """The stage's rows as a lazy DataFrame with `schema`."""
        return self._frame(stage, given, result_schema=spark_version().arrow_schema(schema), spark_schema=schema)

    def release(self) -> None:
        while self.held:
            self.held.pop().unpersist()
        self._shared.release()
        self._errors.close()

    def drain_metrics(self, seconds: float) -> bool:
        """Collect the reports of tasks that finished since the last call; whether the last stage ran to its end.

        It did not if Spark had enough rows: a task that is stopped early reports nothing.
        """
        reported: StageValues = self._accumulator.value
        tasks: dict[int, int] = {}
        for number, _ in reported:
            tasks[number] = tasks.get(number, 0) + 1
        for task, values in sorted(reported.items()):
            number, _ = task
            record = self.records.of(self._stages[number])
            known = self._reported.get(task)
            news = values if known is None else [news_of(*both) for both in zip(values, known, strict=True)]
            for counts, own in zip(record.operators, news, strict=True):
                counts.merge_values(own)
            record.count_input(self._stages[number].input_of(task[1]), news[0])
            record.tasks += known is None
            self._reported[task] = values
        for number, share in _shares_of_time(reported).items():
            self.records.of(self._stages[number]).seconds += seconds * share
        self._accumulator.value = {}
        last = max(self._tasks, default=-1)
        return last in tasks and tasks[last] == self._tasks[last]

    @property
    def has_all_reports(self) -> bool:
        """Whether all partitions of held rows were counted. Spark drops the counts of a killed task, but may keep the
        rows that this task has stored; then no other task computes and counts them."""
        return all(
            self.records.of(self._stages[number]).tasks >= (self._tasks[number] or 0) for number in self._held_stages
        )

    def _frame(
        self,
        stage: Stage,
        given: SparkInput,
        partitioner: Partitioner | None = None,
        result_schema: pa.Schema | None = None,
        spark_schema: StructType | str = BLOCK_SCHEMA,
        first_source: int = 0,
        max_bytes: int | None = None,
    ) -> DataFrame:
        self._tasks[stage.number] = given.tasks
        self._stages[stage.number] = stage
        kind: Callable[..., StageFunction] = StageFunction
        if given.process_tasks:
            kind = partial(ProcessFunction, partitions=given.tasks or 0, tasks=given.process_tasks)
        function = kind(
            stage=stage.number,
            sources=given.payloads if given.frame is None else None,
            columns=given.columns,
            pickled_operators=self._shared.dump(stage.operators),
            operator_count=len(stage.operators),
            shared=self._shared.broadcasts,
            partitioner=partitioner,
            result_schema=result_schema,
            limits=self._limits,
            address=given.address,
            order=given.order,
            first_source=first_source,
            accumulator=self._accumulator,
            errors=self._errors,
            max_bytes=max_bytes,
        )
        frame = given.frame
        if frame is None:
            count = len(given.payloads)
            frame = session_for_blocks(self.session).range(0, count, 1, given.process_tasks or max(1, count))
        if not given.process_tasks:
            return frame.mapInArrow(function.__call__, spark_schema)
        profile = profile_of(self.session, self._process_cores)
        return frame.mapInArrow(function.__call__, spark_schema, profile=profile)


def _steps(stage: Stage) -> list[str]:
    """The purposes of the stages in one job: those that exchange their rows for a stage, and that stage."""
    before = [each.stage for each in stage.inputs if isinstance(each, StageRows | Summaries)]
    before += [side for each in stage.inputs if isinstance(each, PairedRows) for side in (each.build, each.probe)]
    return [*(step for each in before for step in _steps(each)), stage.purpose]


def _moved(blocks: DataFrame, partitions: int, process_tasks: int, summarized: bool = False) -> DataFrame:
    """Each block with the task that computes its partition; with `summarized`, summaries in one partition more."""
    if not process_tasks:
        return spark_version().repartition(blocks, partitions + summarized, "pid")
    task = task_column("pid", process_tasks, partitions)
    return spark_version().repartition(blocks, process_tasks + summarized, task)


def _shares_of_time(reported: StageValues) -> dict[int, float]:
    """The share of each stage in the time of a job that ran several, by the clocks of their tasks.

    A task's clock is that of its output, which includes its operators.
    """
    clocks: dict[int, float] = {}
    for (number, _), values in reported.items():
        clocks[number] = clocks.get(number, 0.0) + values[-1][3]
    total = sum(clocks.values())
    return {number: clock / total if total else 1 / len(clocks) for number, clock in clocks.items()}


def news_of(values: OperatorValues, known: OperatorValues) -> OperatorValues:
    """What a task reports beyond its last report: a task whose output was lost has run, and counted, again."""
    rows, size, batches, seconds = (now - before for now, before in zip(values[:4], known[:4], strict=True))
    metrics = {
        name: value if METRICS[name].merge_with_max else value - known[4].get(name, 0)
        for name, value in values[4].items()
    }
    known_inside = (*known[5], *(OperatorCounts().as_values() for _ in values[5][len(known[5]) :]))
    inside = tuple(news_of(*both) for both in zip(values[5], known_inside, strict=False))
    return rows, size, batches, seconds, metrics, inside
