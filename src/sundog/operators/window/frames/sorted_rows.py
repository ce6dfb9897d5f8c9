"""Rows in window order, and what all functions over them share: segments, peers, and the bounds of each frame.

    PARTITION BY k ORDER BY t          segments   k: a a a a b b b          a frame never leaves its segment
                                       peers      t: 1 2 2 3 1 1 4          rows of one segment with equal order keys

Several calls with one frame share its bounds; calls with other frames share the sort and the peers. Bounds are row
numbers: start inclusive, stop exclusive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sundog.errors import InternalError
from sundog.expr.buffers import is_narrow, validity_of
from sundog.expr.calls import Bound, BoundKind, Frame
from sundog.expr.ordering import SortKey
from sundog.kernels.windows.frames import (
    rows_at_distance,
    segment_bounds,
    starts_at_bound,
    starts_at_distance,
    stops_at_bound,
    stops_at_distance,
    word_changes,
)
from sundog.operators.window.frames.order_key import RangeKey
from sundog.operators.window.frames.wide_decimals import moved_ranks

Positions = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]
Bounds = tuple[Positions, Positions]
MAX_ROWS = 2**31 - 2


@dataclass(frozen=True)
class _FrameEnd:
    """An end of frames. `place`: of its bounds in a pair; a stop is the row after the last one."""

    place: int
    unbounded: BoundKind
    at_distance: Callable[..., None]  # kernels that find it where all words move by one distance,
    at_bound: Callable[..., None]  # or where each row has a word of its own


_STARTS = _FrameEnd(0, BoundKind.UNBOUNDED_PRECEDING, starts_at_distance, starts_at_bound)
_STOPS = _FrameEnd(1, BoundKind.UNBOUNDED_FOLLOWING, stops_at_distance, stops_at_bound)


class SortedRows:
    """`partition_keys` and `order_keys` are the evaluated keys of rows that are already in their order."""

    def __init__(
        self,
        count: int,
        partition_keys: Sequence[pa.Array],
        order_keys: Sequence[pa.Array],
        order_by: Sequence[SortKey],
    ) -> None:
        if count > MAX_ROWS:
            raise InternalError(f"{count} rows in one range; cut the window into more ranges")
        self.count = count
        self._partition_keys = partition_keys
        self._order_keys = order_keys
        self._order_by = order_by
        self._found: dict[tuple[_FrameEnd, str, Bound], Positions] = {}

    def part(self, first: int, last: int) -> SortedRows:
        """Some of the rows, by themselves."""
        count = last - first
        partition_keys = [array.slice(first, count) for array in self._partition_keys]
        order_keys = [array.slice(first, count) for array in self._order_keys]
        return SortedRows(count, partition_keys, order_keys, self._order_by)

    @cached_property
    def segments(self) -> Positions:
        """The first row of each segment, and the number of rows."""
        if not self.count:
            return np.zeros(1, np.int32)
        if not self._partition_keys:
            return np.array([0, self.count], np.int32)
        return _offsets(changes_of(self.count, self._partition_keys))

    @cached_property
    def groups(self) -> Positions:
        """The first row of each group of peers, and the number of rows. No order: all rows of a segment are peers."""
        changes = changes_of(self.count, self._order_keys)
        changes[self.segments[:-1]] = True
        return _offsets(changes)

    @cached_property
    def segment_bounds(self) -> Bounds:
        starts, stops = self._empty(), self._empty()
        segment_bounds(self.segments, starts, stops)
        return starts, stops

    @cached_property
    def peer_bounds(self) -> Bounds:
        starts, stops = self._empty(), self._empty()
        segment_bounds(self.groups, starts, stops)
        return starts, stops

    def bounds(self, frame: Frame) -> Bounds:
        return self.starts(frame.units, frame.start), self.stops(frame.units, frame.end)

    def starts(self, units: str, bound: Bound) -> Positions:
        return self._cached(_STARTS, units, bound)

    def stops(self, units: str, bound: Bound) -> Positions:
        return self._cached(_STOPS, units, bound)

    def _cached(self, end: _FrameEnd, units: str, bound: Bound) -> Positions:
        key = end, units, bound
        if key not in self._found:
            self._found[key] = self._find(end, units, bound)
        return self._found[key]

    def _find(self, end: _FrameEnd, units: str, bound: Bound) -> Positions:
        if bound.kind is end.unbounded:
            return self.segment_bounds[end.place]
        if units == "rows":
            return self._rows_at(row_offset(bound) + end.place)
        if bound.kind is BoundKind.CURRENT_ROW and not self._is_one_word:
            return self.peer_bounds[end.place]
        result = self._empty()
        words, moved, distance, offsets = self._range_words(bound)
        if moved is None:
            end.at_distance(words, distance, offsets, result)
        else:
            end.at_bound(words, moved, offsets, result)
        return result

    @property
    def _is_one_word(self) -> bool:
        """Whether peers are found as the rows at distance 0: one pass instead of three for finding their groups."""
        return len(self._order_keys) == 1 and is_narrow(self._order_keys[0].type)

    def _rows_at(self, distance: int) -> Positions:
        result = self._empty()
        rows_at_distance(distance, self.segments, result)
        return result

    def _range_words(self, bound: Bound) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64] | None, int, Positions]:
        """Words of the key; moved words or else the distance to move them by; segments that separate NULLs from values.

        If the bound is an offset, the frame of a NULL is all NULLs of its segment, and no other frame has a NULL. So
        NULLs are a segment of their own, in which all words are equal and none is moved.
        """
        if len(self._order_keys) != 1:
            raise InternalError("a RANGE offset needs exactly one order key")
        array, order = self._order_keys[0], self._order_by[0]
        valid = validity_of(array)
        offsets = self.segments
        if valid is not None:
            borders = np.flatnonzero(valid[1:] != valid[:-1]) + 1
            offsets = np.union1d(offsets, borders.astype(np.int32))
        distance: int | None
        if is_narrow(array.type):
            key = RangeKey(array.type, order.descending)
            words = key.words(array)
            distance = key.distance(bound)
            moved = None if distance is not None else key.moved(array, bound)
        else:
            words, moved = moved_ranks(array, bound, order.descending)
            distance = None
        if valid is not None:
            words = np.where(valid, words, 0)
            if distance is not None:
                moved = np.where(valid, words + distance, 0)
            elif moved is not None:
                moved = np.where(valid, moved, 0)
        return words, moved, distance or 0, offsets

    def _empty(self) -> Positions:
        return np.empty(self.count, np.int32)


def row_offset(bound: Bound) -> int:
    return 0 if bound.kind is BoundKind.CURRENT_ROW else int(bound.offset)


def _offsets(changes: Bools) -> Positions:
    return np.append(np.flatnonzero(changes), len(changes)).astype(np.int32)


def changes_of(count: int, keys: Sequence[pa.Array]) -> Bools:
    """True for the first row and wherever a key differs from the row before: NULL equals NULL, NaN equals NaN."""
    changes = np.zeros(count, np.bool_)
    if count:
        changes[0] = True
    for array in keys:
        valid = validity_of(array)
        if is_narrow(array.type):
            words = RangeKey(array.type).words(array)
            word_changes(words if valid is None else np.where(valid, words, 0), changes)
        elif count > 1 and not pa.types.is_null(array.type):
            differs = pc.not_equal(array.slice(1), array.slice(0, count - 1))
            changes[1:] |= pc.fill_null(differs, False).to_numpy(zero_copy_only=False)
        if valid is not None:
            changes[1:] |= valid[1:] != valid[:-1]
    return changes
