"""How rows cross from one stage to the next: Arrow blocks of a few megabytes, addressed by partition.

Spark's shuffle moves rows; a block of a few megabytes as *one* row of (partition id, bytes) makes its per-row cost
vanish. Measured on 160 MB through `repartitionById` and back into Python on two cores: 2.0 s with blocks of 256 KiB,
1.6-2.0 s with 1-2 MiB, 1.5 s with 4 MiB, 1.3 s with 16 MiB; producing them alone 0.4-0.5 s. 4 MiB is where the curve
flattens, and it keeps what a task buffers per target small. `repartition(n, column)` would hash the id and may put
every block on one task; a Spark without `repartitionById` is given numbers that are hashed into the wanted partitions
(`versions/hash_targets.py`).

A block is an Arrow IPC stream, so it carries its own schema and dictionaries and needs no agreement but the bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from operator import itemgetter

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sundog.operators.context import MemoryBudget, TaskContext

DEFAULT_BLOCK_BYTES = 4 << 20
STAGE_SOURCES = 1 << 16  # more tasks than a stage has: blocks of two stages are told apart by where they come from
_WAITING_SHARE = 4  # of the task's memory, for blocks that wait
_INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_WIDE = b"wide"  # of a field that was narrowed: the type that it has outside the block
_WIDE_TYPES = {str(dtype).encode(): dtype for dtype in (*_INTEGERS, pa.float64())}


def coalesce(
    parts: Iterator[tuple[int, pa.RecordBatch]], block_bytes: int, memory: MemoryBudget
) -> Iterator[tuple[int, list[pa.RecordBatch]]]:
    """Collect small batches per target until they make a block.

    If those of all targets exceed a share of the task's memory, all leave, in smaller blocks: batches of several
    targets are slices of the same arrays, which are there until the last of them has left.
    """
    waiting: dict[int, list[pa.RecordBatch]] = {}
    sizes: dict[int, int] = {}
    limit, total = memory.limit // _WAITING_SHARE, 0
    for target, batch in parts:
        if batch.num_rows == 0:
            continue
        waiting.setdefault(target, []).append(batch)
        sizes[target] = sizes.get(target, 0) + batch.nbytes
        total += batch.nbytes
        if sizes[target] >= block_bytes:
            yield target, waiting.pop(target)
            total -= sizes.pop(target)
        elif total > limit:
            yield from _drained(waiting)
            sizes.clear()
            total = 0
    yield from _drained(waiting)


def _drained(waiting: dict[int, list[pa.RecordBatch]]) -> Iterator[tuple[int, list[pa.RecordBatch]]]:
    for target in sorted(waiting):
        yield target, waiting.pop(target)


class BlockOrder(Enum):
    """In which order a task reads the blocks that it is sent."""

    ANY = "as they come"
    BY_SOURCE = "of the first task first: all are held until the last is there"
    BUILD_FIRST = "of the first of two stages as they come, then those of the second"


def in_block_order(
    blocks: Iterable[tuple[int, pa.Buffer]], order: BlockOrder, context: TaskContext
) -> Iterator[pa.Buffer]:
    """The blocks, each of which comes with its source, in this order."""
    match order:
        case BlockOrder.ANY:
            yield from (block for _, block in blocks)
        case BlockOrder.BY_SOURCE:
            yield from (block for _, block in sorted(blocks, key=itemgetter(0)))
        case BlockOrder.BUILD_FIRST:
            waiting = _WaitingBlocks(context)
            try:
                for source, block in blocks:
                    if source < STAGE_SOURCES:
                        yield block
                    else:
                        waiting.add(block)
                yield from waiting.drain()
            finally:
                waiting.close()


class _WaitingBlocks:
    """Blocks until they are asked for: in memory as far as a share of the task's goes, the others in a file."""

    def __init__(self, context: TaskContext) -> None:
        self._context = context
        self._blocks: list[pa.Buffer] = []
        self._held_bytes = 0
        self._file: pa.NativeFile | None = None
        self._sizes: list[int] = []

    def add(self, block: pa.Buffer) -> None:
        if self._file is None and self._fits(block.size):
            self._blocks.append(block)
            self._hold(self._held_bytes + block.size)
            return
        if self._file is None:
            self._file = pa.OSFile(self._path, "wb")
            self._context.metrics.add("spill_count")
        self._file.write(block)
        self._sizes.append(block.size)
        self._context.metrics.add("spilled_bytes", block.size)

    def _fits(self, size: int) -> bool:
        memory = self._context.memory
        return self._held_bytes + size <= memory.limit // _WAITING_SHARE and memory.used + size <= memory.limit

    def drain(self) -> Iterator[pa.Buffer]:
        self._blocks.reverse()
        while self._blocks:
            block = self._blocks.pop()
            self._hold(self._held_bytes - block.size)
            yield block
        if self._file is not None:
            self._file.close()
            with pa.OSFile(self._path, "rb") as file:
                for size in self._sizes:
                    yield file.read_buffer(size)

    def close(self) -> None:
        """Let go of the memory; the file goes with the task."""
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


