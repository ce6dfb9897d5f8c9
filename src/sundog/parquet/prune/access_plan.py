"""What to read of each file: a plan that can be printed, tested and shipped without a byte of data being read.

    table + WHERE ──► partition values ──► footers ──► row-group verdicts ──► runs or tasks
                         whole files drop      (cached)    SKIP drops, ALL_ROWS_MATCH needs no filter

Everything that prunes narrows such a plan; the reader only obeys it. A *run* is what is read in one go. A plain scan
wants few and long ones, so consecutive row groups with one verdict are one run. A scan under a threshold wants to stop
and look before each row group, so each is a run of its own: `split_runs(force_per_row_group=True)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from sundog.expr.buffers import Bools
from sundog.expr.dynamic_filters.key_set import KeyFilter
from sundog.expr.nodes import Expr, columns_of
from sundog.metrics import Metrics
from sundog.parquet.meta.file_layout import FileLayout
from sundog.parquet.meta.footer import Footer, read_footers
from sundog.parquet.meta.statistics import FileStatistics, Statistics
from sundog.parquet.prune.pruning import PruningPredicate, Verdict, Verdicts
from sundog.parquet.reading import DataFile, ReadSpec
from sundog.support import Code, Declined
from sundog.tables.table import Table

_SAMPLED_ROW_GROUPS = 64
_ROW_GROUP_OVERHEAD = 4096  # bytes that a row group seems to weigh beside its own: opening and decoding set-up


@dataclass(frozen=True)
class RowGroupRun:
    """Consecutive row groups of one file with one verdict."""

    file: int
    row_groups: tuple[int, ...]
    verdict: Verdict


@dataclass(frozen=True)
class FileSlice:
    """A part of a file for one task. `identity` is what the task must find there: row groups are numbers only."""

    file: DataFile
    row_groups: tuple[int, ...]
    all_rows_match: tuple[bool, ...]
    identity: tuple[int, ...]


@dataclass(frozen=True)
class FilterPruning:
    """Files and row groups that hold no key of a join's build side, among those that the WHERE left."""

    files: int = 0
    row_groups: int = 0


