"""Bounds of all row groups of a table at once, for predicates, sort keys and joins."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sundog.parquet.meta.statistics import Bounds, partition_ranks
from sundog.parquet.meta.table_footers import ColumnFacts, ColumnKey, TableFooters
from sundog.parquet.problems import FileProblem, ProblemKind
from sundog.parquet.reading import DataFile, FileColumn, ReadSpec


class GetFooters(Protocol):
    """Footers of files as columns, with the bounds of the columns that are named."""

    def __call__(self, files: Sequence[DataFile], reading: ReadSpec, bounded: frozenset[str]) -> TableFooters: ...


class TableStatistics:
    """`Statistics` with a slot for each row group of the files, file after file."""

    def __init__(
        self, files: Sequence[DataFile], reading: ReadSpec, footers: TableFooters, get_footers: GetFooters
    ) -> None:
        """`get_footers` is called for bounds that were not known to be compared."""
        self.footers = footers
        self.rows = footers.row_counts
        self._files = files
        self._reading = reading
        self._get_footers = get_footers
        self._columns = {column.name: column for column in reading.file_columns}
        self._partitions = {column.name: column for column in reading.partition_columns}
        self._bounds: dict[str, Bounds] = {}

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def file_of(self) -> npt.NDArray[np.int64]:
        """The file of each row group."""
        return np.repeat(np.arange(len(self._files)), np.diff(self.footers.starts))

    def facts(self, name: str) -> ColumnFacts | None:
        """A column of the files; None for a partition column."""
        column = self._columns.get(name)
        return None if column is None else self.footers.columns[ColumnKey.of(column, self._reading.options)]

    def column(self, name: str) -> Bounds:
        found = self._bounds.get(name)
        if found is None:
            found = self._bounds[name] = self._make(name)
        return found

    def _make(self, name: str) -> Bounds:
        if name in self._partitions:
            column = self._partitions[name]
            return Bounds.constants(column.dtype, partition_ranks(self._files, column).take(self.file_of), self.rows)
        return self._stored(self._columns[name])

    def _stored(self, column: FileColumn) -> Bounds:
        key = ColumnKey.of(column, self._reading.options)
        bounds = self.footers.columns[key].bounds
        if bounds is None:
            again = self._get_footers(self._files, self._reading, frozenset((column.name,)))
            changed = np.flatnonzero((again.stamps != self.footers.stamps).any(axis=1))
            if len(changed):
                raise FileProblem(ProblemKind.CHANGED, self._files[int(changed[0])].path)
            self.footers.columns[key] = again.columns[key]
            bounds = again.columns[key].bounds
        assert bounds is not None, "they were asked for"
        return Bounds.stored(column.dtype, bounds.low, bounds.high, bounds.null_counts, self.rows)
