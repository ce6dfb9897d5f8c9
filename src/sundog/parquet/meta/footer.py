"""Footers: the metadata of files, read once and cached as long as the file is unchanged.

Everything that prunes starts here. A footer of 60 row groups x 16 columns takes 2.5 ms to read, check and parse, of
which Arrow takes 0.5 ms, so footers are read by several threads and cached. The cache key of a local file is its size,
modification time and change time in nanoseconds, inode and device. `stat` reads them at each query, so that a rewritten
file is never answered from an old footer. A clock of a file system ticks every few milliseconds, so a file that was
written less than a second ago could be written again under the same stamp: its footer is not kept. Of a file of HDFS or
an object store the planner asks for size and time at each query (`file_statuses.py`), and the driver keeps what footers
say (`prune/footer_tables.py`). A task may run later and has no present stamp, so it keeps no such footer.

`file_metadata.py` has read and checked the whole footer before Arrow makes its objects from it. These are for Arrow's
decoder, and only their schema is used: C++ exceptions from their row groups and column chunks are not translated, and
would end the process.
"""

from __future__ import annotations

import json
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from sundog.parquet.filesystem import open_file
from sundog.parquet.meta.chunk_table import CODECS, MAGIC
from sundog.parquet.meta.file_metadata import (
    PHYSICAL_TYPES,
    TAIL_BYTES,
    FileMetadata,
    FooterFrame,
    footer_length,
    in_frame,
    parse_footer,
)
from sundog.parquet.meta.file_statistics import LeafColumn, RawStatistics, trusted_statistics
from sundog.parquet.meta.struct_table import Broken, Encrypted
from sundog.parquet.paths import is_local, plain_path
from sundog.parquet.problems import FileProblem, ProblemKind
from sundog.parquet.reading import DataFile, ReadSpec
from sundog.parquet.store_settings import Settings

Stamp = tuple[int, ...]
CACHE_BYTES = 256 << 20
_TAIL_READ = 64 << 10  # most footers are in the first read
SETTLED_NS = 1_000_000_000  # after this time, rewriting a file gives it another time stamp
SETTLED_ELSEWHERE_NS = 60 * SETTLED_NS  # stores and HDFS give seconds, of another clock
_FOOTER_THREADS = 8
# Measured on footers of 16 x 60 and 105 x 20 column chunks: 6 to 7 bytes for each byte of the footer, with our own
# tables and the statistics of all columns. The rest is for what other modules derive from it.
_MEMORY_PER_BYTE = 8


@dataclass(frozen=True)
class ChunkPlace:
    """The place of a column chunk in the file, and how it is stored."""

    codec: str
    encodings: int  # a bit for each
    start: int
    compressed: int
    uncompressed: int


class Footer:
    """A parsed footer. Safe to share between threads: whatever it fills in later is the same in all of them."""

    def __init__(self, path: str, stamp: Stamp, metadata: pq.FileMetaData, values: FileMetadata) -> None:
        """`values`: the content of the same bytes. `metadata` is asked for nothing that was not checked there."""
        self.path = path
        self.stamp = stamp
        self.metadata = metadata
        self.values = values
        self.num_rows = values.num_rows
        self.num_row_groups = len(values.row_counts)
        self.created_by = values.created_by
        self.key_values = values.key_values
        self.row_counts = values.row_counts
        self.byte_counts = values.byte_counts
        self.nbytes = metadata.serialized_size * _MEMORY_PER_BYTE + values.nbytes
        self._flat_names: dict[str, list[int]] | None = None
        self._folded_names: dict[str, list[int]] = {}
        self._group_names: frozenset[str] = frozenset()
        self._leaves: dict[int, LeafColumn] = {}
        self._statistics: dict[int, RawStatistics] = {}
        self.derived: dict[Any, Any] = {}  # results that other modules derive from this footer

    def flat_columns(self) -> dict[str, list[int]]:
        """Top-level primitive columns: name -> leaf indexes (two leaves of one name make the file ambiguous)."""
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

    def leaf(self, index: int) -> LeafColumn:
        found = self._leaves.get(index)
        if found is None:
            column = self.metadata.schema.column(index)
            logical = column.logical_type
            # Parsed, not searched: pyarrow before 26 writes this JSON with spaces.
            details = json.loads(logical.to_json()) if logical.type in ("INT", "TIMESTAMP") else {}
            found = LeafColumn(
                index=index,
                name=column.name,
                physical_type=column.physical_type,
                logical_type=logical.type,
                bit_width=details.get("bitWidth", 0),
                signed=details.get("isSigned") is True,
                time_unit=details.get("timeUnit", "").removesuffix("seconds"),
                adjusted_to_utc=details.get("isAdjustedToUTC") is True,
                precision=column.precision,
                scale=column.scale,
            )
            self._leaves[index] = found
        return found

    @property
    def identity(self) -> Stamp:
        """The stamp that another process must find for row group numbers to mean the same there."""
        return (self.stamp[0], self.num_row_groups, self.num_rows)

    def chunk_size(self, group: int, leaf: int) -> tuple[int, int]:
        """Compressed and uncompressed bytes of a column chunk."""
        return int(self.values.compressed[group, leaf]), int(self.values.uncompressed[group, leaf])

    def chunk(self, group: int, leaf: int) -> ChunkPlace:
        """The place of a column chunk."""
        values, at = self.values, (group, leaf)
        return ChunkPlace(
            CODECS[int(values.codecs[at])],
            int(values.encodings[at]),
            int(values.starts[at]),
            int(values.compressed[at]),
            int(values.uncompressed[at]),
        )

    def raw_statistics(self, leaf: int) -> RawStatistics:
        """Bounds in the physical type (int, float, bool, bytes), if the file's writer can be trusted."""
        found = self._statistics.get(leaf)
        if found is None:
            found = self._statistics[leaf] = trusted_statistics(self.values, self.leaf(leaf))
        return found


