"""The layout of a table's rows in files and row groups, and the interface of its generator.

A row group is made at once: a writer asks for the row groups of a file one by one and holds only one of them. So memory
is limited to a row group per writer, whatever the table's size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa


@dataclass(frozen=True)
class Layout:
    rows: int
    rows_per_group: int
    groups_per_file: int

    @property
    def group_count(self) -> int:
        return max(1, -(-self.rows // self.rows_per_group))

    @property
    def file_count(self) -> int:
        return -(-self.group_count // self.groups_per_file)

    def bounds(self, group: int) -> tuple[int, int]:
        """First row and end row of a row group; the last one may be short."""
        start = group * self.rows_per_group
        return start, min(start + self.rows_per_group, self.rows)

    def groups_of_file(self, file: int) -> range:
        start = file * self.groups_per_file
        return range(start, min(start + self.groups_per_file, self.group_count))


class TableGenerator(Protocol):
    """A picklable description of one table: all of its rows follow from it."""

    @property
    def layout(self) -> Layout: ...

    @property
    def schema(self) -> pa.Schema: ...

    def row_group(self, group: int) -> pa.RecordBatch: ...
