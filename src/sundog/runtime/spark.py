"""Runs stages on Spark's executors: each is a `mapInArrow`, each exchange a shuffle of Arrow blocks by partition id.

Spark owns scheduling, retries, speculation, shuffle and locality. What the tasks of a stage count travels in an
accumulator keyed by (stage, partition): a retry overwrites what the lost attempt said instead of adding to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from sundog.errors import InternalError
from sundog.metrics import METRICS, OperatorValues
from sundog.operators.base import Partitioner
from sundog.operators.sources import Source
from sundog.plan.records import StageRecords
from sundog.plan.stages import Exchange, PairedRows, Stage, StageRows
from sundog.runtime.blocks import BLOCK_SCHEMA, SOURCE, TARGET, LatestAttempt, StageFunction, StageValues
from sundog.runtime.cancel import current_watch
from sundog.runtime.exchange import DEFAULT_BLOCK_BYTES, STAGE_SOURCES, BlockOrder, decode_block
from sundog.runtime.frames import collect_arrow
from sundog.runtime.processes.profiles import profile_of
from sundog.runtime.processes.stage import ProcessFunction, task_column
from sundog.runtime.progress import NO_PROGRESS, ProgressSink, spark_progress
from sundog.runtime.sessions import described_as, session_for_blocks, tagged_for
from sundog.runtime.sharing import SharedValues
from sundog.runtime.worker_errors import ErrorChannel
from sundog.versions import spark_version


@dataclass(frozen=True)
class SparkInput:
    """What a stage reads: `payloads`, pickled sources; or a frame with `columns` of Spark's; or a frame of blocks.

    `address` is the column of a block that says which partition it is in. `tasks`: one for each partition; None, as
    many as Spark makes. `process_tasks`: the tasks that share them out, each on threads of one process; 0: none.
    """

    frame: DataFrame | None = None
    payloads: tuple[bytes, ...] = ()
    columns: pa.Schema | None = None
    tasks: int | None = None
    address: int = TARGET
    order: BlockOrder = BlockOrder.ANY
    process_tasks: int = 0


class SparkRuntime:
    """Runs stages in one session. Everything that it holds is let go of by `release`."""

    def __init__(
        self,
        session: SparkSession,
        task_memory_bytes: int,
        block_bytes: int = DEFAULT_BLOCK_BYTES,
        progress: ProgressSink = NO_PROGRESS,
        records: StageRecords | None = None,
        executor_cores: int = 1,
    ) -> None:
        self.session = session
        self.progress = progress
        self.records = StageRecords() if records is None else records
        self.held: list[DataFrame] = []
        self._task_memory_bytes = task_memory_bytes
        self._block_bytes = block_bytes
        self._executor_cores = executor_cores
        self._shared = SharedValues(session.sparkContext)
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
        """What the next stage, of so many tasks, reads. Nothing runs yet."""
        partitioner = output.partitioner
        blocks = self._frame(stage, given, partitioner=partitioner)
        moved = _moved(blocks, partitioner.partitions, process_tasks)
        order = BlockOrder.BY_SOURCE if partitioner.ordered else BlockOrder.ANY
        return SparkInput(moved, tasks=partitioner.partitions, order=order, process_tasks=process_tasks)

    def exchange_pair(
        self, build: tuple[Stage, SparkInput], probe: tuple[Stage, SparkInput], process_tasks: int = 0
    ) -> SparkInput:
        """What the next stage reads of two stages with as many partitions: blocks of the first come before the
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
        """What several stages read. It is computed when the first does. `place`: among the inputs of a union."""
        blocks = self._frame(stage, given, first_source=place * STAGE_SOURCES)
        blocks.persist()
        self.held.append(blocks)
        return SparkInput(blocks, tasks=given.tasks, address=SOURCE)

    def gather(self, stage: Stage, given: SparkInput) -> list[list[pa.RecordBatch]]:
        """Run it, and bring the rows of each partition to the driver; empty ones at the end may be left out."""
        start = perf_counter()
        try:
            current_watch().check()
            with (
                spark_progress(self.session, self.progress, stage.purpose),
                tagged_for(self.session),
                described_as(self.session, f"sundog: {', '.join(_steps(stage))}"),
            ):
                collected = collect_arrow(self._frame(stage, given))
        finally:
            self.drain_metrics(perf_counter() - start)
        partitions: dict[int, list[pa.RecordBatch]] = {}
        for batch in collected:
            for source, block in zip(batch.column(1).to_pylist(), batch.column(2), strict=True):
                partitions.setdefault(source, []).extend(decode_block(block.as_buffer()))
        return [partitions.get(index, []) for index in range(max(partitions, default=-1) + 1)]

    def frame(self, stage: Stage, given: SparkInput, schema: StructType) -> DataFrame:
        """The stage's rows as a lazy DataFrame with `schema`."""
        return self._frame(stage, given, result_schema=spark_version().arrow_schema(schema), spark_schema=schema)

    def release(self) -> None:
        while self.held:
            self.held.pop().unpersist()
        self._shared.release()
        self._errors.close()

    def drain_metrics(self, seconds: float) -> bool:
        """Take over what finished tasks have reported since the last call; whether the last stage ran to its end.

        It did not where Spark had enough rows: a task that is stopped early reports nothing.
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

    def _frame(
        self,
        stage: Stage,
        given: SparkInput,
        partitioner: Partitioner | None = None,
        result_schema: pa.Schema | None = None,
        spark_schema: StructType | str = BLOCK_SCHEMA,
        first_source: int = 0,
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
            block_bytes=self._block_bytes,
            task_memory_bytes=self._task_memory_bytes,
            address=given.address,
            order=given.order,
            first_source=first_source,
            accumulator=self._accumulator,
            errors=self._errors,
        )
        frame = given.frame
        if frame is None:
            count = len(given.payloads)
            frame = session_for_blocks(self.session).range(0, count, 1, given.process_tasks or max(1, count))
        if not given.process_tasks:
            return frame.mapInArrow(function.__call__, spark_schema)
        profile = profile_of(self.session, self._executor_cores)
        return frame.mapInArrow(function.__call__, spark_schema, profile=profile)


def _steps(stage: Stage) -> list[str]:
    """The stages of one job by their purposes: those that exchange their rows for a stage, and it."""
    before = [each.stage for each in stage.inputs if isinstance(each, StageRows)]
    before += [side for each in stage.inputs if isinstance(each, PairedRows) for side in (each.build, each.probe)]
    return [*(step for each in before for step in _steps(each)), stage.purpose]


def _moved(blocks: DataFrame, partitions: int, process_tasks: int) -> DataFrame:
    """Each block with the task that computes its partition."""
    if not process_tasks:
        return spark_version().repartition(blocks, partitions, "pid")
    return spark_version().repartition(blocks, process_tasks, task_column("pid", process_tasks, partitions))


def _shares_of_time(reported: StageValues) -> dict[int, float]:
    """The share of each stage in the time of a job that ran several: as the clocks of their tasks say.

    A task's clock is that of its last operator, which includes the others, and what its output counted for itself.
    """
    clocks: dict[int, float] = {}
    for (number, _), values in reported.items():
        *_, last, output = values
        clocks[number] = clocks.get(number, 0.0) + last[3] + output[4].get("exchange_seconds", 0.0)
    total = sum(clocks.values())
    return {number: clock / total if total else 1 / len(clocks) for number, clock in clocks.items()}


def news_of(values: OperatorValues, known: OperatorValues) -> OperatorValues:
    """What a task reports beyond what it reported before: one whose output was lost has run, and counted, again."""
    rows, size, batches, seconds = (now - before for now, before in zip(values[:4], known[:4], strict=True))
    metrics = {
        name: value if METRICS[name].merge_with_max else value - known[4].get(name, 0)
        for name, value in values[4].items()
    }
    return rows, size, batches, seconds, metrics
