"""Small Parquet files with given properties, and the relation that describes them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from sundog.parquet.meta.footer import Footer, read_footer
from sundog.parquet.meta.table_footers import footers_as_columns
from sundog.parquet.prune.footer_tables import FooterTables
from sundog.parquet.prune.table_statistics import TableStatistics
from sundog.parquet.reading import DataFile, FileColumn, PartitionColumn, ReadOptions, ReadSpec
from sundog.tables.parquet_folder import ParquetFolder


def write_file(path: Path, groups: Sequence[pa.Table | pa.RecordBatch], **options: Any) -> Path:
    """One row group for each table."""
    with pq.ParquetWriter(path, groups[0].schema, **options) as writer:
        for group in groups:
            table = group if isinstance(group, pa.Table) else pa.Table.from_batches([group])
            writer.write_table(table, row_group_size=max(table.num_rows, 1))
    return path


def cut(table: pa.Table, rows: int) -> list[pa.Table]:
    """The table in parts of a given number of rows; an empty table is one empty part."""
    return [table.slice(start, rows) for start in range(0, table.num_rows, rows)] or [table]


def data_file(path: Path | str, values: tuple[Any, ...] = ()) -> DataFile:
    status = os.stat(path)
    return DataFile(str(path), status.st_size, status.st_mtime_ns // 1_000_000, values)


def footer_of(path: Path) -> Footer:
    footer = read_footer(data_file(path), ())
    assert footer is not None
    return footer


def statistics_of(table: ParquetFolder, footers: Sequence[Footer | None] | None = None) -> TableStatistics:
    """Bounds of all columns in all row groups, from the files' own footers unless others are given."""
    reading = ReadSpec(table.file_columns, table.partition_columns, table.options)
    known = [read_footer(file, ()) for file in table.files] if footers is None else footers
    columns = footers_as_columns(table.files, known, reading, {column.name for column in table.file_columns})
    return TableStatistics(table.files, reading, columns, FooterTables().get)


def damage(path: Path, data: st.DataObject) -> None:
    """Change a few bytes of the first column chunk."""
    chunk = pq.read_metadata(path).row_group(0).column(0)
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    raw = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(start, start + chunk.total_compressed_size - 1))
        raw[at] = data.draw(st.one_of(st.sampled_from([0, 1, 127, 128, 255]), st.integers(0, 255)))
    path.write_bytes(bytes(raw))


def relation(
    paths: Sequence[Path],
    schema: pa.Schema,
    partitions: Sequence[tuple[str, pa.DataType]] = (),
    values: Sequence[tuple[Any, ...]] | None = None,
    **options: Any,
) -> ParquetFolder:
    """Columns are known to the query by the names they have in the file."""
    return ParquetFolder(
        files=tuple(data_file(path, values[i] if values else ()) for i, path in enumerate(paths)),
        file_columns=tuple(FileColumn(field.name, field.name, field.type) for field in schema),
        partition_columns=tuple(PartitionColumn(name, i, dtype) for i, (name, dtype) in enumerate(partitions)),
        options=ReadOptions(**options),
    )
