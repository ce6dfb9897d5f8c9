"""`SELECT … FROM parquet WHERE … ORDER BY keys LIMIT k`: read only the row groups that can still win.

Plain Spark decodes every projected column of every row group. Here the row groups of *all* files are in one queue, best
bound first, and each is compared with the threshold (`LiveThreshold`) when its turn comes:

    statistics ──► queue of candidates, best bound first          initial threshold: a value that k rows reach for sure
                     │ next one
                     ▼
       RowGroupPruner: can it still win?  ── no ──► skipped: no byte is read
                     │ yes
                     ▼
       decode the sort columns ──► drop rows past the threshold ──► decode and test the WHERE columns for the rest
                     ▼
       k best (sort keys, place in the table) ──► threshold moves ──► ... until the queue is empty
                     ▼
       materialize.py: the other columns, for the k winners only

Invariant: the result is the first k rows of a stable sort of the whole table in file order. Whatever is skipped, by
whichever thread or in whichever round, could not be among them, so the answer never depends on timing.

On the driver, threads share one `TopKSearch`. On executors it gives out `TopKTask`s in rounds, each with the threshold
of all earlier rounds; a task has its own queue and threshold. A task is a pure function, so repeating one changes
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from threading import Lock

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.expr.dynamic_filters.threshold import LiveThreshold, Threshold
from sundog.metrics import Metrics
from sundog.operators.base import Described
from sundog.operators.context import TaskContext, counted
from sundog.operators.costs import TopKCosts
from sundog.operators.scan.scan import open_slice
from sundog.operators.sources import Source
from sundog.operators.topk.row_group_search import TopKSpec
from sundog.operators.topk.topk_plan import TopKPlan
from sundog.parquet.decode.reader import FileReader, OpenFiles
from sundog.parquet.prune.access_plan import FileSlice, ScannedTable
from sundog.parquet.prune.row_group_pruner import Candidate, RowGroupPruner


class TopKSearch:
    """The search while it runs: queue, threshold and best rows so far. Threads may share it.

    On the driver each thread calls `work(context)`. On executors `next_round` gives the tasks of a round until none is
    left, and `add` takes the batches of their results. Then `winners()`.
    """

    def __init__(self, plan: TopKPlan, costs: TopKCosts) -> None:
        self.plan = plan
        self._costs = costs
        self.filter = LiveThreshold(plan.spec.order)
        self._rounds = 0
        self._scan_metrics = Metrics()
        self._best = plan.spec.best_rows(self.filter, costs)
        self._lock = Lock()
        self._round_size = 1
        self._touched: set[int] = set()
        self.filter.tighten(plan.initial)
        self._pruner = RowGroupPruner(self.filter, self._scan_metrics)
        self._queue, self.ruled_out_at_start = plan.queue, np.zeros(0, np.int64)
        if plan.spec.switches.initial_threshold:
            self._queue, self.ruled_out_at_start = plan.queue.without(self._pruner.should_skip)
        # Row groups by their slots: taken or skipped, and by which thread
        self.without_values: list[tuple[int, int]] = []  # taken, then ruled out by the Bloom filters of their file
        self.judged: list[tuple[npt.NDArray[np.int64], bool, Threshold]] = []
        self._scan_metrics.add("row_groups_pruned_initial_threshold", len(self.ruled_out_at_start))

    @property
    def waiting(self) -> int:
        """Row groups still in the queue."""
        return len(self._queue)

    def work(self, context: TaskContext) -> None:
        """Take row groups from the queue until it is empty. Several threads may do so at once."""
        plan, spec, scan = self.plan, self.plan.spec, context.at_step(1)

        def opener(number: int) -> FileReader:
            return FileReader(plan.access.layout(number), plan.access.reading, scan.metrics)

        with OpenFiles(opener) as readers:
            blooms = spec.bloom_filters(self._costs)
            while (candidate := self._next()) is not None:
                context.check_cancelled()
                reader = readers.get(candidate.file)
                if blooms.should_skip(reader.source, reader.layout, candidate.row_group):
                    self.without_values.append(candidate.position)
                    continue
                found = spec.search(reader, candidate, self.filter, scan, self._costs)
                for batch in counted(found, context.step(1)):
                    self.add(batch)

    def next_round(self, tasks: int) -> list[TopKTask]:
        """The next tasks, with the threshold as it is now; empty when no remaining row group can win.

        The first round has one row group for each task, and each further round `topk_round_growth` times as many. So
        little is read while the threshold is loose, and there are few rounds if everything must be read. If the
        threshold rules nothing out after the first round, the next grows twice. Row groups that no threshold can rule
        out are not counted: delaying them saves nothing.
        """
        if self._threshold_prunes_nothing():
            self._round_size *= self._costs.topk_round_growth
        taken = self._take(tasks * self._round_size)
        if not taken:
            return []
        self._round_size *= self._costs.topk_round_growth
        self._rounds += 1
        threshold = self.filter.snapshot()
        shares = [tuple(taken[start::tasks]) for start in range(min(tasks, len(taken)))]
        table = self.plan.access.scanned
        return [TopKTask(self.plan.spec, self._slices(share), share, threshold, table, self._costs) for share in shares]

    def _threshold_prunes_nothing(self) -> bool:
        """Whether, after a first round, the threshold does not rule out even the worst row group of the queue."""
        if self._round_size == 1 or not self.filter.generation or not len(self._queue):
            return False
        return not self._pruner.should_skip(self._queue.candidate(int(self._queue.slots[-1])))

    def add(self, batch: pa.RecordBatch) -> None:
        """Take candidate rows, of a thread's row group or of a finished task."""
        with self._lock:
            self._best.push(batch)

    def winners(self) -> pa.RecordBatch:
        """The k best rows in order: carried columns, sort keys, place in the table."""
        with self._lock:
            return self._best.finish()

    @property
    def counted(self) -> dict[str, float]:
        """The counts of the search itself, once it is over."""
        rounds = {"topk_rounds": self._rounds} if self._rounds else {}  # threads have none
        return {**rounds, "threshold_updates": self.filter.generation}

    @property
    def scan_counted(self) -> dict[str, float]:
        """Counts of the scan below it: row groups that were pruned before a task received them."""
        planned = np.unique(self.plan.access.statistics.file_of[self.plan.queue.slots])
        return {
            **self._scan_metrics.as_dict(),
            "row_groups_pruned_bloom_filter": len(self.without_values),
            "files_pruned_dynamic_filter": len(planned) - len(self._touched),
        }

    def _next(self) -> Candidate | None:
        with self._lock:
            if len(self._queue) and self._prunes(self._queue.candidate(int(self._queue.slots[0]))):
                self._skip(lambda _: True)  # nor can any row group behind it
            return next(iter(self._taken(1)), None)

    def _take(self, prunable: int) -> list[Candidate]:
        """The best row groups of the queue that can still win: `prunable` of those that a threshold might rule out."""
        with self._lock:
            self._skip(self._prunes)
            return self._taken(self._queue.reaching(prunable))

    def _prunes(self, candidate: Candidate) -> bool:
        return self.plan.spec.switches.row_groups and self._pruner.should_skip(candidate)

    def _skip(self, cannot_win: Callable[[Candidate], bool]) -> None:
        self._queue, skipped = self._queue.without(cannot_win)
        if len(skipped):
            self.judged.append((skipped, False, self.filter.snapshot()))
            self._scan_metrics.add("row_groups_pruned_dynamic_filter", len(skipped))

    def _taken(self, count: int) -> list[Candidate]:
        candidates, slots = self._queue.candidates(count), self._queue.slots[:count]
        if candidates:
            self._queue = self._queue.taken(count)
            self.judged.append((slots, True, self.filter.snapshot()))
            self._touched.update(candidate.file for candidate in candidates)
        return candidates

    def _slices(self, share: Sequence[Candidate]) -> tuple[tuple[int, FileSlice], ...]:
        return tuple((number, self.plan.access.whole_file(number)) for number in sorted({c.file for c in share}))


