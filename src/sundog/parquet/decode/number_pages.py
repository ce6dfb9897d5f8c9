"""Number columns of some row groups, decoded from their pages in 50 to 80 % of the time that Arrow takes.

Numbers are copied as words, whatever they mean: dates, timestamps and floats are as wide as some integer. If all rows
are numbers of dictionary entries, only the dictionary is converted to the query's width. Decimals that are stored as
integers are decoded as such and then widened.

If only some rows are wanted, only those are decoded, and pages without any are not read
(`kernels/pages/chosen_numbers.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.expr.buffers import is_narrow, pooled
from sundog.kernels.pages.chosen_numbers import decode_chosen_numbers
from sundog.kernels.pages.number_chunks import decode_numbers, widen_to_decimals
from sundog.kernels.pages.parquet_values import BROKEN
from sundog.kernels.pages.snappy import SLACK
from sundog.parquet.decode.chunk_pages import StoredChunk, Unusual, bits_of, decompressed, descriptor_of, stored_chunk
from sundog.parquet.meta.file_schema import ColumnSource, Reading
from sundog.parquet.meta.file_statistics import LeafColumn
from sundog.parquet.meta.footer import Footer

Rows = npt.NDArray[np.int64]

_STORED = {"INT32": pa.int32(), "FLOAT": pa.float32(), "INT64": pa.int64(), "DOUBLE": pa.float64()}
_IN_THE_FILE = 0  # in place of an address


def read_numbers(
    source: pa.NativeFile,
    footer: Footer,
    row_groups: Sequence[int],
    columns: list[ColumnSource],
    rows: Rows | None = None,
    short: frozenset[str] = frozenset(),
) -> dict[str, pa.Array]:
    """Those of the columns that can be decoded here, each in the query's type or in its stored type.

    `short` names columns of decimals that are wanted as decimal64 if that holds all values of the query's type.

    `rows` are ascending numbers of rows, counted from the first of the row groups: only these are decoded.
    """
    found = [_StoredColumn.of(source, footer, row_groups, column, column.name in short) for column in columns]
    readable = [column for column in found if column is not None]
    return _decoded(source, readable, rows) if readable else {}


@dataclass(frozen=True, eq=False)
class _StoredColumn:
    """A column's chunks, one after the other; their bytes, if they had to be read or decompressed before.

    `dtype` is what the kernels decode, `decimal` the type of the result.
    """

    name: str
    dtype: pa.DataType
    decimal: pa.DataType | None
    stored_width: int
    chunks: list[StoredChunk]
    read: list[pa.Buffer | None]
    unpacked: list[pa.Buffer | None]

    @classmethod
    def of(
        cls, source: pa.NativeFile, footer: Footer, row_groups: Sequence[int], column: ColumnSource, is_short: bool
    ) -> _StoredColumn | None:
        leaf = footer.leaf(column.leaf)
        stored = _STORED.get(leaf.physical_type)
        is_decimal = _is_decimal_of_same_scale(leaf, column)
        if stored is None or not (column.reading is Reading.AS_IS or is_decimal):
            return None
        try:
            chunks = [stored_chunk(footer, group, column.leaf) for group in row_groups]
            read = [None if chunk.is_readable_by_kernels(source) else chunk.read(source) for chunk in chunks]
            unpacked = [
                decompressed(chunk, data) if data is not None else None
                for chunk, data in zip(chunks, read, strict=True)
            ]
        except (Unusual, pa.ArrowException, OSError):
            return None
        wanted = stored if is_decimal else column.dtype
        dtype = _type_to_read(stored, wanted, all(chunk.is_coded for chunk in chunks))
        decimal = column.dtype if is_decimal else None
        if decimal is not None and is_short and is_narrow(decimal):
            decimal = pa.decimal64(decimal.precision, decimal.scale)
        return cls(column.name, dtype, decimal, stored.bit_width // 8, chunks, read, unpacked)

    @property
    def width(self) -> int:
        return int(self.dtype.bit_width) // 8

    @property
    def rows(self) -> int:
        return sum(chunk.rows for chunk in self.chunks)

    def array(self, rows: int, validity: pa.Buffer | None, numbers: pa.Buffer) -> pa.Array:
        """The decoded numbers in the result's type."""
        if self.decimal is None:
            return pa.Array.from_buffers(self.dtype, rows, [validity, numbers])
        words = np.frombuffer(numbers, np.int32 if self.width == 4 else np.int64, rows)
        if pa.types.is_decimal64(self.decimal):
            data = numbers if self.width == 8 else pa.py_buffer(words.astype(np.int64))
            return pa.Array.from_buffers(self.decimal, rows, [validity, data])
        widened = pa.allocate_buffer(rows * 16)
        widen_to_decimals(words, np.frombuffer(widened, np.int64))
        return pa.Array.from_buffers(self.decimal, rows, [validity, widened])


