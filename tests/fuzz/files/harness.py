"""Everything that the reader does with a file, done to one file: only problems that name the file may come out of
it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sundog.columns.arrow import from_arrow, in_plain_form
from sundog.metrics import Metrics
from sundog.parquet.decode.late import RowPicker
from sundog.parquet.decode.reader import FileReader
from sundog.parquet.meta.file_layout import FileLayout
from sundog.parquet.meta.file_schema import resolve_columns
from sundog.parquet.meta.footer import FOOTERS, Footer, read_footer
from sundog.parquet.problems import FileProblem, FileSchemaProblem
from sundog.parquet.reading import DataFile, FileColumn, ReadOptions
from sundog.plan.costs import DRIVER
from sundog.tables.parquet_folder import ParquetFolder
from sundog.types import TIMESTAMP, TIMESTAMP_NTZ
from tests.parquet.files import statistics_of

_MAX_ROWS = 1 << 20  # of a row group that is read: damage may well say that a run of NULLs is longer

# Strings to Spark are bytes; and it takes decimals as wide as they are stored. Neither is an address or a length.
_HARMLESS = ("UTF8", "does not fit in precision")

Problem = (FileProblem, FileSchemaProblem)


class Finding(AssertionError):
    """The reader gave something that it must not give."""


def query_type(dtype: pa.DataType) -> pa.DataType:
    """What Spark would call a column of this type."""
    if pa.types.is_timestamp(dtype):
        return TIMESTAMP if dtype.tz or dtype.unit == "ns" else TIMESTAMP_NTZ  # nanoseconds: INT96
    if pa.types.is_fixed_size_binary(dtype):
        return pa.binary()
    if pa.types.is_uint32(dtype):
        return pa.int64()
    return dtype


def columns_of(schema: pa.Schema) -> tuple[FileColumn, ...]:
    flat = [field for field in schema if not pa.types.is_nested(field.type)]
    columns = [FileColumn(field.name, field.name, query_type(field.type)) for field in flat]
    return (*columns, FileColumn("absent", "absent", pa.int64()))


def exercise(path: Path, columns: tuple[FileColumn, ...]) -> str:
    """Read the file in all ways. What came of it, for counting: `read`, or why not."""
    status = os.stat(path)
    file = DataFile(str(path), status.st_size, status.st_mtime_ns // 1_000_000)
    FOOTERS.clear()
    try:
        footer = read_footer(file, ())
    except Problem as problem:
        return type(problem).__name__
    if footer is None:
        return "empty"
    _look_at(footer)
    outcomes = {_attempt(_read_column, file, footer, column) for column in columns}
    return "read" if outcomes == {"read"} else "partly" if "read" in outcomes else "unreadable"


def _attempt(read: Callable[..., object], *arguments: Any) -> str:
    try:
        return "refused" if read(*arguments) is False else "read"
    except Problem as problem:
        return type(problem).__name__


def _look_at(footer: Footer) -> None:
    """All that is asked of a footer."""
    footer.flat_columns(), footer.folded_columns(), footer.group_columns()
    for indexes in footer.flat_columns().values():
        for leaf in indexes:
            _attempt(footer.leaf, leaf)
            _attempt(footer.raw_statistics, leaf)
            for group in range(footer.num_row_groups):
                _attempt(footer.chunk_size, group, leaf)


def _read_column(file: DataFile, footer: Footer, column: FileColumn) -> bool:
    """Whether our decoder, with Arrow's help, reads all of it."""
    own, arrow = (
        ParquetFolder((file,), (column,), options=ReadOptions(decoder=decoder)) for decoder in ("own", "arrow")
    )
    layout = FileLayout.of(own, file, footer)
    resolve_columns(footer, (column,), own.options)
    statistics_of(own, [footer]).column(column.name)
    groups = [group for group, rows in enumerate(footer.row_counts.tolist()) if rows <= _MAX_ROWS]
    is_read = True
    for stored in (frozenset[str](), frozenset({column.name})):
        ours = _all_of(own, layout, column.name, groups, stored)
        theirs = _all_of(arrow, layout, column.name, groups, stored)
        if ours is not None and theirs is not None:
            _compare(ours, theirs)
        is_read &= ours is not None
    _attempt(_read_together, own, layout, column.name, groups)
    for group in groups:
        _attempt(_read_in_parts, own, layout, column.name, group)
        _attempt(_pick, own, layout, column.name, group)
    return is_read


def _all_of(
    relation: ParquetFolder, layout: FileLayout, name: str, groups: list[int], stored: frozenset[str]
) -> list[pa.Array] | None:
    arrays = []
    try:
        with FileReader(layout, relation, Metrics(), stored) as reader:
            for group in groups:
                for _ in range(2):  # the second time the pages are known
                    array = reader.read([group], [name])[0]
                    _check(array, int(layout.footer.row_counts[group]))
                arrays.append(in_plain_form(array))
    except Problem:
        return None
    return arrays


def _read_together(relation: ParquetFolder, layout: FileLayout, name: str, groups: list[int]) -> None:
    with FileReader(layout, relation, Metrics()) as reader:
        _check(reader.read(groups, [name])[0], int(layout.footer.row_counts[groups].sum()))


def _read_in_parts(relation: ParquetFolder, layout: FileLayout, name: str, group: int) -> None:
    with FileReader(layout, relation, Metrics()) as reader:
        parts: Iterator[list[pa.Array]] = reader.pieces(group, [name], 1000)
        rows = sum(_check(part[0], len(part[0])) for part in parts)
        if rows != layout.footer.row_counts[group]:
            raise Finding(f"{rows} rows in parts of {layout.footer.row_counts[group]}")


def _pick(relation: ParquetFolder, layout: FileLayout, name: str, group: int) -> None:
    rows = int(layout.footer.row_counts[group])
    if rows == 0:
        return
    with FileReader(layout, relation, Metrics()) as reader:
        picker = RowPicker(reader, DRIVER)
        wanted = np.unique(np.array([0, rows // 3, rows - 1]))
        _check(picker.take(group, [name], wanted)[0], len(wanted))
        for source in layout.stored([name]):  # pages are small here: no rows are few enough by themselves
            pages = reader.own.page_map(group, source.leaf)
            if pages is not None:
                _check(picker._from_pages(group, source, pages, wanted), len(wanted))


def _check(array: pa.Array, rows: int) -> int:
    if len(array) != rows:
        raise Finding(f"{len(array)} values for {rows} rows")
    if not pa.types.is_string_view(array.type):  # bytes that are no UTF-8 are strings to Spark
        try:
            array.validate(full=True)
        except pa.ArrowInvalid as problem:
            if not any(harmless in str(problem) for harmless in _HARMLESS):
                raise Finding(str(problem)) from problem
    _ = from_arrow(array).values
    return len(array)


def _compare(ours: list[pa.Array], theirs: list[pa.Array]) -> None:
    for own, arrow in zip(ours, theirs, strict=True):
        if not _bits(own).equals(_bits(arrow)):
            raise Finding("two decoders, two answers")


def _bits(array: pa.Array) -> pa.Array:
    """The values in a form in which NaN is equal to itself."""
    if pa.types.is_floating(array.type):
        return array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
    return array
