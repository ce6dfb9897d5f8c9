"""Rows between stages: Arrow blocks of a few megabytes, addressed by partition.

Spark's shuffle moves rows. A block of a few megabytes as *one* row of (partition id, bytes) makes its per-row cost
negligible. Measured on 160 MB through `repartitionById` and back into Python on two cores: 2.0 s with blocks of 256
KiB, 1.6-2.0 s with 1-2 MiB, 1.5 s with 4 MiB, 1.3 s with 16 MiB; producing them alone 0.4-0.5 s. 4 MiB is where the
curve flattens, and a task buffers little per target. `repartition(n, column)` would hash the id and may put every block
on one task; a Spark without `repartitionById` is given numbers whose hashes are the wanted partitions
(`versions/parts/hash_targets.py`).

A block is an Arrow IPC stream, so it has its own schema and dictionaries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from enum import Enum
from operator import attrgetter

import pyarrow as pa

from sundog.columns.narrow import NarrowCosts, narrow_table, wide_batches
from sundog.operators.context import MemoryBudget, TaskContext, TaskLimits

STAGE_SOURCES = 1 << 16  # more than any stage has tasks: the source of a block tells which of two stages it is from


def coalesce(
    parts: Iterator[tuple[int, pa.RecordBatch]], block_bytes: int, waiting_bytes: int, memory: MemoryBudget
) -> Iterator[tuple[int, list[pa.RecordBatch]]]:
    """Collect small batches per target until they make a block.

    If more than `waiting_bytes` have come in since no batch waited, all batches are sent, in smaller blocks. Rows that
    have left in a block count too: batches of several targets are slices of the same arrays, whose memory is freed with
    the last slice only, so that one waiting row of each batch would hold all of them.
    """
    waiting: dict[int, list[pa.RecordBatch]] = {}
    sizes: dict[int, int] = {}
    held_bytes = 0
    try:
        for target, batch in parts:
            if batch.num_rows == 0:
                continue
            waiting.setdefault(target, []).append(batch)
            sizes[target] = sizes.get(target, 0) + batch.nbytes
            memory.resize(held_bytes, held_bytes + batch.nbytes)
            held_bytes += batch.nbytes
            if sizes[target] >= block_bytes:
                yield target, waiting.pop(target)
                del sizes[target]
            elif held_bytes > waiting_bytes:
                yield from _drained(waiting)
                sizes.clear()
            if not waiting:
                memory.resize(held_bytes, 0)
                held_bytes = 0
        yield from _drained(waiting)
    finally:
        memory.resize(held_bytes, 0)


def _drained(waiting: dict[int, list[pa.RecordBatch]]) -> Iterator[tuple[int, list[pa.RecordBatch]]]:
    for target in sorted(waiting):
        yield target, waiting.pop(target)


class BlockOrder(Enum):
    """The order in which a task reads the blocks that it receives."""

    ANY = "as they come"
    BY_SOURCE = "of the first task first: all wait until the last is there"
    BUILD_FIRST = "of the first of two stages as they come, then those of the second"


def in_block_order(
    blocks: Iterable[tuple[int, pa.Buffer]], order: BlockOrder, waiting_bytes: int, context: TaskContext
) -> Iterator[pa.Buffer]:
    """The blocks in this order; each comes with its source. Of those that wait for others, at most `waiting_bytes` are
    kept in memory."""
    match order:
        case BlockOrder.ANY:
            yield from (block for _, block in blocks)
        case BlockOrder.BY_SOURCE:
            with closing(_WaitingBlocks(waiting_bytes, context)) as waiting:
                for source, block in blocks:
                    waiting.add(source, block)
                yield from waiting.drain(by_source=True)
        case BlockOrder.BUILD_FIRST:
            with closing(_WaitingBlocks(waiting_bytes, context)) as waiting:
                for source, block in blocks:
                    if source < STAGE_SOURCES:
                        yield block
                    else:
                        waiting.add(source, block)
                yield from waiting.drain()


@dataclass(slots=True)
class _Waiting:
    """A block of a task: in memory, or else `size` bytes at a place of the file."""

    source: int
    block: pa.Buffer | None
    size: int
    place: int = 0


class _WaitingBlocks:
    """Blocks until they are read: at most `memory_bytes` of them in memory, the others in a file."""

    def __init__(self, memory_bytes: int, context: TaskContext) -> None:
        self._memory_bytes = memory_bytes
        self._context = context
        self._blocks: list[_Waiting] = []
        self._held_bytes = 0
        self._file: pa.NativeFile | None = None

    def add(self, source: int, block: pa.Buffer) -> None:
        if self._file is None and self._fits(block.size):
            self._blocks.append(_Waiting(source, block, block.size))
            self._hold(self._held_bytes + block.size)
            return
        if self._file is None:
            self._file = pa.OSFile(self._path, "wb")
            self._context.metrics.add("spill_count")
        self._blocks.append(_Waiting(source, None, block.size, self._file.tell()))
        self._file.write(block)
        self._context.metrics.add("spilled_bytes", block.size)

    def _fits(self, size: int) -> bool:
        memory = self._context.memory
        return self._held_bytes + size <= self._memory_bytes and memory.used + size <= memory.limit

    def drain(self, by_source: bool = False) -> Iterator[pa.Buffer]:
        """The blocks as they came, or those of the first task first. A block is released with the next."""
        if by_source:
            self._blocks.sort(key=attrgetter("source"))
        self._blocks.reverse()
        if self._file is None:
            while self._blocks:
                yield self._taken(self._blocks.pop())
            return
        self._file.close()
        with pa.OSFile(self._path, "rb") as file:
            while self._blocks:
                waiting = self._blocks.pop()
                if waiting.block is None:
                    file.seek(waiting.place)
                    yield file.read_buffer(waiting.size)
                else:
                    yield self._taken(waiting)

    def _taken(self, waiting: _Waiting) -> pa.Buffer:
        self._hold(self._held_bytes - waiting.size)
        return waiting.block

    def close(self) -> None:
        """Release the memory; the file is removed with the task."""
        self._blocks.clear()
        self._hold(0)
        if self._file is not None:
            self._file.close()

    @property
    def _path(self) -> str:
        return str(self._context.scratch() / "waiting-blocks")

    def _hold(self, new: int) -> None:
        self._context.memory.resize(self._held_bytes, new)
        self._held_bytes = new


def encoded(
    parts: Iterator[tuple[int, pa.RecordBatch]], limits: TaskLimits, memory: MemoryBudget
) -> Iterator[tuple[int, list[pa.RecordBatch], pa.Buffer]]:
    """The target, the rows and the bytes of each block that the rows make."""
    for target, held in coalesce(parts, limits.block_bytes, limits.waiting_bytes(memory), memory):
        yield target, held, encode_block(held, limits.narrowing)


def encode_block(batches: list[pa.RecordBatch], costs: NarrowCosts) -> pa.Buffer:
    """The batches as one block, each column as narrow as its values in this block allow.

    Rows may have no columns: then only their number is sent, for `count(*)` over a join whose keys no operator reads.
    """
    table = pa.Table.from_batches(batches)
    if not table.column_names:
        return _encoded_count(table.num_rows)
    table = narrow_table(table, costs)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return sink.getvalue()


def _encoded_count(rows: int) -> pa.Buffer:
    """A block of rows without columns. An Arrow table made of no columns has no rows, so none is made."""
    sink = pa.BufferOutputStream()
    counted = pa.record_batch([pa.nulls(rows)], names=["rows"]).select([])
    with pa.ipc.new_stream(sink, counted.schema) as writer:
        writer.write_batch(counted)
    return sink.getvalue()


def decode_block(block: pa.Buffer) -> list[pa.RecordBatch]:
    with pa.ipc.open_stream(block) as reader:
        return wide_batches(reader, reader.schema)
