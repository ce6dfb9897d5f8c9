"""Columns of numbers of some row groups, decoded from their pages: in 50 to 80 % of the time that Arrow takes.

Numbers are moved as words, whatever they mean: dates, timestamps and floats are as wide as some integer. Where all rows
are numbers of dictionary entries, only the dictionary is brought to the width that the query wants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.kernels.pages.number_chunks import decode_numbers
from sundog.kernels.pages.parquet_values import BROKEN
from sundog.kernels.pages.snappy import SLACK
from sundog.parquet.decode.chunk_pages import StoredChunk, Unusual, bits_of, decompressed, descriptor_of, stored_chunk
from sundog.parquet.meta.file_schema import ColumnSource, Reading
from sundog.parquet.meta.footer import Footer

_STORED = {"INT32": pa.int32(), "FLOAT": pa.float32(), "INT64": pa.int64(), "DOUBLE": pa.float64()}
_IN_THE_FILE = 0  # instead of an address


def read_numbers(
    source: pa.NativeFile, footer: Footer, row_groups: Sequence[int], columns: list[ColumnSource]
) -> dict[str, pa.Array]:
    """Those of the columns that can be decoded here, each in the query's type or in the one that it is stored in."""
    found = [_Column.of(source, footer, row_groups, column) for column in columns]
    readable = [column for column in found if column is not None]
    return _decoded(source, readable) if readable else {}


@dataclass(frozen=True, eq=False)
class _Column:
    """A column's chunks, one behind the other; where they had to be read before, or decompressed, the bytes."""

    name: str
    dtype: pa.DataType
    stored_width: int
    chunks: list[StoredChunk]
    read: list[pa.Buffer | None]
    unpacked: list[pa.Buffer | None]

    @classmethod
    def of(
        cls, source: pa.NativeFile, footer: Footer, row_groups: Sequence[int], column: ColumnSource
    ) -> _Column | None:
        stored = _STORED.get(footer.leaf(column.leaf).physical_type)
        if stored is None or column.reading is not Reading.AS_IS:
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
        dtype = _type_to_read(stored, column.dtype, all(chunk.is_coded for chunk in chunks))
        return cls(column.name, dtype, stored.bit_width // 8, chunks, read, unpacked)

    @property
    def width(self) -> int:
        return int(self.dtype.bit_width) // 8

    @property
    def rows(self) -> int:
        return sum(chunk.rows for chunk in self.chunks)


def _type_to_read(stored: pa.DataType, wanted: pa.DataType, is_coded: bool) -> pa.DataType:
    if pa.types.is_temporal(wanted):
        return wanted  # a date, an instant or a duration: the same word
    both_whole = pa.types.is_integer(stored) and pa.types.is_integer(wanted)
    return wanted if is_coded and both_whole else stored


def _decoded(source: pa.NativeFile, columns: list[_Column]) -> dict[str, pa.Array]:
    chunks = [chunk for column in columns for chunk in column.chunks]
    buffers = [pa.allocate_buffer(column.rows * column.width + SLACK) for column in columns]
    valid = np.empty(sum(column.rows for column in columns), np.uint8)
    missing = np.empty(len(chunks), np.int64)
    scratch = [
        pa.allocate_buffer(max(sizes) + SLACK) for sizes in zip(*(chunk.buffer_sizes for chunk in chunks), strict=True)
    ]
    decode_numbers(
        descriptor_of(source),
        _table(columns, buffers),
        np.concatenate([chunk.pages for chunk in chunks]),
        np.array([buffer.address for buffer in scratch]),
        valid,
        missing,
    )
    arrays = {}
    first = first_chunk = 0
    for column, buffer in zip(columns, buffers, strict=True):
        counts = missing[first_chunk : first_chunk + len(column.chunks)]
        if (counts != BROKEN).all():
            validity = bits_of(valid[first : first + column.rows]) if counts.any() else None
            arrays[column.name] = pa.Array.from_buffers(column.dtype, column.rows, [validity, buffer])
        first += column.rows
        first_chunk += len(column.chunks)
    return arrays


def _table(columns: list[_Column], buffers: list[pa.Buffer]) -> npt.NDArray[np.int64]:
    """The chunks as `decode_numbers` wants them."""
    table = []
    first_page = first_row = 0
    for column, buffer in zip(columns, buffers, strict=True):
        out = buffer.address
        for chunk, data, unpacked in zip(column.chunks, column.read, column.unpacked, strict=True):
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
                )
            )
            first_page += len(chunk.pages)
            first_row += chunk.rows
            out += chunk.rows * column.width
    return np.array(table, np.int64)
