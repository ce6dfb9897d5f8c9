"""The worker's side of a stage whose partitions share one process per executor.

    Spark task = all cores of an executor      (`profiles.py`)
      partitions first .. last of the stage, each on a thread of this process
      blocks of all of them for one target leave together

What `StageFunction` does for one partition, this does for a range of them: `partitions_of` says which. Code, kernels,
broadcast build sides and key sets are loaded once. Partitions are the same, and are computed by the same operators, as
where each is a task of its own.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain

import pyarrow as pa
from pyspark import TaskContext as SparkTaskContext

from sundog.errors import InternalError
from sundog.machine import usable_memory_bytes
from sundog.metrics import Metrics, OperatorCounts, OperatorValues, chain_counts
from sundog.operators.base import Operator, Partitioner
from sundog.operators.context import MemoryBudget, ScratchFolder, TaskContext, remove_abandoned_scratch
from sundog.operators.sources import Source
from sundog.runtime.blocks import StageFunction, addressed_blocks, block_row, spare_long_lived_objects
from sundog.runtime.exchange import coalesce, decode_block, encode_block, in_block_order
from sundog.runtime.processes.threads import Emit, PartitionThreads
from sundog.runtime.sharing import load_sharing
from sundog.runtime.task import run_operators
from sundog.versions.worker_imports import keep_unchanged_archives

_Block = tuple[int, pa.Buffer]


def partitions_of(task: int, tasks: int, partitions: int) -> range:
    """The partitions that a task computes; as Spark deals out the numbers of a range."""
    return range(task * partitions // tasks, (task + 1) * partitions // tasks)


def task_of(partition: int, tasks: int, partitions: int) -> int:
    """The task that computes a partition."""
    return ((partition + 1) * tasks - 1) // partitions


def task_column(partition: str, tasks: int, partitions: int) -> str:
    """`task_of` in Spark's SQL, of the partition in a column."""
    return f"cast((({partition} + 1) * {tasks} - 1) div {partitions} as int)"


@dataclass(frozen=True)
class ProcessFunction(StageFunction):
    """What a Python worker runs for one task of `tasks`, which share out the `partitions` of a stage."""

    partitions: int = field(kw_only=True)
    tasks: int = field(kw_only=True)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        run = _ProcessRun(self)
        try:
            yield from run.output(batches)
        except Exception as error:
            raise self.errors.wrap(error) from error
        finally:
            spare_long_lived_objects()
            keep_unchanged_archives()
            self.accumulator.add(run.reports)


