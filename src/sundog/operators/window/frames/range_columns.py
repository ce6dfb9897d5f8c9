"""Expressions over the rows of a whole range: a table of many batches, of which each needed column is joined once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sundog.errors import InternalError
from sundog.expr.buffers import Bools, array_from, kernel_view, pooled, values_of
from sundog.expr.evaluate import evaluate
from sundog.expr.nodes import Column, Expr, Literal, columns_of
from sundog.kernels.windows.routing import count_owned, hand_out_halves, hand_out_words
from sundog.kernels.windows.word_sort import gather
from sundog.types import is_plain

HALO = "__halo"  # bool: the row belongs to another range
OUTPUT_ROWS = 1 << 17  # of a batch of a range, at most
_WIDTHS = {each.itemsize: each for each in (np.dtype(np.uint32), np.dtype(np.uint64))}


class RangeColumns:
    """Evaluates expressions over a table and caches the results."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self.count: int = table.num_rows
        self._columns: dict[str, pa.Array] = {}
        self._values: dict[Expr, pa.Array] = {}

    def column(self, name: str) -> pa.Array:
        if name not in self._columns:
            self._columns[name] = joined(self.table.column(name))
        return self._columns[name]

    def values(self, expr: Expr) -> pa.Array:
        if isinstance(expr, Column):
            return self.column(expr.name)
        if expr not in self._values:
            self._values[expr] = self._evaluate(expr)
        return self._values[expr]

    def mask(self, predicate: Expr | None) -> Bools | None:
        """Where a predicate is true; None if there is no predicate, or it is true everywhere."""
        if predicate is None:
            return None
        mask: Bools = pc.fill_null(self.values(predicate), False).to_numpy(zero_copy_only=False)
        return None if bool(mask.all()) else mask

    def _evaluate(self, expr: Expr) -> pa.Array:
        if isinstance(expr, Literal):
            return pa.repeat(pa.scalar(expr.value, expr.dtype), self.count)
        names = sorted(columns_of(expr))
        arrays = [self.column(name) for name in names]
        if not names:
            names, arrays = [HALO], [pa.nulls(self.count, pa.bool_())]
        return evaluate(expr, pa.RecordBatch.from_arrays(arrays, names=names))


def joined(column: pa.ChunkedArray) -> pa.Array:
    """One array of all chunks. Chunks that were cut from one array, such as the batches of a sorted range, are not
    copied."""
    if column.num_chunks == 1:
        return column.chunk(0)
    chunks = column.chunks
    if not chunks:
        return pa.array([], column.type)
    return pa.concat_arrays(chunks) if (whole := _in_one_memory(chunks)) is None else whole


def _in_one_memory(chunks: Sequence[pa.Array]) -> pa.Array | None:
    """Plain numbers without NULLs that lie one behind the other in one buffer, as one array; else None."""
    first = chunks[0]
    if not is_plain(first.type):
        return None
    values = first.buffers()[1]
    stop = first.offset
    for chunk in chunks:
        own = chunk.buffers()[1]
        if own is None or own.address != values.address or chunk.offset != stop or chunk.null_count:
            return None
        stop += len(chunk)
    return pa.Array.from_buffers(first.type, stop - first.offset, [None, values], 0, first.offset)


def table_of(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """The rows of the batches as a table; columns that the schema does not name are dropped."""
    whole = (batch for batch in batches if batch.num_rows)
    chosen = [batch if batch.schema.equals(schema) else batch.select(schema.names) for batch in whole]
    return pa.Table.from_batches(chosen, schema)


def batches_of(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """The table in batches of at most OUTPUT_ROWS."""
    yield from table.to_batches(max_chunksize=OUTPUT_ROWS)


def has(schema: pa.Schema, name: str) -> bool:
    return bool(schema.get_field_index(name) >= 0)


def owned_span(rows: pa.Table | pa.RecordBatch) -> tuple[int, int]:
    """The first row that the range owns and the one after the last; all rows if none is halo."""
    if not has(rows.schema, HALO):
        return 0, rows.num_rows
    column = rows.column(HALO)
    halo = joined(column) if isinstance(column, pa.ChunkedArray) else column
    owned = np.flatnonzero(~halo.to_numpy(zero_copy_only=False))
    if not len(owned):
        return 0, 0
    first, last = int(owned[0]), int(owned[-1]) + 1
    if last - first != len(owned):
        raise InternalError("a range's own rows are not next to each other")
    return first, last


def picked_rows(batch: pa.RecordBatch, rows: npt.NDArray[np.int64]) -> pa.RecordBatch:
    """The rows, without copying if they are contiguous."""
    first, count = int(rows[0]), len(rows)
    if int(rows[-1]) - first + 1 == count:
        return batch.slice(first, count)
    return pa.RecordBatch.from_arrays([taken(column, rows) for column in batch.columns], schema=batch.schema)


def taken(array: pa.Array, rows: npt.NDArray[np.int64]) -> pa.Array:
    """The values of the rows. Plain numbers without NULLs are gathered here, twice as fast as Arrow's take."""
    if not is_plain(array.type) or array.null_count:
        return array.take(pa.array(rows))
    values = values_of(array)
    result = pooled(len(rows), values.dtype)
    gather(values, rows, result)
    return array_from(result, None, array.type)


def parts_by_owner(
    batch: pa.RecordBatch, owners: npt.NDArray[np.int32], count: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each of `count` owners that has any, in order; without copying if they are sorted by owner.

    Each part has memory of its own, so that it can be released before the others.
    """
    counts = np.zeros(count, np.int64)
    in_place = count_owned(owners, counts)
    there = np.flatnonzero(counts)
    if in_place:
        first = 0
        for number in there.tolist():
            yield number, batch.slice(first, int(counts[number]))
            first += int(counts[number])
        return
    columns = [_handed_out(column, owners, counts) for column in batch.columns]
    for number in there.tolist():
        yield number, pa.RecordBatch.from_arrays([column[number] for column in columns], schema=batch.schema)


def _handed_out(array: pa.Array, owners: npt.NDArray[np.int32], counts: npt.NDArray[np.int64]) -> list[pa.Array]:
    """The values of each owner, in memory of their own."""
    width = array.type.byte_width if is_plain(array.type) and not array.null_count else 0
    if width in _WIDTHS:
        stored = kernel_view(array.buffers()[1], _WIDTHS[width], len(array), array.offset)
        return [
            pa.Array.from_buffers(array.type, rows, [None, buffer], 0)
            for rows, buffer in zip(counts.tolist(), _memory_of_owners(stored, owners, counts), strict=True)
        ]
    rows = np.arange(len(array), dtype=np.uint64)
    memory = _memory_of_owners(rows, owners, counts)
    return [array.take(pa.Array.from_buffers(pa.uint64(), buffer.size // 8, [None, buffer])) for buffer in memory]


def _memory_of_owners(
    values: npt.NDArray[Any], owners: npt.NDArray[np.int32], counts: npt.NDArray[np.int64]
) -> list[pa.Buffer]:
    """The values of each owner, in their order. `counts` must be those of `owners`: memory is written by address."""
    width = values.itemsize
    memory = [pa.allocate_buffer(rows * width) for rows in counts.tolist()]
    addresses = np.array([buffer.address for buffer in memory], np.int64)
    hand_out = hand_out_words if width == np.dtype(np.uint64).itemsize else hand_out_halves
    hand_out(values, owners, addresses)
    return memory


def runs_of(starts: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """Rows grouped by a number: each number that has rows, and its rows."""
    for number in np.flatnonzero(np.diff(starts)):
        yield int(number), rows[starts[number] : starts[number + 1]]
