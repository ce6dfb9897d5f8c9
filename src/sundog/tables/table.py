"""The protocol of tables: what a scan reads.

    front  ──►  Table  ──►  plan.logical.Scan  ──►  parquet.prune.access_plan  ──►  tasks of files and row groups

The front end recognises a table in Spark's plan and makes the object; planner, pruning and operators use this protocol
alone. A new format is one file beside `parquet_folder.py` and its recognition in `front/relation/`.

Data is in Parquet files. A file's columns are found by `FileColumn.file_name` or `FileColumn.field_id`, so a format may
rename its columns. A file whose rows are partly deleted lists its delete files in `DataFile.deletes`. Nothing applies
them yet, so a query that would read such a file is declined (`parquet/prune/access_plan.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sundog.parquet.meta.statistics import Statistics
from sundog.parquet.reading import DataFile, FileColumn, PartitionColumn, ReadOptions


class Table(Protocol):
    """Files, columns, and facts that are known of a file before it is opened. Immutable."""

    @property
    def label(self) -> str:
        """The name shown to users: a table name, or the common folder."""
        ...

    @property
    def snapshot(self) -> str | None:
        """The version of the table that the files make up, shown to users; None if there are no versions."""
        ...

    @property
    def files(self) -> tuple[DataFile, ...]:
        """All files that may hold rows of the query, with their partition values and deletes, in the order of Spark's
        scan."""
        ...

    @property
    def file_columns(self) -> tuple[FileColumn, ...]:
        """The columns that files hold, and how each is found there."""
        ...

    @property
    def partition_columns(self) -> tuple[PartitionColumn, ...]:
        """The columns that are the same in a whole file."""
        ...

    @property
    def options(self) -> ReadOptions: ...

    @property
    def filesystem(self) -> tuple[tuple[str, str], ...]:
        """How to open the files (`ReadSpec.filesystem`)."""
        ...

    def known_statistics(self, files: Sequence[DataFile]) -> Statistics | None:
        """Bounds of all columns that are known without opening a file, one entry for each of `files`; None if there are
        none."""
        ...
