"""Footers: what a file says about itself, read once and believed only as long as the file is the same.

Everything that prunes starts here. A footer of 20 row groups x 16 columns takes 0.3-0.6 ms to read and parse, so
footers are read by several threads and cached. The cache key of a local file is its size, modification time and change
time in nanoseconds, inode and device, taken by `stat` at each query: a rewritten file is never answered from an old
footer. For object stores it is size and time of Spark's listing.

Arrow hands out metadata as Python objects, about 3 µs for each field of each column chunk. 60 row groups x 16 columns
would take 10 ms if walked whole, so every per-column array is made when first asked for and kept with the footer.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from sundog.parquet.filesystem import Settings, is_local, open_file, plain_path
from sundog.parquet.problems import FileProblem, ProblemKind
from sundog.parquet.relation import DataFile, Relation
from sundog.parquet.thrift import Struct, read_struct

Stamp = tuple[int, ...]
_CACHE_ENTRIES = 8192
_FOOTER_THREADS = 8


@dataclass(frozen=True)
class Leaf:
    """One primitive column of the file's schema, in Parquet's own words."""

    index: int
    name: str
    physical_type: str
    logical_type: str
    bit_width: int  # of an INT annotation, else 0
    signed: bool
    time_unit: str  # of a TIMESTAMP annotation, else ""
    adjusted_to_utc: bool
    precision: int
    scale: int


@dataclass(frozen=True)
class RawStatistics:
    """A column's statistics as the file has them: one slot per row group, None where there is none."""

    lows: tuple[Any, ...]
    highs: tuple[Any, ...]
    null_counts: tuple[int | None, ...]


class Footer:
    """A parsed footer. Safe to share between threads: what it fills in later is the same whoever fills it in."""

    def __init__(self, path: str, stamp: Stamp, metadata: pq.FileMetaData) -> None:
        self.path = path
        self.stamp = stamp
        self.metadata = metadata
        self.num_rows: int = metadata.num_rows
        self.num_row_groups: int = metadata.num_row_groups
        self.created_by: str = metadata.created_by or ""
        self.key_values: dict[bytes, bytes] = metadata.metadata or {}
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        self.row_counts: npt.NDArray[np.int64] = np.array([group.num_rows for group in groups], np.int64)
        self.byte_counts: npt.NDArray[np.int64] = np.array([group.total_byte_size for group in groups], np.int64)
        self._flat_names: dict[str, list[int]] | None = None
        self._folded_names: dict[str, list[int]] = {}
        self._group_names: frozenset[str] = frozenset()
        self._leaves: dict[int, Leaf] = {}
        self._sizes: dict[tuple[int, int], tuple[int, int]] = {}
        self._statistics: dict[int, RawStatistics] = {}
        self._elements: list[Struct] | None = None
        self.derived: dict[Any, Any] = {}  # what other modules concluded from this footer: as valid as it is

    def flat_columns(self) -> dict[str, list[int]]:
        """Top-level primitive columns: name -> leaf indexes (two of one name make the file ambiguous)."""
        if self._flat_names is None:
            names: dict[str, list[int]] = {}
            groups = set()
            schema = self.metadata.schema
            for index in range(self.metadata.num_columns):
                column = schema.column(index)
                name = column.name
                if column.path == name and column.max_repetition_level == 0:
                    names.setdefault(name, []).append(index)
                else:
                    groups.add(column.path.split(".", 1)[0])
            self._group_names = frozenset(groups)
            for name, indexes in names.items():
                self._folded_names.setdefault(name.lower(), []).extend(indexes)
            self._flat_names = names
        return self._flat_names

    def folded_columns(self) -> dict[str, list[int]]:
        """The same by lower-case name."""
        self.flat_columns()
        return self._folded_names

    def group_columns(self) -> frozenset[str]:
        """Names of top-level columns that are structs, lists, maps or repeated."""
        self.flat_columns()
        return self._group_names

    def leaf(self, index: int) -> Leaf:
        found = self._leaves.get(index)
        if found is None:
            column = self.metadata.schema.column(index)
            logical = column.logical_type
            details = logical.to_json() if logical.type in ("INT", "TIMESTAMP") else ""
            found = Leaf(
                index=index,
                name=column.name,
                physical_type=column.physical_type,
                logical_type=logical.type,
                bit_width=next((bits for bits in (8, 16, 32, 64) if f'"bitWidth":{bits},' in details), 0),
                signed='"isSigned":true' in details,
                time_unit=next((u for u in ("milli", "micro", "nano") if f'"{u}seconds"' in details), ""),
                adjusted_to_utc='"isAdjustedToUTC":true' in details,
                precision=column.precision,
                scale=column.scale,
            )
            self._leaves[index] = found
        return found

    @property
    def identity(self) -> Stamp:
        """What another process must find in the file for row group numbers to mean the same there."""
        return (self.stamp[0], self.num_row_groups, self.num_rows)

    def chunk_size(self, group: int, leaf: int) -> tuple[int, int]:
        """Compressed and uncompressed bytes of a column chunk."""
        found = self._sizes.get((group, leaf))
        if found is None:
            chunk = self._chunk(group, leaf)
            found = self._sizes[group, leaf] = (chunk.total_compressed_size, chunk.total_uncompressed_size)
        return found

    def raw_statistics(self, leaf: int) -> RawStatistics:
        """Bounds in the physical type (int, float, bool, bytes); deprecated bounds only where Arrow trusts them.

        Arrow gives `min_value`/`max_value`, or the deprecated `min`/`max` if the type sorts signed and the file names
        no column order, or nothing. It gives nothing for INT96 and for writers whose statistics are known to be wrong.
        """
        found = self._statistics.get(leaf)
        if found is None:
            found = self._read_statistics(leaf)
            self._statistics[leaf] = found
        return found

    def schema_element(self, leaf: int, source: pa.NativeFile) -> Struct:
        """The leaf's entry in the file's schema, as it is stored. `source` is the open file."""
        if self._elements is None:
            size = self.stamp[0]
            length = int.from_bytes(source.read_at(4, size - 8), "little")
            fields, _ = read_struct(source.read_at(length, size - 8 - length), stop_after=2)
            has_children = 5
            self._elements = [element for element in fields[2][1][1] if has_children not in element]
        return self._elements[leaf]

    def _read_statistics(self, leaf: int) -> RawStatistics:
        lows: list[Any] = []
        highs: list[Any] = []
        nulls: list[int | None] = []
        for group in range(self.num_row_groups):
            statistics = self._chunk(group, leaf).statistics
            bounded = statistics is not None and statistics.has_min_max
            lows.append(statistics.min_raw if bounded else None)
            highs.append(statistics.max_raw if bounded else None)
            counted = statistics is not None and statistics.has_null_count
            nulls.append(statistics.null_count if counted else None)
        return RawStatistics(tuple(lows), tuple(highs), tuple(nulls))

    def _chunk(self, group: int, leaf: int) -> Any:
        try:
            return self.metadata.row_group(group).column(leaf)
        except OSError as problem:
            raise FileProblem(ProblemKind.ENCRYPTED, self.path, str(problem)) from problem


