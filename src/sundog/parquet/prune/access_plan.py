"""Access plans: what to read of each file, printable, testable and picklable without reading data.

    table + WHERE ──► partition values ──► footers ──► row-group verdicts ──► runs or tasks
                         whole files drop      (cached)    SKIP drops, ALL_ROWS_MATCH needs no filter

Everything that prunes narrows such a plan; the reader only follows it. A *run* is read at once. A plain scan wants few
long runs, so consecutive row groups with one verdict are one run. A scan under a threshold may stop before each row
group, so each is a run of its own: `split_runs(force_per_row_group=True)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from sundog.expr.buffers import Bools, Indices
from sundog.expr.dynamic_filters.contract import DynamicFilter
from sundog.expr.dynamic_filters.key_set import KeyFilter
from sundog.expr.nodes import Expr, columns_of
from sundog.parquet.meta.bounds import expression_bounds
from sundog.parquet.meta.file_layout import FileLayout
from sundog.parquet.meta.footer import read_footer
from sundog.parquet.meta.statistics import Statistics
from sundog.parquet.meta.table_footers import ColumnFacts
from sundog.parquet.problems import FileProblem, ProblemKind
from sundog.parquet.prune.footer_tables import TABLES
from sundog.parquet.prune.pruning import PruningPredicate, Verdict, Verdicts, never_null, without_not_null
from sundog.parquet.prune.table_statistics import GetFooters, TableStatistics
from sundog.parquet.reading import DataFile, ReadSpec
from sundog.support import Code, Declined
from sundog.tables.table import Table


@dataclass(frozen=True)
class RowGroupRun:
    """Consecutive row groups of one file with one verdict."""

    file: int
    row_groups: tuple[int, ...]
    verdict: Verdict


@dataclass(frozen=True)
class FileSlice:
    """A part of a file for one task. `identity`: the stamp that the task must find, as row groups are only numbers."""

    file: DataFile
    row_groups: tuple[int, ...]
    all_rows_match: tuple[bool, ...]
    identity: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class FilterPruning:
    """Files, and slots of row groups, without any key of a join's build side, among those that the WHERE left."""

    files: int = 0
    slots: Indices = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def row_groups(self) -> int:
        return len(self.slots)