def encode_block(batches: list[pa.RecordBatch]) -> pa.Buffer:
    """The batches as one, its numbers as narrow as they are in this block: see `_narrowed`."""
    table = pa.Table.from_batches(batches)
    fields, columns = [], []
    for field, column in zip(table.schema, table.columns, strict=True):
        narrow = _narrowed(column)
        if narrow is None:
            fields.append(field)
            columns.append(column)
        else:
            fields.append(pa.field(field.name, narrow.type, metadata={_WIDE: str(field.type)}))
            columns.append(narrow)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema(fields)) as writer:
        writer.write_table(pa.table(columns, schema=pa.schema(fields)).combine_chunks())
    return sink.getvalue()


def decode_block(block: pa.Buffer) -> list[pa.RecordBatch]:
    with pa.ipc.open_stream(block) as reader:
        return [_widened(batch) for batch in reader]


def _narrowed(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """The same numbers in fewer bytes; None where they need all that they have.

    A byte costs some 10 ns on its way through two Python workers and Spark's shuffle; looking at it and casting it, 1
    ns. Sums and counts of rows that were not worth grouping, and the doubles that AVG makes of integers, are mostly
    small.
    """
    whole = _whole_numbers(column) if pa.types.is_float64(column.type) else column
    if whole is None or not pa.types.is_signed_integer(whole.type):
        return None
    bounds = pc.min_max(whole)
    low, high = bounds["min"].as_py() or 0, bounds["max"].as_py() or 0
    for narrow in _INTEGERS:
        limit = 1 << (narrow.bit_width - 1)
        if -limit <= low and high < limit:
            return whole.cast(narrow) if narrow.bit_width < column.type.bit_width else None
    return None


def _whole_numbers(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Doubles as integers, if each of them is one, bit for bit (-0.0 is not), and none is NULL."""
    chunks = []
    for chunk in column.chunks:
        if chunk.null_count or not _are_whole(chunk.slice(0, 64).to_numpy()):
            return None
        values = chunk.to_numpy()
        if not _are_whole(values):
            return None
        chunks.append(pa.array(values.astype(np.int32)))
    return pa.chunked_array(chunks, pa.int32())


def _are_whole(values: npt.NDArray[np.float64]) -> bool:
    with np.errstate(invalid="ignore"):
        back = values.astype(np.int32).astype(np.float64)
    return bool((back.view(np.int64) == values.view(np.int64)).all())


def _widened(batch: pa.RecordBatch) -> pa.RecordBatch:
    types = [_WIDE_TYPES.get((field.metadata or {}).get(_WIDE, b""), field.type) for field in batch.schema]
    columns = [column.cast(dtype) for column, dtype in zip(batch.columns, types, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(list(zip(batch.schema.names, types, strict=True))))
