"""A stage in a Python worker on an executor: the function that runs for one partition, and its blocks of rows.

A stage learns from its input which partition it computes: from the number of its source, or the address on its blocks.
Spark's partition id is that of the task, and under a user's `coalesce` or union, one task computes several partitions,
or its number counts those of other inputs as well.

A stage function holds nothing between tasks, so a repeated task simply does its work again. An error of a task (an
overflow, a corrupt file) comes back as data inside the text of Spark's report, signed with the run's key
(`worker_errors.py`).
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import pyarrow as pa
from pyspark import AccumulatorParam
from pyspark import TaskContext as SparkTaskContext

from sundog.errors import InternalError
from sundog.machine import address_limit_bytes, this_machine
from sundog.metrics import OperatorCounts, OperatorValues, chain_counts
from sundog.operators.base import Operator, Partitioner
from sundog.operators.byte_limit import ByteLimit
from sundog.operators.context import (
    MemoryBudget,
    ScratchFolder,
    TaskContext,
    TaskLimits,
    clocked,
    counted,
    remove_abandoned_scratch,
)
from sundog.runtime.broadcasts import load_sharing
from sundog.runtime.exchange import BlockOrder, decode_block, encoded, in_block_order
from sundog.runtime.task import run_operators
from sundog.runtime.worker_errors import ErrorChannel
from sundog.versions.parts.worker_imports import keep_unchanged_archives

BLOCK_SCHEMA = "pid int, source int, block binary"
_BLOCK_ARROW = pa.schema([("pid", pa.int32()), ("source", pa.int32()), ("block", pa.binary())])
TARGET, SOURCE = 0, 1
_MAX_UNFROZEN_OBJECTS = 20_000
_RESULT_BATCH_ROWS = 1 << 16  # the JVM holds a whole batch while it turns it into rows
StageValues = dict[tuple[int, int], list[OperatorValues]]


class LatestAttempt(AccumulatorParam):  # type: ignore[misc]
    """(stage, partition) -> the counts of its operators. A repeated task replaces the counts of the earlier attempt.

    It is in this module, not in `spark.py`, because workers import the module that it is in.
    """

    def zero(self, value: StageValues) -> StageValues:
        return {}

    def addInPlace(self, value1: StageValues, value2: StageValues) -> StageValues:  # noqa: N802
        value1.update(value2)
        return value1


@dataclass(frozen=True)
class StageFunction:
    """What a Python worker runs for one partition. Its input is `sources`, or Spark's own `columns`, or blocks."""

    stage: int
    sources: tuple[bytes, ...] | None = field(repr=False)  # pickled, with the keys of object stores in them
    columns: pa.Schema | None
    pickled_operators: bytes = field(repr=False)
    operator_count: int
    shared: tuple[Any, ...] = field(repr=False)  # broadcast variables, for values that are pickled by number
    partitioner: Partitioner | None
    result_schema: pa.Schema | None  # the real columns for Spark, instead of blocks
    limits: TaskLimits
    address: int  # the column of a block that has its partition
    order: BlockOrder
    first_source: int  # added to a task's number to make the source of its blocks
    accumulator: Any
    errors: ErrorChannel
    max_bytes: int | None = None  # of the rows that this process may put out: more are an error

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rest = iter(batches)
        first = next(rest, None)
        partition = self._partition(first)
        reported = partition if first is not None else -1 - _task_number()
        batches = rest if first is None else chain([first], rest)
        counts = chain_counts(self.operator_count)
        limits = self.limits.on_machine(this_machine())
        return_freed_memory(limits)
        task = TaskContext(
            partition, memory=MemoryBudget.on_executor(limits.memory_bytes), scratch_folder=ScratchFolder(spill_root())
        )
        context = task.counting_into(counts[-1])
        try:
            incoming = self._input(batches, task.counting_into(counts[0]))
            operators: tuple[Operator, ...] = load_sharing(self.pickled_operators, self.shared)
            stream = ByteLimit(self.max_bytes).watched(run_operators(incoming, operators, task, counts))
            if self.result_schema is not None:
                yield from counted(as_result(stream, self.result_schema), context.counts)
            else:
                yield from clocked(self.blocks(stream, context), context.counts)
        except Exception as error:
            raise self.errors.wrap(error) from error
        finally:
            context.close()
            context.metrics.add("tasks")
            spare_long_lived_objects()
            keep_unchanged_archives()
            self.accumulator.add({(self.stage, reported): [each.as_values() for each in counts]})

    def _partition(self, first: pa.RecordBatch | None) -> int:
        """The number of this partition, by its first row.

        Without rows it is the number of the task, which in a union is not that of the partition; or, if the result goes
        on in Spark, a number that no partition has. Counts are then reported under such a number in any case.
        """
        number = _task_number()
        if first is None:
            return number if self.result_schema is None else -1 - number
        if self.columns is not None:
            return number
        return int(first.column(0 if self.sources is not None else self.address)[0].as_py())

    def _input(self, batches: Iterable[pa.RecordBatch], context: TaskContext) -> Iterator[pa.RecordBatch]:
        if self.sources is not None:
            # Read to the end first: Spark discards a worker that leaves some of its input, and a new one costs a
            # second.
            for index in [index for batch in batches for index in batch.column(0).to_pylist()]:
                yield from load_sharing(self.sources[index], self.shared).read(context)
        elif self.columns is not None:
            for batch in batches:
                context.metrics.add("input_rows", batch.num_rows)
                yield retyped(batch, self.columns)
        else:
            blocks = _blocks_of(batches, self.address)
            for block in in_block_order(blocks, self.order, self.limits.waiting_bytes(context.memory), context):
                yield from decode_block(block)

    def blocks(self, stream: Iterator[pa.RecordBatch], context: TaskContext) -> Iterator[pa.RecordBatch]:
        """The rows of a partition as rows of blocks."""
        parts = self.partitioner.split(stream, context) if self.partitioner else ((0, batch) for batch in stream)
        for target, held, block in encoded(parts, self.limits, context.memory):
            count_block(context.counts, self.partitioner, target, held, block)
            yield block_row(target, self.first_source + context.partition, block)


