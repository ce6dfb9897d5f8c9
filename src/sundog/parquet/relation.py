"""A set of Parquet files with Spark's schema: everything the front end found out about a leaf of the plan.

Nothing here opens a file. Paths, sizes and times are those of Spark's own listing, after its partition pruning.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa


@dataclass(frozen=True)
class DataFile:
    """One Parquet file as Spark listed it. `partition_values` are Python values, in the relation's order."""

    path: str
    size: int
    modified_ms: int
    partition_values: tuple[Any, ...] = ()


def in_reading_order(files: tuple[DataFile, ...]) -> tuple[DataFile, ...]:
    """The files as the tasks of Spark's scan take them: the largest first, equal ones as listed.

    `first`, the ties of `max_by`, and which of -0.0 and 0.0 is the minimum, show that order. It is Spark's wherever a file
    is one split; of files larger than `spark.sql.files.maxPartitionBytes` Spark takes the shorter last splits later.
    """
    return tuple(sorted(files, key=lambda file: -file.size))


@dataclass(frozen=True)
class FileColumn:
    """A column to read: under which name it is found in the files, and what it must come out as.

    `default` is the value in files that do not hold the column, as `pa.scalar(default, dtype)` takes it.
    """

    name: str
    file_name: str
    dtype: pa.DataType
    default: Any = None


@dataclass(frozen=True)
class PartitionColumn:
    """A column whose value is the same in the whole file: entry `index` of `DataFile.partition_values`."""

    name: str
    index: int
    dtype: pa.DataType


@dataclass(frozen=True)
class ReadOptions:
    """What changes the meaning of the bytes or of a failure to read them."""

    case_sensitive: bool = False
    ignore_missing_files: bool = False
    ignore_corrupt_files: bool = False
    datetime_rebase_mode: str = "CORRECTED"  # for files that do not name the Spark version that wrote them
    int96_rebase_mode: str = "CORRECTED"
    widens: bool = True  # whether this Spark reads a column as a wider type than the stored one
    int96_conversion: bool = False  # shift INT96 of writers other than parquet-mr by the session's zone
    decoder: str = "own"  # or "arrow": `spark.sundog.decoder`


@dataclass(frozen=True)
class Relation:
    """The files, what to read of them and under which names."""

    files: tuple[DataFile, ...]
    file_columns: tuple[FileColumn, ...]
    partition_columns: tuple[PartitionColumn, ...] = ()
    options: ReadOptions = ReadOptions()
    # How to open the paths, for parquet/filesystem.py; () is local. Keys of object stores are in it: never to be shown.
    filesystem: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    label: str = "parquet"  # for people: a table name or the common folder
