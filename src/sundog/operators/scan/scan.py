"""`FROM parquet WHERE predicate`: one task's share of a scan, the leaf of most plans.

Spark's scan decodes every column of the rows that its statistics filters leave. Here the columns of the WHERE and the
keys of joins are decoded first, one after the other (`row_tests.py`). If few rows are left, the other columns are
decoded for these only (`narrowing.py`). A row group whose rows all match by statistics is not filtered by the WHERE at
all. Small row groups are read together, huge ones in parts.

On 100,000 rows x 16 columns, Arrow takes 24 ms to decode. Its own threads help only while nothing else runs, so a task
decodes on its own thread and the runtime runs several tasks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import compress

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.columns.arrow import in_plain_form
from sundog.columns.stored_text import StoredPredicate
from sundog.expr.dynamic_filters.key_set import KeyFilter
from sundog.expr.nodes import Expr, columns_of
from sundog.operators.base import Described
from sundog.operators.context import TaskContext
from sundog.operators.costs import ScanCosts
from sundog.operators.scan.narrowing import Narrowing
from sundog.operators.scan.row_tests import RowTest, RowTests
from sundog.operators.scan.table_scan import TableScan
from sundog.operators.sources import Source
from sundog.parquet.decode.reader import FileReader
from sundog.parquet.meta.file_layout import FileLayout
from sundog.parquet.meta.footer import read_footer
from sundog.parquet.problems import FileProblem, ProblemKind
from sundog.parquet.prune.access_plan import FileSlice, ParquetAccessPlan, ScannedTable
from sundog.parquet.prune.bloom_filter import BloomFilterPruner, wanted_values
from sundog.parquet.prune.page_index import PagePruner
from sundog.parquet.prune.pruning import without_not_null
from sundog.parquet.reading import ReadSpec
from sundog.types import is_text

_COPIES = 2  # of the rows that are decoded: as they were stored, or those before them


@dataclass(frozen=True)
class _ReadTogether:
    """Row groups that are read at once. `nbytes`: of their columns, decoded."""

    groups: list[int]
    all_match: bool
    rows: int = 0
    nbytes: int = 0


@dataclass(frozen=True)
class ScanTask(Source):
    """Reads `columns` of its slices' rows where `predicate` is true. `batch_rows` limits batches, to stop early.

    `never_null`: columns of which the predicate need not test that they are not NULL.
    `as_stored` names columns that the operator above takes in another form as well. Strings as dictionary or
    string_view arrays: none is copied then (`parquet/decode/text_pages.py`), and equal ones of a dictionary need not be
    found again. Decimals as decimal64.
    """

    reading: ReadSpec
    slices: tuple[FileSlice, ...]
    columns: tuple[str, ...]
    predicate: Expr | None = None
    batch_rows: int | None = None
    as_stored: frozenset[str] = frozenset()
    again: bool = False  # another task reads and counts the same rows
    filters: tuple[KeyFilter, ...] = ()
    readers: int = 1  # tasks of which each reads all rows
    never_null: frozenset[str] = frozenset()
    table: ScannedTable = field(kw_only=True)
    costs: ScanCosts = field(kw_only=True)

    @property
    def steps(self) -> tuple[Described, ...]:
        counted = {} if self.again else self.table.counted
        return (
            TableScan(self.table, self.columns, self.predicate, self.filters, readers=self.readers, counted=counted),
        )

    @property
    def schema(self) -> pa.Schema:
        return column_schema(self.reading, self.columns)

    def read(self, context: TaskContext) -> Iterator[pa.RecordBatch]:
        schema = self.schema
        tests = RowTests(
            without_not_null(self.predicate, self.never_null), self.filters, self._tested_schema, self.costs
        )
        blooms = BloomFilterPruner(wanted_values(self.predicate, self.filters, self.costs.bloom_filter_values))
        pages = PagePruner(self.costs)
        unread = sum(len(part.row_groups) for part in self.slices)
        try:
            for part in self.slices:
                with open_slice(self.reading, part, context, self.as_stored) as reader:
                    left = self._with_values(part, reader, blooms, context)
                    unread -= len(part.row_groups) - len(left.row_groups)
                    for run in self._runs(left, reader.layout, context.memory.limit):
                        context.check_cancelled()
                        unread -= len(run.groups)
                        context.metrics.add("row_groups_scanned", len(run.groups))
                        with context.memory.holding(_COPIES * min(run.nbytes, self._whole_bytes(context))):
                            made = self._read_run(reader, run, tests.of_run(run.all_match), pages, schema, context)
                            yield from (batch for batch in made if batch.num_rows)
        except GeneratorExit:  # the reader has enough rows
            context.metrics.add("row_groups_never_reached", unread)
            raise
        finally:
            if tests.given_up:
                context.metrics.add("join_filters_given_up", tests.given_up)

    def _with_values(
        self, part: FileSlice, reader: FileReader, blooms: BloomFilterPruner, context: TaskContext
    ) -> FileSlice:
        """The row groups that, by the Bloom filters of the file, may hold the values that columns are compared with."""
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
        """Rows that may be read at once from several row groups."""
        if self.batch_rows is not None:
            return 0
        reads_text = any(is_text(column.dtype) for column in self.reading.file_columns)  # those of the WHERE as well
        return self.costs.scan_run_rows if reads_text else self.costs.scan_run_rows_of_numbers

    def _read_run(
        self,
        reader: FileReader,
        run: _ReadTogether,
        tests: list[RowTest],
        pages: PagePruner,
        schema: pa.Schema,
        context: TaskContext,
    ) -> Iterator[pa.RecordBatch]:
        names, groups, most = list(self.columns), run.groups, self._whole_bytes(context)
        tested = list(dict.fromkeys(name for test in tests for name in test.columns))
        few = self._rows_in_pages(reader, run, pages, context)
        if not tested and few is None:
            for arrays in self._decode(reader, groups, names, most):
                batch = to_batch(arrays, schema, _rows_in(reader, groups))
                self._count(batch.num_rows, 0, 0, context)
                yield batch
            return
        together = tested + [name for name in names if name not in tested]
        if few is None and (self.batch_rows is not None or run.nbytes > most):
            yield from self._filter_pieces(reader, groups, together, tests, context)
            return
        rows = Narrowing(reader, groups, _rows_in(reader, groups), self.costs, few=few)
        if self._narrow(rows, tests, context):
            as_stored = self._texts(schema) if rows.are_few else self.as_stored
            kept = rows.kept(rows.columns(names, as_stored), names) if names else to_batch([], schema, rows.left)
            yield self._in_declared_form(kept, schema)

    def _rows_in_pages(
        self, reader: FileReader, run: _ReadTogether, pages: PagePruner, context: TaskContext
    ) -> npt.NDArray[np.int64] | None:
        """The numbers of rows in pages that may hold join keys, if they are few enough to pay; None: read all."""
        if not self.filters or self.batch_rows is not None:
            return None
        if run.nbytes > self._whole_bytes(context):
            return None
        left = pages.rows_left(reader.source, reader.layout, run.groups, self.filters)
        if left is None:
            return None
        if not self.again:
            context.metrics.add("pages_pruned_join_filter", left.pages_pruned)
        return left.numbers

    def _narrow(self, rows: Narrowing, tests: list[RowTest], context: TaskContext) -> int:
        """Make the tests; the number of remaining rows."""
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
        """String columns to read as stored: most rows are dropped, and only those of the remaining ones are copied."""
        return frozenset(field.name for field in schema if is_text(field.type))

    def _in_declared_form(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        columns = [
            column if field.name in self.as_stored else in_plain_form(column)
            for column, field in zip(batch.columns, schema, strict=True)
        ]
        return to_batch(columns, schema, batch.num_rows)

    def _filter_pieces(
        self, reader: FileReader, groups: list[int], together: list[str], tests: list[RowTest], context: TaskContext
    ) -> Iterator[pa.RecordBatch]:
        schema = column_schema(self.reading, together)
        for arrays in self._decode(reader, groups, together, self._whole_bytes(context)):
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

    def _decode(self, reader: FileReader, groups: list[int], names: list[str], most: int) -> Iterator[list[pa.Array]]:
        if not names:
            yield []
        elif self.batch_rows is not None:
            for group in groups:
                yield from reader.stream(group, names, self.batch_rows)
        elif len(groups) == 1:
            yield from reader.pieces(groups[0], names, most)
        else:
            yield reader.read(groups, names)

    def _whole_bytes(self, context: TaskContext) -> int:
        return self.costs.whole_bytes(context.memory.limit)

    def _runs(self, part: FileSlice, layout: FileLayout, memory_bytes: int) -> Iterator[_ReadTogether]:
        """Row groups to read at once: consecutive, with the same pruning verdict, within the limits of a batch.

        The limit for all bytes bounds what is read; that for the columns bounds what is held, a part of the task's
        memory.
        """
        names = list(dict.fromkeys((*self.columns, *self._tested_schema.names)))
        max_rows, max_bytes = self._run_rows, self.costs.scan_run_bytes
        most = int(memory_bytes * self.costs.run_memory_share)
        run, run_bytes = _ReadTogether([], False), 0
        for group, match in zip(part.row_groups, part.all_rows_match, strict=True):
            rows, size = int(layout.footer.row_counts[group]), int(layout.footer.byte_counts[group])
            own = layout.memory_bytes(names, group)
            fits = run.rows + rows <= max_rows and run_bytes + size <= max_bytes and run.nbytes + own <= most
            if run.groups and not (fits and match == run.all_match and group == run.groups[-1] + 1):
                yield run
                run, run_bytes = _ReadTogether([], match), 0
            run = _ReadTogether([*run.groups, group], match, run.rows + rows, run.nbytes + own)
            run_bytes += size
        if run.groups:
            yield run


def scan_tasks(
    plan: ParquetAccessPlan,
    count: int,
    costs: ScanCosts,
    as_stored: frozenset[str] = frozenset(),
    again: bool = False,
) -> list[ScanTask]:
    """The plan's work in at most `count` tasks of about equal bytes, in file order; at least one."""
    if plan.predicate is not None:
        as_stored -= columns_of(plan.predicate) - StoredPredicate.of(plan.predicate).as_stored
    return [
        ScanTask(
            plan.reading,
            slices,
            plan.columns,
            plan.predicate,
            None,
            as_stored,
            again,
            plan.filters,
            never_null=plan.never_null,
            table=plan.scanned,
            costs=costs,
        )
        for slices in plan.tasks(count, costs.row_group_overhead_bytes) or [()]
    ]


