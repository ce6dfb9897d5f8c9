"""`SELECT … FROM parquet WHERE … ORDER BY keys LIMIT k`: read only the row groups that can still win.

Plain Spark decodes every projected column of every row group. Here the row groups of *all* files stand in one queue,
best bound first, and the bar (`DynamicFilter`) decides about each when its turn comes:

    statistics ──► queue of candidates, best bound first          initial bar: what k rows are known to reach
                     │ next one
                     ▼
       RowGroupPruner: can it still win?  ── no ──► skipped, not a byte read
                     │ yes
                     ▼
       decode the sort columns ──► drop rows past the bar ──► decode and test the WHERE columns for the rest
                     ▼
       k best (sort keys, place in the table) ──► bar moves ──► ... until the queue is empty
                     ▼
       materialize.py: the other columns, for the k winners only

Invariant: the result is the first k rows of a stable sort of the whole table in file order. Whatever is skipped, by
whichever thread or in whichever round, could not be among them, so the answer never depends on timing.

On the driver, threads share one `TopKSearch`. On executors it hands out `TopKTask`s in rounds, each with the bar of all
rounds before; a task keeps a queue and a bar of its own, and since it is a pure function, a repeated task changes nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import Lock

import numpy as np
import pyarrow as pa

from sundog.expr.buffers import Bools, Indices
from sundog.expr.evaluate import evaluate
from sundog.expr.nodes import Column, Expr, columns_of
from sundog.expr.ordering import SortKey, select_k
from sundog.expr.ranks import Rank
from sundog.expr.threshold import DynamicFilter, Threshold
from sundog.expr.where import where_mask
from sundog.metrics import Metrics
from sundog.operators.context import TaskContext
from sundog.operators.scan.scan import column_schema, open_slice, to_batch
from sundog.operators.topk.topk import BestRows
from sundog.parquet.decode.reader import PIECE_BYTES, FileReader, OpenFiles
from sundog.parquet.meta.bounds import expression_bounds
from sundog.parquet.meta.statistics import FileStatistics
from sundog.parquet.prune.access_plan import FileSlice, ParquetAccessPlan
from sundog.parquet.prune.pruning import Verdict, outcome_of
from sundog.parquet.prune.row_group_pruner import Candidate, RowGroupPruner, best_place, initial_threshold, sure_rows
from sundog.parquet.relation import Relation

_ROUND_GROWTH = 4
POSITION = pa.schema([("#file", pa.int32()), ("#row_group", pa.int32()), ("#row", pa.int64())])


@dataclass(frozen=True)
class Switches:
    """The layers of pruning, each of which can be turned off to see what it is worth."""

    initial_threshold: bool = True
    row_groups: bool = True  # re-check each row group against the live threshold
    rows: bool = True  # drop decoded rows past the live threshold before anything else is done with them
    late_materialization: bool = True

    @classmethod
    def static_only(cls) -> Switches:
        """`spark.sundog.topk.dynamicPruning.enabled=false`: statistics are used once, at the start, for the WHERE."""
        return cls(initial_threshold=False, row_groups=False)


@dataclass(frozen=True)
class TopKSpec:
    """What every part of the search knows. Picklable.

    `checks` are expressions that plain Spark would evaluate for every row that passes the WHERE and that may raise: they
    are evaluated for their errors, and what they cover cannot be pruned.
    """

    relation: Relation  # without its files
    predicate: Expr | None
    order: tuple[SortKey, ...]
    k: int
    carried: tuple[str, ...]  # output columns that the search decodes anyway
    checks: tuple[Expr, ...] = ()
    switches: Switches = Switches()

    @cached_property
    def key_columns(self) -> tuple[str, ...]:
        """Where the values of each sort key are held."""
        return tuple(
            key.expr.name if isinstance(key.expr, Column) and key.expr.name in self.carried else f"#key {number}"
            for number, key in enumerate(self.order)
        )

    @property
    def _key_exprs(self) -> tuple[Expr, ...]:
        return tuple(key.expr for key in self.order)

    @cached_property
    def schema(self) -> pa.Schema:
        """Of candidates and winners: carried columns, computed sort keys, place in the table."""
        keys = zip(self.key_columns, self.order, strict=True)
        computed = [(name, key.expr.dtype) for name, key in keys if name not in self.carried]
        return pa.schema([*column_schema(self.relation, self.carried), *computed, *POSITION])

    def best_rows(self, dynamic_filter: DynamicFilter) -> BestRows:
        return BestRows(self.schema, self.order, self.key_columns, self.k, dynamic_filter, POSITION.names)

    def search(
        self, reader: FileReader, candidate: Candidate, dynamic_filter: DynamicFilter, metrics: Metrics
    ) -> Iterator[pa.RecordBatch]:
        """The rows of one row group that may be among the k best, at most k from each piece of it."""
        metrics.add("row_groups_scanned")
        metrics.add("input_rows", candidate.rows)
        first, second = self._stages(candidate)
        size = reader.layout.memory_bytes([*first, *second], candidate.row_group)
        start = 0
        for piece in self._decode(reader, candidate.row_group, first, second, size):
            threshold = dynamic_filter.snapshot()
            found = self._search_piece(piece, start, candidate, threshold, metrics)
            if found is not None:
                yield found
            start += piece.rows

    def _stages(self, candidate: Candidate) -> tuple[list[str], list[str]]:
        """Columns to decode at once, and those to decode only if rows are left: the sort columns, then the WHERE's."""
        first = set(self.carried).union(*(columns_of(expr) for expr in (*self._key_exprs, *self.checks)))
        tested = set() if self.predicate is None or candidate.all_rows_match else columns_of(self.predicate)
        return sorted(first), sorted(tested - first)

    def _decode(
        self, reader: FileReader, group: int, first: list[str], second: list[str], size: int
    ) -> Iterator[_Piece]:
        if size > PIECE_BYTES:
            together = [*first, *second]
            schema = column_schema(self.relation, together)
            for arrays in reader.pieces(group, together):
                yield _Piece(to_batch(arrays, schema, 0))
            return
        rows = int(reader.layout.footer.row_counts[group])
        head = to_batch(reader.read([group], first), column_schema(self.relation, first), rows)
        yield _Piece(head, reader, group, tuple(second), column_schema(self.relation, second))

    def _search_piece(
        self, piece: _Piece, start: int, candidate: Candidate, threshold: Threshold, metrics: Metrics
    ) -> pa.RecordBatch | None:
        # Rows that may raise are tested first, as Spark does: the WHERE shields what is evaluated after it.
        chosen: Indices | None = None  # rows of the piece; None is all of them
        if self.switches.rows and not candidate.must_read:
            chosen = self._drop_past_threshold(piece, candidate, threshold, metrics)
            if chosen is not None and not len(chosen):
                return None
        if not candidate.all_rows_match:
            chosen = self._test(piece, chosen, metrics)
        batch = piece.rows_at(chosen)
        for expr in self.checks:
            evaluate(expr, batch)
        keys = [evaluate(expr, batch) for expr in self._key_exprs]
        if batch.num_rows > self.k:
            local = np.sort(select_k(keys, self.order, self.k))
            chosen = local if chosen is None else chosen[local]
            taken = pa.array(local)
            batch, keys = batch.take(taken), [array.take(taken) for array in keys]
        if batch.num_rows == 0:
            return None
        rows = np.arange(batch.num_rows, dtype=np.int64) if chosen is None else chosen
        return self._held(batch, keys, rows + start, candidate)

    def _drop_past_threshold(
        self, piece: _Piece, candidate: Candidate, threshold: Threshold, metrics: Metrics
    ) -> Indices | None:
        if not threshold.bounded:
            return None
        leads = evaluate(self.order[0].expr, piece.batch)
        mask = threshold.keep_mask(leads, ties=threshold.ties_can_win(candidate.position))
        if mask is None or bool(mask.all()):
            return None
        chosen = np.flatnonzero(mask)
        metrics.add("rows_pruned_dynamic_filter", piece.rows - len(chosen))
        return chosen

    def _test(self, piece: _Piece, chosen: Indices | None, metrics: Metrics) -> Indices | None:
        """The rows among the chosen that pass the WHERE."""
        if self.predicate is None:
            return chosen
        piece.complete()
        batch = piece.rows_at(chosen)
        mask: Bools = where_mask(self.predicate, batch)
        passed = np.flatnonzero(mask)
        metrics.add("rows_filtered", batch.num_rows - len(passed))
        return passed if chosen is None else chosen[passed]

    def _held(self, batch: pa.RecordBatch, keys: list[pa.Array], rows: Indices, candidate: Candidate) -> pa.RecordBatch:
        count = len(rows)
        carried = [batch.column(name) for name in self.carried]
        computed = [array for name, array in zip(self.key_columns, keys, strict=True) if name not in self.carried]
        place = [
            pa.array(np.full(count, candidate.file, np.int32)),
            pa.array(np.full(count, candidate.row_group, np.int32)),
            pa.array(rows),
        ]
        return pa.RecordBatch.from_arrays([*carried, *computed, *place], schema=self.schema)


