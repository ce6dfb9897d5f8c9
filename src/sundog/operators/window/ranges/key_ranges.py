"""Ranges within PARTITION BY keys: a key whose rows do not fit a task is cut like a window without PARTITION BY.

    sum(x) OVER (PARTITION BY p ORDER BY t RANGE 5 PRECEDING), in the order of (p, t), cut at (b, 40) and (b, 70)

    range 0     a: 0 .. 99    b: 0 .. 39
    range 1                   b: [35 .. 39 |  40 .. 69 ]           borrowed rows are of the cut's own key
    range 2                   b: [65 .. 69 |  70 .. 99 ]   c: 0 .. 99

The rows are ordered by the partition keys first. Only the first and the last key of a range may continue in other
ranges, so the halo of a cut is among the rows with the partition keys of that cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sundog.expr.buffers import Bools, is_narrow, validity_of
from sundog.expr.calls import BoundKind, Frame
from sundog.expr.nodes import Expr
from sundog.expr.ordering import SortKey
from sundog.operators.window.frames.order_key import INT64_MIN, RangeKey, unscaled
from sundog.operators.window.ranges.cuts import KeySample, cut_places, distinct_keys
from sundog.operators.window.ranges.routes import Routes, RowRanges, compared, highest_word, lowest_word
from sundog.types import is_text


@dataclass(frozen=True)
class KeyRanges(RowRanges):
    """`RowRanges` in the order of `partition_keys` keys and then the window's own; `frames` reach inside a key only."""

    partition_keys: int = 0
    frames: tuple[Frame, ...] = ()

    @property
    def has_halo(self) -> bool:
        return bool(self.frames)

    def routes(self, arrays: Sequence[pa.Array]) -> Routes:
        own = super().routes(arrays)
        if not self.frames:
            return own
        firsts, lasts = own.owners.copy(), own.owners.copy()
        for number in range(self.count - 1):
            before, behind = self._near(arrays, number)
            reaching = before & (own.owners <= number)
            lasts[reaching] = number + 1  # cuts are in order: the last one that reaches a row wins
            reached = behind & (firsts > number)
            firsts[reached] = number
        return Routes(own.owners, firsts, lasts, int((lasts.astype(np.int64) - firsts).sum()))

    def _near(self, arrays: Sequence[pa.Array], number: int) -> tuple[Bools, Bools]:
        """Rows of the cut's key that the frames behind the cut reach, as the first one; and those that the frames
        before it reach, as the last one. No offset reaches a NULL order key."""
        bound = self.cuts[self.partition_keys].slice(number, 1)
        array = arrays[self.partition_keys]
        there = validity_of(array)
        near: Bools = np.ones(len(array), np.bool_) if there is None else there.copy()
        if not bound[0].is_valid:
            near[:] = False
        for place in range(self.partition_keys):
            near &= compared(arrays[place], self.order_by[place], self.cuts[place].slice(number, 1))[1]
        if not near.any():
            return near, near
        before, behind = self._within(array, bound)
        return near & before, near & behind

    def _within(self, array: pa.Array, bound: pa.Array) -> tuple[Bools, Bools]:
        order = self.order_by[self.partition_keys]
        if is_narrow(array.type):
            key = RangeKey(array.type, order.descending)
            words, cut = key.words(array), int(key.words(bound)[0])
            last = max(cut - 1, INT64_MIN)
            low = min([cut, *(lowest_word(key, cut, frame) for frame in self.frames)])
            high = max([last, *(highest_word(key, last, frame) for frame in self.frames)])
            return words >= low, words <= high
        starts = [unscaled(frame.start.offset, array.type) for frame in self.frames if _moves(frame.start.kind)]
        ends = [unscaled(frame.end.offset, array.type) for frame in self.frames if _moves(frame.end.kind)]
        low_cut = RowRanges((order,), (bound,)).moved(0, min([0, *starts]))
        high_cut = RowRanges((order,), (bound,)).moved(0, max([0, *ends]))
        return ~compared(array, order, low_cut)[0], compared(array, order, high_cut)[0]


def _moves(kind: BoundKind) -> bool:
    return kind is BoundKind.OFFSET


def composite_order(partition_by: Sequence[Expr], order_by: Sequence[SortKey]) -> tuple[SortKey, ...]:
    """An order in which the rows of each partition key are contiguous. Its direction does not matter."""
    return (*(SortKey(expr) for expr in partition_by), *order_by)


def cut_inside_keys(
    sample: KeySample, order: tuple[SortKey, ...], partition_keys: int, frames: Sequence[Frame], ranges: int
) -> KeyRanges:
    """At most `ranges` ranges of about equal weight. `sample.keys` are those of the order."""
    rows, weights = distinct_keys(sample, order)
    picked = pa.array(rows[cut_places(weights, ranges)])
    return KeyRanges(order, tuple(array.take(picked) for array in sample.keys), None, partition_keys, tuple(frames))


def largest_range(sample: KeySample, ranges: KeyRanges) -> float:
    """The share of all rows that the largest range holds, its halo included, by routing the sample."""
    routes = ranges.routes(sample.keys)
    starts = np.zeros(ranges.count + 1)
    np.add.at(starts, routes.firsts, sample.weights)
    np.subtract.at(starts, routes.lasts + 1, sample.weights)
    return float(np.cumsum(starts)[:-1].max()) / max(float(sample.weights.sum()), 1.0)


def have_order(keys: Sequence[Expr]) -> bool:
    """Whether rows can be sorted by these partition keys; nested values have hashes only."""
    types = [key.dtype for key in keys]
    return all(is_narrow(dtype) or is_text(dtype) or pa.types.is_decimal(dtype) for dtype in types)
