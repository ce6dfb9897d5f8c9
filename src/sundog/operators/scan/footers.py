"""Footers read by a job on the executors: a plan over 100,000 files needs all footers, and one driver reads about 500 a
second.

    driver: files ──► tasks ──► footers ──► columns that the plan uses, as Arrow ──► driver: one table of footers

The job returns a list for each column of `TableFooters` (bounds, NULL counts and bytes of the columns used), not the
footers. If a task cannot read a file, it reports only that: the driver reads the file again, so that the error is the
same as for a plan on the driver. The driver also compares each file's stamp with the present one (`JobFooters.read`).
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from sundog.expr.rank_columns import RankColumn
from sundog.operators.base import Described
from sundog.operators.context import TaskContext
from sundog.operators.sources import Source
from sundog.parquet.meta.table_footers import (
    ColumnBounds,
    ColumnFacts,
    ColumnKey,
    TableFooters,
    current_stamps,
    read_as_columns,
)
from sundog.parquet.problems import FileProblem, FileSchemaProblem
from sundog.parquet.reading import DataFile, ReadSpec

FILES_IN_BATCH = 256
_DEVICE = 4  # index of the device number in a stamp; it differs between machines


@dataclass(frozen=True)
class FooterScan(Source, Described):
    """Reads the footers of some files of a job. `JobFooters` takes its batches."""

    name = "FooterScan"

    files: tuple[DataFile, ...]
    reading: ReadSpec
    bounded: frozenset[str]
    files_in_job: int

    @property
    def details(self) -> str:
        return f"files={self.files_in_job}"

    @property
    def steps(self) -> tuple[Described, ...]:
        return (self,)

    def read(self, context: TaskContext) -> Iterator[pa.RecordBatch]:
        for first in range(0, len(self.files), FILES_IN_BATCH):
            context.check_cancelled()
            found = self._readable(self.files[first : first + FILES_IN_BATCH])
            if found is not None:
                context.metrics.add("footers_read_executors", len(found.paths))
                yield to_batch(found, self.reading)

    def _readable(self, files: Sequence[DataFile]) -> TableFooters | None:
        """The footers of the readable files, found by halving the list."""
        try:
            return read_as_columns(files, self.reading, self.bounded)
        except (FileProblem, FileSchemaProblem, OSError):
            if len(files) == 1:
                return None
        half = len(files) // 2
        found = [self._readable(part) for part in (files[:half], files[half:])]
        return TableFooters.concat(there) if (there := [part for part in found if part is not None]) else None


def footer_scans(
    files: Sequence[DataFile], reading: ReadSpec, bounded: frozenset[str], tasks: int
) -> tuple[FooterScan, ...]:
    """The files in at most `tasks` tasks, neighbours together."""
    share = -(-len(files) // tasks)
    return tuple(
        FooterScan(tuple(files[first : first + share]), reading, bounded, len(files))
        for first in range(0, len(files), share)
    )


class JobFooters:
    """What the tasks of a job have read, checked by the driver."""

    def __init__(self, batches: Sequence[pa.RecordBatch], reading: ReadSpec) -> None:
        parts = [from_batch(batch.slice(row, 1), reading) for batch in batches for row in range(batch.num_rows)]
        self._found = TableFooters.concat(parts) if parts else None

    def read(self, files: Sequence[DataFile], reading: ReadSpec, bounded: frozenset[str]) -> TableFooters:
        """As `read_as_columns`: files that no task could read, or that have changed since, are read here."""
        found = self._found
        if found is None or found.lacks(reading, bounded):
            return read_as_columns(files, reading, bounded)
        stamps = current_stamps(files, reading)
        numbers = np.array([found.number_of.get(file.path, -1) for file in files], np.int64)
        same = (found.stamps[numbers, :_DEVICE] == stamps[:, :_DEVICE]).all(axis=1) & (numbers >= 0)
        taken = replace(found.take(numbers[same]), stamps=stamps[same])
        if same.all():
            return taken
        rest = read_as_columns([file for file, known in zip(files, same, strict=True) if not known], reading, bounded)
        return TableFooters.concat([taken, rest]).take(np.argsort(np.argsort(~same, kind="stable")))


def to_batch(footers: TableFooters, reading: ReadSpec) -> pa.RecordBatch:
    """One row, with a list for each column."""
    lists: dict[str, pa.Array] = {
        "paths": pa.array(footers.paths, pa.string()),
        "stamps": pa.array(footers.stamps.reshape(-1)),
        "starts": pa.array(footers.starts),
        "row_counts": pa.array(footers.row_counts),
        "byte_counts": pa.array(footers.byte_counts),
    }
    for number, column in enumerate(reading.file_columns):
        facts = footers.columns[ColumnKey.of(column, reading.options)]
        lists[f"sources{number}"] = pa.array([pickle.dumps(facts.sources)], pa.binary())
        lists[f"source_of{number}"] = pa.array(facts.source_of)
        lists[f"sizes{number}"] = pa.array(facts.sizes.astype(np.int64))
        if facts.bounds is not None:
            lists[f"low{number}"] = _ranks_to_array(facts.bounds.low, column.dtype)
            lists[f"high{number}"] = _ranks_to_array(facts.bounds.high, column.dtype)
            lists[f"null_counts{number}"] = pa.array(facts.bounds.null_counts)
    arrays = [pa.LargeListArray.from_arrays(pa.array([0, len(each)], pa.int64()), each) for each in lists.values()]
    return pa.RecordBatch.from_arrays(arrays, names=list(lists))


def from_batch(batch: pa.RecordBatch, reading: ReadSpec) -> TableFooters:
    """The inverse of `to_batch`."""
    lists = {name: batch.column(name).flatten() for name in batch.schema.names}

    def numbers(name: str) -> Any:
        return lists[name].to_numpy(zero_copy_only=False)

    columns: dict[ColumnKey, ColumnFacts] = {}
    for number, column in enumerate(reading.file_columns):
        bounds = None
        if f"low{number}" in lists:
            low, high = (_ranks_from_array(lists[f"{end}{number}"]) for end in ("low", "high"))
            bounds = ColumnBounds(low, high, numbers(f"null_counts{number}"))
        sources = pickle.loads(lists[f"sources{number}"][0].as_py())
        columns[ColumnKey.of(column, reading.options)] = ColumnFacts(
            sources, numbers(f"source_of{number}"), numbers(f"sizes{number}"), bounds
        )
    stamps = numbers("stamps").reshape(len(lists["paths"]), -1)
    starts, row_counts, byte_counts = (numbers(name) for name in ("starts", "row_counts", "byte_counts"))
    return TableFooters(tuple(lists["paths"].to_pylist()), stamps, starts, row_counts, byte_counts, columns)


def _ranks_to_array(ranks: RankColumn, dtype: pa.DataType) -> pa.Array:
    """Words as integers, strings as they are, wide decimals as decimals."""
    if ranks.words is not None:
        return pa.array(ranks.words, mask=~ranks.known)
    return ranks.values if isinstance(ranks.values, pa.Array) else ranks.to_array(dtype)


def _ranks_from_array(array: pa.Array) -> RankColumn:
    return RankColumn.of_texts(array) if pa.types.is_large_binary(array.type) else RankColumn.of_array(array)
