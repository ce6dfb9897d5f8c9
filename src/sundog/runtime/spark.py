"""Runs tasks on Spark's executors: each stage is a `mapInArrow`, each exchange a shuffle of Arrow blocks by partition id.

A stage knows which partition it computes from its input: the number of its source, or the address on its blocks. Spark's
own partition id is that of the task, and under a `coalesce` or a union of the user's one task computes several
partitions, or has a number that counts those of others.

Spark owns scheduling, retries, speculation, shuffle and locality. A stage function holds nothing between tasks, so a
repeated task simply does its work again. Its metrics travel in an accumulator keyed by (stage, partition): a retry
overwrites what the lost attempt said instead of adding to it.

An error of a task (an overflow, a corrupt file) comes back as data inside the text of Spark's report, signed with the
run's key (`worker_errors.py`).
"""

from __future__ import annotations

import gc
import os
import pickle
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from time import perf_counter
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark import AccumulatorParam
from pyspark import TaskContext as SparkTaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.conversion import PandasConversionMixin
from pyspark.sql.types import StructType

from sundog.errors import InternalError
from sundog.metrics import METRICS, Metrics
from sundog.operators.base import Operator, Partitioner
from sundog.operators.context import MemoryBudget, TaskContext, remove_abandoned_scratch
from sundog.runtime.cancel import current_watch
from sundog.runtime.driver import DriverRuntime
from sundog.runtime.exchange import DEFAULT_BLOCK_BYTES, coalesce, decode_block, encode_block
from sundog.runtime.flow import Flow, Runtime, StageRecord
from sundog.runtime.progress import NO_PROGRESS, ProgressSink, spark_progress, stage_name
from sundog.runtime.task import BatchSource, Source, run_operators
from sundog.runtime.worker_errors import ErrorChannel, unwrap_worker_error
from sundog.versions import spark_version

BLOCK_SCHEMA = "pid int, source int, block binary"
_BLOCK_ARROW = pa.schema([("pid", pa.int32()), ("source", pa.int32()), ("block", pa.binary())])
_TARGET, _SOURCE = 0, 1
_COLLECTED_AT_MOST = 20_000
_JOB_TAGS = "spark.job.tags"
_COALESCED_BYTES = 1 << 20  # spark.sql.adaptive.coalescePartitions.minPartitionSize
_SMALL_BYTES = 64 << 20  # some 50 ms of one thread, less than a job costs

_lock = threading.Lock()
_block_sessions: WeakKeyDictionary[SparkSession, SparkSession] = WeakKeyDictionary()

StageMetrics = dict[tuple[int, int], dict[str, float]]


class _LatestAttempt(AccumulatorParam):  # type: ignore[misc]
    """(stage, partition) -> metrics, where a repeated task replaces what it said before."""

    def zero(self, value: StageMetrics) -> StageMetrics:
        return {}

    def addInPlace(self, value1: StageMetrics, value2: StageMetrics) -> StageMetrics:  # noqa: N802
        value1.update(value2)
        return value1


