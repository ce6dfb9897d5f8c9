"""Reader of one open file: row groups in, arrays of the query's columns out, all bytes counted.

The reader decides nothing: which row groups, which columns and in which order is decided elsewhere (`access_plan.py`,
`row_group_pruner.py`). One thread uses it; opening another reader on a known footer costs 0.05 ms.

Arrow decodes whole columns of a row group, so it reads less only if fewer columns are named. Columns are given by leaf
index, not by name. A name with a dot in it is ambiguous to Arrow, and looking names up took a third of the time of
reading one column of 100,000 rows.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sundog.metrics import Metrics
from sundog.parquet.decode.own_decoder import OwnDecoder
from sundog.parquet.filesystem import open_file
from sundog.parquet.meta.file_layout import FileLayout
from sundog.parquet.meta.file_schema import ColumnSource, converted, to_query_type
from sundog.parquet.meta.footer import read_footer, stamp_of
from sundog.parquet.problems import FileProblem, ProblemKind, TooLargeForOneArray
from sundog.parquet.reading import DataFile, ReadSpec

Rows = npt.NDArray[np.int64]

_STREAM_BYTES = 1 << 20  # of a chunk at once, where a row group is decoded in parts: about a page
_SMALL_PIECE_ROWS = 65_536  # a limit: their strings fit an Arrow array of 2 GiB, if they have up to 32 KiB each


class FileReader:
    """An open file. Use as a context manager; not shared between threads."""

    def __init__(
        self, layout: FileLayout, reading: ReadSpec, metrics: Metrics, as_stored: frozenset[str] = frozenset()
    ) -> None:
        """`as_stored`: columns that `read` may return as they are stored: strings as dictionary or string_view arrays,
        decimals as decimal64."""
        self.layout = layout
        self.metrics = metrics
        self._as_stored = as_stored
        self._decoders: dict[tuple[tuple[int, ...], bool], Any] = {}
        self.source = open_file(layout.file.path, reading.filesystem)
        self.own = OwnDecoder(self.source, layout.footer, reading.options.decoder == "own")
        try:
            if stamp_of(layout.file) != layout.footer.stamp:
                raise FileProblem(ProblemKind.CHANGED, layout.file.path)
        except BaseException:
            self.source.close()
            raise

    @classmethod
    def open(cls, reading: ReadSpec, file: DataFile, metrics: Metrics) -> FileReader:
        """Open a file with its own footer."""
        footer = read_footer(file, reading.filesystem)
        return cls(FileLayout.of(reading, file, footer), reading, metrics)

    def decoder(self, dictionary_leaves: tuple[int, ...], buffered: bool = False) -> Any:
        """Arrow's decoder for the open file; the given leaves stay dictionaries if they are stored so. `buffered`: it
        reads a chunk bit by bit, which would otherwise be in memory as a whole, as it is stored."""
        if (dictionary_leaves, buffered) not in self._decoders:
            self._decoders[dictionary_leaves, buffered] = pq.ParquetFile(
                self.source,
                metadata=self.layout.footer.metadata,
                read_dictionary=dictionary_leaves or None,
                pre_buffer=False,
                buffer_size=_STREAM_BYTES if buffered else 0,
                coerce_int96_timestamp_unit="us",
            ).reader
        return self._decoders[dictionary_leaves, buffered]

    def __enter__(self) -> FileReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.source.close()

    def read(
        self, row_groups: Sequence[int], names: Sequence[str], as_stored: frozenset[str] | None = None
    ) -> list[pa.Array]:
        """The columns of the row groups' rows, each as one array, in the order of `names`.

        `as_stored` replaces the reader's own for this call; decimals must be in both.
        """
        rows = sum(int(self.layout.footer.row_counts[group]) for group in row_groups)
        stored = self.layout.stored(names)
        self.count(row_groups, names)
        if not stored or rows == 0:
            return [self.layout.constant(name, rows) for name in names]
        as_stored = self._as_stored if as_stored is None else as_stored
        short = self._as_stored & as_stored
        found = self._numbers(row_groups, stored, short=short) | self._texts(row_groups, stored, as_stored)
        others = [source for source in stored if source.name not in found]
        if others:
            found |= self._decode(row_groups, others, as_stored)
        return self._with_constants(found, names, rows)

    def read_rows(self, row_groups: Sequence[int], names: Sequence[str], rows: Rows) -> dict[str, pa.Array]:
        """Those of the columns that can be decoded for a few rows only; strings as stored, or copied.

        `rows`: ascending numbers, counted from the first of the row groups. A column with a value that sundog might
        have to refuse is not among them.
        """
        total = sum(int(self.layout.footer.row_counts[group]) for group in row_groups)
        stored = [source for source in self.layout.stored(names) if not source.may_be_refused]
        found = self._numbers(row_groups, stored, rows)
        texts = {s.name: self.own.chosen_text(row_groups, s, rows) for s in stored if self.layout.is_text(s)}
        found |= {name: array for name, array in texts.items() if array is not None}
        self.count(row_groups, list(found), len(rows) / max(total, 1))
        return found

    def _with_constants(self, found: dict[str, pa.Array], names: Sequence[str], rows: int) -> list[pa.Array]:
        """All columns in the order of `names`: those that were read, and those that the file does not have."""
        return [found[name] if name in found else self.layout.constant(name, rows) for name in names]

    def _numbers(
        self,
        row_groups: Sequence[int],
        stored: list[ColumnSource],
        rows: Rows | None = None,
        short: frozenset[str] = frozenset(),
    ) -> dict[str, pa.Array]:
        """The number columns whose pages have a usual form."""
        arrays = self.own.numbers(row_groups, stored, rows, short)
        for source in stored:
            array = arrays.get(source.name)
            if array is not None and not pa.types.is_decimal64(array.type):
                arrays[source.name] = converted(array, source, self.layout.file.path)
        return arrays

    def _texts(
        self, row_groups: Sequence[int], stored: list[ColumnSource], as_stored: frozenset[str]
    ) -> dict[str, pa.Array]:
        """The string columns that are read as stored."""
        if len(row_groups) != 1:
            return {}
        found = {
            source.name: self.own.text(row_groups[0], source)
            for source in stored
            if source.name in as_stored and self.layout.is_text(source)
        }
        return {name: array for name, array in found.items() if array is not None}

    def _decode(
        self, row_groups: Sequence[int], stored: list[ColumnSource], as_stored: frozenset[str]
    ) -> dict[str, pa.Array]:
        leaves = sorted({source.leaf for source in stored})
        kept = [source for source in stored if source.name in as_stored and self.layout.is_text(source)]
        whole = (s.leaf for s in kept if all(self.layout.is_dictionary(s, group) for group in row_groups))
        try:
            table = self.decoder(tuple(whole)).read_row_groups(
                list(row_groups), column_indices=leaves, use_threads=False
            )
        except (pa.ArrowException, OSError) as problem:
            raise FileProblem(ProblemKind.CORRUPT, self.layout.file.path, str(problem)) from problem
        check_decoded(
            table, sum(int(self.layout.footer.row_counts[group]) for group in row_groups), self.layout.file.path
        )
        return self._arrays(table, leaves, stored, as_stored)

    def pieces(self, row_group: int, names: Sequence[str], piece_bytes: int) -> Iterator[list[pa.Array]]:
        """The columns of one row group, in parts if it is larger than memory should hold at once."""
        size = self.layout.memory_bytes(names, row_group)
        rows = int(self.layout.footer.row_counts[row_group])
        if size <= piece_bytes:
            try:
                whole = self.read([row_group], names)
            except TooLargeForOneArray:  # a dictionary of long strings: small in the file, too large for one array
                yield from self.stream(row_group, names, _SMALL_PIECE_ROWS)
            else:
                yield whole
        else:
            yield from self.stream(row_group, names, max(rows * piece_bytes // size, 1))

    def stream(self, row_group: int, names: Sequence[str], batch_rows: int) -> Iterator[list[pa.Array]]:
        """The columns of one row group, `batch_rows` at a time, decoded only as far as they are read."""
        stored = self.layout.stored(names)
        self.count([row_group], names)
        if not stored:
            rows = int(self.layout.footer.row_counts[row_group])
            for start in range(0, rows, batch_rows):
                yield [self.layout.constant(name, min(batch_rows, rows - start)) for name in names]
            return
        leaves = sorted({source.leaf for source in stored})
        decoder = self.decoder((), buffered=True)
        batches = decoder.iter_batches(batch_rows, [row_group], column_indices=leaves, use_threads=False)
        left = int(self.layout.footer.row_counts[row_group])
        while (batch := self._next(batches)) is not None:
            left -= batch.num_rows
            arrays = self._arrays(pa.Table.from_batches([batch]), leaves, stored, self._as_stored)
            yield self._with_constants(arrays, names, batch.num_rows)
        if left:
            raise FileProblem(ProblemKind.CORRUPT, self.layout.file.path, f"a row group has {-left} rows too many")

    def _next(self, batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
        try:
            return next(batches, None)
        except (pa.ArrowException, OSError) as problem:
            raise FileProblem(ProblemKind.CORRUPT, self.layout.file.path, str(problem)) from problem

    def _arrays(
        self, table: pa.Table, leaves: list[int], stored: list[ColumnSource], as_stored: frozenset[str]
    ) -> dict[str, pa.Array]:
        path = self.layout.file.path
        return {
            source.name: to_query_type(table.column(leaves.index(source.leaf)), source, path, source.name in as_stored)
            for source in stored
        }

    def count(self, row_groups: Sequence[int], names: Sequence[str], share: float = 1.0) -> None:
        """Add the columns' bytes to the metrics; `share`: of the rows that are decoded."""
        for group in row_groups:
            compressed, uncompressed = self.layout.column_bytes(names, group)
            self.metrics.add("bytes_scanned", compressed)
            self.metrics.add("bytes_decoded", int(uncompressed * share))


