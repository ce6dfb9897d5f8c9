"""`FROM parquet WHERE predicate`, one task's share of it: the leaf under every plan of sundog.

Spark's scan decodes every column of every row that its filters on statistics leave. Here the columns of the WHERE and
the keys of joins above are decoded first, one after the other (`row_tests.py`); if few rows are left, other columns are
decoded for these only (`narrowing.py`). A row group that statistics prove to match as a whole is not filtered by the
WHERE at all. Small row groups are read together, huge ones in parts.

Measured on 100,000 rows x 16 columns: Arrow decodes them in 24 ms, its own threads only help when nothing else runs, so
a task decodes by itself and the runtime runs several tasks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import compress

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.columns.arrow import plain_text
from sundog.columns.stored_text import StoredPredicate
from sundog.expr.dynamic_filters.key_set import KeyFilter
from sundog.expr.nodes import Expr, columns_of
from sundog.operators.context import TaskContext
from sundog.operators.costs import ScanCosts
from sundog.operators.scan.narrowing import Narrowing
from sundog.operators.scan.row_tests import RowTest, RowTests
from sundog.parquet.decode.reader import FileReader
from sundog.parquet.meta.file_layout import FileLayout
from sundog.parquet.meta.footer import read_footer
from sundog.parquet.problems import FileProblem, ProblemKind
from sundog.parquet.prune.access_plan import FileSlice, ParquetAccessPlan
from sundog.parquet.prune.bloom_filter import BloomFilterPruner, wanted_values
from sundog.parquet.prune.page_index import PagePruner
from sundog.parquet.reading import ReadSpec
from sundog.types import is_text

_SMALLEST_BATCH = 1024


@dataclass(frozen=True)
class ScanTask:
    """Reads `columns` of its slices' rows where `predicate` is true. `batch_rows` bounds batches, to stop early.

    `as_stored` names string columns that the reader takes as dictionary or string_view arrays as well: no string is
    copied then (`parquet/decode/text_pages.py`), and equal ones of a dictionary need not be found again.
    """

    reading: ReadSpec
    slices: tuple[FileSlice, ...]
    columns: tuple[str, ...]
    predicate: Expr | None = None
    batch_rows: int | None = None
    as_stored: frozenset[str] = frozenset()
    again: bool = False  # another task reads and counts the same rows
    filters: tuple[KeyFilter, ...] = ()
    costs: ScanCosts = field(kw_only=True)

    @property
    def schema(self) -> pa.Schema:
        return column_schema(self.reading, self.columns)

    def read(self, context: TaskContext) -> Iterator[pa.RecordBatch]:
        schema = self.schema
        tests = RowTests(self.predicate, self.filters, self._tested_schema, self.costs)
        blooms = BloomFilterPruner(wanted_values(self.predicate, self.filters, self.costs.bloom_filter_values))
        pages = PagePruner(self.costs)
        unread = sum(len(part.row_groups) for part in self.slices)
        try:
            for part in self.slices:
                with open_slice(self.reading, part, context, self.as_stored) as reader:
                    left = self._with_values(part, reader, blooms, context)
                    unread -= len(part.row_groups) - len(left.row_groups)
                    for groups, all_match in _runs(left, reader.layout, self._run_rows, self.costs.scan_run_bytes):
                        context.check_cancelled()
                        unread -= len(groups)
                        context.metrics.add("row_groups_scanned", len(groups))
                        for batch in self._read_run(reader, groups, tests.of_run(all_match), pages, schema, context):
                            if batch.num_rows:
                                yield batch
        except GeneratorExit:  # whoever reads has enough rows
            context.metrics.add("row_groups_never_reached", unread)
            raise

    def _with_values(
        self, part: FileSlice, reader: FileReader, blooms: BloomFilterPruner, context: TaskContext
    ) -> FileSlice:
        """The row groups that may hold the values that are asked for, by the Bloom filters of the file."""
        kept = [not blooms.should_skip(reader.source, reader.layout, group) for group in part.row_groups]
        if all(kept):
            return part
        if not self.again:
            context.metrics.add("row_groups_pruned_bloom_filter", kept.count(False))
        groups, match = tuple(compress(part.row_groups, kept)), tuple(compress(part.all_rows_match, kept))
        return replace(part, row_groups=groups, all_rows_match=match)

    @property
    def _tested_schema(self) -> pa.Schema:
        names = set() if self.predicate is None else columns_of(self.predicate)
        return column_schema(self.reading, sorted(names | {each.column for each in self.filters}))

    @property
    def _run_rows(self) -> int:
        """How many rows may be read in one go, if they are of more than one row group."""
        if self.batch_rows is not None:
            return 0
        reads_text = any(is_text(column.dtype) for column in self.reading.file_columns)  # those of the WHERE as well
        return self.costs.scan_run_rows if reads_text else self.costs.scan_run_rows_of_numbers

    def _read_run(
        self,
        reader: FileReader,
        groups: list[int],
        tests: list[RowTest],
        pages: PagePruner,
        schema: pa.Schema,
        context: TaskContext,
    ) -> Iterator[pa.RecordBatch]:
        names = list(self.columns)
        tested = list(dict.fromkeys(name for test in tests for name in test.columns))
        few = self._rows_in_pages(reader, groups, pages, context)
        if not tested and few is None:
            for arrays in self._decode(reader, groups, names):
                batch = to_batch(arrays, schema, _rows_in(reader, groups))
                self._count(batch.num_rows, 0, 0, context)
                yield batch
            return
        together = tested + [name for name in names if name not in tested]
        if few is None and (self.batch_rows is not None or not self._fits(reader, groups, together)):
            yield from self._filter_pieces(reader, groups, together, tests, context)
            return
        rows = Narrowing(reader, groups, _rows_in(reader, groups), self.costs, few=few)
        if self._narrow(rows, tests, context):
            as_stored = self._texts(schema) if rows.are_few else self.as_stored
            kept = rows.kept(rows.columns(names, as_stored), names) if names else to_batch([], schema, rows.left)
            yield self._with_plain_texts(kept, schema)

    def _rows_in_pages(
        self, reader: FileReader, groups: list[int], pages: PagePruner, context: TaskContext
    ) -> npt.NDArray[np.int64] | None:
        """The numbers of the rows whose pages may hold keys of joins, if they are so few that it pays; None for all."""
        if not self.filters or self.batch_rows is not None:
            return None
        names = {*self.columns, *(field.name for field in self._tested_schema)}
        if not self._fits(reader, groups, sorted(names)):
            return None
        left = pages.rows_left(reader.source, reader.layout, groups, self.filters)
        if left is None:
            return None
        if not self.again:
            context.metrics.add("pages_pruned_join_filter", left.pages_pruned)
        return left.numbers

    def _narrow(self, rows: Narrowing, tests: list[RowTest], context: TaskContext) -> int:
        """Make the tests; how many rows are left."""
        total = left = rows.left
        by_where = by_joins = 0
        for test in tests:
            if not left:
                break
            columns = rows.columns(test.columns, test.as_stored)
            rows.narrow(test.passing(to_batch(columns, column_schema(self.reading, test.columns), rows.tested_rows)))
            dropped, left = left - rows.left, rows.left
            if test.is_of_join:
                by_joins += dropped
            else:
                by_where += dropped
        self._count(total, by_where, by_joins, context)
        return left

    @staticmethod
    def _texts(schema: pa.Schema) -> frozenset[str]:
        """Of rows that are mostly dropped no string need be copied before it is known to stay."""
        return frozenset(field.name for field in schema if is_text(field.type))

    def _with_plain_texts(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        columns = [
            column if field.name in self.as_stored else plain_text(column)
            for column, field in zip(batch.columns, schema, strict=True)
        ]
        return to_batch(columns, schema, batch.num_rows)

    def _filter_pieces(
        self, reader: FileReader, groups: list[int], together: list[str], tests: list[RowTest], context: TaskContext
    ) -> Iterator[pa.RecordBatch]:
        schema = column_schema(self.reading, together)
        for arrays in self._decode(reader, groups, together):
            batch = to_batch(arrays, schema, _rows_in(reader, groups))
            rows = Narrowing(
                reader, groups, batch.num_rows, self.costs, dict(zip(together, batch.columns, strict=True))
            )
            self._narrow(rows, tests, context)
            names = list(self.columns)
            yield rows.kept(rows.columns(names, frozenset()), names) if names else to_batch([], schema, rows.left)

    def _count(self, rows: int, dropped_by_where: int, dropped_by_joins: int, context: TaskContext) -> None:
        if self.again:
            context.metrics.add("rows_read_again", rows)
            return
        if self.filters:
            context.metrics.add("rows_pruned_join_filter", dropped_by_joins)
        context.metrics.add("input_rows", rows)
        if self.predicate is not None:
            context.metrics.add("rows_filtered", dropped_by_where)

    def _decode(self, reader: FileReader, groups: list[int], names: list[str]) -> Iterator[list[pa.Array]]:
        if not names:
            yield []
        elif self.batch_rows is not None:
            for group in groups:
                yield from reader.stream(group, names, self.batch_rows)
        elif len(groups) == 1:
            yield from reader.pieces(groups[0], names)
        else:
            yield reader.read(groups, names)

    def _fits(self, reader: FileReader, groups: list[int], names: list[str]) -> bool:
        return sum(reader.layout.memory_bytes(names, group) for group in groups) <= self.costs.scan_run_bytes * 4


def scan_tasks(
    plan: ParquetAccessPlan,
    count: int,
    costs: ScanCosts,
    as_stored: frozenset[str] = frozenset(),
    again: bool = False,
) -> list[ScanTask]:
    """The plan's work in at most `count` tasks of about equal bytes, in file order."""
    if plan.predicate is not None:
        as_stored -= columns_of(plan.predicate) - StoredPredicate.of(plan.predicate).as_stored
    return [
        ScanTask(plan.reading, slices, plan.columns, plan.predicate, None, as_stored, again, plan.filters, costs=costs)
        for slices in plan.tasks(count)
    ]