@dataclass
class _Piece:
    """Decoded rows of a row group; the columns of the second stage come when first needed."""

    batch: pa.RecordBatch
    reader: FileReader | None = None
    group: int = 0
    later: tuple[str, ...] = ()
    later_schema: pa.Schema = field(default_factory=lambda: pa.schema([]))

    @property
    def rows(self) -> int:
        return int(self.batch.num_rows)

    def complete(self) -> None:
        if self.later and self.reader is not None:
            arrays = [*self.batch.columns, *self.reader.read([self.group], self.later)]
            self.batch = pa.RecordBatch.from_arrays(arrays, schema=pa.schema([*self.batch.schema, *self.later_schema]))
            self.later = ()

    def rows_at(self, chosen: Indices | None) -> pa.RecordBatch:
        return self.batch if chosen is None else self.batch.take(pa.array(chosen))


@dataclass(frozen=True)
class TopKPlan:
    """The search before it starts: spec, files, queue and initial bar."""

    spec: TopKSpec
    access: ParquetAccessPlan
    candidates: tuple[Candidate, ...]  # best bound first
    initial: Threshold

    @property
    def late_columns(self) -> tuple[str, ...]:
        """Output columns that are fetched for the winners only."""
        return tuple(name for name in self.access.columns if name not in self.spec.carried)

    def column_bytes(self) -> int:
        """Uncompressed bytes of sort and WHERE columns in the row groups that the initial bar leaves."""
        names = [column.name for column in self.spec.relation.file_columns if column.name not in self.late_columns]
        left = [c for c in self.candidates if c.must_read or self.initial.can_win(c.best, c.position)]
        return sum(self.access.layout(c.file).column_bytes(names, c.row_group)[1] for c in left)


