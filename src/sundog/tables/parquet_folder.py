"""A set of Parquet files with Spark's schema: all facts that the front end has about a file relation of the plan.

Paths, sizes and times are those of Spark's own listing, after its partition pruning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sundog.parquet.meta.statistics import PartitionStatistics
from sundog.parquet.reading import DataFile, FileColumn, PartitionColumn, ReadOptions


@dataclass(frozen=True)
class ParquetFolder:
    """The `Table` of plain Parquet files."""

    files: tuple[DataFile, ...]
    file_columns: tuple[FileColumn, ...]
    partition_columns: tuple[PartitionColumn, ...] = ()
    options: ReadOptions = field(default_factory=ReadOptions)
    filesystem: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    label: str = "parquet"
    snapshot: None = None

    def known_statistics(self, files: Sequence[DataFile]) -> PartitionStatistics | None:
        """None: partition values are in the names of folders."""
        return PartitionStatistics(self.partition_columns, self.file_columns, files) if self.partition_columns else None


def in_reading_order(files: tuple[DataFile, ...]) -> tuple[DataFile, ...]:
    """The files in the order of Spark's scan: the largest first, equal ones as listed.

    `first`, ties of `max_by`, and whether -0.0 or 0.0 is the minimum depend on that order. It equals Spark's as long as
    a file is one split; for files larger than `spark.sql.files.maxPartitionBytes` Spark takes the shorter last splits
    later.
    """
    return tuple(sorted(files, key=lambda file: -file.size))
