"""Footers of tables, kept as long as the files are the same: a second plan of a table opens no file.

What is known of a file is a function of the file, so an entry counts for a file only while its path and stamp are the
file's now. Of a table in which some files are new, or changed, only these are read; a query of some of its partitions
takes their part. Nothing is kept of files that were written just now (see `meta/footer.py`), or whose file system does
not say when they were written.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from threading import Lock

import numpy as np

from sundog.expr.buffers import Bools, Indices
from sundog.parquet.meta.footer import SETTLED_ELSEWHERE_NS, SETTLED_NS
from sundog.parquet.meta.table_footers import Longs, ReadTables, TableFooters, current_stamps, read_as_columns
from sundog.parquet.paths import is_local
from sundog.parquet.reading import DataFile, ReadSpec

CACHE_BYTES = 512 << 20
_MAX_TABLES = 64


class FooterTables:
    """Footers as columns, of the tables that were read last. Safe to share between threads."""

    def __init__(self, max_bytes: int = CACHE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._tables: list[TableFooters] = []  # the last used last
        self._lock = Lock()

    @property
    def nbytes(self) -> int:
        return sum(each.nbytes for each in self._tables)

    def get(
        self, files: Sequence[DataFile], reading: ReadSpec, bounded: frozenset[str], read: ReadTables = read_as_columns
    ) -> TableFooters:
        """One entry for each file, in order. What is not known is read by `read`."""
        read_at = time.time_ns()
        known, numbers = self._known(files, reading, bounded)
        if known is not None and numbers.all_known and numbers.is_whole:
            self._keep(known, known)
            return known
        if known is None:
            found = read(files, reading, bounded)
        elif numbers.all_known:
            return known.take(numbers.numbers)
        else:
            new = read([file for file, is_new in zip(files, numbers.is_new, strict=True) if is_new], reading, bounded)
            old = known.take(numbers.numbers[~numbers.is_new])
            found = TableFooters.concat([old, new]).take(np.argsort(np.argsort(numbers.is_new, kind="stable")))
        settled = _settled(found, read_at)
        self._keep(found if settled.all() else found.take(np.flatnonzero(settled)), known)
        return found

    def unknown(self, files: Sequence[DataFile], reading: ReadSpec, bounded: frozenset[str]) -> list[DataFile]:
        """The files whose footers `get` would read."""
        known, numbers = self._known(files, reading, bounded)
        return [file for file, new in zip(files, numbers.is_new, strict=True) if new] if known else list(files)

    def _known(
        self, files: Sequence[DataFile], reading: ReadSpec, bounded: frozenset[str]
    ) -> tuple[TableFooters | None, _Known]:
        """The table that knows most of the files, and which."""
        stamps = current_stamps(files, reading)
        with self._lock:
            tables = [each for each in self._tables if not each.lacks(reading, bounded)]
        found = [(_Known.of(table, files, stamps), table) for table in tables]
        best = max(found, key=lambda pair: pair[0].count, default=None)
        if best is None or not best[0].count:
            return None, _Known(np.full(len(files), -1), False)
        return best[1], best[0]

    def _keep(self, table: TableFooters, replaced: TableFooters | None) -> None:
        with self._lock:
            same = [each for each in self._tables if each is not table and each.paths == table.paths]
            for each in same:
                if np.array_equal(each.stamps, table.stamps):
                    table.columns.update({key: own for key, own in each.columns.items() if table.knows_less(key, own)})
            self._tables = [each for each in self._tables if each is not replaced and each.paths != table.paths]
            if table.paths:
                self._tables.append(replace(table, footers=()))
            while len(self._tables) > _MAX_TABLES or self.nbytes > self._max_bytes:
                self._tables.pop(0)

    def clear(self) -> None:
        with self._lock:
            self._tables.clear()


def _settled(found: TableFooters, read_at: int) -> Bools:
    """The files whose stamp would change if they were written again."""
    written = found.stamps[:, 1:3].max(axis=1, initial=0)
    margins = [SETTLED_NS if is_local(path) else SETTLED_ELSEWHERE_NS for path in found.paths]
    settled: Bools = found.opened & (written > 0) & (written <= read_at - np.array(margins, np.int64))
    return settled


@dataclass(frozen=True)
class _Known:
    """The numbers in a table of the files that are asked for, -1 for a new one; whether they are just its files."""

    numbers: Indices
    is_whole: bool

    @classmethod
    def of(cls, table: TableFooters, files: Sequence[DataFile], stamps: Longs) -> _Known:
        if len(files) == len(table.paths) and all(
            file.path == path for file, path in zip(files, table.paths, strict=True)
        ):
            numbers = np.arange(len(files))
        else:
            numbers = np.array([table.number_of.get(file.path, -1) for file in files], np.int64)
        same = (table.stamps[numbers] == stamps).all(axis=1) if len(table.paths) else np.zeros(len(files), np.bool_)
        return cls(np.where(same, numbers, -1), len(files) == len(table.paths) and bool((np.diff(numbers) == 1).all()))

    @property
    def is_new(self) -> Bools:
        new: Bools = self.numbers < 0
        return new

    @property
    def count(self) -> int:
        return int(np.count_nonzero(self.numbers >= 0))

    @property
    def all_known(self) -> bool:
        return not self.is_new.any()


TABLES = FooterTables()
