"""Parquet files and how to read them: columns and their names, options that change their meaning, and how to open
them.

Nothing here opens a file. A table lists the files (`tables/table.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa


@dataclass(frozen=True)
class DataFile:
    """One Parquet file when the query was planned. `partition_values` are Python values, in the table's order.

    `modified_ms`: its present modification time, 0 if unknown.
    `deletes`: the paths of files that list those of its rows that are no longer part of the table.
    """

    path: str
    size: int
    modified_ms: int
    partition_values: tuple[Any, ...] = ()
    deletes: tuple[str, ...] = ()


@dataclass(frozen=True)
class FileColumn:
    """A column to read: its name in the files, and its type in the query.

    With a `field_id` it is found by that alone, whatever its name in a file.
    `default` is the value in files that do not hold the column, as `pa.scalar(default, dtype)` takes it.
    """

    name: str
    file_name: str
    dtype: pa.DataType
    default: Any = None
    field_id: int | None = None


@dataclass(frozen=True)
class PartitionColumn:
    """A column whose value is the same in the whole file: entry `index` of `DataFile.partition_values`."""

    name: str
    index: int
    dtype: pa.DataType


@dataclass(frozen=True)
class ReadOptions:
    """Options that change the meaning of the bytes, or of a failure to read them."""

    case_sensitive: bool = False
    ignore_missing_files: bool = False
    datetime_rebase_mode: str = "CORRECTED"  # for files that do not name the Spark version that wrote them
    int96_rebase_mode: str = "CORRECTED"
    widens: bool = True  # whether this Spark reads a column as a wider type than the stored one
    int96_conversion: bool = False  # shift INT96 of writers other than parquet-mr by the session's zone
    decoder: str = "own"  # or "arrow": `spark.sundog.decoder`


@dataclass(frozen=True)
class ReadSpec:
    """How files are read, whichever files: sent to a task once, beside its files."""

    file_columns: tuple[FileColumn, ...]
    partition_columns: tuple[PartitionColumn, ...] = ()
    options: ReadOptions = ReadOptions()
    # How to open the paths, for parquet/filesystem.py; () is local. Keys of object stores are in it: never to be shown.
    filesystem: tuple[tuple[str, str], ...] = field(default=(), repr=False)