def count_block(
    counts: OperatorCounts,
    partitioner: Partitioner | None,
    target: int,
    batches: Sequence[pa.RecordBatch],
    block: pa.Buffer,
) -> None:
    """Count a block that leaves for a partition, or for the driver. Summaries of other rows do not count as rows."""
    is_summary = partitioner is not None and target >= partitioner.partitions
    rows = 0 if is_summary else sum(batch.num_rows for batch in batches)
    counts.add(rows, block.size)
    if partitioner is not None and not partitioner.to_driver:
        counts.metrics.add("exchange_blocks")
        counts.metrics.add("exchange_bytes", block.size)
        counts.metrics.add("exchange_rows", rows)


def spill_root() -> str | None:
    """A local folder that Spark gives this executor alone, cleared of what killed tasks have left; None if unknown."""
    root = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or None
    if root is not None:
        remove_abandoned_scratch(root)
    return root


def _task_number() -> int:
    """The number of this task in its job's stage. The tasks of a union are numbered through."""
    task = SparkTaskContext.get()
    return int(task.partitionId()) if task is not None else 0


def block_row(target: int, source: int, block: pa.Buffer) -> pa.RecordBatch:
    """A block with its address, as a row of Spark's shuffle."""
    offsets = pa.py_buffer(_int32s(0, block.size))
    column = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, block])
    ids = [pa.array([target], pa.int32()), pa.array([source], pa.int32())]
    return pa.RecordBatch.from_arrays([*ids, column], schema=_BLOCK_ARROW)


def gathered_blocks(batches: Iterable[pa.RecordBatch], max_bytes: int | None) -> dict[int, list[pa.RecordBatch]]:
    """The rows of each partition from its blocks, in the order in which they come. Raises TooManyBytes."""
    limit, partitions = ByteLimit(max_bytes), dict[int, list[pa.RecordBatch]]()
    for _, source, block in addressed_blocks(batches, TARGET):
        partitions.setdefault(source, []).extend(limit.watched(decode_block(block)))
    return partitions


def spare_long_lived_objects() -> None:
    """Take what a task has loaded for good, modules and compiled kernels, out of Python's garbage collection.

    A pyspark worker collects garbage after each task, before it takes the next. With numba, pandas and pyarrow loaded
    that visits more than 100,000 objects that will never be garbage: 50-100 ms a task.
    """
    if len(gc.get_objects()) > _MAX_UNFROZEN_OBJECTS:
        gc.collect()
        gc.freeze()


def return_freed_memory(limits: TaskLimits) -> None:
    """With a small budget, have Arrow allocate by jemalloc in this Python worker, which gives freed memory back to the
    system soon.

    Arrow's own choice, mimalloc, keeps it: of tasks that sent rows to ranges or grouped them, with a budget of 128 MiB,
    the peak was 98 to 145 MiB, and with jemalloc 48 to 110. What it gives back has to be asked for again: with the
    default budget a GROUP BY of 10 M groups took 6 and 17 % longer, the least of 12 runs in two turns. It keeps address
    space instead, so it is not used where that is limited; nor against what the user's environment says.
    """
    if not limits.are_small:
        return
    if "ARROW_DEFAULT_MEMORY_POOL" in os.environ or pa.default_memory_pool().backend_name == "jemalloc":
        return
    if "jemalloc" in pa.supported_memory_backends() and address_limit_bytes() is None:
        pa.set_memory_pool(pa.jemalloc_memory_pool())


def _int32s(*values: int) -> bytes:
    return b"".join(value.to_bytes(4, "little", signed=True) for value in values)


def _blocks_of(batches: Iterable[pa.RecordBatch], address: int) -> Iterator[tuple[int, pa.Buffer]]:
    """The source and the bytes of each block, all of which must be of one partition."""
    partition = None
    for target, source, block in addressed_blocks(batches, address):
        if partition not in (None, target):
            raise InternalError(f"blocks of partitions {partition} and {target} came to one task")
        partition = target
        yield source, block


def addressed_blocks(batches: Iterable[pa.RecordBatch], address: int) -> Iterator[tuple[int, int, pa.Buffer]]:
    """The partition, the source and the bytes of each block."""
    for batch in batches:
        for target, source, block in zip(
            batch.column(address).to_pylist(), batch.column(SOURCE).to_pylist(), batch.column(2), strict=True
        ):
            yield target, source, block.as_buffer()


def as_result(stream: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows under Spark's names and types, in batches of at most `_RESULT_BATCH_ROWS`."""
    for batch in stream:
        renamed = retyped(batch, schema)
        for start in range(0, renamed.num_rows, _RESULT_BATCH_ROWS):
            yield renamed.slice(start, _RESULT_BATCH_ROWS)


def retyped(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same columns, by position, under the names and types of `schema`."""
    columns = [column.cast(field.type) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