class _ProcessRun:
    """One task while it runs. `reports` have what each partition counted."""

    def __init__(self, function: ProcessFunction) -> None:
        self.reports: dict[tuple[int, int], list[OperatorValues]] = {}
        self._function = function
        self._spill_root = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or None  # of this executor alone
        if self._spill_root is not None:
            remove_abandoned_scratch(self._spill_root)
        self._cancelled = threading.Event()
        self._hints: set[str] = set()
        self._lock = threading.Lock()
        self._memory_bytes = _thread_memory_bytes(function.task_memory_bytes)
        self._operators: tuple[Operator, ...] = load_sharing(function.pickled_operators, function.shared)
        self._sources: dict[int, Source] = {}
        partitioner = function.partitioner
        self._targets = (
            None
            if partitioner is None or partitioner.ordered
            else TargetBlocks(partitioner, function, self._memory_bytes)
        )

    def output(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        function = self._function
        if function.sources is not None:
            numbers = [number for batch in batches for number in batch.column(0).to_pylist()]
            self._sources = {number: load_sharing(function.sources[number], function.shared) for number in numbers}
            yield from self._threads().run(numbers, (), _cores())
        else:
            blocks = addressed_blocks(batches, function.address)
            first = next(blocks, None)
            if first is None:
                return  # partitions without rows, of which none has a row without input
            task = task_of(first[0], function.tasks, function.partitions)
            own = partitions_of(task, function.tasks, function.partitions)
            yield from self._threads().run(own, _within(own, chain([first], blocks)))
        if self._targets is not None:
            yield from self._send_rest(self._targets)

    def _threads(self) -> PartitionThreads[_Block]:
        return PartitionThreads(self._compute, _size, self._cancelled)

    def _send_rest(self, targets: TargetBlocks) -> Iterator[pa.RecordBatch]:
        rest, counted = targets.rest(), Metrics()

        def send(target: int, _: Iterator[_Block], emit: Emit) -> None:
            context = TaskContext(memory=MemoryBudget(self._memory_bytes), cancelled=self._cancelled)
            targets.send(target, rest.pop(target), context, emit)
            with self._lock:
                counted.merge(context.metrics)

        yield from PartitionThreads(send, _size, self._cancelled).run(list(rest), (), _cores())
        self._count_rest(counted)

    def _compute(self, partition: int, blocks: Iterator[_Block], emit: Emit) -> None:
        function = self._function
        counts = chain_counts(function.operator_count)
        task = TaskContext(
            partition,
            memory=MemoryBudget(self._memory_bytes, _cores()),
            cancelled=self._cancelled,
            hints=self._hints,
            scratch_folder=ScratchFolder(self._spill_root),
        )
        context = task.counting_into(counts[-1])
        try:
            incoming = self._input(partition, blocks, task.counting_into(counts[0]))
            stream = run_operators(incoming, self._operators, task, counts)
            if self._targets is None:
                for row in function.blocks(stream, context):
                    emit(row)
            else:
                self._targets.add_all(stream, context, emit)
        finally:
            context.close()
            context.metrics.add("tasks")
            self._report(partition, counts)

    def _input(self, partition: int, blocks: Iterator[_Block], context: TaskContext) -> Iterator[pa.RecordBatch]:
        if self._sources:
            return self._sources[partition].read(context)
        in_order = in_block_order(blocks, self._function.order, context)
        return (batch for block in in_order for batch in decode_block(block))

    def _report(self, partition: int, counts: list[OperatorCounts]) -> None:
        with self._lock:
            self.reports[self._function.stage, partition] = [each.as_values() for each in counts]

    def _count_rest(self, metrics: Metrics) -> None:
        """What left the process after its last partition was computed is counted with one of them."""
        key = min(self.reports)
        *_, (rows, size, batches, seconds, counted) = self.reports[key]
        total = Metrics(counted)
        total.merge(metrics)
        self.reports[key][-1] = (rows, size, batches, seconds, total.as_dict())


class TargetBlocks:
    """Rows of several threads that go to the same target leave this process in the same blocks.

    Rows that the partitioner combines wait, up to the memory of one task; others until they make a block.
    """

    def __init__(self, partitioner: Partitioner, function: StageFunction, memory_bytes: int) -> None:
        self._partitioner = partitioner
        self._function = function
        self._memory_bytes = memory_bytes
        self._lock = threading.Lock()
        self._waiting: dict[int, list[pa.RecordBatch]] = {}
        self._sizes: dict[int, int] = {}

    def add_all(self, stream: Iterator[pa.RecordBatch], context: TaskContext, emit: Emit) -> None:
        """Rows of one thread, which itself makes the blocks that become full."""
        for target, batch in self._partitioner.split(stream, context):
            if batch.num_rows:
                for number, batches in self._add(target, batch).items():
                    self.send(number, batches, context, emit)

    def _add(self, target: int, batch: pa.RecordBatch) -> dict[int, list[pa.RecordBatch]]:
        """The targets whose rows have waited long enough, with these."""
        with self._lock:
            self._waiting.setdefault(target, []).append(batch)
            self._sizes[target] = self._sizes.get(target, 0) + batch.nbytes
            if not self._partitioner.combines:
                is_full = self._sizes[target] >= self._function.block_bytes
                return self._take([target]) if is_full else {}
            is_full = sum(self._sizes.values()) >= self._memory_bytes
            return self._take(list(self._waiting)) if is_full else {}

    def _take(self, targets: Iterable[int]) -> dict[int, list[pa.RecordBatch]]:
        for target in targets:
            self._sizes[target] = 0
        return {target: self._waiting.pop(target) for target in targets}

    def rest(self) -> dict[int, list[pa.RecordBatch]]:
        """What is left when all threads are through."""
        return self._take(sorted(self._waiting))

    def send(self, target: int, batches: list[pa.RecordBatch], context: TaskContext, emit: Emit) -> None:
        """Put out rows for one target."""
        combined = ((target, batch) for batch in self._partitioner.combine(batches, context))
        for _, held in coalesce(combined, self._function.block_bytes, context.memory):
            block = encode_block(held)
            context.metrics.add("exchange_blocks")
            context.metrics.add("exchange_bytes", block.size)
            context.metrics.add("exchange_rows", sum(batch.num_rows for batch in held))
            emit(block_row(target, self._function.first_source, block))


def _cores() -> int:
    task = SparkTaskContext.get()
    return 1 if task is None else max(1, task.cpus())


def _thread_memory_bytes(planned: int) -> int:
    """The budget of a thread: as planned, but all threads together at most half of the machine or the container.

    The other half is the JVM's, and that of what no budget counts.
    """
    usable = usable_memory_bytes()
    return planned if usable is None else min(planned, usable // 2 // _cores())


def _size(block: _Block) -> int:
    return int(block[1].size)


def _within(own: range, blocks: Iterator[tuple[int, int, pa.Buffer]]) -> Iterator[tuple[int, _Block]]:
    for partition, source, block in blocks:
        if partition not in own:
            raise InternalError(f"a block of partition {partition} came to the task of {own.start} to {own.stop - 1}")
        yield partition, (source, block)
