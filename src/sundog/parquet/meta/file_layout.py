"""The columns that a query reads of one file, resolved against its footer: where each is stored, and its size.

Pruning and reading both start from it. It opens no file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from sundog.parquet.meta.file_schema import ColumnSource, resolve_columns
from sundog.parquet.meta.footer import Footer
from sundog.parquet.reading import DataFile, PartitionColumn, ReadSpec
from sundog.types import is_text

_DELTA_ENCODINGS = 0b1110_0000  # DELTA_BINARY_PACKED, DELTA_LENGTH_BYTE_ARRAY, DELTA_BYTE_ARRAY
_BYTES_OF_A_LENGTH = 4
_BYTES_OF_A_VIEW = 16


@dataclass(frozen=True)
class FileLayout:
    """The columns that a query reads of one file, resolved against its footer. Opens no file."""

    file: DataFile
    footer: Footer
    sources: tuple[ColumnSource, ...]
    partition_columns: tuple[PartitionColumn, ...]

    @classmethod
    def of(cls, reading: ReadSpec, file: DataFile, footer: Footer) -> FileLayout:
        sources = resolve_columns(footer, reading.file_columns, reading.options)
        return cls(file, footer, sources, reading.partition_columns)

    @cached_property
    def by_name(self) -> dict[str, ColumnSource | PartitionColumn]:
        found: dict[str, ColumnSource | PartitionColumn] = {source.name: source for source in self.sources}
        return found | {column.name: column for column in self.partition_columns}

    def stored(self, names: Sequence[str]) -> list[ColumnSource]:
        """The columns among `names` that the file has."""
        found = (self.by_name[name] for name in names)
        return [source for source in found if isinstance(source, ColumnSource) and source.leaf >= 0]

    def constant(self, name: str, rows: int) -> pa.Array:
        """The column's constant value: a partition value; the default, or NULLs, of a column that the file lacks."""
        source = self.by_name[name]
        value = self.file.partition_values[source.index] if isinstance(source, PartitionColumn) else source.default
        return pa.nulls(rows, source.dtype) if value is None else pa.repeat(pa.scalar(value, source.dtype), rows)

    def is_text(self, source: ColumnSource) -> bool:
        """Whether the stored bytes are the query's strings. Not for decimals, nor for bytes that are not annotated as
        UTF-8."""
        if pa.types.is_string(source.dtype):
            return self.footer.leaf(source.leaf).logical_type == "STRING"
        return bool(pa.types.is_binary(source.dtype))

    def is_dictionary(self, source: ColumnSource, row_group: int) -> bool:
        """Whether a string column is stored as a dictionary throughout: if it takes less space than the lengths of its
        strings alone."""
        leaf = self.footer.leaf(source.leaf)
        if leaf.physical_type != "BYTE_ARRAY" or not is_text(source.dtype):
            return False
        if self.footer.chunk(row_group, source.leaf).encodings & _DELTA_ENCODINGS:
            return False  # these are small as well, without a dictionary
        _, uncompressed = self.footer.chunk_size(row_group, source.leaf)
        return uncompressed < _BYTES_OF_A_LENGTH * int(self.footer.row_counts[row_group])

    def column_bytes(self, names: Sequence[str], row_group: int) -> tuple[int, int]:
        """Compressed and uncompressed bytes of these columns in a row group."""
        compressed = uncompressed = 0
        for source in self.stored(names):
            stored, decoded = self.footer.chunk_size(row_group, source.leaf)
            compressed += stored
            uncompressed += decoded
        return compressed, uncompressed

    def memory_bytes(self, names: Sequence[str], row_group: int) -> int:
        """Bytes of the decoded columns: at least a value for each row, however small they are stored.

        A run of two billion NULLs takes ten bytes in a file.
        """
        rows = int(self.footer.row_counts[row_group])
        stored = {source.name: self.footer.chunk_size(row_group, source.leaf)[1] for source in self.stored(names)}
        return sum(max(stored.get(name, 0), rows * self._bytes_of_value(name)) for name in names)

    def _bytes_of_value(self, name: str) -> int:
        source = self.by_name[name]
        if isinstance(source, PartitionColumn) and is_text(source.dtype):
            return len(self.file.partition_values[source.index] or "") + _BYTES_OF_A_LENGTH
        if pa.types.is_null(source.dtype):  # a partition column of NULLs only
            return 0
        return _BYTES_OF_A_VIEW if is_text(source.dtype) else (int(source.dtype.bit_width) + 7) // 8