class FooterCache:
    """Footers of this process by path. An entry counts only while its stamp is the file's stamp now."""

    def __init__(self, entries: int = _CACHE_ENTRIES) -> None:
        self._entries = entries
        self._footers: OrderedDict[str, Footer] = OrderedDict()
        self._lock = Lock()

    def get(self, path: str, stamp: Stamp) -> Footer | None:
        with self._lock:
            footer = self._footers.get(path)
            if footer is None or footer.stamp != stamp:
                return None
            self._footers.move_to_end(path)
            return footer

    def put(self, footer: Footer) -> None:
        with self._lock:
            self._footers[footer.path] = footer
            self._footers.move_to_end(footer.path)
            while len(self._footers) > self._entries:
                self._footers.popitem(last=False)

    def clear(self) -> None:
        with self._lock:
            self._footers.clear()


FOOTERS = FooterCache()


def stamp_of(file: DataFile) -> Stamp:
    """What identifies this version of the file. Raises FileProblem when a local file is gone."""
    if not is_local(file.path):
        return (file.size, file.modified_ms)
    try:
        status = os.stat(plain_path(file.path))
    except FileNotFoundError as problem:
        raise FileProblem(ProblemKind.MISSING, file.path, str(problem)) from problem
    return (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_dev)


def read_footer(file: DataFile, settings: Settings) -> Footer | None:
    """The footer, from the cache if the file is unchanged; None for a file of no bytes, which Spark skips."""
    stamp = stamp_of(file)
    if stamp[0] == 0:
        return None
    cached = FOOTERS.get(file.path, stamp)
    if cached is not None:
        return cached
    with open_file(file.path, settings) as source:
        try:
            metadata = pq.read_metadata(source)
        except (pa.ArrowException, OSError) as problem:
            encrypted = "encrypt" in str(problem) or "decrypt" in str(problem)
            kind = ProblemKind.ENCRYPTED if encrypted else ProblemKind.CORRUPT
            raise FileProblem(kind, file.path, str(problem)) from problem
    if stamp_of(file) != stamp:
        raise FileProblem(ProblemKind.CHANGED, file.path)
    footer = Footer(file.path, stamp, metadata)
    FOOTERS.put(footer)
    return footer


def read_footers(relation: Relation, threads: int = _FOOTER_THREADS) -> tuple[Footer | None, ...]:
    """One footer for each file of the relation, in order; None for a file that Spark would pass over.

    That is a file of no bytes, and with `ignore_missing_files` / `ignore_corrupt_files` a missing or broken one.
    """
    files = relation.files

    def read(file: DataFile) -> Footer | None:
        try:
            return read_footer(file, relation.filesystem)
        except FileProblem as problem:
            if _is_ignored(problem, relation):
                return None
            raise

    if len(files) <= 2:
        return tuple(read(file) for file in files)
    cached = _all_cached(files)
    if cached is not None:
        return cached
    with ThreadPoolExecutor(min(threads, len(files)), thread_name_prefix="sundog-footer") as pool:
        return tuple(pool.map(read, files))


def _all_cached(files: Sequence[DataFile]) -> tuple[Footer, ...] | None:
    """The common case, in which threads would only cost: every file is known and unchanged."""
    found = []
    for file in files:
        try:
            footer = FOOTERS.get(file.path, stamp_of(file))
        except FileProblem:
            return None
        if footer is None:
            return None
        found.append(footer)
    return tuple(found)


def _is_ignored(problem: FileProblem, relation: Relation) -> bool:
    if problem.kind is ProblemKind.MISSING:
        return relation.options.ignore_missing_files
    return problem.kind is ProblemKind.CORRUPT and relation.options.ignore_corrupt_files