def plan_topk(
    access: ParquetAccessPlan,
    order: tuple[SortKey, ...],
    k: int,
    checks: tuple[Expr, ...] = (),
    switches: Switches = Switches(),  # noqa: B008
) -> TopKPlan:
    """Queue the row groups that the WHERE leaves, best bound first. `k` is LIMIT + OFFSET.

    The access plan must have been made for all columns of the order and of the checks.
    """
    carried = _carried(access, order, checks) if switches.late_materialization else access.columns
    spec = TopKSpec(replace(access.relation, files=()), access.predicate, order, k, carried, checks, switches)
    candidates: list[Candidate] = []
    sure: list[tuple[Rank | None, int]] = []
    for number, layout, verdicts in access.opened():
        statistics = FileStatistics(layout)
        bounds = expression_bounds(order[0].expr, statistics)
        must_read = (~_safe(spec, statistics)).tolist()
        row_counts = statistics.rows.tolist()
        matches = (verdicts == Verdict.ALL_ROWS_MATCH).tolist()
        for slot in np.flatnonzero(verdicts != Verdict.SKIP).tolist():
            best = best_place(bounds, slot, order[0])
            candidates.append(Candidate(number, slot, row_counts[slot], matches[slot], best, must_read[slot]))
            if matches[slot]:
                sure.extend(sure_rows(bounds, slot, row_counts[slot], order[0]))
    candidates.sort(key=Candidate.sort_key)
    initial = initial_threshold(sure if switches.initial_threshold else [], order, k)
    return TopKPlan(spec, access, tuple(candidates) if k else (), initial)


def _carried(access: ParquetAccessPlan, order: tuple[SortKey, ...], checks: tuple[Expr, ...]) -> tuple[str, ...]:
    decoded = set().union(*(columns_of(key.expr) for key in order), *(columns_of(expr) for expr in checks))
    return tuple(name for name in access.columns if name in decoded)


def _safe(spec: TopKSpec, statistics: FileStatistics) -> Bools:
    """Row groups in which neither WHERE nor sort keys nor checks can raise: only these may be left unread."""
    safe = np.ones(len(statistics), np.bool_)
    for expr in (*(key.expr for key in spec.order), *spec.checks):
        safe &= expression_bounds(expr, statistics).safe
    if spec.predicate is not None:
        safe &= outcome_of(spec.predicate, statistics).safe
    return safe