def _is_decimal_of_same_scale(leaf: LeafColumn, column: ColumnSource) -> bool:
    """Whether the stored integers are the query's unscaled numbers."""
    is_decimal = column.reading is Reading.DECIMAL and leaf.logical_type == "DECIMAL"
    return is_decimal and leaf.scale == column.dtype.scale


def _type_to_read(stored: pa.DataType, wanted: pa.DataType, is_coded: bool) -> pa.DataType:
    if pa.types.is_temporal(wanted):
        return wanted  # a date, an instant or a duration: the same word
    both_whole = pa.types.is_integer(stored) and pa.types.is_integer(wanted)
    return wanted if is_coded and both_whole else stored


def _decoded(source: pa.NativeFile, columns: list[_StoredColumn], rows: Rows | None) -> dict[str, pa.Array]:
    chunks = [chunk for column in columns for chunk in column.chunks]
    chosen = None if rows is None else _Chosen.of(rows, columns[0].chunks)
    count = columns[0].rows if rows is None else len(rows)
    buffers = [pa.allocate_buffer(count * column.width + SLACK) for column in columns]
    valid = pooled(len(columns) * count, np.uint8)
    missing = np.empty(len(chunks), np.int64)
    scratch = [
        pa.allocate_buffer(max(sizes) + SLACK) for sizes in zip(*(chunk.buffer_sizes for chunk in chunks), strict=True)
    ]
    addresses = np.array([buffer.address for buffer in scratch])
    pages = np.concatenate([chunk.pages for chunk in chunks])
    table = _table(columns, buffers, chosen)
    if chosen is None:
        decode_numbers(descriptor_of(source), table, pages, addresses, valid, missing)
    else:
        decode_chosen_numbers(descriptor_of(source), table, pages, addresses, chosen.rows, valid, missing)
    arrays = {}
    for number, (column, buffer) in enumerate(zip(columns, buffers, strict=True)):
        counts = missing[number * len(column.chunks) : (number + 1) * len(column.chunks)]
        if (counts != BROKEN).all():
            validity = bits_of(valid[number * count : (number + 1) * count]) if counts.any() else None
            arrays[column.name] = column.array(count, validity, buffer)
    return arrays


@dataclass(frozen=True, eq=False)
class _Chosen:
    """Rows within their chunks, the same for all columns; the first of each chunk, and how many it has."""

    rows: Rows
    firsts: list[int]
    counts: list[int]

    @classmethod
    def of(cls, rows: Rows, chunks: list[StoredChunk]) -> _Chosen:
        ends = np.cumsum([chunk.rows for chunk in chunks])
        cuts = [0, *np.searchsorted(rows, ends).tolist()]
        counts = np.diff(cuts)
        starts = ends - [chunk.rows for chunk in chunks]
        return cls(rows - np.repeat(starts, counts), cuts[:-1], counts.tolist())


def _table(columns: list[_StoredColumn], buffers: list[pa.Buffer], chosen: _Chosen | None) -> Rows:
    """The chunks in the form of `decode_numbers` and `decode_chosen_numbers`."""
    table = []
    first_page = first_row = 0
    for column, buffer in zip(columns, buffers, strict=True):
        out = buffer.address
        for number, (chunk, data, unpacked) in enumerate(zip(column.chunks, column.read, column.unpacked, strict=True)):
            table.append(
                (
                    first_page,
                    len(chunk.pages),
                    _IN_THE_FILE if data is None else data.address,
                    chunk.start,
                    0 if unpacked is None else unpacked.address,
                    column.stored_width,
                    column.width,
                    out,
                    first_row,
                    0 if chosen is None else chosen.firsts[number],
                    0 if chosen is None else chosen.counts[number],
                )
            )
            first_page += len(chunk.pages)
            rows = chunk.rows if chosen is None else chosen.counts[number]
            first_row += rows
            out += rows * column.width
    return np.array(table, np.int64)