@dataclass(frozen=True, eq=False)
class SearchShare(Source):
    """One of the threads that share a queue. Its rows stay in the search."""

    search: TopKSearch

    @property
    def steps(self) -> tuple[Described, ...]:
        return self.search.plan.spec.steps(self.search.plan.access.scanned)

    def read(self, context: TaskContext) -> Iterator[pa.RecordBatch]:
        self.search.work(context)
        yield from ()


@dataclass(frozen=True)
class TopKTask(Source):
    """A share of the queue for one executor task. Its result is the k best of its row groups."""

    spec: TopKSpec
    files: tuple[tuple[int, FileSlice], ...]
    candidates: tuple[Candidate, ...]
    threshold: Threshold
    table: ScannedTable
    costs: TopKCosts

    @property
    def steps(self) -> tuple[Described, ...]:
        return self.spec.steps(self.table)

    @property
    def schema(self) -> pa.Schema:
        return self.spec.schema

    def read(self, context: TaskContext) -> Iterator[pa.RecordBatch]:
        live = LiveThreshold(self.spec.order)
        live.tighten(self.threshold)
        best, scan = self.spec.best_rows(live, self.costs), context.at_step(1)
        pruner = RowGroupPruner(live, scan.metrics)
        blooms = self.spec.bloom_filters(self.costs)
        files = dict(self.files)
        with OpenFiles(lambda number: open_slice(self.spec.reading, files[number], scan)) as readers:
            for candidate in self.candidates:
                context.check_cancelled()
                if self.spec.switches.row_groups and pruner.should_skip(candidate):
                    scan.metrics.add("row_groups_pruned_dynamic_filter")
                    continue
                reader = readers.get(candidate.file)
                if blooms.should_skip(reader.source, reader.layout, candidate.row_group):
                    scan.metrics.add("row_groups_pruned_bloom_filter")
                    continue
                found = self.spec.search(reader, candidate, live, scan, self.costs)
                for batch in counted(found, context.step(1)):
                    best.push(batch)
        result = best.finish()
        if result.num_rows:
            yield result