def repeated_scans(
    plan: ParquetAccessPlan, times: int, costs: ScanCosts, as_stored: frozenset[str] = frozenset()
) -> list[ScanTask]:
    """As many tasks, of which each does all of the plan's work. The rows are counted by the first."""
    return [task for number in range(times) for task in scan_tasks(plan, 1, costs, as_stored, again=number > 0)]


def limit_scan(plan: ParquetAccessPlan, limit: int, costs: ScanCosts) -> ScanTask:
    """One task for `LIMIT` without an order: the first rows in reading order, in batches of about `limit` rows.

    Any rows would be right, but Spark's are these. Row groups that match as a whole were once read first, which gave
    other rows. Put a `LimitOperator` above it: when that has enough rows it stops asking, and what follows is never
    read.
    """
    batch_rows = min(max(limit, _SMALLEST_BATCH), costs.scan_run_rows)
    return ScanTask(plan.reading, plan.slices(plan.left), plan.columns, plan.predicate, batch_rows, costs=costs)


def open_slice(
    reading: ReadSpec, part: FileSlice, context: TaskContext, as_stored: frozenset[str] = frozenset()
) -> FileReader:
    """Open a file and make sure that it is still the file that was planned for."""
    footer = read_footer(part.file, reading.filesystem)
    if footer.identity != part.identity:
        raise FileProblem(ProblemKind.CHANGED, part.file.path)
    return FileReader(FileLayout.of(reading, part.file, footer), reading, context.metrics, as_stored)