@dataclass(frozen=True)
class ParquetAccessPlan:
    """`layouts[i]` and `verdicts[i]` belong to `files[i]`; None for a file that is not opened at all."""

    files: tuple[DataFile, ...]
    reading: ReadSpec
    columns: tuple[str, ...]
    predicate: Expr | None
    layouts: tuple[FileLayout | None, ...]
    verdicts: tuple[Verdicts, ...]
    files_ruled_out: int  # by their partition values
    filters: tuple[KeyFilter, ...] = ()
    pruned_by_filters: FilterPruning = FilterPruning()

    def opened(self) -> Iterator[tuple[int, FileLayout, Verdicts]]:
        """The files that have a footer, with their numbers."""
        for number, (layout, verdicts) in enumerate(zip(self.layouts, self.verdicts, strict=True)):
            if layout is not None:
                yield number, layout, verdicts

    def refusable_file(self) -> str | None:
        """A file with values of which only decoding can tell whether sundog reads them; None if there is none."""
        for _, layout, verdicts in self.opened():
            if not all(verdict is Verdict.SKIP for verdict in verdicts) and any(
                source.may_be_refused for source in layout.stored(self.columns_read())
            ):
                return layout.file.path
        return None

    def split_runs(self, force_per_row_group: bool = False) -> list[RowGroupRun]:
        """What is left to read, in file order."""
        runs: list[RowGroupRun] = []
        for number, _, verdicts in self.opened():
            groups = np.flatnonzero(verdicts != Verdict.SKIP)
            left = verdicts[groups]
            if force_per_row_group:
                starts = np.arange(1, len(groups))
            else:
                starts = np.flatnonzero((np.diff(groups) != 1) | (np.diff(left) != 0)) + 1
            bounds = [0, *starts.tolist(), len(groups)] if len(groups) else []
            for first, last in pairwise(bounds):
                runs.append(RowGroupRun(number, tuple(groups[first:last].tolist()), Verdict(int(left[first]))))
        return runs

    def tasks(self, count: int) -> list[tuple[FileSlice, ...]]:
        """At most `count` parts of about equal bytes, in file order: all rows of a part come before those of the
        next."""
        runs = self.split_runs(force_per_row_group=True)
        if not runs:
            return []
        weights = np.array([self._weight(run) for run in runs], np.float64)
        middles = np.cumsum(weights) - weights / 2
        owners = np.minimum((middles * count / weights.sum()).astype(np.int64), count - 1)
        starts = np.flatnonzero(np.diff(owners)) + 1
        return [self.slices(runs[first:last]) for first, last in pairwise([0, *starts.tolist(), len(runs)])]

    def thinned(self, row_groups: int) -> ParquetAccessPlan:
        """At most about so many row groups of what is left to read, evenly spread over it."""
        runs = self.split_runs(force_per_row_group=True)
        step = max(len(runs) // row_groups, 1)
        verdicts = [np.full_like(each, Verdict.SKIP) for each in self.verdicts]
        for run in runs[step // 2 :: step]:
            verdicts[run.file][run.row_groups[0]] = run.verdict
        return replace(self, verdicts=tuple(verdicts))

    def rows(self) -> int:
        """Rows in what is left to read."""
        return sum(int(layout.footer.row_counts[v != Verdict.SKIP].sum()) for _, layout, v in self.opened())

    def total_rows(self) -> int:
        """Rows of all files that are opened, whatever is left to read of them."""
        return sum(int(layout.footer.row_counts.sum()) for _, layout, _ in self.opened())

    def slices(self, runs: Iterable[RowGroupRun]) -> tuple[FileSlice, ...]:
        """The runs as picklable parts of files, those of one file together, in the order given."""
        gathered: dict[int, list[RowGroupRun]] = {}
        for run in runs:
            gathered.setdefault(run.file, []).append(run)
        result = []
        for number, parts in gathered.items():
            groups = tuple(group for run in parts for group in run.row_groups)
            match = tuple(run.verdict is Verdict.ALL_ROWS_MATCH for run in parts for _ in run.row_groups)
            result.append(FileSlice(self.files[number], groups, match, self._footer(number).identity))
        return tuple(result)

    def whole_file(self, number: int) -> FileSlice:
        """A file for a task that is told elsewhere which row groups to read."""
        return FileSlice(self.files[number], (), (), self._footer(number).identity)

    def column_bytes(self, names: Sequence[str] | None = None) -> int:
        """Uncompressed bytes of all columns, or of these, in what is left to read; estimated from a sample when that is
        much."""
        runs = self.split_runs(force_per_row_group=True)
        if not runs:
            return 0
        sample = runs[:: max(len(runs) // _SAMPLED_ROW_GROUPS, 1)]
        names = self.columns_read() if names is None else names
        counted = sum(self.layout(run.file).column_bytes(names, run.row_groups[0])[1] for run in sample)
        return counted * self._rows(runs) // max(self._rows(sample), 1)

    def columns_read(self) -> tuple[str, ...]:
        """The output columns, those of the WHERE and those of the filters."""
        tested = columns_of(self.predicate) if self.predicate is not None else set()
        tested |= {each.column for each in self.filters}
        return (*self.columns, *sorted(tested - set(self.columns)))

    def count(self, metrics: Metrics) -> None:
        """What is known before anything is read."""
        metrics.add("files_total", len(self.files))
        metrics.add("files_pruned_statistics", self.files_ruled_out + sum(self._is_pruned(v) for v in self.verdicts))
        metrics.add("row_groups_total", sum(len(verdicts) for verdicts in self.verdicts))
        pruned = sum(int(np.count_nonzero(verdicts == Verdict.SKIP)) for verdicts in self.verdicts)
        metrics.add("row_groups_pruned_statistics", pruned)

    def count_filters(self, metrics: Metrics) -> None:
        """What the keys of joins rule out, which is known only when their build sides are there."""
        metrics.add("files_pruned_join_filter", self.pruned_by_filters.files)
        metrics.add("row_groups_pruned_join_filter", self.pruned_by_filters.row_groups)

    def __str__(self) -> str:
        lines = []
        texts: dict[int, list[str]] = {}
        for run in self.split_runs():
            texts.setdefault(run.file, []).append(f"{_span(run.row_groups)} {run.verdict.name}")
        for number, layout, verdicts in self.opened():
            name = layout.file.path.rsplit("/", 1)[-1]
            parts = ", ".join(texts.get(number, []))
            lines.append(f"{name}: {len(verdicts)} row groups -> {parts or 'nothing'}")
        return "\n".join(lines)

    @staticmethod
    def _is_pruned(verdicts: Verdicts) -> bool:
        return bool(len(verdicts)) and bool((verdicts == Verdict.SKIP).all())

    def layout(self, number: int) -> FileLayout:
        """The columns of a file that has runs."""
        layout = self.layouts[number]
        assert layout is not None, "only files with a footer have runs"
        return layout

    def _footer(self, number: int) -> Footer:
        return self.layout(number).footer

    def _weight(self, run: RowGroupRun) -> int:
        return sum(int(self._footer(run.file).byte_counts[g]) + _ROW_GROUP_OVERHEAD for g in run.row_groups)

    def _rows(self, runs: Iterable[RowGroupRun]) -> int:
        return sum(int(self._footer(run.file).row_counts[group]) for run in runs for group in run.row_groups)


def plan_access(
    table: Table, columns: tuple[str, ...], predicate: Expr | None, filters: tuple[KeyFilter, ...] = ()
) -> ParquetAccessPlan:
    """Read the footers and hold the WHERE and the filters against everything that is known without reading data.

    Raises FileProblem, FileSchemaProblem, or Declined where a file has deleted rows: then the query belongs to Spark.
    """
    wanted = set(columns) | (columns_of(predicate) if predicate is not None else set())
    wanted |= {each.column for each in filters}
    reading = restricted(ReadSpec(table.file_columns, table.partition_columns, table.options, table.filesystem), wanted)
    pruner = PruningPredicate(predicate)
    by_predicate = [_ruled_out(table, file, pruner) for file in table.files]
    by_filters = [
        not out and _without_keys(table, file, filters) for file, out in zip(table.files, by_predicate, strict=True)
    ]
    ruled_out = [one or other for one, other in zip(by_predicate, by_filters, strict=True)]
    left = _without(table.files, ruled_out)
    _check_deletes(left)
    footers = iter(read_footers(left, reading))
    layouts: list[FileLayout | None] = []
    verdicts: list[Verdicts] = []
    pruned = 0
    for file, out in zip(table.files, ruled_out, strict=True):
        footer = None if out else next(footers)
        layout = None if footer is None else FileLayout.of(reading, file, footer)
        own = np.zeros(0, np.int8) if layout is None else pruner.verdicts(FileStatistics(layout))
        if layout is not None and filters:
            skipped = (own != Verdict.SKIP) & ~_may_hold_keys(FileStatistics(layout), filters)
            pruned += int(np.count_nonzero(skipped))
            own = np.where(skipped, np.int8(Verdict.SKIP), own)
        layouts.append(layout)
        verdicts.append(own)
    return ParquetAccessPlan(
        table.files,
        reading,
        columns,
        predicate,
        tuple(layouts),
        tuple(verdicts),
        sum(by_predicate),
        filters,
        FilterPruning(sum(by_filters), pruned),
    )


def _without_keys(table: Table, file: DataFile, filters: tuple[KeyFilter, ...]) -> bool:
    """Whether a file is known to hold no key of some filter without opening it, by its partition values."""
    known = table.known_statistics(file) if filters else None
    return known is not None and not _may_hold_keys(known, filters)[0]


def _may_hold_keys(statistics: Statistics, filters: tuple[KeyFilter, ...]) -> Bools:
    """The row groups that may hold a key of every filter. Unknown bounds may."""
    result = np.ones(len(statistics), np.bool_)
    for each in filters:
        if each.keys is not None:
            bounds = statistics.column(each.column)
            pairs = zip(bounds.low, bounds.high, strict=True)
            result &= bounds.values & np.array([each.keys.reaches(low, high) for low, high in pairs], np.bool_)
    return result


def restricted(reading: ReadSpec, names: set[str]) -> ReadSpec:
    """The same with only those columns that are needed."""
    return replace(
        reading,
        file_columns=tuple(column for column in reading.file_columns if column.name in names),
        partition_columns=tuple(column for column in reading.partition_columns if column.name in names),
    )


def _ruled_out(table: Table, file: DataFile, pruner: PruningPredicate) -> bool:
    """Whether the WHERE holds for no row of the file, as far as can be said without opening it."""
    known = None if pruner.predicate is None else table.known_statistics(file)
    return known is not None and bool(pruner.verdicts(known)[0] == Verdict.SKIP)


def _check_deletes(files: list[DataFile]) -> None:
    for file in files:
        if file.deletes:
            raise Declined.because(Code.SOURCE, f"{file.path} holds rows that the table has deleted")


def _without(files: tuple[DataFile, ...], ruled_out: list[bool]) -> list[DataFile]:
    return [file for file, out in zip(files, ruled_out, strict=True) if not out]


def _span(groups: tuple[int, ...]) -> str:
    return f"[{groups[0]}]" if len(groups) == 1 else f"[{groups[0]}..{groups[-1]}]"
