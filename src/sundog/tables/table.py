"""What a scan reads: the protocol of tables.

    front  ──►  Table  ──►  plan.logical.Scan  ──►  parquet.prune.access_plan  ──►  tasks of files and row groups

The front end recognises a table of Spark's plan and makes the object; all that is planned afterwards asks this protocol
alone. A new format is one file beside `parquet_folder.py` and its recognition in `front/relation/`.

Data is in Parquet files. A file's columns are found by the names that `FileColumn.file_name` gives them, or by
`FileColumn.field_id`, so a format may rename its columns. A file whose rows are partly deleted has the files that say
so in `DataFile.deletes`; nothing applies them yet, so a query that would read such a file is declined
(`parquet/prune/access_plan.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sundog.parquet.meta.statistics import Statistics
from sundog.parquet.reading import DataFile, FileColumn, PartitionColumn, ReadOptions


class Table(Protocol):
    """Files, columns, and what is known of a file before it is opened. Immutable."""

    @property
    def label(self) -> str:
        """For people: a name, or the common folder."""
        ...

    @property
    def snapshot(self) -> str | None:
        """The version of the table that the files make up, for people; None for files alone."""
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
        """Bounds of all columns that are known without opening a file, one slot for each of `files`; None if there are
        none."""
        ...
