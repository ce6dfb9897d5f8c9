"""The page index of a column chunk: rows and bounds of each page, so that pages are skipped as row groups are.

    fact JOIN dim ON fact.d = dim.id WHERE dim.name = 'x'       keys 4711, 4712; row group 0..100,000 in 50 pages

The row group holds keys, but if rows are in the order of `d`, one of its pages does: 2,000 of 100,000 rows. Spark
writes an index of each column (a column index with bounds and NULLs of pages, and an offset index with their first
rows), Arrow does if it is told to. It lies between the row groups and the footer.

It is read when a scan asks for it, and checked: page after page, and together the rows of the row group. An index that
does not add up is none, and no page is skipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.expr.buffers import Bools
from sundog.expr.dynamic_filters.key_set import KeyFilter
from sundog.parquet.meta.chunk_table import COLUMN_INDEX, OFFSET_INDEX
from sundog.parquet.meta.file_layout import FileLayout
from sundog.parquet.meta.file_schema import ColumnSource
from sundog.parquet.meta.file_statistics import trusted_page_statistics
from sundog.parquet.meta.footer import Footer
from sundog.parquet.meta.statistics import Bounds, bounds_by
from sundog.parquet.meta.thrift import (
    BINARIES,
    BOOLEANS,
    LONGS,
    STRUCTS,
    Struct,
    ThriftError,
    integer_of,
    list_of,
    read_struct,
)
from sundog.parquet.meta.thrift_fields import ColumnIndexFields, OffsetIndexFields, PageLocationFields
from sundog.parquet.paths import is_local
from sundog.parquet.reading import PartitionColumn

Rows = npt.NDArray[np.int64]

MAX_INDEX_BYTES = 16 << 20


@dataclass(frozen=True, eq=False)
class PageIndex:
    """`row_counts` and `bounds` of the pages of a column chunk, in order."""

    row_counts: Rows
    bounds: Bounds


class PagePruner:
    """Asks the page indexes of one row group after another, for one task. Not shared between threads.

    A filter that left all pages of some row groups is not asked any more: the key is not clustered inside of them.
    """

    def __init__(self, filters: Sequence[KeyFilter], max_row_groups_in_vain: int) -> None:
        self._filters = [each for each in filters if each.generation]
        self._in_vain = [0] * len(self._filters)
        self._max_in_vain = max_row_groups_in_vain
        self.pruned = 0  # pages so far

    def rows_left(self, source: pa.NativeFile, layout: FileLayout, row_groups: Sequence[int]) -> Bools | None:
        """The rows of the pages in which a row may pass every filter; None for all rows."""
        parts = [self._rows_of(source, layout, group) for group in row_groups] if self._filters else []
        if all(part is None for part in parts):
            return None
        counts = (int(layout.footer.row_counts[group]) for group in row_groups)
        pairs = zip(parts, counts, strict=True)
        return np.concatenate([np.ones(count, np.bool_) if part is None else part for part, count in pairs])

    def _rows_of(self, source: pa.NativeFile, layout: FileLayout, row_group: int) -> Bools | None:
        left: Bools | None = None
        for number, each in enumerate(self._filters):
            if self._in_vain[number] >= self._max_in_vain:
                continue
            column = layout.by_name.get(each.column)
            if column is None or isinstance(column, PartitionColumn) or column.leaf < 0:
                continue
            index = page_index(source, layout, row_group, column)
            held = None if index is None else each.may_hold(index.bounds)
            if index is None or held is None or held.all():
                self._in_vain[number] += 1
                continue
            self._in_vain[number] = 0
            self.pruned += len(held) - int(np.count_nonzero(held))
            rows: Bools = np.repeat(held, index.row_counts)
            left = rows if left is None else left & rows
        return left


def page_index(source: pa.NativeFile, layout: FileLayout, row_group: int, column: ColumnSource) -> PageIndex | None:
    """The index of a column chunk of a local file; None if there is none that adds up."""
    if not is_local(layout.file.path):
        return None
    known = layout.footer.derived
    key = (PageIndex, row_group, replace(column, name=""))
    if key not in known:
        known[key] = _read(source, layout.footer, row_group, column)
    found: PageIndex | None = known[key]
    return found


def _read(source: pa.NativeFile, footer: Footer, row_group: int, column: ColumnSource) -> PageIndex | None:
    values = footer.values
    places = [values.extra(kind, row_group, column.leaf) for kind in (COLUMN_INDEX, OFFSET_INDEX)]
    if not values.leaves[column.leaf].is_flat:
        return None
    structs: list[Struct] = []
    for place in places:
        if place is None or place[1] > MAX_INDEX_BYTES:
            return None
        try:
            structs.append(read_struct(source.read_at(place[1], place[0]))[0])
        except (ThriftError, OSError):  # who then reads the pages meets the same OSError, and reports it
            return None
    row_counts = _row_counts(structs[1], int(footer.row_counts[row_group]))
    return None if row_counts is None else _index(structs[0], row_counts, footer, column)


def _row_counts(offset_index: Struct, rows: int) -> Rows | None:
    """The rows of each page; None unless they are in order, and together those of the row group."""
    pages = list_of(offset_index, OffsetIndexFields.PAGES, STRUCTS)
    firsts = [integer_of(page, PageLocationFields.FIRST_ROW) for page in pages or ()]
    if not firsts or firsts[0] != 0:
        return None
    counts = []
    for first, following in zip(firsts, [*firsts[1:], rows], strict=True):
        if first is None or following is None or not first <= following <= rows:
            return None
        counts.append(following - first)
    return np.array(counts, np.int64)


def _index(column_index: Struct, row_counts: Rows, footer: Footer, column: ColumnSource) -> PageIndex | None:
    is_null = list_of(column_index, ColumnIndexFields.NULL_PAGES, BOOLEANS)
    lows = list_of(column_index, ColumnIndexFields.MIN_VALUES, BINARIES)
    highs = list_of(column_index, ColumnIndexFields.MAX_VALUES, BINARIES)
    counts = list_of(column_index, ColumnIndexFields.NULL_COUNTS, LONGS) or [-1] * len(row_counts)
    if is_null is None or lows is None or highs is None:
        return None
    if not len(is_null) == len(lows) == len(highs) == len(counts) == len(row_counts):
        return None
    if any(not -1 <= count <= rows for count, rows in zip(counts, row_counts.tolist(), strict=True)):
        return None
    pairs = [None if null else (low, high) for null, low, high in zip(is_null, lows, highs, strict=True)]
    nulls = [rows if null else count for null, rows, count in zip(is_null, row_counts.tolist(), counts, strict=True)]
    raw = trusted_page_statistics(footer.values, footer.leaf(column.leaf), pairs, nulls)
    return PageIndex(row_counts, bounds_by(raw, column, footer, row_counts))
