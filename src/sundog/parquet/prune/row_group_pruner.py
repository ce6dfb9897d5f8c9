"""Dynamic pruning: can the next row group still beat the threshold as it is *now*?

A static plan fixes the row groups when the scan starts, when nothing is known of the best rows. Meanwhile the threshold
tightens: after RG1 (600..900) the 10th best value may be 500, and reading RG7 (10..50) would waste I/O, decompression
and decoding.

    RG1 600..900   read       any value wins       generation 1: threshold 500
    RG2 700..800   read       700 beats 500        generation 2: threshold 710
    RG7  10..50    skipped    50 does not

The pruner compares the threshold's generation and fetches the threshold only if it has moved. Statistics can prove that
no row wins, never that one does; so skipping is always safe, and not skipping only costs time. Therefore an error in a
check is logged and counted (`predicate_evaluation_errors`), and the row group is read.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sundog.expr.dynamic_filters.threshold import LiveThreshold, OrderPlace, Threshold
from sundog.expr.ordering import SortKey
from sundog.metrics import Metrics
from sundog.parquet.meta.statistics import Bounds

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Candidate:
    """A row group in the queue of a top-k, with all that is needed to judge it. Picklable.

    `best`: the best place that the leading key of any of its rows can have, None if statistics do not tell.
    `must_read`: its rows might raise an error that plain Spark would raise too.
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


class RowGroupPruner:
    """Compares one threshold with one row group after another. Not shared between threads."""

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


def initial_threshold(bounds: Bounds, rows: npt.NDArray[np.int64], order: tuple[SortKey, ...], k: int) -> Threshold:
    """The tightest threshold that at least k rows are known to reach, before anything is read.

    Used are the row groups of which all rows pass the WHERE. Of each, some rows are known to be no worse than a value:

    | NULLs | null count known | null count unknown |
    |---|---|---|
    | first | the NULLs at NULL, the others at their worst bound | all rows at the worst bound: a NULL is better still |
    | last | the others at their worst bound | nothing: all rows might be NULL |

    Two row groups of 1000 rows, 600..900 and 100..200, DESC LIMIT 1500: 1000 rows are at least 600 and 2000 at least
    100, so the threshold is 100. It has no place in the table, so rows with exactly 100 can still win.
    """
    key, single = order[0], len(order) == 1
    counted = bounds.null_counts >= 0
    nulls = int(bounds.null_counts[counted].sum()) if key.nulls_first else 0
    if 0 < k <= nulls:
        return Threshold(key, single, True, None)
    worst = bounds.low if key.descending else bounds.high
    values = np.where(counted, rows - bounds.null_counts, rows if key.nulls_first else 0)
    ordered = worst.best_first(np.flatnonzero(worst.known & (values > 0)), key.descending)
    at = int(np.searchsorted(np.cumsum(values[ordered]) + nulls, k))
    if at == len(ordered):
        return Threshold(key, single)
    return Threshold(key, single, True, worst[int(ordered[at])])
