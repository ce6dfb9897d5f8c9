"""A stage in a Python worker that runs several partitions, in one process per executor.

    Spark task = all cores of an executor      (`profiles.py`)
      partitions first .. last of the stage, each on a thread of this process
      blocks of all of them for one target leave together

`StageFunction` runs one partition, this a range of them (`partitions_of`). Code, kernels, broadcast build sides and key
sets are loaded once. The partitions are the same as with a task for each, and the same operators compute them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain

import pyarrow as pa
from pyspark import TaskContext as SparkTaskContext

from sundog.errors import InternalError
from sundog.machine import this_machine
from sundog.metrics import OperatorCounts, OperatorValues, chain_counts
from sundog.operators.base import Operator, Partitioner
from sundog.operators.byte_limit import ByteLimit
from sundog.operators.context import (
    MemoryBudget,
    ScratchFolder,
    TaskContext,
    TaskLimits,
    clocked,
)
from sundog.operators.sources import Source
from sundog.runtime.blocks import (
    StageFunction,
    addressed_blocks,
    block_row,
    count_block,
    return_freed_memory,
    spare_long_lived_objects,
    spill_root,
)
from sundog.runtime.broadcasts import load_sharing
from sundog.runtime.exchange import decode_block, encoded, in_block_order
from sundog.runtime.processes.threads import Emit, PartitionThreads
from sundog.runtime.task import run_operators
from sundog.versions.parts.worker_imports import keep_unchanged_archives

_Block = tuple[int, pa.Buffer]


def partitions_of(task: int, tasks: int, partitions: int) -> range:
    """The partitions that a task computes; the same division as Spark's of a range of numbers."""
    return range(task * partitions // tasks, (task + 1) * partitions // tasks)


def task_of(partition: int, tasks: int, partitions: int) -> int:
    """The task that computes a partition."""
    return ((partition + 1) * tasks - 1) // partitions


def task_column(partition: str, tasks: int, partitions: int) -> str:
    """`task_of` in Spark's SQL, for the partition in a column."""
    return f"cast((({partition} + 1) * {tasks} - 1) div {partitions} as int)"


@dataclass(frozen=True)
class ProcessFunction(StageFunction):
    """What a Python worker runs for one of `tasks` tasks, which divide the `partitions` of a stage among them."""

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
    """One task while it runs. `reports`: the counts of each partition."""

    def __init__(self, function: ProcessFunction) -> None:
        self.reports: dict[tuple[int, int], list[OperatorValues]] = {}
        self._function = function
        self._spill_root = spill_root()
        self._cancelled = threading.Event()
        self._hints: set[str] = set()
        self._lock = threading.Lock()
        self._limits = function.limits.on_machine(this_machine())
        return_freed_memory(self._limits)
        self._limit = ByteLimit(function.max_bytes)
        self._operators: tuple[Operator, ...] = load_sharing(function.pickled_operators, function.shared)
        self._sources: dict[int, Source] = {}
        partitioner = function.partitioner
        self._targets = (
            None
            if partitioner is None or partitioner.ordered
            else TargetBlocks(partitioner, function.first_source, self._limits)
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
                return  # no partition has rows, and none gives a row for no input
            task = task_of(first[0], function.tasks, function.partitions)
            own = partitions_of(task, function.tasks, function.partitions)
            yield from self._threads().run(own, _within(own, chain([first], blocks)))
        if self._targets is not None:
            yield from self._send_rest(self._targets)

    def _threads(self) -> PartitionThreads[_Block]:
        return PartitionThreads(self._compute, _size, self._cancelled)

    def _send_rest(self, targets: TargetBlocks) -> Iterator[pa.RecordBatch]:
        rest, counted = targets.rest(), OperatorCounts()

        def send(target: int, _: Iterator[_Block], emit: Emit) -> None:
            context = TaskContext(memory=MemoryBudget.on_executor(self._limits.memory_bytes), cancelled=self._cancelled)
            targets.send(target, rest.pop(target), context, emit)
            with self._lock:
                counted.merge(context.counts)

        yield from PartitionThreads(send, _size, self._cancelled).run(list(rest), (), _cores())
        self._count_rest(counted)

    def _compute(self, partition: int, blocks: Iterator[_Block], emit: Emit) -> None:
        function = self._function
        counts = chain_counts(function.operator_count)
        task = TaskContext(
            partition,
            memory=MemoryBudget.on_executor(self._limits.memory_bytes, _cores()),
            cancelled=self._cancelled,
            hints=self._hints,
            scratch_folder=ScratchFolder(self._spill_root),
        )
        context = task.counting_into(counts[-1])
        try:
            incoming = self._input(partition, blocks, task.counting_into(counts[0]))
            stream = self._limit.watched(run_operators(incoming, self._operators, task, counts))
            if self._targets is None:
                for row in clocked(function.blocks(stream, context), context.counts):
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
        waiting_bytes = self._limits.waiting_bytes(context.memory)
        in_order = in_block_order(blocks, self._function.order, waiting_bytes, context)
        return (batch for block in in_order for batch in decode_block(block))

    def _report(self, partition: int, counts: list[OperatorCounts]) -> None:
        with self._lock:
            self.reports[self._function.stage, partition] = [each.as_values() for each in counts]

    def _count_rest(self, counts: OperatorCounts) -> None:
        """Count rows that leave the process after its last partition was computed, with one of the partitions."""
        key = min(self.reports)
        counts.merge_values(self.reports[key][-1])
        self.reports[key][-1] = counts.as_values()


class TargetBlocks:
    """Blocks in which rows of several threads for the same target leave this process.

    Rows that the partitioner combines are collected up to the memory of one task; others until they make a block.
    """

    def __init__(self, partitioner: Partitioner, first_source: int, limits: TaskLimits) -> None:
        self._partitioner = partitioner
        self._first_source = first_source
        self._limits = limits
        self._lock = threading.Lock()
        self._waiting: dict[int, list[pa.RecordBatch]] = {}
        self._sizes: dict[int, int] = {}
        self._buffers: set[int] = set()  # addresses; strings of several targets point into the same ones
        self._held_bytes = 0

    def add_all(self, stream: Iterator[pa.RecordBatch], context: TaskContext, emit: Emit) -> None:
        """Add the rows of one thread, which itself makes the blocks that become full."""
        for target, batch in clocked(self._partitioner.split(stream, context), context.counts):
            if batch.num_rows:
                for number, batches in self._add(target, batch).items():
                    self.send(number, batches, context, emit)

    def _add(self, target: int, batch: pa.RecordBatch) -> dict[int, list[pa.RecordBatch]]:
        """The targets whose blocks are now full."""
        with self._lock:
            self._waiting.setdefault(target, []).append(batch)
            if not self._partitioner.combines:
                self._sizes[target] = self._sizes.get(target, 0) + batch.nbytes
                return self._take([target]) if self._sizes[target] >= self._limits.block_bytes else {}
            self._hold(batch)
            return self._take(list(self._waiting)) if self._held_bytes >= self._limits.memory_bytes else {}

    def _hold(self, batch: pa.RecordBatch) -> None:
        """Count the buffers that no other waiting batch has. `batch.nbytes` has the strings of all targets."""
        for buffer in (buffer for column in batch.columns for buffer in column.buffers()):
            if buffer is not None and buffer.address not in self._buffers:
                self._buffers.add(buffer.address)
                self._held_bytes += buffer.size

    def _take(self, targets: Iterable[int]) -> dict[int, list[pa.RecordBatch]]:
        for target in targets:
            self._sizes[target] = 0
        self._buffers.clear()
        self._held_bytes = 0
        return {target: self._waiting.pop(target) for target in targets}

    def rest(self) -> dict[int, list[pa.RecordBatch]]:
        """The remaining rows, after all threads have finished."""
        return self._take(sorted(self._waiting))

    def send(self, target: int, batches: list[pa.RecordBatch], context: TaskContext, emit: Emit) -> None:
        """Put out rows for one target."""
        combined = ((target, batch) for batch in self._partitioner.combine(batches, context))
        for _, held, block in clocked(encoded(combined, self._limits, context.memory), context.counts):
            count_block(context.counts, self._partitioner, target, held, block)
            emit(block_row(target, self._first_source, block))


def _cores() -> int:
    task = SparkTaskContext.get()
    return 1 if task is None else max(1, task.cpus())


def _size(block: _Block) -> int:
    return int(block[1].size)


def _within(own: range, blocks: Iterator[tuple[int, int, pa.Buffer]]) -> Iterator[tuple[int, _Block]]:
    for partition, source, block in blocks:
        if partition not in own:
            raise InternalError(f"a block of partition {partition} came to the task of {own.start} to {own.stop - 1}")
        yield partition, (source, block)
