"""Late columns: a few rows of a row group, with as little decoding as Arrow allows.

Three strategies, for different rows and columns. CPU times for 100 neighbouring rows of a row group of 100,000
(lineitem; pages of 20,000 rows; to be compared only, as the machine was busy):

| strategy | when | comment | decimal | instruction (4 values) | date | all 15 columns |
|---|---|---|---|---|---|---|
| the chunk, then pick | rows all over the row group | 9.6 ms | 4.6 ms | 3.0 ms | 0.4 ms | 42 ms |
| the same, strings as dictionaries | a string column stored as a dictionary | (21 ms) | - | 0.5 ms | - | 33 ms |
| the pages of the rows (`pages.py`) | rows close together | 1.4 ms | 1.1 ms | 0.4 ms | 0.4 ms | 17 ms |

The larger the row group, the more the pages gain: the last line hardly depends on its size, the first two grow with it.
Reading a string column as a dictionary loses if the writer abandoned the dictionary. So it is done only if a stored
value takes less than the four bytes that its length alone would take otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.parquet.decode.page_map import PageMap
from sundog.parquet.decode.reader import FileReader, check_decoded
from sundog.parquet.meta.file_schema import ColumnSource, to_query_type
from sundog.parquet.paths import is_local
from sundog.parquet.problems import FileProblem, ProblemKind
from sundog.types import is_text

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class LateCosts:
    """When the pages of few rows are decoded instead of the whole column chunk. Values are in `plan/costs.py`."""

    assumed_page_rows: int  # of a page, before its header is read
    max_late_rows_share: float  # of a row group, in pages of that size: above it, headers are not read
    max_late_bytes_share: float  # of a chunk, its dictionary included, that the pages take


class RowPicker:
    """Picks rows out of one open file. Not shared between threads."""

    def __init__(self, reader: FileReader, costs: LateCosts) -> None:
        self._reader = reader
        self._costs = costs
        self._layout = reader.layout

    def take(self, row_group: int, names: Sequence[str], rows: Rows) -> list[pa.Array]:
        """The columns of the given rows (ascending numbers within the row group)."""
        stored = self._layout.stored(names)
        arrays: dict[str, pa.Array] = {}
        whole: list[ColumnSource] = []
        for source in stored:
            pages = self._worthwhile_pages(row_group, source, rows)
            if pages is None:
                whole.append(source)
            else:
                arrays[source.name] = self._from_pages(row_group, source, pages, rows)
        arrays |= self._from_chunks(row_group, whole, rows)
        return [arrays[name] if name in arrays else self._layout.constant(name, len(rows)) for name in names]

    def _worthwhile_pages(self, row_group: int, source: ColumnSource, rows: Rows) -> PageMap | None:
        """The places of the pages, if only some of them hold the rows."""
        page_rows = self._costs.assumed_page_rows
        pages_in_all = int(self._layout.footer.row_counts[row_group]) / page_rows
        touched = len(np.unique(rows // page_rows))
        if not is_local(self._layout.file.path) or touched > self._costs.max_late_rows_share * pages_in_all:
            return None
        pages = self._reader.own.page_map(row_group, source.leaf)
        if pages is None:
            return None
        size, _ = self._layout.footer.chunk_size(row_group, source.leaf)
        return pages if pages.bytes_of(pages.pages_of(rows)) <= self._costs.max_late_bytes_share * size else None

    def _from_pages(self, row_group: int, source: ColumnSource, pages: PageMap, rows: Rows) -> pa.Array:
        stored, decoded = self._layout.footer.chunk_size(row_group, source.leaf)
        size = pages.bytes_of(pages.pages_of(rows))
        self._reader.metrics.add("bytes_scanned", size)
        self._reader.metrics.add("bytes_decoded", size * decoded // max(stored, 1))
        decoded = self._guarded(
            lambda: self._reader.own.decode_pages(row_group, source.leaf, pages, rows, is_text(source.dtype))
        )
        check_decoded(decoded, pages.rows_of(pages.pages_of(rows)), self._layout.file.path)
        picked = decoded.column(0).take(pa.array(pages.moved(rows)))
        return to_query_type(picked, source, self._layout.file.path)

    def _from_chunks(self, row_group: int, sources: list[ColumnSource], rows: Rows) -> dict[str, pa.Array]:
        if not sources:
            return {}
        leaves = sorted({source.leaf for source in sources})
        self._reader.count([row_group], [source.name for source in sources])
        decoder = self._reader.decoder(tuple(s.leaf for s in sources if self._layout.is_dictionary(s, row_group)))
        table = self._guarded(lambda: decoder.read_row_group(row_group, column_indices=leaves, use_threads=False))
        check_decoded(table, int(self._layout.footer.row_counts[row_group]), self._layout.file.path)
        taken = pa.array(rows)
        return {
            source.name: to_query_type(
                table.column(leaves.index(source.leaf)).take(taken), source, self._layout.file.path
            )
            for source in sources
        }

    def _guarded(self, decode: Any) -> Any:
        try:
            return decode()
        except (pa.ArrowException, OSError) as problem:
            raise FileProblem(ProblemKind.CORRUPT, self._layout.file.path, str(problem)) from problem
