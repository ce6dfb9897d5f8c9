"""Synthetic footers of a table that does not exist: rows, row groups, files, and the distribution of its keys.

    clustering 1     each row group has keys of its own, as in a log           [0..9] [10..19] [20..29]
    clustering 0     each row group has keys from everywhere                   [0..29] [0..29] [0..29]

The planner uses them like footers of real files, as long as no data is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.expr.rank_columns import Longs, RankColumn
from sundog.parquet.meta.file_schema import ColumnSource, Reading
from sundog.parquet.meta.table_footers import ColumnBounds, ColumnFacts, ColumnKey, TableFooters
from sundog.parquet.reading import DataFile, FileColumn
from sundog.tables.parquet_folder import ParquetFolder

_TEXT_ENDS = b"n00000000", b"n99999999"
_FILE_OVERHEAD = 100_000  # bytes of a file beside its column chunks
_STAMP = 5


@dataclass(frozen=True)
class SyntheticColumn:
    """A column of `bytes_per_value` stored bytes. `clustering` is that of its values in the order of the rows.

    `distinct`: how many values there are; None, as many as rows.
    """

    name: str
    dtype: pa.DataType
    bytes_per_value: float
    clustering: float = 0.0
    distinct: int | None = None


COLUMNS = (
    SyntheticColumn("time", pa.int64(), 8.0, clustering=1.0),
    SyntheticColumn("user", pa.int64(), 8.0),
    SyntheticColumn("amount", pa.float64(), 8.0),
    SyntheticColumn("name", pa.string(), 12.0),
)


@dataclass(frozen=True)
class SyntheticTable:
    """A table as `ParquetFolder` has it, and what its footers say."""

    table: ParquetFolder
    footers: TableFooters
    columns: tuple[SyntheticColumn, ...]

    def column(self, name: str) -> SyntheticColumn:
        """The column that a query calls `name`, which may end with an id (`key#3`)."""
        return next(each for each in self.columns if each.name == name.partition("#")[0])

    def rank_bounds(self, name: str) -> ColumnBounds:
        """Bounds of a column in all row groups."""
        own = next(each for each in self.table.file_columns if each.name == name)
        bounds = self.footers.columns[ColumnKey.of(own, self.table.options)].bounds
        assert bounds is not None, "synthetic columns have bounds"
        return bounds

    def sizes(self, name: str) -> npt.NDArray[Any]:
        """Uncompressed bytes of a column in all row groups."""
        own = next(each for each in self.table.file_columns if each.name == name)
        return self.footers.columns[ColumnKey.of(own, self.table.options)].sizes

    @classmethod
    def of(cls, rows: int, row_groups: int, files: int, columns: Sequence[SyntheticColumn] = COLUMNS) -> SyntheticTable:
        """Rows and row groups divided evenly; a remainder goes to the first ones. Numbers lie between 0 and `rows`."""
        if not 1 <= files <= row_groups <= rows:
            raise ValueError("a table has rows, no more row groups than rows, and no more files than row groups")
        row_counts = _even(rows, row_groups)
        groups = _even(row_groups, files)
        sizes = sum((_bytes(row_counts, column) for column in columns), np.zeros(row_groups, np.int64))
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(groups)])
        file_bytes = np.add.reduceat(sizes, starts[:-1]) + _FILE_OVERHEAD
        paths = tuple(f"/synthetic/part-{number:06d}.parquet" for number in range(files))
        file_columns = tuple(
            FileColumn(f"{column.name}#{number + 1}", column.name, column.dtype)
            for number, column in enumerate(columns)
        )
        table = ParquetFolder(
            tuple(DataFile(path, size, 0) for path, size in zip(paths, file_bytes.tolist(), strict=True)),
            file_columns,
            label="synthetic",
        )
        stamps = np.zeros((files, _STAMP), np.int64)
        stamps[:, 0] = file_bytes
        facts = {
            ColumnKey.of(own, table.options): _facts(column, number, row_counts, files)
            for number, (column, own) in enumerate(zip(columns, file_columns, strict=True))
        }
        return cls(table, TableFooters(paths, stamps, starts, row_counts, sizes, facts), tuple(columns))


def _even(total: int, parts: int) -> Longs:
    counts = np.full(parts, total // parts, np.int64)
    counts[: total % parts] += 1
    return counts


def _bytes(row_counts: Longs, column: SyntheticColumn) -> Longs:
    sizes: Longs = (row_counts * column.bytes_per_value).astype(np.int64)
    return sizes


def _facts(column: SyntheticColumn, leaf: int, row_counts: Longs, files: int) -> ColumnFacts:
    source = ColumnSource("", column.dtype, leaf, Reading.AS_IS)
    bounds = ColumnBounds(*_ends(column, row_counts), np.zeros(len(row_counts), np.int64))
    return ColumnFacts((source,), np.zeros(files, np.int32), _bytes(row_counts, column), bounds)


def _ends(column: SyntheticColumn, row_counts: Longs) -> tuple[RankColumn, RankColumn]:
    """The least and greatest value of each row group: a clustered column's are the numbers of its rows, widened on both
    sides."""
    if not pa.types.is_integer(column.dtype) and not pa.types.is_floating(column.dtype):
        low, high = (RankColumn.filled(end, len(row_counts), column.dtype) for end in _TEXT_ENDS)
        return low, high
    behind = np.cumsum(row_counts)
    total = int(behind[-1])
    if column.distinct is not None:
        low, high = (RankColumn.filled(end, len(row_counts), column.dtype) for end in (0, column.distinct - 1))
        return low, high
    reach = int((1.0 - column.clustering) * total)
    lows, highs = np.maximum(behind - row_counts - reach, 0), np.minimum(behind - 1 + reach, total - 1)
    low, high = (RankColumn.of_array(pa.array(each).cast(column.dtype, safe=False)) for each in (lows, highs))
    return low, high
