"""Rows out of an Arrow table, for versions whose pyspark has no conversion of its own, or one that is slow.

The Python types are those of Spark's own `collect`: binaries are bytearrays, instants are naive datetimes in the
process's local time. Nested types do not occur, as sundog puts out none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql.types import Row


def rows_of(table: pa.Table, names: Sequence[str], create_row: Callable[[Sequence[str], Any], Row]) -> list[Row]:
    """One row for each row of the table. `create_row` is pyspark's own."""
    if not names:
        return [create_row(names, ()) for _ in range(table.num_rows)]
    columns = [_values(column) for column in table.columns]
    return [create_row(names, values) for values in zip(*columns, strict=True)]


def _values(column: pa.ChunkedArray) -> list[Any]:
    values: list[Any] = column.to_pylist()
    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        return [None if value is None else bytearray(value) for value in values]
    if pa.types.is_timestamp(column.type) and column.type.tz is not None:
        return [None if value is None else _local(value) for value in values]
    return values


def _local(instant: datetime) -> datetime:
    return instant.astimezone().replace(tzinfo=None)
