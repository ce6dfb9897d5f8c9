"""A set of Parquet files with Spark's schema: everything the front end found out about a file relation of the plan.

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
        """Partition values are in the names of folders."""
        return PartitionStatistics(self.partition_columns, self.file_columns, files) if self.partition_columns else None


def in_reading_order(files: tuple[DataFile, ...]) -> tuple[DataFile, ...]:
    """The files as the tasks of Spark's scan take them: the largest first, equal ones as listed.

    `first`, the ties of `max_by`, and which of -0.0 and 0.0 is the minimum, show that order. It is Spark's wherever a
    file is one split; of files larger than `spark.sql.files.maxPartitionBytes` Spark takes the shorter last splits
    later.
    """
    return tuple(sorted(files, key=lambda file: -file.size))