@dataclass(frozen=True)
class _StageFunction:
    """What a Python worker runs for one partition. Its input are `sources`, or Spark's own `columns`, or blocks."""

    stage: int
    sources: tuple[bytes, ...] | None = field(repr=False)  # pickled, with the keys of object stores in them
    columns: pa.Schema | None
    operators: tuple[Operator, ...]
    partitioner: Partitioner | None
    result_schema: pa.Schema | None  # the real columns for Spark, instead of blocks
    block_bytes: int
    task_memory_bytes: int
    address: int  # the column of a block that says which partition it is in
    ordered: bool
    accumulator: Any
    errors: ErrorChannel

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        spill_root = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or None  # of this executor alone
        if spill_root is not None:
            remove_abandoned_scratch(spill_root)
        incoming = iter(batches)
        first = next(incoming, None)
        partition = self._partition(first)
        batches = incoming if first is None else chain([first], incoming)
        context = TaskContext(partition, Metrics(), MemoryBudget(self.task_memory_bytes), spill_root=spill_root)
        try:
            stream = run_operators(self._input(batches, context), self.operators, context)
            if self.result_schema is not None:
                yield from _as_result(stream, self.result_schema)
            else:
                yield from self._blocks(stream, context)
        except Exception as error:
            raise self.errors.wrap(error) from error
        finally:
            context.close()
            context.metrics.add("tasks")
            spare_long_lived_objects()
            self.accumulator.add({(self.stage, partition): context.metrics.as_dict()})

    def _partition(self, first: pa.RecordBatch | None) -> int:
        """Which partition this is. One without rows, in a task of the user's, gets a number that no other has."""
        task = SparkTaskContext.get()
        number = task.partitionId() if task is not None else 0
        if first is None:
            return number if self.result_schema is None else -1 - number
        if self.columns is not None:
            return number
        return int(first.column(0 if self.sources is not None else self.address)[0].as_py())

    def _input(self, batches: Iterable[pa.RecordBatch], context: TaskContext) -> Iterator[pa.RecordBatch]:
        if self.sources is not None:
            # Read to the end first: Spark throws away a worker that leaves some of its input, and a new one costs a second.
            for index in [index for batch in batches for index in batch.column(0).to_pylist()]:
                yield from pickle.loads(self.sources[index]).read(context)
        elif self.columns is not None:
            for batch in batches:
                context.metrics.add("input_rows", batch.num_rows)
                yield _retyped(batch, self.columns)
        else:
            yield from _read_blocks(batches, self.address, self.ordered)

    def _blocks(self, stream: Iterator[pa.RecordBatch], context: TaskContext) -> Iterator[pa.RecordBatch]:
        parts = self.partitioner.split(stream, context) if self.partitioner else ((0, batch) for batch in stream)
        for target, held in coalesce(parts, self.block_bytes):
            block = encode_block(held)
            if self.partitioner is not None:
                context.metrics.add("exchange_blocks")
                context.metrics.add("exchange_bytes", block.size)
                context.metrics.add("exchange_rows", sum(batch.num_rows for batch in held))
            offsets = pa.py_buffer(_int32s(0, block.size))
            column = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, block])
            ids = [pa.array([target], pa.int32()), pa.array([context.partition], pa.int32())]
            yield pa.RecordBatch.from_arrays([*ids, column], schema=_BLOCK_ARROW)


def spare_long_lived_objects() -> None:
    """Take what a task has loaded for good, modules and compiled kernels, out of Python's garbage collection.

    A worker of pyspark collects garbage after each task, before it takes the next. With numba, pandas and pyarrow
    loaded that goes through more than 100,000 objects that will never be garbage: 50-100 ms a task.
    """
    if len(gc.get_objects()) > _COLLECTED_AT_MOST:
        gc.collect()
        gc.freeze()


def _int32s(*values: int) -> bytes:
    return b"".join(value.to_bytes(4, "little", signed=True) for value in values)


def _read_blocks(batches: Iterable[pa.RecordBatch], address: int, ordered: bool) -> Iterator[pa.RecordBatch]:
    """The batches in the blocks of this partition; in the order of the producing tasks if that matters."""
    blocks = _blocks_of(batches, address)
    for _, block in sorted(blocks, key=itemgetter(0)) if ordered else blocks:
        yield from decode_block(block)


def _blocks_of(batches: Iterable[pa.RecordBatch], address: int) -> Iterator[tuple[int, pa.Buffer]]:
    """The source and the bytes of each block, all of which must be of one partition."""
    partition = None
    for batch in batches:
        for target, source, block in zip(
            batch.column(address).to_pylist(), batch.column(_SOURCE).to_pylist(), batch.column(2), strict=True
        ):
            if partition not in (None, target):
                raise InternalError(f"blocks of partitions {partition} and {target} came to one task")
            partition = target
            yield source, block.as_buffer()


