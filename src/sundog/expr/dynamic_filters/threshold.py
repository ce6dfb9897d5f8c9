"""The threshold of a top-k: what a row must still beat. It only tightens, and everything that prunes reads it.

Once k rows are known, the worst of them is the threshold: a row past it can never be among the k best. `LiveThreshold`
holds the threshold of the *leading* sort key; its `generation` counts how often it has tightened, so that a reader
prunes again only then. `Threshold` is one state of it, a `DynamicFilter` (`contract.py`), frozen and picklable, which
travels to tasks.

If the keys of two rows tie, their places in the table (file, row group, row) decide, as if the table had been sorted
stably in file order. So the answer does not depend on threads, rounds or pruning:

| leading key against the threshold | one sort key | several sort keys |
|---|---|---|
| before it | can win | can win |
| after it | cannot win | cannot win |
| equal to it | can win if its place is before that of the row that set the threshold | can win: later keys decide |

A threshold from statistics has no place in the table (only "at least k rows are no worse"), so ties with it can always
win.

The threshold is a rank (`ranks.py`) or NULL; NULLs sort before or after all values, as the key says, and NaN is the
greatest value. The threshold of `x DESC NULLS LAST` at 500 lets through what is >= 500, including NaN, and no NULL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, total_ordering
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sundog.expr.buffers import Bools, decimal_words, validity_of, values_of
from sundog.expr.dynamic_filters.contract import SlotBounds
from sundog.expr.nodes import Expr
from sundog.expr.ordering import SortKey
from sundog.expr.rank_columns import RankColumn
from sundog.expr.ranks import NAN_RANK, Rank, rank_at, rank_float
from sundog.types import is_text

OrderPlace = tuple[Any, ...]
"""The position of a leading key in the order, compared as a plain tuple: smaller is better."""

Position = tuple[int, ...]
"""The place of a row in the table: (file, row group, row), or only the first of these."""


@total_ordering
@dataclass(frozen=True)
class _Descending:
    value: bytes

    def __lt__(self, other: _Descending) -> bool:
        return self.value > other.value


def order_place(rank: Rank | None, key: SortKey) -> OrderPlace:
    """The position of a value, or of NULL for None, under a sort key."""
    if rank is None:
        return (0,) if key.nulls_first else (2,)
    if not key.descending:
        return (1, rank)
    return (1, _Descending(rank) if isinstance(rank, bytes) else -rank)


@dataclass(frozen=True)
class Threshold:
    """One state of the threshold. `bounded` is False while fewer than k rows are known: then everything can win."""

    key: SortKey
    single_key: bool
    bounded: bool = False
    lead: Rank | None = None
    position: Position | None = None
    generation: int = 0

    @classmethod
    def after_row(
        cls, order: Sequence[SortKey], leads: pa.Array, row: int, position: Position | None = None
    ) -> Threshold:
        """The threshold that a row sets: `leads[row]` is its leading key."""
        return cls(order[0], len(order) == 1, True, rank_at(leads, row), position)

    @property
    def expr(self) -> Expr:
        return self.key.expr

    @cached_property
    def place(self) -> OrderPlace:
        return order_place(self.lead, self.key)

    def is_tighter_than(self, other: Threshold) -> bool:
        if not self.bounded or not other.bounded:
            return self.bounded
        mine, theirs = self.place, other.place
        if mine != theirs:
            return mine < theirs
        if not self.single_key or self.position is None:
            return False
        return other.position is None or self.position < other.position

    def can_win(self, best: OrderPlace | None, position: Position) -> bool:
        """Whether a row group at `position` (file, row group) whose best leading key is at `best` can hold a winner.

        `best` is None if statistics do not tell.
        """
        if not self.bounded or best is None:
            return True
        threshold = self.place
        if best != threshold:
            return best < threshold
        return not self.single_key or self.position is None or position <= self.position[:2]

    def ties_can_win(self, position: Position) -> bool:
        """Whether rows of the row group at `position` can win with a leading key equal to the threshold."""
        return not self.bounded or self.can_win(self.place, position)

    def may_hold(self, bounds: SlotBounds) -> Bools:
        """The slots whose best leading key can still win, a tie included; `can_win` for many slots at once."""
        if not self.bounded:
            return np.ones(len(bounds), np.bool_)
        best, is_null = best_leads(bounds, self.key)
        if self.lead is None:  # NULLs come first, and only they tie; or last, and every value is as good
            return is_null | ~best.known if self.key.nulls_first else np.ones(len(bounds), np.bool_)
        behind = best.below(self.lead) if self.key.descending else ~best.below(self.lead) & best.known
        tied = best.equal_to(self.lead)
        return (~behind | tied) & (self.key.nulls_first | ~is_null)

    def passing(self, values: pa.Array, ties: bool = True) -> Bools | None:
        """True for the rows whose leading key can still win; None for all of them."""
        if not self.bounded:
            return None
        valid = validity_of(values)
        if self.lead is None:
            return self._mask_at_null(valid, len(values), ties)
        mask = self._values_before(values, ties)
        if valid is not None:
            mask = mask | ~valid if self.key.nulls_first else mask & valid
        return mask

    def _mask_at_null(self, valid: Bools | None, rows: int, ties: bool) -> Bools | None:
        """The mask if the threshold is NULL: only NULLs tie if they come first; every value is before it if last."""
        nulls = np.zeros(rows, np.bool_) if valid is None else ~valid
        if self.key.nulls_first:
            return nulls if ties else np.zeros(rows, np.bool_)
        return None if ties or valid is None else valid

    def _values_before(self, leads: pa.Array, ties: bool) -> Bools:
        dtype = leads.type
        if is_text(dtype):
            compare = _ARROW_COMPARE[self.key.descending, ties]
            kept = compare(leads.view(pa.binary()), pa.scalar(self.lead, pa.binary()))
            return np.asarray(pc.fill_null(kept, False).to_numpy(zero_copy_only=False), np.bool_)
        assert isinstance(self.lead, int)
        if pa.types.is_decimal(dtype):
            return (
                self._wide_decimals_before(leads, ties)
                if dtype.precision > 18
                else self._before(decimal_words(leads)[0].view(np.int64), self.lead, ties)
            )
        values = values_of(leads)
        if not pa.types.is_floating(dtype):
            return self._before(values, self.lead, ties)
        if self.lead == NAN_RANK:
            nans = np.isnan(values)
            if self.key.descending:
                return nans if ties else np.zeros(len(values), np.bool_)
            return np.ones(len(values), np.bool_) if ties else ~nans
        threshold = rank_float(self.lead)
        if self.key.descending:  # "not below" lets NaN through, as it should
            return ~(values < threshold) if ties else ~(values <= threshold)
        return self._before(values, threshold, ties)

    def _before(self, values: npt.NDArray[Any], threshold: float, ties: bool) -> Bools:
        if self.key.descending:
            return values >= threshold if ties else values > threshold
        return values <= threshold if ties else values < threshold

    def _wide_decimals_before(self, leads: pa.Array, ties: bool) -> Bools:
        assert isinstance(self.lead, int)
        low, high = decimal_words(leads)
        lead_high, lead_low = self.lead >> 64, np.uint64(self.lead & (2**64 - 1))
        beats = high > lead_high if self.key.descending else high < lead_high
        level: Bools = high == lead_high
        if self.key.descending:
            rest = low >= lead_low if ties else low > lead_low
        else:
            rest = low <= lead_low if ties else low < lead_low
        kept: Bools = beats | (level & rest)
        return kept


def best_leads(bounds: SlotBounds, key: SortKey) -> tuple[RankColumn, Bools]:
    """The best possible leading key of a row in each slot, and where that is NULL. It may be unknown."""
    is_null = bounds.nulls & (np.full(len(bounds), key.nulls_first) | ~bounds.values)
    return (bounds.high if key.descending else bounds.low).only(~is_null), is_null


_ARROW_COMPARE = {
    (False, True): pc.less_equal,
    (False, False): pc.less,
    (True, True): pc.greater_equal,
    (True, False): pc.greater,
}


class LiveThreshold:
    """The live threshold of one top-k, shared by the threads that tighten it and the readers that prune by it."""

    def __init__(self, order: Sequence[SortKey]) -> None:
        self._lock = Lock()
        self._threshold = Threshold(order[0], len(order) == 1)

    @property
    def generation(self) -> int:
        return self._threshold.generation

    def snapshot(self) -> Threshold:
        """The present threshold."""
        return self._threshold

    def tighten(self, candidate: Threshold) -> bool:
        """Replace the threshold if the candidate is tighter; a looser one is refused."""
        with self._lock:
            if not candidate.is_tighter_than(self._threshold):
                return False
            self._threshold = replace(candidate, generation=self._threshold.generation + 1)
            return True

    def __getstate__(self) -> Threshold:
        return self._threshold

    def __setstate__(self, threshold: Threshold) -> None:
        self._lock = Lock()
        self._threshold = threshold
