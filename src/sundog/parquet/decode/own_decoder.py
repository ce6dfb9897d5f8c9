"""The only entry to sundog's own decoding of pages, with its switch (`spark.sundog.decoder`).

| asked for | taken here | otherwise |
|---|---|---|
| columns of numbers, of whole row groups or of some rows | `number_pages.py` | Arrow decodes the column |
| a string column of a row group, as it is stored | `text_pages.py` | Arrow decodes the column |
| some rows of a string column, of whole row groups | `text_pages.py` | as all rows of it |
| a few rows of a column chunk | `pages.py`: the pages are chosen here, and decoded by Arrow | Arrow decodes the chunk |

Switched off, it decodes nothing: no page header is read here, and no kernel is given a page.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.parquet.decode.number_pages import read_numbers
from sundog.parquet.decode.page_map import PageMap
from sundog.parquet.decode.pages import PageReader
from sundog.parquet.decode.text_pages import read_chosen_text, read_text
from sundog.parquet.meta.file_schema import ColumnSource
from sundog.parquet.meta.footer import Footer


class OwnDecoder:
    """sundog's decoding of one open file. Not shared between threads."""

    def __init__(self, source: pa.NativeFile, footer: Footer, switched_on: bool) -> None:
        self._source = source
        self._footer = footer
        self._switched_on = switched_on
        self._pages = PageReader(source, footer)

    def numbers(
        self,
        row_groups: Sequence[int],
        columns: list[ColumnSource],
        rows: npt.NDArray[np.int64] | None = None,
        short: frozenset[str] = frozenset(),
    ) -> dict[str, pa.Array]:
        """Those of the columns that it decodes, each in the query's type or in its stored type; decimals named by
        `short` may be decimal64."""
        if not self._switched_on:
            return {}
        return read_numbers(self._source, self._footer, row_groups, columns, rows, short)

    def text(self, row_group: int, column: ColumnSource) -> pa.Array | None:
        """A string column as string_view, or as a dictionary of such."""
        if not self._switched_on:
            return None
        return read_text(self._source, self._footer, row_group, column.leaf, column.dtype)

    def chosen_text(
        self, row_groups: Sequence[int], column: ColumnSource, rows: npt.NDArray[np.int64]
    ) -> pa.Array | None:
        """A few rows of a string column, counted from the first of the row groups: of one row group as a dictionary of
        string_view if all its strings are in one, else copied."""
        if not self._switched_on or not len(rows):
            return None
        leaf, dtype = column.leaf, column.dtype
        if len(row_groups) == 1:
            return read_chosen_text(self._source, self._footer, row_groups[0], leaf, dtype, rows, as_dictionary=True)
        parts = []
        starts = np.cumsum([0, *(int(self._footer.row_counts[group]) for group in row_groups[:-1])])
        chosen = np.split(rows, np.searchsorted(rows, starts[1:]))
        for group, first, part in zip(row_groups, starts, chosen, strict=True):
            if len(part):
                chosen_rows = part - first
                strings = read_chosen_text(
                    self._source, self._footer, group, leaf, dtype, chosen_rows, as_dictionary=False
                )
                if strings is None:
                    return None
                parts.append(strings)
        try:
            return pa.concat_arrays(parts)
        except pa.ArrowException:  # more bytes than one array holds
            return None

    def page_map(self, row_group: int, leaf: int) -> PageMap | None:
        """The places of the pages of a chunk of a local file."""
        return self._pages.page_map(row_group, leaf) if self._switched_on else None

    def decode_pages(
        self, row_group: int, leaf: int, pages: PageMap, rows: npt.NDArray[np.int64], as_dictionary: bool
    ) -> pa.Table:
        """The pages of the (ascending) rows. `as_dictionary` avoids copying strings."""
        return self._pages.decode(row_group, leaf, pages, rows, as_dictionary)
