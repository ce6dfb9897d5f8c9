"""The page index of a column chunk: rows and bounds of each page, so that pages are skipped as row groups are.

    fact JOIN dim ON fact.d = dim.id WHERE dim.name = 'x'       keys 4711, 4712; row group 0..100,000 in 50 pages

The row group holds keys, but if rows are in the order of `d`, only one of its pages does: 2,000 of 100,000 rows. Spark
writes an index of each column (a column index with bounds and NULLs of pages, and an offset index with their first
rows), Arrow does if asked to. It is between the row groups and the footer.

Any dynamic filter could use it. The threshold of a top-k was tried, and does not. The best 10 of 8 M random integers
took 29 ms of processor time instead of 33, the best 100 the same as before. A clustered key, of which one row group is
read, took 19 instead of 16.

A scan reads it when it is needed (0.3 ms for 50 pages, and as much again if it skips any). It does not if most pages of
the row group would hold keys even if rows were in order. It is checked: pages in order, and together the rows of the
row group. An inconsistent index is ignored, and no page is skipped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.expr.buffers import Bools
from sundog.expr.dynamic_filters.contract import DynamicFilter
from sundog.expr.nodes import Column, Expr
from sundog.expr.rank_columns import RankColumn
from sundog.parquet.meta.chunk_table import COLUMN_INDEX, OFFSET_INDEX
from sundog.parquet.meta.file_layout import FileLayout
from sundog.parquet.meta.file_schema import ColumnSource
from sundog.parquet.meta.file_statistics import trusted_page_statistics
from sundog.parquet.meta.footer import Footer
from sundog.parquet.meta.statistics import Bounds, bounds_by, column_bounds
from sundog.parquet.meta.thrift import (
    BINARIES,
    BOOLEANS,
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


class PageIndexCosts(Protocol):
    """When page indexes are looked up, and when rows are decoded by their numbers (`operators/costs.py`)."""

    @property
    def page_index_rows(self) -> int: ...

    @property
    def page_index_row_groups(self) -> int: ...

    @property
    def assumed_page_rows(self) -> int: ...

    @property
    def assumed_pages(self) -> int: ...

    @property
    def max_even_pages_factor(self) -> float: ...

    @property
    def rows_per_late_value(self) -> int: ...


@dataclass(frozen=True, eq=False)
class LeftRows:
    """Ascending numbers of rows, counted from the first of some row groups, and the number of pages without any."""

    numbers: Rows
    pages_pruned: int


class PagePruner:
    """Tests the page indexes of one row group after another, for one task. Not shared between threads.

    After a filter has left all pages of some row groups, it is no longer tested: the key is not clustered within them.
    """

    def __init__(self, costs: PageIndexCosts) -> None:
        self._costs = costs
        self._in_vain: Counter[Expr] = Counter()

    def rows_left(
        self,
        source: pa.NativeFile,
        layout: FileLayout,
        row_groups: Sequence[int],
        filters: Sequence[DynamicFilter],
    ) -> LeftRows | None:
        """The rows of the pages in which a row may pass every filter, if they are few; else None."""
        asked = [each for each in filters if self._is_asked(each)]
        counts = [int(layout.footer.row_counts[group]) for group in row_groups]
        if not asked or max(counts) < self._costs.page_index_rows:
            return None
        parts = [self._rows_of(source, layout, group, asked) for group in row_groups]
        if all(mask is None for mask, _ in parts):
            return None
        pairs = zip(parts, counts, strict=True)
        mask = np.concatenate([np.ones(count, np.bool_) if part is None else part for (part, _), count in pairs])
        left = int(np.count_nonzero(mask))
        if left * self._costs.rows_per_late_value > len(mask):
            return None
        return LeftRows(np.flatnonzero(mask), sum(pages for _, pages in parts))

    def _is_asked(self, each: DynamicFilter) -> bool:
        is_column = isinstance(each.expr, Column) and each.generation > 0
        return is_column and self._in_vain[each.expr] < self._costs.page_index_row_groups

    def _rows_of(
        self, source: pa.NativeFile, layout: FileLayout, row_group: int, filters: Sequence[DynamicFilter]
    ) -> tuple[Bools | None, int]:
        """The remaining rows of a row group, None for all, and the number of skipped pages."""
        left: Bools | None = None
        pruned = 0
        for each in filters:
            assert isinstance(each.expr, Column), "others are not asked"
            column = layout.by_name.get(each.expr.name)
            if column is None or isinstance(column, PartitionColumn) or column.leaf < 0:
                continue
            bounds = self._bounds_of(source, layout, row_group, column, each)
            held = None if bounds is None else each.may_hold(bounds)
            if held is None or held.all():
                self._in_vain[each.expr] += 1
                continue
            counts = page_rows(source, layout, row_group, column, len(held))
            if counts is None:
                continue
            self._in_vain[each.expr] = 0
            pruned += len(held) - int(np.count_nonzero(held))
            rows: Bools = np.repeat(held, counts)
            left = rows if left is None else left & rows
        return left, pruned

    def _bounds_of(
        self, source: pa.NativeFile, layout: FileLayout, row_group: int, column: ColumnSource, each: DynamicFilter
    ) -> Bounds | None:
        """Bounds of the pages; None if there are none, or if most pages would pass even if rows were in order."""
        costs, rows = self._costs, int(layout.footer.row_counts[row_group])
        group = _group_bounds(layout.footer, column).take(np.array([row_group]))
        pages = even_pages(group, max(rows // costs.assumed_page_rows, costs.assumed_pages))
        most = costs.max_even_pages_factor / costs.rows_per_late_value
        if pages is not None and each.may_hold(pages).mean() > most:
            return None
        return page_bounds(source, layout, row_group, column)


def _group_bounds(footer: Footer, column: ColumnSource) -> Bounds:
    """Bounds of the row groups of a column, computed once."""
    key = (column_bounds, replace(column, name=""))
    if key not in footer.derived:
        footer.derived[key] = column_bounds(column, footer)
    found: Bounds = footer.derived[key]
    return found


def even_pages(group: Bounds, count: int) -> Bounds | None:
    """The bounds that the pages of a row group would have if its values were sorted and even; None if that is
    unknown."""
    low, high = group.low[0], group.high[0]
    if group.low.words is None or not isinstance(low, int) or not isinstance(high, int) or high - low < count:
        return None
    edges = [low + (high - low) * at // count for at in range(count + 1)]
    lows, highs = (RankColumn.of(each, group.dtype) for each in (edges[:-1], edges[1:]))
    return Bounds.stored(group.dtype, lows, highs, np.zeros(count, np.int64), np.ones(count, np.int64))


def page_bounds(source: pa.NativeFile, layout: FileLayout, row_group: int, column: ColumnSource) -> Bounds | None:
    """Bounds of the pages of a column chunk of a local file; None if there is no consistent column index."""
    if not is_local(layout.file.path):
        return None
    known = layout.footer.derived
    key = (page_bounds, row_group, replace(column, name=""))
    if key not in known:
        index = _read(source, layout.footer, row_group, column.leaf, COLUMN_INDEX)
        known[key] = None if index is None else _bounds(index, layout.footer, column)
    found: Bounds | None = known[key]
    return found


def page_rows(
    source: pa.NativeFile, layout: FileLayout, row_group: int, column: ColumnSource, pages: int
) -> Rows | None:
    """The rows of each of `pages` pages; None if there is no consistent offset index."""
    known = layout.footer.derived
    key = (page_rows, row_group, column.leaf)
    if key not in known:
        index = _read(source, layout.footer, row_group, column.leaf, OFFSET_INDEX)
        known[key] = None if index is None else _row_counts(index, int(layout.footer.row_counts[row_group]))
    found: Rows | None = known[key]
    return found if found is not None and len(found) == pages else None


def _read(source: pa.NativeFile, footer: Footer, row_group: int, leaf: int, kind: int) -> Struct | None:
    place = footer.values.extra(kind, row_group, leaf)
    if place is None or place[1] > MAX_INDEX_BYTES or not footer.values.leaves[leaf].is_flat:
        return None
    try:
        return read_struct(source.read_at(place[1], place[0]))[0]
    except (ThriftError, OSError):  # reading the pages will raise the same OSError
        return None


def _row_counts(offset_index: Struct, rows: int) -> Rows | None:
    """The rows of each page; None unless they are in order, and add up to those of the row group."""
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


def _bounds(column_index: Struct, footer: Footer, column: ColumnSource) -> Bounds | None:
    """The bounds of pages. A page that is not all NULLs may hold values: its number of rows is not known here."""
    is_null = list_of(column_index, ColumnIndexFields.NULL_PAGES, BOOLEANS)
    lows = list_of(column_index, ColumnIndexFields.MIN_VALUES, BINARIES)
    highs = list_of(column_index, ColumnIndexFields.MAX_VALUES, BINARIES)
    if is_null is None or lows is None or highs is None or not len(is_null) == len(lows) == len(highs):
        return None
    pairs = [None if null else (low, high) for null, low, high in zip(is_null, lows, highs, strict=True)]
    nulls = [1 if null else -1 for null in is_null]
    raw = trusted_page_statistics(footer.values, footer.leaf(column.leaf), pairs, nulls)
    return bounds_by(raw, column, footer, np.ones(len(pairs), np.int64))
