"""Footers of many files as columns: rows, bytes and bounds of all row groups in arrays, without objects per row group.

    files        0          1     2 …            starts: first row group of each file
    row groups   0 1 2 3 4  5 6   7 8 9 …        row_counts, byte_counts; of each column: sizes, bounds, NULLs

A table of 100,000 files has a million row groups. As `Footer` objects they take 80 kB a file; here a row group takes 16
bytes, and some 30 for each column that is used. Bounds are kept for columns that a predicate, a sort key or a join
compares, bytes for the others as well.

`parquet/prune/footer_tables.py` keeps them as long as the files are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sundog.expr.buffers import Bools, Indices
from sundog.expr.rank_columns import RankColumn
from sundog.expr.ranks import ranks_of_values
from sundog.parquet.meta.file_metadata import FooterFrame
from sundog.parquet.meta.file_schema import ColumnSource, resolve_columns
from sundog.parquet.meta.footer import Footer, JoinedFooter, Stamp, is_ignored, read_footers, read_joined, stamp_of
from sundog.parquet.meta.statistics import column_bounds
from sundog.parquet.problems import FileProblem, FileSchemaProblem
from sundog.parquet.reading import DataFile, FileColumn, ReadOptions, ReadSpec

Longs = npt.NDArray[np.int64]
_STAMP_WORDS = 5
_PATH_BYTES = 120  # of a path as a Python string
PASSED_OVER = (0,) * _STAMP_WORDS  # stamp of a file that Spark would skip


@dataclass(frozen=True)
class ColumnKey:
    """A column as files know it, whatever its name in a query, with all that changes its meaning."""

    file_name: str
    field_id: int | None
    dtype: Any
    default: str
    options: ReadOptions

    @classmethod
    def of(cls, column: FileColumn, options: ReadOptions) -> ColumnKey:
        return cls(column.file_name, column.field_id, column.dtype, repr(column.default), options)


@dataclass(frozen=True, eq=False)
class ColumnBounds:
    """Bounds and NULLs (-1: unknown) of a column in all row groups."""

    low: RankColumn
    high: RankColumn
    null_counts: Longs

    @property
    def nbytes(self) -> int:
        return self.low.nbytes + self.high.nbytes + self.null_counts.nbytes

    def take(self, groups: Indices) -> ColumnBounds:
        return ColumnBounds(self.low.take(groups), self.high.take(groups), self.null_counts[groups])

    @classmethod
    def concat(cls, parts: Sequence[ColumnBounds]) -> ColumnBounds:
        lows, highs = (
            RankColumn.concat(ends) for ends in ([part.low for part in parts], [part.high for part in parts])
        )
        return cls(lows, highs, np.concatenate([part.null_counts for part in parts]))


@dataclass(frozen=True, eq=False)
class ColumnFacts:
    """A column in all row groups. `bounds` is None if it was never compared.

    `sources`: the forms in which files hold it. `source_of`: the number of the form for each file; -1 if it is skipped.
    """

    sources: tuple[ColumnSource, ...]
    source_of: npt.NDArray[np.int32]
    sizes: npt.NDArray[Any]  # uncompressed bytes
    bounds: ColumnBounds | None = None

    @property
    def nbytes(self) -> int:
        return self.source_of.nbytes + self.sizes.nbytes + (0 if self.bounds is None else self.bounds.nbytes)

    def take(self, files: Indices, groups: Indices) -> ColumnFacts:
        bounds = None if self.bounds is None else self.bounds.take(groups)
        return ColumnFacts(self.sources, self.source_of[files], self.sizes[groups], bounds)

    @classmethod
    def concat(cls, parts: Sequence[ColumnFacts]) -> ColumnFacts:
        numbers: dict[ColumnSource, int] = {}
        source_of = []
        for part in parts:
            own = np.array([*(numbers.setdefault(each, len(numbers)) for each in part.sources), -1], np.int32)
            source_of.append(own[part.source_of])
        sizes = np.concatenate([part.sizes for part in parts])
        bounds = [part.bounds for part in parts if part.bounds is not None]
        together = ColumnBounds.concat(bounds) if len(bounds) == len(parts) else None
        return cls(tuple(numbers), np.concatenate(source_of), sizes, together)


@dataclass(frozen=True, eq=False)
class TableFooters:
    """The contents of the footers of some files. Columns may be added; the rest never changes."""

    paths: tuple[str, ...]
    stamps: Longs  # files x 5
    starts: Longs  # of each file, and the end
    row_counts: Longs
    byte_counts: Longs
    columns: dict[ColumnKey, ColumnFacts] = field(default_factory=dict)
    footers: tuple[Footer | None, ...] = ()  # the objects, where files are few and have just been read

    @property
    def nbytes(self) -> int:
        own = sum(each.nbytes for each in (self.stamps, self.starts, self.row_counts, self.byte_counts))
        return own + _PATH_BYTES * len(self.paths) + sum(column.nbytes for column in self.columns.values())

    @cached_property
    def number_of(self) -> dict[str, int]:
        return {path: number for number, path in enumerate(self.paths)}

    @property
    def opened(self) -> Bools:
        """The files that have a footer."""
        return np.asarray(self.stamps.any(axis=1), np.bool_)

    def identity(self, number: int) -> Stamp:
        """`Footer.identity` of a file."""
        size, groups, rows = self._identities[number].tolist()
        return (size, groups, rows)

    @cached_property
    def _identities(self) -> Longs:
        behind = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.row_counts)])
        return np.stack([self.stamps[:, 0], np.diff(self.starts), np.diff(behind[self.starts])], axis=1)

    def groups_of(self, files: Indices) -> Indices:
        """The row groups of these files, file by file."""
        counts = self.starts[files + 1] - self.starts[files]
        behind = np.cumsum(counts)
        found: Indices = np.arange(int(counts.sum())) + np.repeat(self.starts[files] - (behind - counts), counts)
        return found

    def take(self, files: Indices) -> TableFooters:
        groups = self.groups_of(files)
        return TableFooters(
            tuple(self.paths[number] for number in files.tolist()),
            self.stamps[files],
            _starts(self.starts[files + 1] - self.starts[files]),
            self.row_counts[groups],
            self.byte_counts[groups],
            {key: column.take(files, groups) for key, column in self.columns.items()},
        )

    @classmethod
    def concat(cls, parts: Sequence[TableFooters]) -> TableFooters:
        """The files of all parts, with the columns that all have."""
        if len(parts) == 1:
            return parts[0]
        keys = [key for key in parts[0].columns if all(key in part.columns for part in parts[1:])]
        return cls(
            tuple(path for part in parts for path in part.paths),
            np.concatenate([part.stamps for part in parts]),
            _starts(np.concatenate([np.diff(part.starts) for part in parts])),
            np.concatenate([part.row_counts for part in parts]),
            np.concatenate([part.byte_counts for part in parts]),
            {key: ColumnFacts.concat([part.columns[key] for part in parts]) for key in keys},
        )

    def knows_less(self, key: ColumnKey, other: ColumnFacts) -> bool:
        """Whether `other` has more facts about a column."""
        own = self.columns.get(key)
        return own is None or (own.bounds is None and other.bounds is not None)

    def lacks(self, reading: ReadSpec, bounded: Iterable[str]) -> bool:
        """Whether a column, or the bounds of one of `bounded`, are unknown."""
        return any(
            known is None or (column.name in bounded and known.bounds is None)
            for column in reading.file_columns
            for known in (self.columns.get(ColumnKey.of(column, reading.options)),)
        )


def _starts(counts: Longs) -> Longs:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])


def footers_as_columns(
    files: Sequence[DataFile], footers: Sequence[Footer | None], reading: ReadSpec, bounded: Iterable[str]
) -> TableFooters:
    """The footers as columns. Raises FileSchemaProblem for a column that sundog does not read."""
    bounded = set(bounded)
    none = np.zeros(0, np.int64)
    counts = np.array([0 if footer is None else footer.num_row_groups for footer in footers], np.int64)
    stamps = [PASSED_OVER if footer is None else (*footer.stamp, 0, 0, 0)[:_STAMP_WORDS] for footer in footers]
    resolved = [
        () if footer is None else resolve_columns(footer, reading.file_columns, reading.options) for footer in footers
    ]
    columns = {
        ColumnKey.of(column, reading.options): _column(
            footers, [sources[place] if sources else None for sources in resolved], column.name in bounded, column
        )
        for place, column in enumerate(reading.file_columns)
    }
    return TableFooters(
        tuple(file.path for file in files),
        np.array(stamps, np.int64).reshape(-1, _STAMP_WORDS),
        _starts(counts),
        np.concatenate([none, *(footer.row_counts for footer in footers if footer is not None)]),
        np.concatenate([none, *(footer.byte_counts for footer in footers if footer is not None)]),
        columns,
    )


def _column(
    footers: Sequence[Footer | None], sources: Sequence[ColumnSource | None], with_bounds: bool, column: FileColumn
) -> ColumnFacts:
    numbers: dict[ColumnSource, int] = {}
    source_of = [
        -1 if source is None else numbers.setdefault(replace(source, name=""), len(numbers)) for source in sources
    ]
    sizes, bounds = [np.zeros(0, np.int64)], [_bounds_of_nothing(column)]
    for footer, source in zip(footers, sources, strict=True):
        if footer is not None and source is not None:
            is_stored = source.leaf >= 0
            none = np.zeros(footer.num_row_groups, np.int64)
            sizes.append(footer.values.uncompressed[:, source.leaf] if is_stored else none)
            if with_bounds:
                bounds.append(_bounds_in(source, footer))
    together = ColumnBounds.concat(bounds) if with_bounds else None
    return ColumnFacts(tuple(numbers), np.array(source_of, np.int32), _narrow(np.concatenate(sizes)), together)


def _bounds_of_nothing(column: FileColumn) -> ColumnBounds:
    none = RankColumn.of([], column.dtype)
    return ColumnBounds(none, none, np.zeros(0, np.int64))


def _bounds_in(source: ColumnSource, footer: Footer) -> ColumnBounds:
    if source.leaf >= 0:
        found = column_bounds(source, footer)
        return ColumnBounds(found.low, found.high, found.null_counts)
    rank = ranks_of_values([source.default], source.dtype)[0]
    ranks = RankColumn.filled(rank, footer.num_row_groups, source.dtype)
    return ColumnBounds(ranks, ranks, np.where(ranks.known, 0, footer.row_counts))


def _narrow(sizes: Longs) -> npt.NDArray[Any]:
    return sizes.astype(np.uint32) if len(sizes) and sizes.min() >= 0 and sizes.max() < 1 << 32 else sizes


ReadTables = Callable[[Sequence[DataFile], ReadSpec, frozenset[str]], TableFooters]
"""Footers of files, some columns of them with bounds. Raises FileProblem and FileSchemaProblem."""

# Footers are checked together in parts of this size. For a table with no more files their objects are kept as well:
# reading the files needs them.
_FILES_AT_ONCE = 64


def read_as_columns(files: Sequence[DataFile], reading: ReadSpec, bounded: frozenset[str]) -> TableFooters:
    """Read the footers in this process."""
    if len(files) <= _FILES_AT_ONCE:
        footers = read_footers(files, reading)
        return replace(footers_as_columns(files, footers, reading, bounded), footers=footers)
    parts = [files[first : first + _FILES_AT_ONCE] for first in range(0, len(files), _FILES_AT_ONCE)]
    frames: list[FooterFrame] = []
    return TableFooters.concat([_read_part(part, reading, bounded, frames) for part in parts])


def _read_part(
    files: Sequence[DataFile], reading: ReadSpec, bounded: frozenset[str], frames: list[FooterFrame]
) -> TableFooters:
    joined = read_joined(files, reading.filesystem, frames)
    if joined is not None:
        try:
            found = [_joined_as_columns(files, each, reading, bounded) for each in joined]
        except FileSchemaProblem:  # unknown in which file
            joined = None
    if joined is None:
        return footers_as_columns(files, read_footers(files, reading), reading, bounded)
    order = np.argsort([number for each in joined for number in each.files])
    return found[0] if len(found) == 1 else TableFooters.concat(found).take(order)


def _joined_as_columns(
    files: Sequence[DataFile], joined: JoinedFooter, reading: ReadSpec, bounded: frozenset[str]
) -> TableFooters:
    as_one = footers_as_columns([files[joined.files[0]]], [joined.footer], reading, bounded)
    stamps = [(*stamp, 0, 0, 0)[:_STAMP_WORDS] for stamp in joined.stamps]
    columns = {
        key: replace(column, source_of=np.repeat(column.source_of, len(stamps)))
        for key, column in as_one.columns.items()
    }
    return TableFooters(
        tuple(files[number].path for number in joined.files),
        np.array(stamps, np.int64),
        _starts(np.array(joined.counts, np.int64)),
        as_one.row_counts,
        as_one.byte_counts,
        columns,
    )


def current_stamps(files: Sequence[DataFile], reading: ReadSpec) -> Longs:
    """The present stamps of the files. Raises FileProblem for one that is missing and may not be."""
    stamps = np.zeros((len(files), _STAMP_WORDS), np.int64)
    for number, file in enumerate(files):
        try:
            stamp = stamp_of(file)
        except FileProblem as problem:
            if not is_ignored(problem, reading):
                raise
            continue
        stamps[number, : len(stamp)] = stamp
    return stamps
