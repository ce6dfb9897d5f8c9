"""Statistics as bounds: one slot per row group, in ranks, with "unknown" as a value of its own.

A footer's statistics describe the non-NULL values of a column chunk. `Bounds` are the conclusions that they allow about
the *query's* column:

| in the footer | bound |
|---|---|
| no statistics, or only one of min and max; INT96 | both unknown |
| integers, date, timestamp, boolean, decimal | low = min, high = max, converted to the query's unit and scale |
| string, binary | low = min, high = max, both cut to 64 bytes: cutting lowers a low one; a high one is raised |
| decimal in bytes by parquet-mr before 1.10, or by an unnamed writer | both unknown: they compared bytes as signed |
| float, double: min, max, or both NaN | that one unknown (max: NaN is possible) |
| float, double by parquet-mr 1.10 to 1.17 | low = min, high = max: these writers put a NaN into max if there is any |
| float, double by anyone else | low = min, high = NaN: bounds are taken over the other values, NaN sorts above all |
| a date or time that may need a rebase | both unknown |
| null count missing | NULLs and values both possible |
| null count = rows | no values; = 0: no NULLs |
| partition column | low = high = its value: exact; NULL if it has none |
| column not in the file | low = high = its default; NULLs only if it has none |

Bounds need not be attained: nothing here assumes that a bound is a value of the row group.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.expr.buffers import Bools, Indices
from sundog.expr.rank_columns import RankColumn, text_bounds
from sundog.expr.ranks import NAN_RANK, Rank, float_rank, ranks_of_values
from sundog.parquet.meta.file_schema import ColumnSource, Reading
from sundog.parquet.meta.file_statistics import RawStatistics
from sundog.parquet.meta.footer import Footer
from sundog.parquet.reading import DataFile, FileColumn, PartitionColumn
from sundog.types import is_text

_MICROS_PER_DAY = 86_400_000_000
_SORTS_DECIMAL_BYTES_WRONG = re.compile(r"$|parquet-mr version 1\.\d(\D|$)")
_NAN_IS_IN_MAX = re.compile(r"parquet-mr version 1\.1[0-7]\.")


@dataclass(frozen=True)
class Bounds:
    """The possible values of an expression in each row group. Immutable.

    `nulls` and `values`: whether there may be NULLs and non-NULLs at all; `null_counts` is -1 if unknown. `safe` is
    False if evaluating the expression might raise an error that pruning must not hide.
    """

    dtype: pa.DataType
    low: RankColumn
    high: RankColumn
    nulls: Bools
    values: Bools
    null_counts: npt.NDArray[np.int64]
    safe: Bools

    def __len__(self) -> int:
        return len(self.low)

    def take(self, slots: Indices) -> Bounds:
        return Bounds(
            self.dtype,
            self.low.take(slots),
            self.high.take(slots),
            self.nulls[slots],
            self.values[slots],
            self.null_counts[slots],
            self.safe[slots],
        )

    @classmethod
    def unknown(cls, dtype: pa.DataType, slots: int, safe: bool) -> Bounds:
        nothing = RankColumn.filled(None, slots, dtype)
        yes = np.ones(slots, np.bool_)
        return cls(dtype, nothing, nothing, yes, yes, np.full(slots, -1, np.int64), np.full(slots, safe, np.bool_))

    @classmethod
    def constant(cls, dtype: pa.DataType, rank: Rank | None, rows: npt.NDArray[np.int64]) -> Bounds:
        return cls.constants(dtype, RankColumn.filled(rank, len(rows), dtype), rows)

    @classmethod
    def constants(cls, dtype: pa.DataType, ranks: RankColumn, rows: npt.NDArray[np.int64]) -> Bounds:
        """Bounds of a column that has one value, or NULL, in each slot."""
        yes = np.ones(len(rows), np.bool_)
        return cls(dtype, ranks, ranks, ~ranks.known, ranks.known, np.where(ranks.known, 0, rows), yes)

    @classmethod
    def stored(
        cls,
        dtype: pa.DataType,
        low: RankColumn,
        high: RankColumn,
        null_counts: npt.NDArray[np.int64],
        rows: npt.NDArray[np.int64],
    ) -> Bounds:
        """Bounds of a column of a file, by its statistics."""
        return cls(dtype, low, high, null_counts != 0, null_counts != rows, null_counts, np.ones(len(rows), np.bool_))


class Statistics(Protocol):
    """Bounds of columns, one slot per row group (or one for a whole file)."""

    rows: npt.NDArray[np.int64]

    def __len__(self) -> int: ...

    def column(self, name: str) -> Bounds: ...


class PartitionStatistics:
    """`Statistics` from partition values alone, before footers are read: one slot per file, as if of one row each."""

    def __init__(
        self,
        partition_columns: Sequence[PartitionColumn],
        file_columns: Sequence[FileColumn],
        files: Sequence[DataFile],
    ) -> None:
        self.rows = np.ones(len(files), np.int64)
        self._files = files
        self._partitions = {column.name: column for column in partition_columns}
        self._types = {column.name: column.dtype for column in file_columns}

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> Bounds:
        if name not in self._partitions:
            return Bounds.unknown(self._types[name], len(self), safe=True)
        column = self._partitions[name]
        return Bounds.constants(column.dtype, partition_ranks(self._files, column), self.rows)


def partition_ranks(files: Sequence[DataFile], column: PartitionColumn) -> RankColumn:
    """The values of a partition column, one slot per file."""
    values = [file.partition_values[column.index] for file in files]
    return RankColumn.of(ranks_of_values(values, column.dtype), column.dtype)


def column_bounds(source: ColumnSource, footer: Footer) -> Bounds:
    """The bounds of the query's column, from the statistics of a column that the file has."""
    return bounds_by(footer.raw_statistics(source.leaf), source, footer, footer.row_counts)


