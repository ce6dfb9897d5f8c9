"""The queue of a top-k: the row groups of all files, best bound first, as arrays with a few bytes for each.

    NULLs that come first │ best bound … worst bound │ NULLs that come last │ not known
    └──────────────────────── in order: once one cannot win, no later one can ────┘

So the row groups that a threshold rules out of a million are found by some twenty comparisons, not by a million. A row
group that must be read has its place in the order, and stays when those around it are ruled out. A row group taken from
the queue is given out as a `Candidate`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from sundog.expr.buffers import Bools, Indices
from sundog.expr.dynamic_filters.threshold import OrderPlace, best_leads, order_place
from sundog.expr.ordering import SortKey
from sundog.expr.rank_columns import RankColumn
from sundog.parquet.meta.statistics import Bounds
from sundog.parquet.prune.access_plan import ParquetAccessPlan
from sundog.parquet.prune.pruning import Verdict
from sundog.parquet.prune.row_group_pruner import Candidate


@dataclass(frozen=True, eq=False)
class RowGroupQueue:
    """`slots` in the order in which they are taken; the first `ordered` of them have a known place."""

    access: ParquetAccessPlan
    key: SortKey
    best: RankColumn
    is_null: Bools
    must_read: Bools
    slots: npt.NDArray[np.int64]
    ordered: int

    @classmethod
    def of(cls, access: ParquetAccessPlan, bounds: Bounds, key: SortKey, must_read: Bools) -> RowGroupQueue:
        """The row groups that the WHERE leaves. Those with equal bounds are in the order of the table."""
        best, is_null = best_leads(bounds, key)
        left = access.left
        nulls = left[is_null[left]]
        unknown = left[~(is_null | best.known)[left]]
        values = best.best_first(left[best.known[left]], key.descending)
        known = (nulls, values) if key.nulls_first else (values, nulls)
        ordered = len(nulls) + len(values)
        return cls(access, key, best, is_null, must_read, np.concatenate([*known, unknown]), ordered)

    def __len__(self) -> int:
        return len(self.slots)

    def place(self, slot: int) -> OrderPlace | None:
        """The best place of a row of a row group; None if unknown."""
        if self.is_null[slot]:
            return order_place(None, self.key)
        rank = self.best[slot]
        return None if rank is None else order_place(rank, self.key)

    def candidate(self, slot: int) -> Candidate:
        file = int(self.access.statistics.file_of[slot])
        return Candidate(
            file,
            slot - int(self.access.statistics.footers.starts[file]),
            int(self.access.statistics.rows[slot]),
            bool(self.access.verdicts[slot] == Verdict.ALL_ROWS_MATCH),
            self.place(slot),
            bool(self.must_read[slot]),
        )

    def candidates(self, count: int) -> list[Candidate]:
        """The first ones of the queue."""
        slots, access = self.slots[:count], self.access
        return list(
            map(
                Candidate,
                access.statistics.file_of[slots].tolist(),
                access.row_groups(slots).tolist(),
                access.statistics.rows[slots].tolist(),
                (access.verdicts[slots] == Verdict.ALL_ROWS_MATCH).tolist(),
                self._places(slots),
                self.must_read[slots].tolist(),
            )
        )

    def _places(self, slots: Indices) -> list[OrderPlace | None]:
        if self.best.words is None:
            return [self.place(slot) for slot in slots.tolist()]
        null, words = order_place(None, self.key), self.best.words[slots].tolist()
        kinds = zip(words, self.is_null[slots].tolist(), self.best.known[slots].tolist(), strict=True)
        return [null if is_null else order_place(word, self.key) if known else None for word, is_null, known in kinds]

    def reaching(self, prunable: int) -> int:
        """How many of the first row groups contain `prunable` that a threshold may rule out; all, if there are
        fewer."""
        may_be = ~self.must_read[self.slots[: self.ordered]]
        found = int(np.searchsorted(np.cumsum(may_be), prunable)) + 1
        return found if found <= self.ordered else len(self.slots)

    def taken(self, count: int) -> RowGroupQueue:
        """The queue without its first row groups."""
        return replace(self, slots=self.slots[count:], ordered=max(self.ordered - count, 0))

    def without(self, skips: Callable[[Candidate], bool]) -> tuple[RowGroupQueue, Indices]:
        """The queue without the row groups that `skips` rules out, and these. A skip applies to all behind the
        first."""
        first = bisect_left(
            range(self.ordered),
            True,
            key=lambda at: skips(replace(self.candidate(int(self.slots[at])), must_read=False)),
        )
        behind = self.slots[first : self.ordered]
        must_read = self.must_read[behind]
        kept = np.concatenate([self.slots[:first], behind[must_read], self.slots[self.ordered :]])
        return replace(self, slots=kept, ordered=first + int(must_read.sum())), behind[~must_read]