class TopKSearch:
    """The search while it runs: queue, bar and best rows so far. Threads may share it.

    Driver threads:   each calls `work(context)`; then `winners()`.
    Executor rounds:  `while tasks := search.next_round(n): for batch in run(tasks): search.add(batch)`; then `winners()`.
    """

    def __init__(self, plan: TopKPlan) -> None:
        self.plan = plan
        self.filter = DynamicFilter(plan.spec.order)
        self.metrics = Metrics()
        self._best = plan.spec.best_rows(self.filter)
        self._lock = Lock()
        self._round_size = 1
        self._touched: set[int] = set()
        self.filter.tighten(plan.initial)
        self._pruner = RowGroupPruner(self.filter, self.metrics)
        prunes = plan.spec.switches.initial_threshold
        ruled_out = [prunes and self._pruner.should_skip(candidate) for candidate in plan.candidates]
        self.ruled_out_at_start = [c.position for c, out in zip(plan.candidates, ruled_out, strict=True) if out]
        self.judged: list[tuple[tuple[int, int], bool, Threshold]] = []  # place, taken or skipped, and by which bar
        self.metrics.add("row_groups_pruned_initial_threshold", sum(ruled_out))
        self._queue = deque(c for c, out in zip(plan.candidates, ruled_out, strict=True) if not out)

    @property
    def waiting(self) -> int:
        """Row groups still in the queue."""
        return len(self._queue)

    def work(self, context: TaskContext) -> None:
        """Take row groups from the queue until it is empty. For one of several threads."""
        plan, spec = self.plan, self.plan.spec

        def opener(number: int) -> FileReader:
            return FileReader(plan.access.layout(number), plan.access.relation, context.metrics)

        with OpenFiles(opener) as readers:
            while (candidate := self._next()) is not None:
                context.check_cancelled()
                for batch in spec.search(readers.get(candidate.file), candidate, self.filter, context.metrics):
                    self.add(batch)

    def next_round(self, tasks: int) -> list[TopKTask]:
        """The next tasks, with the bar as it is now; empty when no row group is left that can win.

        The first round is one row group for each task, and each further round four times as many: while the bar is loose
        little is read in vain, and when everything has to be read there are few rounds. If the bar rules nothing out after
        the first, the next is four times larger again. A row group that no bar can ever rule out does not count: waiting
        would not spare it.
        """
        if self._bar_in_vain():
            self._round_size *= _ROUND_GROWTH
        taken: list[Candidate] = []
        prunable = 0
        while prunable < tasks * self._round_size and (candidate := self._next()) is not None:
            taken.append(candidate)
            prunable += candidate.best is not None and not candidate.must_read
        if not taken:
            return []
        self._round_size *= _ROUND_GROWTH
        self.metrics.add("topk_rounds")
        threshold = self.filter.snapshot()
        shares = [tuple(taken[start::tasks]) for start in range(min(tasks, len(taken)))]
        return [TopKTask(self.plan.spec, self._slices(share), share, threshold) for share in shares]

    def _bar_in_vain(self) -> bool:
        """Whether there is one after a first round, and it would not even spare the worst row group of the queue."""
        there = self._round_size > 1 and self.filter.generation > 0
        return there and bool(self._queue) and not self._pruner.should_skip(self._queue[-1])

    def add(self, batch: pa.RecordBatch) -> None:
        """Take in candidate rows, of a thread's row group or of a finished task."""
        with self._lock:
            self._best.push(batch)

    def winners(self) -> pa.RecordBatch:
        """The k best rows in order: carried columns, sort keys, place in the table."""
        with self._lock:
            return self._best.finish()

    def count(self, metrics: Metrics) -> None:
        """Add what the search itself has counted, once it is over."""
        metrics.merge(self.metrics)
        metrics.add("threshold_updates", self.filter.generation)
        planned = {candidate.file for candidate in self.plan.candidates}
        metrics.add("files_pruned_dynamic_filter", len(planned - self._touched))

    def _next(self) -> Candidate | None:
        with self._lock:
            while self._queue:
                candidate = self._queue.popleft()
                skipped = self.plan.spec.switches.row_groups and self._pruner.should_skip(candidate)
                self.judged.append((candidate.position, not skipped, self.filter.snapshot()))
                if skipped:
                    self.metrics.add("row_groups_pruned_dynamic_filter")
                    continue
                self._touched.add(candidate.file)
                return candidate
            return None

    def _slices(self, share: Sequence[Candidate]) -> tuple[tuple[int, FileSlice], ...]:
        return tuple((number, self.plan.access.whole_file(number)) for number in sorted({c.file for c in share}))


@dataclass(frozen=True)
class TopKTask:
    """A share of the queue for one executor task. Its result is the k best of its row groups."""

    spec: TopKSpec
    files: tuple[tuple[int, FileSlice], ...]
    candidates: tuple[Candidate, ...]
    threshold: Threshold

    @property
    def schema(self) -> pa.Schema:
        return self.spec.schema

    def read(self, context: TaskContext) -> Iterator[pa.RecordBatch]:
        live = DynamicFilter(self.spec.order)
        live.tighten(self.threshold)
        best = self.spec.best_rows(live)
        pruner = RowGroupPruner(live, context.metrics)
        files = dict(self.files)
        with OpenFiles(lambda number: open_slice(self.spec.relation, files[number], context)) as readers:
            for candidate in self.candidates:
                context.check_cancelled()
                if self.spec.switches.row_groups and pruner.should_skip(candidate):
                    context.metrics.add("row_groups_pruned_dynamic_filter")
                    continue
                for batch in self.spec.search(readers.get(candidate.file), candidate, live, context.metrics):
                    best.push(batch)
        result = best.finish()
        if result.num_rows:
            yield result