def column_schema(reading: ReadSpec, names: tuple[str, ...] | list[str]) -> pa.Schema:
    types = {column.name: column.dtype for column in reading.file_columns}
    types |= {column.name: column.dtype for column in reading.partition_columns}
    return pa.schema([(name, types[name]) for name in names])


def to_batch(arrays: list[pa.Array], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """A batch; also one of no columns, which still has rows (`SELECT count(*)`)."""
    if arrays:
        if any(array.type != field.type for array, field in zip(arrays, schema, strict=True)):  # strings as stored
            return pa.record_batch(arrays, names=schema.names)
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
    return pa.record_batch([pa.nulls(rows)], names=["rows"]).select([])


def _rows_in(reader: FileReader, groups: list[int]) -> int:
    return sum(int(reader.layout.footer.row_counts[group]) for group in groups)


def _runs(part: FileSlice, layout: FileLayout, max_rows: int, max_bytes: int) -> Iterator[tuple[list[int], bool]]:
    """Row groups to read in one go: consecutive, with one verdict, and no more than a batch should hold."""
    run: list[int] = []
    run_match, run_rows, run_bytes = False, 0, 0
    for group, match in zip(part.row_groups, part.all_rows_match, strict=True):
        rows = int(layout.footer.row_counts[group])
        size = int(layout.footer.byte_counts[group])
        fits = run_rows + rows <= max_rows and run_bytes + size <= max_bytes
        if run and not (fits and match == run_match and group == run[-1] + 1):
            yield run, run_match
            run, run_rows, run_bytes = [], 0, 0
        run.append(group)
        run_match, run_rows, run_bytes = match, run_rows + rows, run_bytes + size
    if run:
        yield run, run_match