def repeated_scans(
    plan: ParquetAccessPlan, times: int, costs: ScanCosts, as_stored: frozenset[str] = frozenset()
) -> list[ScanTask]:
    """`times` tasks that each do all of the plan's work. Only the first counts the rows."""
    (task,) = scan_tasks(plan, 1, costs, as_stored)
    return [replace(task, readers=times, again=number > 0) for number in range(times)]


def limit_scan(plan: ParquetAccessPlan, limit: int, costs: ScanCosts) -> ScanTask:
    """One task for `LIMIT` without an order: the first rows in reading order, in batches of about `limit` rows.

    SQL allows any rows, but Spark gives these. (Reading row groups that match as a whole first gave other rows.) Put a
    `LimitOperator` above it: once that has enough rows it asks for no more, and the rest is never read.
    """
    batch_rows = min(max(limit, costs.limit_batch_rows), costs.scan_run_rows)
    return ScanTask(
        plan.reading,
        plan.slices(plan.left),
        plan.columns,
        plan.predicate,
        batch_rows,
        table=plan.scanned,
        costs=costs,
    )


def open_slice(
    reading: ReadSpec, part: FileSlice, context: TaskContext, as_stored: frozenset[str] = frozenset()
) -> FileReader:
    """Open a file, after checking that it has not changed since it was planned for."""
    footer = read_footer(part.file, reading.filesystem)
    if footer.identity != part.identity:
        raise FileProblem(ProblemKind.CHANGED, part.file.path)
    return FileReader(FileLayout.of(reading, part.file, footer), reading, context.metrics, as_stored)


def column_schema(reading: ReadSpec, names: tuple[str, ...] | list[str]) -> pa.Schema:
    types = {column.name: column.dtype for column in reading.file_columns}
    types |= {column.name: column.dtype for column in reading.partition_columns}
    return pa.schema([(name, types[name]) for name in names])


def to_batch(arrays: list[pa.Array], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """A batch; one without columns has rows too (`SELECT count(*)`)."""
    if arrays:
        if any(array.type != field.type for array, field in zip(arrays, schema, strict=True)):  # as stored
            return pa.record_batch(arrays, names=schema.names)
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
    return pa.record_batch([pa.nulls(rows)], names=["rows"]).select([])


def _rows_in(reader: FileReader, groups: list[int]) -> int:
    return sum(int(reader.layout.footer.row_counts[group]) for group in groups)
