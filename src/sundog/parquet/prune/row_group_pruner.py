"""Dynamic pruning: can the next row group still beat the threshold as it is *now*?

A static plan freezes the choice of row groups when the scan starts, when the top-k knows nothing yet. Meanwhile the
threshold rises: after RG1 (600..900) the 10th best value may be 500, and RG7 (10..50) is a waste of I/O, decompression
and decoding.

    RG1 600..900   read       any value wins       generation 1: threshold 500
    RG2 700..800   read       700 beats 500        generation 2: threshold 710
    RG7  10..50    skipped    50 does not

The pruner looks at the threshold's generation and fetches it only when it has moved. Statistics can prove that
no row wins, never that one does, so skipping is always safe and keeping costs time only. Hence the rule for trouble:
whatever goes wrong in a check is logged and counted (`predicate_evaluation_errors`), and the row group is read.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

from sundog.expr.dynamic_filters.threshold import LiveThreshold, OrderPlace, Threshold, order_place
from sundog.expr.ordering import SortKey
from sundog.expr.ranks import Rank
from sundog.metrics import Metrics
from sundog.parquet.meta.statistics import Bounds

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Candidate:
    """A row group in the queue of a top-k, with all that is needed to decide about it. Picklable.

    `best` is the best place that the leading key of any of its rows can have, None if statistics do not say.
    `must_read` says that its rows might raise an error that plain Spark would raise too.
    """

    file: int
    row_group: int
    rows: int
    all_rows_match: bool
    best: OrderPlace | None
    must_read: bool

    @property
    def position(self) -> tuple[int, int]:
        return (self.file, self.row_group)

    def sort_key(self) -> tuple[int, OrderPlace, tuple[int, int]]:
        """Best bound first; what is not known last, when the threshold is as tight as it gets."""
        return (1, (), self.position) if self.best is None else (0, self.best, self.position)


class RowGroupPruner:
    """Asks one threshold about one row group after another. Not shared between threads."""

    def __init__(self, live: LiveThreshold, metrics: Metrics) -> None:
        self._filter = live
        self._metrics = metrics
        self._threshold = live.snapshot()

    def should_skip(self, candidate: Candidate) -> bool:
        """True only if no row of the row group can be among the k best."""
        if candidate.must_read:
            return False
        if self._filter.generation != self._threshold.generation:
            self._threshold = self._filter.snapshot()
        try:
            return not self._threshold.can_win(candidate.best, candidate.position)
        except Exception:
            _LOG.warning("row group %d of file %d is read unchecked", *candidate.position[::-1], exc_info=True)
            self._metrics.add("predicate_evaluation_errors")
            return False


def best_place(bounds: Bounds, slot: int, key: SortKey) -> OrderPlace | None:
    """The best place that a leading key of the row group can have; None where statistics do not say."""
    if bounds.nulls[slot] and (key.nulls_first or not bounds.values[slot]):
        return order_place(None, key)
    edge = bounds.high[slot] if key.descending else bounds.low[slot]
    return None if edge is None else order_place(edge, key)


def sure_rows(bounds: Bounds, slot: int, rows: int, key: SortKey) -> Iterator[tuple[Rank | None, int]]:
    """(value, count): at least so many rows of the row group are no worse than the value (None is NULL).

    | NULLs | null count known | null count unknown |
    |---|---|---|
    | first | the NULLs at NULL, the others at their worst bound | all rows at the worst bound: a NULL is better still |
    | last | the others at their worst bound | nothing: all rows might be NULL |
    """
    edge = bounds.low[slot] if key.descending else bounds.high[slot]
    null_count = int(bounds.null_counts[slot])
    if null_count < 0:
        if key.nulls_first and edge is not None:
            yield edge, rows
        return
    if key.nulls_first and null_count:
        yield None, null_count
    if edge is not None and rows > null_count:
        yield edge, rows - null_count


def initial_threshold(sure: list[tuple[Rank | None, int]], order: tuple[SortKey, ...], k: int) -> Threshold:
    """The tightest threshold that at least k rows are known to reach, before anything is read.

    Two row groups of 1000 rows, 600..900 and 100..200, DESC LIMIT 1500: 1000 rows are at least 600 and 2000 at least
    100, so the threshold is 100. No row of it is known by its place, so rows at 100 exactly can still win.
    """
    key = order[0]
    total = 0
    for rank, count in sorted(sure, key=lambda entry: order_place(entry[0], key)):
        total += count
        if total >= k:
            return Threshold(key, len(order) == 1, True, rank)
    return Threshold(key, len(order) == 1)