@dataclass(frozen=True, eq=False)
class ScannedTable:
    """The table of a scan as shown to users, and the facts about the scan before anything is read.

    `row_groups`: how many there are, and how many the WHERE and the key filters leave, once these are known.
    """

    label: str
    files: int
    snapshot: str | None = None
    row_groups: tuple[int, int] | None = None
    counted: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class ParquetAccessPlan:
    """The parts of `files` to read: files that may hold rows, as far as is known without opening them.

    `verdicts` has a slot for each row group, file after file, like the statistics. Everything below works on slots as
    arrays; objects are made only for the row groups that a task reads.
    """

    files: tuple[DataFile, ...]
    reading: ReadSpec
    columns: tuple[str, ...]
    predicate: Expr | None
    statistics: TableStatistics
    verdicts: Verdicts
    label: str
    snapshot: str | None
    files_total: int
    files_ruled_out: int  # by their partition values
    filters: tuple[KeyFilter, ...] = ()
    pruned_by_filters: FilterPruning = field(default_factory=FilterPruning)

    @cached_property
    def left(self) -> Indices:
        """Slots of the row groups to read, in file order."""
        return np.flatnonzero(self.verdicts != Verdict.SKIP)

    @cached_property
    def never_null(self) -> frozenset[str]:
        """Columns that the WHERE wants not to be NULL, which no row to read has."""
        return never_null(self.predicate, self.statistics, self.left)

    @cached_property
    def least_predicate(self) -> Expr | None:
        """A WHERE that selects the same rows of the table, without tests that columns are not NULL if they never are.

        `never_null` alone does not tell: it is about the row groups to read. One that holds only NULLs is not read
        because of such a test, and would be read without it.
        """
        least = without_not_null(self.predicate, self.never_null)
        left = np.flatnonzero(PruningPredicate(least).verdicts(self.statistics) != Verdict.SKIP)
        is_same = not self.files_ruled_out and np.array_equal(left, self.left)
        return least if is_same else self.predicate

    def refusable_file(self) -> str | None:
        """A file with values that sundog may refuse only when they are decoded; None if there is none."""
        read = np.unique(self.statistics.file_of[self.left])
        for name in self.columns_read():
            facts = self._facts(name)
            if facts is not None and any(source.may_be_refused for source in facts.sources):
                refusable = np.array([source.may_be_refused and source.leaf >= 0 for source in facts.sources], np.bool_)
                found = read[refusable[facts.source_of[read]]]
                if len(found):
                    return self.files[int(found[0])].path
        return None

    def split_runs(self, force_per_row_group: bool = False) -> list[RowGroupRun]:
        """The runs to read, in file order."""
        left = self.left
        files, groups, verdicts = self.statistics.file_of[left], self.row_groups(left), self.verdicts[left]
        if force_per_row_group:
            starts = np.arange(1, len(left))
        else:
            starts = np.flatnonzero((np.diff(files) != 0) | (np.diff(groups) != 1) | (np.diff(verdicts) != 0)) + 1
        bounds = [0, *starts.tolist(), len(left)] if len(left) else []
        return [
            RowGroupRun(int(files[first]), tuple(groups[first:last].tolist()), Verdict(int(verdicts[first])))
            for first, last in pairwise(bounds)
        ]

    def row_groups(self, slots: Indices) -> Indices:
        """The numbers of the row groups within their files."""
        found: Indices = slots - self.statistics.footers.starts[self.statistics.file_of[slots]]
        return found

    def tasks(self, count: int, overhead_bytes: int) -> list[tuple[FileSlice, ...]]:
        """At most `count` parts of about equal bytes, in file order: all rows of a part come before those of the next.

        `overhead_bytes` is added to the bytes of each row group.
        """
        left = self.left
        if not len(left):
            return []
        weights = self.statistics.footers.byte_counts[left].astype(np.float64) + overhead_bytes
        middles = np.cumsum(weights) - weights / 2
        owners = np.minimum((middles * count / weights.sum()).astype(np.int64), count - 1)
        starts = np.flatnonzero(np.diff(owners)) + 1
        return [self.slices(left[first:last]) for first, last in pairwise([0, *starts.tolist(), len(left)])]

    def thinned(self, row_groups: int) -> ParquetAccessPlan:
        """At most about `row_groups` of the row groups to read, evenly spread."""
        step = max(len(self.left) // row_groups, 1)
        chosen = self.left[step // 2 :: step]
        verdicts = np.full_like(self.verdicts, Verdict.SKIP)
        verdicts[chosen] = self.verdicts[chosen]
        return replace(self, verdicts=verdicts)

    def rows(self) -> int:
        """Rows of the row groups to read."""
        return int(self.statistics.rows[self.left].sum())

    def total_rows(self) -> int:
        """Rows of all files that are opened, pruned row groups included."""
        return int(self.statistics.rows.sum())

    def slices(self, slots: Indices) -> tuple[FileSlice, ...]:
        """Row groups, in file order, as picklable parts of files."""
        files, groups = self.statistics.file_of[slots], self.row_groups(slots).tolist()
        match = (self.verdicts[slots] == Verdict.ALL_ROWS_MATCH).tolist()
        starts = np.flatnonzero(np.diff(files)) + 1
        bounds = [0, *starts.tolist(), len(slots)] if len(slots) else []
        return tuple(
            replace(
                self.whole_file(int(files[first])),
                row_groups=tuple(groups[first:last]),
                all_rows_match=tuple(match[first:last]),
            )
            for first, last in pairwise(bounds)
        )

    def whole_file(self, number: int) -> FileSlice:
        """A file for a task that learns elsewhere which row groups to read."""
        return FileSlice(self.files[number], (), (), self.statistics.footers.identity(number))

    def column_bytes(self, names: Sequence[str] | None = None, slots: Indices | None = None) -> int:
        """Uncompressed bytes of all columns, or of these, in the row groups to read, or in these."""
        slots = self.left if slots is None else slots
        found = (self._facts(name) for name in (self.columns_read() if names is None else names))
        return sum(int(facts.sizes[slots].sum(dtype=np.int64)) for facts in found if facts is not None)

    def columns_read(self) -> tuple[str, ...]:
        """The output columns, those of the WHERE and those of the filters."""
        tested = columns_of(self.predicate) if self.predicate is not None else set()
        tested |= {each.column for each in self.filters}
        return (*self.columns, *sorted(tested - set(self.columns)))

    @property
    def knows_keys(self) -> bool:
        """Whether keys of joins are known to prune by: their build sides are computed."""
        return any(each.generation for each in self.filters)

    @cached_property
    def scanned(self) -> ScannedTable:
        """The table and its counts, for explain and the report."""
        row_groups = (len(self.verdicts), len(self.left)) if self.knows_keys else None
        return ScannedTable(self.label, self.files_total, self.snapshot, row_groups, self._counted())

    def _counted(self) -> dict[str, float]:
        groups = np.diff(self.statistics.footers.starts)
        by_where = np.concatenate([self.left, self.pruned_by_filters.slots])
        left = np.bincount(self.statistics.file_of[by_where], minlength=len(groups))
        counted: dict[str, float] = {
            "files_total": self.files_total,
            "files_pruned_statistics": self.files_ruled_out + int(np.count_nonzero((groups > 0) & (left == 0))),
            "row_groups_total": len(self.verdicts),
            "row_groups_pruned_statistics": len(self.verdicts) - len(by_where),
        }
        if self.knows_keys:
            counted["files_pruned_join_filter"] = self.pruned_by_filters.files
            counted["row_groups_pruned_join_filter"] = self.pruned_by_filters.row_groups
        return counted

    def __str__(self) -> str:
        lines = []
        texts: dict[int, list[str]] = {}
        for run in self.split_runs():
            texts.setdefault(run.file, []).append(f"{_span(run.row_groups)} {run.verdict.name}")
        counts = np.diff(self.statistics.footers.starts)
        for number in np.flatnonzero(self.statistics.footers.opened).tolist():
            name = self.files[number].path.rsplit("/", 1)[-1]
            parts = ", ".join(texts.get(number, []))
            lines.append(f"{name}: {counts[number]} row groups -> {parts or 'nothing'}")
        return "\n".join(lines)

    def layout(self, number: int) -> FileLayout:
        """The columns of a file that this process reads. Raises FileProblem if the file is not the planned one."""
        footers, file = self.statistics.footers, self.files[number]
        footer = footers.footers[number] if footers.footers else read_footer(file, self.reading.filesystem)
        if footer is None or footer.identity != footers.identity(number):
            raise FileProblem(ProblemKind.CHANGED, file.path)
        return FileLayout.of(self.reading, file, footer)

    def _facts(self, name: str) -> ColumnFacts | None:
        """The facts about a column; None for a partition column."""
        return self.statistics.facts(name)


@dataclass(frozen=True)
class FilesLeft:
    """The files that may hold rows of a query, as far as is known without opening one."""

    files: tuple[DataFile, ...]
    reading: ReadSpec
    bounded: frozenset[str]  # columns whose bounds are compared
    ruled_out: int  # by the WHERE
    without_keys: int  # by the filters, among the others


def files_left(
    table: Table,
    columns: tuple[str, ...],
    predicate: Expr | None,
    filters: tuple[KeyFilter, ...] = (),
    compared: frozenset[str] = frozenset(),
) -> FilesLeft:
    """Test the WHERE and the filters against the table's own facts about its files. `compared`: columns that rows are
    ordered or joined by, whose bounds will be needed."""
    tested = columns_of(predicate) if predicate is not None else set()
    tested |= {each.column for each in filters}
    wanted = set(columns) | tested
    reading = restricted(ReadSpec(table.file_columns, table.partition_columns, table.options, table.filesystem), wanted)
    files, nothing = table.files, np.zeros(len(table.files), np.bool_)
    known = table.known_statistics(files) if predicate is not None or filters else None
    by_predicate = by_filters = nothing
    if known is not None and len(files):
        if predicate is not None:
            by_predicate = PruningPredicate(predicate).verdicts(known) == Verdict.SKIP
        by_filters = ~by_predicate & ~may_hold(known, filters)
    left = np.flatnonzero(~(by_predicate | by_filters))
    bounded = frozenset(tested | (wanted & compared))
    kept = files if len(left) == len(files) else tuple(files[number] for number in left.tolist())
    return FilesLeft(kept, reading, bounded, int(by_predicate.sum()), int(by_filters.sum()))


def plan_access(
    table: Table,
    columns: tuple[str, ...],
    predicate: Expr | None,
    filters: tuple[KeyFilter, ...] = (),
    compared: frozenset[str] = frozenset(),
    get_footers: GetFooters = TABLES.get,
) -> ParquetAccessPlan:
    """Read the footers, and test the WHERE and the filters against everything that is known without reading data.

    Raises FileProblem, FileSchemaProblem, or Declined if a file has deleted rows: then Spark runs the query.
    """
    left = files_left(table, columns, predicate, filters, compared)
    _check_deletes(left.files)
    statistics = TableStatistics(
        left.files, left.reading, get_footers(left.files, left.reading, left.bounded), get_footers
    )
    verdicts = PruningPredicate(predicate).verdicts(statistics)
    skipped = np.zeros(len(verdicts), np.bool_)
    if filters:
        skipped = (verdicts != Verdict.SKIP) & ~may_hold(statistics, filters)
        verdicts = np.where(skipped, np.int8(Verdict.SKIP), verdicts)
    return ParquetAccessPlan(
        left.files,
        left.reading,
        columns,
        predicate,
        statistics,
        verdicts,
        table.label,
        table.snapshot,
        len(table.files),
        left.ruled_out,
        filters,
        FilterPruning(left.without_keys, np.flatnonzero(skipped)),
    )


def may_hold(statistics: Statistics, filters: Sequence[DynamicFilter]) -> Bools:
    """The files, row groups or pages with a row that may pass every filter. With unknown bounds, a row may."""
    result = np.ones(len(statistics), np.bool_)
    for each in filters:
        if each.generation:
            result &= each.may_hold(expression_bounds(each.expr, statistics))
    return result


def restricted(reading: ReadSpec, names: set[str]) -> ReadSpec:
    """The same with the needed columns only."""
    return replace(
        reading,
        file_columns=tuple(column for column in reading.file_columns if column.name in names),
        partition_columns=tuple(column for column in reading.partition_columns if column.name in names),
    )


def _check_deletes(files: Iterable[DataFile]) -> None:
    for file in files:
        if file.deletes:
            raise Declined.because(Code.SOURCE, f"{file.path} holds rows that the table has deleted")


def _span(groups: tuple[int, ...]) -> str:
    return f"[{groups[0]}]" if len(groups) == 1 else f"[{groups[0]}..{groups[-1]}]"