def bounds_by(raw: RawStatistics, source: ColumnSource, footer: Footer, rows: npt.NDArray[np.int64]) -> Bounds:
    """The bounds of the query's column, from raw statistics of slots with `rows` rows."""
    low, high = _ranks(raw.lows, raw.highs, source)
    physical_type = footer.leaf(source.leaf).physical_type
    if physical_type in ("FLOAT", "DOUBLE"):
        low, high = _with_nan(low, high, footer.created_by)
    is_bytes_decimal = source.reading is Reading.DECIMAL and "BYTE_ARRAY" in physical_type
    if is_bytes_decimal and _SORTS_DECIMAL_BYTES_WRONG.match(footer.created_by):
        low = high = RankColumn.filled(None, len(low), source.dtype)
    if source.earliest is not None:
        late = low.at_least(source.earliest)
        low, high = low.only(late), high.only(late)
    null_counts = np.array([-1 if count is None else count for count in raw.null_counts], np.int64)
    return Bounds.stored(source.dtype, low, high, null_counts, rows)


def _ranks(lows: Sequence[Any], highs: Sequence[Any], source: ColumnSource) -> tuple[RankColumn, RankColumn]:
    if is_text(source.dtype):
        return text_bounds(lows, highs)
    low, high = (RankColumn.of([_rank(raw, source) for raw in ends], source.dtype) for ends in (lows, highs))
    return low, high


def _with_nan(low: RankColumn, high: RankColumn, created_by: str) -> tuple[RankColumn, RankColumn]:
    nan_in_low = low.at_least(NAN_RANK)
    low = low.only(~nan_in_low)
    assert high.words is not None, "floats have words"
    if not _NAN_IS_IN_MAX.match(created_by):
        return low, RankColumn.all_known(np.full(len(low), NAN_RANK, np.int64))
    return low, RankColumn(np.where(nan_in_low, NAN_RANK, high.words), high.known | nan_in_low)


def _rank(raw: Any, source: ColumnSource) -> Rank | None:
    """A bound of the physical type as a rank of the query's column."""
    if raw is None or source.reading is Reading.INT96:
        return None
    match source.reading:
        case Reading.DECIMAL:
            unscaled = int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else int(raw)
            return unscaled * int(10 ** (source.dtype.scale - source.stored_scale))
        case Reading.MILLISECONDS:
            return int(raw) * 1000
        case Reading.DAYS_TO_MICROSECONDS:
            return int(raw) * _MICROS_PER_DAY
        case Reading.UNSIGNED:
            return int(raw) % (1 << source.stored_bits)
    if pa.types.is_floating(source.dtype):
        return float_rank(float(raw))
    return int(raw)