def check_decoded(table: pa.Table, rows: int, path: str) -> None:
    """Raise FileProblem unless Arrow gave each row a value: for damaged pages it may give fewer.

    Nor does Arrow check that the numbers of dictionary entries are in range.
    """
    if table.num_rows != rows:
        raise FileProblem(ProblemKind.CORRUPT, path, f"{table.num_rows} rows where the footer says {rows}")
    for column in table.columns:
        if pa.types.is_dictionary(column.type):
            for chunk in column.chunks:
                ends = pc.min_max(chunk.indices).as_py()
                if ends["max"] is not None and not 0 <= ends["min"] <= ends["max"] < len(chunk.dictionary):
                    raise FileProblem(ProblemKind.CORRUPT, path, "a row refers to an entry that its dictionary has not")


class OpenFiles:
    """Readers of several files for one thread, opened at the first use; the least recently used are closed."""

    def __init__(self, opener: Callable[[int], FileReader], limit: int = 32) -> None:
        self._opener = opener
        self._limit = limit
        self._readers: OrderedDict[int, FileReader] = OrderedDict()

    def get(self, number: int) -> FileReader:
        reader = self._readers.get(number)
        if reader is None:
            if len(self._readers) >= self._limit:
                self._readers.popitem(last=False)[1].close()
            reader = self._readers[number] = self._opener(number)
        self._readers.move_to_end(number)
        return reader

    def __enter__(self) -> OpenFiles:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._readers:
            self._readers.popitem()[1].close()