class FooterCache:
    """Footers of this process by path, up to a number of bytes in all. An entry is valid only while the file has its
    stamp."""

    def __init__(self, max_bytes: int = CACHE_BYTES) -> None:
        self._max_bytes = max_bytes
        self.nbytes = 0
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
        """Keep a footer, and drop the least recently used. A footer that is too large by itself is not kept."""
        with self._lock:
            self._drop(footer.path)
            if footer.nbytes > self._max_bytes:
                return
            self._footers[footer.path] = footer
            self.nbytes += footer.nbytes
            while self.nbytes > self._max_bytes:
                self._drop(next(iter(self._footers)))

    def _drop(self, path: str) -> None:
        footer = self._footers.pop(path, None)
        if footer is not None:
            self.nbytes -= footer.nbytes

    def clear(self) -> None:
        with self._lock:
            self._footers.clear()
            self.nbytes = 0


FOOTERS = FooterCache()


def stamp_of(file: DataFile) -> Stamp:
    """The stamp of this version of the file: its size, and times in nanoseconds, 0 if unknown.

    Raises FileProblem if a local file is gone.
    """
    if not is_local(file.path):
        return (file.size, file.modified_ms * 1_000_000)
    try:
        status = os.stat(plain_path(file.path))
    except FileNotFoundError as problem:
        raise FileProblem(ProblemKind.MISSING, file.path, str(problem)) from problem
    return (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_dev)


def read_footer(file: DataFile, settings: Settings) -> Footer:
    """The footer, from the cache if the file is unchanged. A file of no bytes was emptied: Spark does not list such."""
    stamp = stamp_of(file)
    if stamp[0] == 0:
        raise FileProblem(ProblemKind.CORRUPT, file.path, "it is empty")
    cached = FOOTERS.get(file.path, stamp)
    if cached is not None:
        return cached
    read_at = time.time_ns()
    footer = _read_unchanged(file, settings, stamp, parsed)
    if is_local(file.path) and read_at - max(stamp[1:3]) >= SETTLED_NS:
        FOOTERS.put(footer)
    return footer


T = TypeVar("T")


def _read_unchanged(
    file: DataFile, settings: Settings, stamp: Stamp, read: Callable[[pa.NativeFile, str, Stamp], T]
) -> T:
    """The result of `read` for a file that has this stamp before and after."""
    with open_file(file.path, settings) as source:
        if source.size() != stamp[0]:
            raise FileProblem(ProblemKind.CHANGED, file.path)
        found = read(source, file.path, stamp)
    if stamp_of(file) != stamp:
        raise FileProblem(ProblemKind.CHANGED, file.path)
    return found


def parsed(source: pa.NativeFile, path: str, stamp: Stamp) -> Footer:
    """The footer of an open file, whose size is the first number of its stamp."""
    try:
        return _agreed(path, stamp, parse_footer(_footer_bytes(source, stamp[0]), stamp[0]))
    except Encrypted as problem:
        raise FileProblem(ProblemKind.ENCRYPTED, path, str(problem)) from problem
    except (Broken, pa.ArrowException, OSError) as problem:
        raise FileProblem(ProblemKind.CORRUPT, path, str(problem)) from problem


