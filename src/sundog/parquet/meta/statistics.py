"""Statistics as bounds: one slot per row group, in ranks, with "unknown" as a value of its own.

A footer's statistics describe the non-NULL values of a column chunk. `Bounds` is what may be concluded from them about
the *query's* column, and nothing more:

| in the footer | bound |
|---|---|
| no statistics, or only one of min and max; INT96 | both unknown |
| integers, date, timestamp, boolean, decimal | low = min, high = max, brought to the query's unit and scale |
| string, binary | low = min, high = max. A truncated min is low enough; a writer that truncates max raises it. |
| decimal in bytes by parquet-mr before 1.10, or by a nameless writer | both unknown: they compared bytes as signed |
| float, double: min, max, or both NaN | that one unknown (max: NaN is possible) |
| float, double by parquet-mr 1.10 to 1.17 | low = min, high = max: these writers put a NaN into max if there is any |
| float, double by anyone else | low = min, high = NaN: bounds are taken over the other values, NaN sorts above all |
| a date or time that may need a rebase | both unknown |
| null count missing | NULLs and values both possible |
| null count = rows | no values; = 0: no NULLs |
| partition column | low = high = its value: exact; NULL if it has none |
| column not in the file | NULLs only |

Bounds need not be attained: nothing here relies on a bound being a value of the row group.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.expr.buffers import Bools
from sundog.expr.ranks import NAN_RANK, Rank, float_rank, ranks_of_values
from sundog.parquet.meta.file_layout import FileLayout
from sundog.parquet.meta.file_schema import ColumnSource, Reading
from sundog.parquet.meta.footer import Footer
from sundog.parquet.reading import DataFile, FileColumn, PartitionColumn

Ranks = npt.NDArray[np.object_]
_MICROS_PER_DAY = 86_400_000_000
_SORTS_DECIMAL_BYTES_WRONG = re.compile(r"$|parquet-mr version 1\.\d(\D|$)")
_NAN_IS_IN_MAX = re.compile(r"parquet-mr version 1\.1[0-7]\.")


@dataclass(frozen=True)
class Bounds:
    """What is known of an expression's values in each row group. A slot that is not known holds None. Never changed.

    `nulls` and `values` say whether there may be NULLs and non-NULLs at all; `null_counts` is -1 where unknown. `safe`
    is False where evaluating the expression might raise an error that pruning must not hide.
    """

    dtype: pa.DataType
    low: Ranks
    high: Ranks
    nulls: Bools
    values: Bools
    null_counts: npt.NDArray[np.int64]
    safe: Bools

    def __len__(self) -> int:
        return len(self.low)

    @classmethod
    def unknown(cls, dtype: pa.DataType, slots: int, safe: bool) -> Bounds:
        nothing = np.full(slots, None, np.object_)
        yes = np.ones(slots, np.bool_)
        return cls(dtype, nothing, nothing, yes, yes, np.full(slots, -1, np.int64), np.full(slots, safe, np.bool_))

    @classmethod
    def constant(cls, dtype: pa.DataType, rank: Rank | None, rows: npt.NDArray[np.int64]) -> Bounds:
        slots = len(rows)
        filled = np.full(slots, None, np.object_)
        filled[:] = rank
        is_null = np.full(slots, rank is None, np.bool_)
        yes = np.ones(slots, np.bool_)
        return cls(dtype, filled, filled, is_null, ~is_null, np.where(is_null, rows, 0), yes)


class Statistics(Protocol):
    """Bounds of columns, one slot per row group (or one for a whole file)."""

    rows: npt.NDArray[np.int64]

    def __len__(self) -> int: ...

    def column(self, name: str) -> Bounds: ...


class PartitionStatistics:
    """What a file's partition values say before its footer is read: one slot, of an unknown number of rows."""

    def __init__(
        self, partition_columns: Sequence[PartitionColumn], file_columns: Sequence[FileColumn], file: DataFile
    ) -> None:
        self.rows = np.ones(1, np.int64)
        self._partitions = {
            column.name: (column.dtype, file.partition_values[column.index]) for column in partition_columns
        }
        self._types = {column.name: column.dtype for column in file_columns}

    def __len__(self) -> int:
        return 1

    def column(self, name: str) -> Bounds:
        if name not in self._partitions:
            return Bounds.unknown(self._types[name], 1, safe=True)
        dtype, value = self._partitions[name]
        return Bounds.constant(dtype, ranks_of_values([value], dtype)[0], self.rows)


class FileStatistics:
    """Bounds of one file's columns, made when asked for."""

    def __init__(self, layout: FileLayout) -> None:
        self._layout = layout
        self.rows = layout.footer.row_counts
        self._bounds: dict[str, Bounds] = {}

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> Bounds:
        found = self._bounds.get(name)
        if found is None:
            found = self._bounds[name] = self._make(name)
        return found

    def _make(self, name: str) -> Bounds:
        source = self._layout.by_name[name]
        if isinstance(source, PartitionColumn):
            value = self._layout.file.partition_values[source.index]
            return Bounds.constant(source.dtype, ranks_of_values([value], source.dtype)[0], self.rows)
        if source.leaf < 0:
            return Bounds.constant(source.dtype, ranks_of_values([source.default], source.dtype)[0], self.rows)
        return _bounds_once(source, self._layout.footer)


def _bounds_once(source: ColumnSource, footer: Footer) -> Bounds:
    key = (Bounds, replace(source, name=""))
    known: Bounds | None = footer.derived.get(key)
    if known is None:
        known = footer.derived[key] = _column_bounds(source, footer, footer.row_counts)
    return known


def _column_bounds(source: ColumnSource, footer: Footer, rows: npt.NDArray[np.int64]) -> Bounds:
    raw = footer.raw_statistics(source.leaf)
    low = _objects(_rank(value, source) for value in raw.lows)
    high = _objects(_rank(value, source) for value in raw.highs)
    physical_type = footer.leaf(source.leaf).physical_type
    if physical_type in ("FLOAT", "DOUBLE"):
        low, high = _with_nan(low, high, footer.created_by)
    is_bytes_decimal = source.reading is Reading.DECIMAL and "BYTE_ARRAY" in physical_type
    if is_bytes_decimal and _SORTS_DECIMAL_BYTES_WRONG.match(footer.created_by):
        low[:] = high[:] = None
    if source.earliest is not None:
        early = np.array([bound is None or bound < source.earliest for bound in low], np.bool_)
        low[early] = None
        high[early] = None
    null_counts = np.array([-1 if count is None else count for count in raw.null_counts], np.int64)
    nulls, values = null_counts != 0, null_counts != rows
    return Bounds(source.dtype, low, high, nulls, values, null_counts, np.ones(len(rows), np.bool_))


def _objects(values: Iterable[Any]) -> Ranks:
    items = list(values)
    result = np.full(len(items), None, np.object_)
    result[:] = items
    return result


def _with_nan(low: Ranks, high: Ranks, created_by: str) -> tuple[Ranks, Ranks]:
    nan_in_low = low == NAN_RANK
    low[nan_in_low] = None
    if _NAN_IS_IN_MAX.match(created_by):
        high[nan_in_low] = NAN_RANK
    else:
        high[:] = NAN_RANK
    return low, high


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
    if isinstance(raw, bytes):
        return raw
    if pa.types.is_floating(source.dtype):
        return float_rank(float(raw))
    return int(raw)