def _as_result(stream: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Under Spark's names and types, in pieces that Spark's row conversion likes."""
    for batch in stream:
        renamed = _retyped(batch, schema)
        for start in range(0, renamed.num_rows, 65536):
            yield renamed.slice(start, 65536)


def _retyped(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same columns, by position, under the names and types of `schema`."""
    columns = [column.cast(field.type) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


class SparkRuntime(Runtime):
    name = "executors"
    most_read = 4.0  # a row costs some 130 ns on its way through a shuffle, and 25 ns to decode and to drop again
    scan_tasks_per_slot = (
        2  # a task costs some 30 ms; with 4, grouping 10 M rows into few groups took half as long again
    )

    def __init__(
        self,
        session: SparkSession,
        task_memory_bytes: int,
        block_bytes: int = DEFAULT_BLOCK_BYTES,
        progress: ProgressSink = NO_PROGRESS,
    ) -> None:
        self.session = session
        self.progress = progress
        self.parallelism = session.sparkContext.defaultParallelism
        self.metrics = Metrics()
        self.stages: list[StageRecord] = []
        self.task_memory_bytes = task_memory_bytes
        self.block_bytes = block_bytes
        self.accumulator = session.sparkContext.accumulator({}, _LatestAttempt())
        self.errors = ErrorChannel.open()
        self.held: list[DataFrame] = []
        self._reported: StageMetrics = {}
        self._stage_labels: list[str] = []
        self._stage_tasks: list[int | None] = []

    def start(self, sources: Sequence[Source], label: str) -> Flow:
        payloads = tuple(pickle.dumps(source) for source in sources)
        return _SparkFlow(self, None, payloads, None, (), label, max(1, len(payloads)))

    def start_frame(self, frame: DataFrame, columns: pa.Schema, label: str) -> Flow:
        """One partition per partition of a Spark DataFrame, whose columns are taken by position as `columns`."""
        return _SparkFlow(self, frame, (), columns, (), label, None)

    def release(self) -> None:
        while self.held:
            self.held.pop().unpersist()
        self.errors.close()

    def new_stage(self, label: str, tasks: int | None) -> int:
        self._stage_labels.append(label)
        self._stage_tasks.append(tasks)
        return len(self._stage_labels) - 1

    def drain_metrics(self, seconds: float) -> bool:
        """Take over what finished tasks have reported since the last call; whether the last stage ran to its end.

        It did not where Spark had enough rows: a task that is stopped early reports nothing.
        """
        reported: StageMetrics = self.accumulator.value
        by_stage: dict[int, Metrics] = {}
        tasks: dict[int, int] = {}
        for task, values in sorted(reported.items()):
            stage, _ = task
            by_stage.setdefault(stage, Metrics()).merge(news_of(values, self._reported.get(task, {})))
            self._reported[task] = values
            tasks[stage] = tasks.get(stage, 0) + 1
        for stage, metrics in by_stage.items():
            metrics.add("stages")
            self.metrics.merge(metrics)
            share = seconds / len(by_stage)
            self.stages.append(StageRecord(self._stage_labels[stage], tasks[stage], share, metrics.as_dict()))
        self.accumulator.value = {}
        last = len(self._stage_labels) - 1
        return last in tasks and tasks[last] == self._stage_tasks[last]


def news_of(values: Mapping[str, float], known: Mapping[str, float]) -> dict[str, float]:
    """What a task reports beyond what it reported before: one whose output was lost has run, and counted, again."""
    return {
        name: value if METRICS[name].merge_with_max else value - known.get(name, 0) for name, value in values.items()
    }


def session_for_blocks(session: SparkSession) -> SparkSession:
    """A session of the same application whose settings suit Arrow blocks, and are nobody else's business.

    One block a batch: Spark would else gather all blocks of a task, in a buffer that doubles as it grows, before it hands
    over the first (10 M groups: 2.0 s against 1.6 s in the second phase). Partitions are counted for the machine and
    their sizes known to be alike, so there is nothing for adaptive execution to find out. No checksum of what each task
    sends, by which Spark notices that a repeated task sent something else: one that is repeated here sends the same groups,
    though maybe in other blocks (a fifth of the JVM's samples of Java code were in it).
    """
    with _lock:
        if session not in _block_sessions:
            own = session.newSession()
            own.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "1")
            own.conf.set("spark.sql.adaptive.enabled", "false")
            for key, value in spark_version().block_confs.items():
                own.conf.set(key, value)
            _block_sessions[session] = own
        return _block_sessions[session]


def block_session(session: SparkSession) -> SparkSession | None:
    """The session that blocks of `session` are moved by, if there is one already. One may have several Python objects."""
    for known, own in list(_block_sessions.items()):
        if known._jsparkSession.equals(session._jsparkSession):
            return own
    return None


def session_tags(session: SparkSession) -> frozenset[str]:
    """The tags by which `interruptAll` and `interruptTag` find the jobs of this session and thread."""
    jsession = session._jsparkSession
    if not spark_version().has_session_tags:
        return frozenset()
    managed = jsession.managedJobTags().get().values().mkString(",")
    return frozenset([jsession.sessionJobTag(), *filter(None, managed.split(","))])


@contextmanager
def tagged_for(session: SparkSession) -> Iterator[None]:
    """Jobs of this thread carry the tags of `session`, although they run in another one."""
    context = session.sparkContext
    before = context.getLocalProperty(_JOB_TAGS)
    tags = {*(before or "").split(","), *session_tags(session)} - {""}
    context.setLocalProperty(_JOB_TAGS, ",".join(sorted(tags)))
    try:
        yield
    finally:
        context.setLocalProperty(_JOB_TAGS, before)


def driver_for(runtime: Runtime, size: int) -> Runtime:
    """Where to decode so many bytes of a small part of a plan: the driver, which needs no job, or `runtime` itself."""
    return driver_of(runtime) if size <= _SMALL_BYTES else runtime


def driver_of(runtime: Runtime) -> Runtime:
    """The driver, with the metrics and stages of `runtime`."""
    if not isinstance(runtime, SparkRuntime):
        return runtime
    local = DriverRuntime(os.cpu_count() or 1, runtime.task_memory_bytes, runtime.progress)
    local.metrics, local.stages = runtime.metrics, runtime.stages
    return local


def on_driver(runtime: Runtime, batches: list[pa.RecordBatch]) -> Flow:
    """A flow over rows that are on the driver already."""
    return driver_of(runtime).start([BatchSource(batches)], "Gather")


class _SparkFlow(Flow):
    def __init__(
        self,
        runtime: SparkRuntime,
        frame: DataFrame | None,
        payloads: tuple[bytes, ...],
        columns: pa.Schema | None,
        operators: tuple[Operator, ...],
        label: str,
        tasks: int | None,  # None: as many as Spark makes of the frame
        address: int = _TARGET,
        ordered: bool = False,
    ) -> None:
        self._runtime = runtime
        self._frame = frame  # `columns` of Spark's, or blocks of an exchange, or None: `payloads` are the input
        self._payloads = payloads
        self._columns = columns
        self._operators = operators
        self._label = label
        self._tasks = tasks
        self._address = address
        self._ordered = ordered

    def then(self, *operators: Operator) -> Flow:
        chained = (*self._operators, *operators)
        return _SparkFlow(
            self._runtime,
            self._frame,
            self._payloads,
            self._columns,
            chained,
            self._label,
            self._tasks,
            self._address,
            self._ordered,
        )

    def exchange(self, partitioner: Partitioner) -> Flow:
        blocks = self._run(partitioner=partitioner)
        moved = spark_version().repartition(blocks, partitioner.partitions, "pid")
        label, tasks, ordered = partitioner.describe(), partitioner.partitions, partitioner.ordered
        return _SparkFlow(self._runtime, moved, (), None, (), label, tasks, _TARGET, ordered)

    def hold(self) -> Flow:
        blocks = self._run()
        blocks.persist()
        self._runtime.held.append(blocks)
        return _SparkFlow(self._runtime, blocks, (), None, (), self._label, self._tasks, _SOURCE)

    def gather(self) -> Flow:
        return on_driver(self._runtime, self.collect())

    def collect(self) -> list[pa.RecordBatch]:
        return [batch for _, batches in self._collect_blocks() for batch in batches]

    def collect_partitions(self) -> list[list[pa.RecordBatch]]:
        partitions: dict[int, list[pa.RecordBatch]] = {}
        for source, batches in self._collect_blocks():
            partitions.setdefault(source, []).extend(batches)
        return [partitions.get(index, []) for index in range(max(partitions, default=-1) + 1)]

    def to_dataframe(self, schema: StructType) -> DataFrame | None:
        return self._run(result_schema=spark_version().arrow_schema(schema), spark_schema=schema)

    def _collect_blocks(self) -> list[tuple[int, list[pa.RecordBatch]]]:
        start = perf_counter()
        try:
            current_watch().check()
            with (
                spark_progress(self._runtime.session, self._runtime.progress, stage_name(self._label)),
                tagged_for(self._runtime.session),
            ):
                collected = collect_arrow(self._run())
        finally:
            self._runtime.drain_metrics(perf_counter() - start)
        return [
            (source, decode_block(block.as_buffer()))
            for batch in collected
            for source, block in zip(batch.column(1).to_pylist(), batch.column(2), strict=True)
        ]

    def _run(
        self,
        partitioner: Partitioner | None = None,
        result_schema: pa.Schema | None = None,
        spark_schema: StructType | str = BLOCK_SCHEMA,
    ) -> DataFrame:
        runtime = self._runtime
        function = _StageFunction(
            stage=runtime.new_stage(self._label, self._tasks),
            sources=self._payloads if self._frame is None else None,
            columns=self._columns,
            operators=self._operators,
            partitioner=partitioner,
            result_schema=result_schema,
            block_bytes=runtime.block_bytes,
            task_memory_bytes=runtime.task_memory_bytes,
            address=self._address,
            ordered=self._ordered,
            accumulator=runtime.accumulator,
            errors=runtime.errors,
        )
        frame = self._frame
        if frame is None:
            count = len(self._payloads)
            frame = session_for_blocks(runtime.session).range(0, count, 1, max(1, count))
        return frame.mapInArrow(function.__call__, spark_schema)


def frame_from_batches(
    session: SparkSession, batches: list[pa.RecordBatch], schema: StructType, one_partition: bool
) -> DataFrame:
    """Rows that are on the driver, as a DataFrame of `schema` that keeps their order.

    In one partition where Spark has one, or where adaptive execution would make one of so few rows.
    """
    table = named_table(batches, spark_version().arrow_schema(schema))
    frame = frame_from_table(session, table, schema)
    return frame.coalesce(1) if one_partition or table.nbytes <= _COALESCED_BYTES else frame


def frame_from_table(session: SparkSession, table: pa.Table, schema: StructType) -> DataFrame:
    """A table as a DataFrame. The thread's active session stays what it is: pyspark's `createDataFrame` makes it `session`."""
    with keeping_active_session(session):
        return spark_version().frame_of_table(session, table, schema)


@contextmanager
def keeping_active_session(session: SparkSession) -> Iterator[Any]:
    """The thread's active session, Python's and the JVM's, is afterwards what it was. Gives the JVM's class of sessions."""
    jvm_sessions = spark_version().session_class(session)
    active, jvm_active = SparkSession._activeSession, jvm_sessions.getActiveSession()
    try:
        yield jvm_sessions
    finally:
        SparkSession._activeSession = active
        if jvm_active.isDefined():
            jvm_sessions.setActiveSession(jvm_active.get())
        else:
            jvm_sessions.clearActiveSession()


def named_table(batches: list[pa.RecordBatch], target: pa.Schema) -> pa.Table:
    """The batches as one table, its columns taken by position, under the names and types of `target`."""
    if not batches:
        return target.empty_table()
    return pa.Table.from_batches([_retyped(batch, target) for batch in batches], schema=target)


def collect_arrow(frame: DataFrame) -> list[pa.RecordBatch]:
    """Spark's own Arrow collection, past the interception of actions.

    A KeyboardInterrupt also cancels the job, and pyspark then raises that error over it: it is the interrupt that counts.
    """
    try:
        batches: list[pa.RecordBatch] = PandasConversionMixin._collect_as_arrow(frame)
    except Exception as error:
        if isinstance(error.__context__, KeyboardInterrupt):
            raise error.__context__ from None
        original = unwrap_worker_error(error)
        if original is error:
            raise
        raise original from error
    return batches