def _agreed(path: str, stamp: Stamp, values: FileMetadata) -> Footer:
    data = values.data
    metadata = pq.read_metadata(pa.BufferReader(b"".join((MAGIC, data, len(data).to_bytes(4, "little"), MAGIC))))
    _check_agreement(metadata, values)
    return Footer(path, stamp, metadata, values)


@dataclass(frozen=True)
class JoinedFooter:
    """The row groups of some files as those of one. `footer` has the path of the first, and is not cached."""

    files: tuple[int, ...]  # their numbers
    stamps: tuple[Stamp, ...]
    counts: tuple[int, ...]  # row groups of each
    footer: Footer


def read_joined(
    files: Sequence[DataFile], settings: Settings, frames: list[FooterFrame], threads: int = _FOOTER_THREADS
) -> list[JoinedFooter] | None:
    """The footers of many files of a few kinds, in a third of the time that `read_footers` takes.

    None if one of them is unusual: `read_footers` then raises the reason. `frames`: the known ones; new ones are added.
    """

    def read(some: Sequence[DataFile]) -> list[tuple[Stamp, bytes]]:
        stamps = [stamp_of(file) for file in some]
        return [
            (stamp, _read_unchanged(file, settings, stamp, lambda source, _, stamp: _footer_bytes(source, stamp[0])))
            for file, stamp in zip(some, stamps, strict=True)
        ]

    share = -(-len(files) // threads)
    shares = [files[first : first + share] for first in range(0, len(files), share)]
    try:
        with ThreadPoolExecutor(threads, thread_name_prefix="sundog-footer") as pool:
            found = [each for part in pool.map(read, shares) for each in part]
        members: dict[int, list[tuple[int, tuple[int, int, bytes]]]] = {}
        for number, (stamp, data) in enumerate(found):
            place, row_groups = in_frame(data, stamp[0], frames)
            members.setdefault(place, []).append((number, row_groups))
        return [_joined(frames[place], some, files, found) for place, some in members.items()]
    except (FileProblem, Broken, pa.ArrowException, OSError):
        return None


def _joined(
    frame: FooterFrame,
    some: list[tuple[int, tuple[int, int, bytes]]],
    files: Sequence[DataFile],
    found: list[tuple[Stamp, bytes]],
) -> JoinedFooter:
    numbers = tuple(number for number, _ in some)
    stamps = tuple(found[number][0] for number in numbers)
    ends = [found[number][0][0] - TAIL_BYTES - len(found[number][1]) for number in numbers]
    values = frame.together([row_groups for _, row_groups in some], ends)
    counts = tuple(count for _, (_, count, _) in some)
    return JoinedFooter(numbers, stamps, counts, _agreed(files[numbers[0]].path, stamps[0], values))


def _footer_bytes(source: pa.NativeFile, size: int) -> bytes:
    tail: bytes = source.read_at(min(size, _TAIL_READ), max(0, size - _TAIL_READ))
    length = footer_length(tail, size)
    if length + TAIL_BYTES > len(tail):
        tail = source.read_at(length + TAIL_BYTES, size - length - TAIL_BYTES)
    if len(tail) < length + TAIL_BYTES:
        raise Broken("it is shorter than it was")
    return tail[len(tail) - length - TAIL_BYTES : len(tail) - TAIL_BYTES]


def _check_agreement(metadata: pq.FileMetaData, values: FileMetadata) -> None:
    """Check that Arrow has read the values that were checked; else these say nothing about its objects."""
    schema = metadata.schema
    same = metadata.num_columns == len(values.leaves) and metadata.num_row_groups == len(values.row_counts)
    if not same or any(
        schema.column(index).physical_type != PHYSICAL_TYPES[leaf.physical_type]
        for index, leaf in enumerate(values.leaves)
    ):
        raise Broken("Arrow finds other columns in it")


def read_footers(
    files: Sequence[DataFile], reading: ReadSpec, threads: int = _FOOTER_THREADS
) -> tuple[Footer | None, ...]:
    """One footer for each file, in order; None for a file that Spark would skip.

    That is a missing one, with `ignore_missing_files`. A broken file is always left to Spark, whatever it is set to
    ignore: it may read what is inconsistent here, and the rows before the damage count.
    """

    def read(file: DataFile) -> Footer | None:
        try:
            return read_footer(file, reading.filesystem)
        except FileProblem as problem:
            if is_ignored(problem, reading):
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
    """The common case, in which threads would only cost time: every file is known and unchanged."""
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


def is_ignored(problem: FileProblem, reading: ReadSpec) -> bool:
    return problem.kind is ProblemKind.MISSING and reading.options.ignore_missing_files
