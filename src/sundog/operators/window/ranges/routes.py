"""Which ranges get a row: the one that owns its key, and those whose frames reach it.

Range r owns the keys from its cut up to the next. A frame of one of its rows reaches at most from (least key it owns +
start) to (greatest key it owns + end). The rows among these that it does not own are the range's halo. Bounds are
computed with the key's own arithmetic (`RangeKey.move`), so a halo is exact for floats and calendar months too.

`WordRanges` is for a single key of one word, and uses a table of cells. `RowRanges` is for all other keys (several
keys, strings, long decimals), and compares each batch with each cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sundog.expr.buffers import Bools, is_narrow, kernel_view, numpy_type, validity_of
from sundog.expr.calls import BoundKind, Frame
from sundog.expr.ordering import SortKey
from sundog.expr.ranks import rank_at
from sundog.kernels.windows.routing import cells_of, owners_of, widen_to_needs
from sundog.operators.window.frames.order_key import INT64_MAX, INT64_MIN, RangeKey, rank_text, unscaled
from sundog.types import is_plain

Longs = npt.NDArray[np.int64]
Positions = npt.NDArray[np.int32]
_DECIMAL_LIMIT = 10**38 - 1


@dataclass(frozen=True)
class Routes:
    """For each row the range that owns it, and the first and last range that need it; the number of copies."""

    owners: Positions
    firsts: Positions
    lasts: Positions
    copies: int


@dataclass(frozen=True)
class WordRanges:
    """Range r owns the words from cuts[r - 1] up to, but not including, cuts[r]; it needs those from lows[r] to
    highs[r].

    NULLs belong to the first or the last range; with `nulls_apart` the last range holds nothing else.
    """

    order_by: tuple[SortKey, ...]
    cuts: tuple[int, ...]
    nulls_apart: bool
    lows: tuple[int, ...]
    highs: tuple[int, ...]

    @classmethod
    def reaching(
        cls, order_by: tuple[SortKey, ...], cuts: Sequence[int], nulls_apart: bool, frames: Sequence[Frame]
    ) -> WordRanges:
        key = RangeKey(order_by[0].expr.dtype, order_by[0].descending)
        lows, highs = [INT64_MIN], []
        for cut in cuts:
            before = max(cut - 1, INT64_MIN)  # only NULLs come before the least word
            lows.append(min([cut, *(lowest_word(key, cut, frame) for frame in frames)]))
            highs.append(max([before, *(highest_word(key, before, frame) for frame in frames)]))
        highs.append(INT64_MAX)
        # Moved by months, a later key can come before an earlier one; widening keeps the bounds in order.
        lows = np.minimum.accumulate(np.array(lows, np.int64)[::-1])[::-1].tolist()
        highs = np.maximum.accumulate(np.array(highs, np.int64)).tolist()
        return cls(order_by, tuple(cuts), nulls_apart, tuple(lows), tuple(highs))

    @property
    def count(self) -> int:
        return len(self.cuts) + 1 + self.nulls_apart

    @property
    def has_halo(self) -> bool:
        """Whether a range needs rows that it does not own."""
        before = any(low < cut for low, cut in zip(self.lows[1:], self.cuts, strict=True))
        return before or any(high >= cut for high, cut in zip(self.highs, self.cuts, strict=False))

    @cached_property
    def _cells(self) -> tuple[Longs, Positions, int]:
        """The cuts, and the table of cells that finds a row's owner."""
        cuts = np.array(self.cuts, np.int64)
        return cuts, *cells_of(cuts)

    def words(self, array: pa.Array) -> Longs:
        key = self.order_by[0]
        return RangeKey(key.expr.dtype, key.descending).words(array)

    def _stored_words(self, array: pa.Array) -> npt.NDArray[np.signedinteger]:
        """The same, where they are what is stored, in its width."""
        dtype = array.type
        if self.order_by[0].descending or not is_plain(dtype) or pa.types.is_floating(dtype):
            return self.words(array)
        return kernel_view(array.buffers()[1], numpy_type(dtype), len(array), array.offset)

    def routes(self, arrays: Sequence[pa.Array]) -> Routes:
        array = arrays[0]
        words, valid = self._stored_words(array), validity_of(array)
        owners = np.empty(len(array), np.int32)
        owners_of(words, *self._cells, owners)
        if not self.has_halo:
            if valid is not None:
                owners[~valid] = 0 if self.order_by[0].nulls_first else self.count - 1
            return Routes(owners, owners, owners, 0)
        firsts, lasts = np.empty(len(array), np.int32), np.empty(len(array), np.int32)
        lows, highs = np.array(self.lows, np.int64), np.array(self.highs, np.int64)
        copies = int(widen_to_needs(words, owners, lows, highs, firsts, lasts))
        if valid is not None:
            for places in (owners, firsts, lasts):
                places[~valid] = 0 if self.order_by[0].nulls_first else self.count - 1
            copies = int((lasts.astype(np.int64) - firsts).sum())
        return Routes(owners, firsts, lasts, copies)

    def describe(self) -> str:
        dtype, descending = self.order_by[0].expr.dtype, self.order_by[0].descending
        return ", ".join(rank_text(~cut if descending else cut, dtype) for cut in self.cuts)


def lowest_word(key: RangeKey, word: int, frame: Frame) -> int:
    slack = max(key.slack(frame.start), key.slack(frame.end))
    start = key.move(word, frame.start) if frame.start.kind is BoundKind.OFFSET else word
    return max(min(start, word) - slack, INT64_MIN)


def highest_word(key: RangeKey, word: int, frame: Frame) -> int:
    slack = max(key.slack(frame.start), key.slack(frame.end))
    end = key.move(word, frame.end) if frame.end.kind is BoundKind.OFFSET else word
    return min(max(end, word) + slack, INT64_MAX)


@dataclass(frozen=True)
class RowRanges:
    """Range r starts with row r - 1 of `cuts` (one array per key). `reaches`: the offsets of frames, if any:

    how far before its least and behind its greatest key a range needs rows, in units of a long decimal.
    """

    order_by: tuple[SortKey, ...]
    cuts: tuple[pa.Array, ...]
    reaches: tuple[int, int] | None = None

    @classmethod
    def reaching(cls, order_by: tuple[SortKey, ...], cuts: tuple[pa.Array, ...], frames: Sequence[Frame]) -> RowRanges:
        if not frames:
            return cls(order_by, cuts)
        dtype = order_by[0].expr.dtype
        starts = [unscaled(frame.start.offset, dtype) for frame in frames if frame.start.kind is BoundKind.OFFSET]
        ends = [unscaled(frame.end.offset, dtype) for frame in frames if frame.end.kind is BoundKind.OFFSET]
        return cls(order_by, cuts, (min([0, *starts]), max([0, *ends])))

    @property
    def count(self) -> int:
        return len(self.cuts[0]) + 1 if self.cuts else 1

    @property
    def has_halo(self) -> bool:
        """Whether a range may need rows that it does not own."""
        return self.reaches is not None

    def routes(self, arrays: Sequence[pa.Array]) -> Routes:
        count = len(arrays[0])
        owners = np.zeros(count, np.int32)
        for number in range(self.count - 1):
            owners += self._at_or_behind(arrays, [cut.slice(number, 1) for cut in self.cuts])
        if self.reaches is None:
            return Routes(owners, owners, owners, 0)
        firsts, lasts = np.zeros(count, np.int32), np.zeros(count, np.int32)
        before, behind = self.reaches
        for number in range(self.count - 1):
            lasts += self._at_or_behind(arrays, [self.moved(number, before)])
            firsts += self._at_or_behind(arrays, [self.moved(number, behind)])
        valid = validity_of(arrays[0])
        lasts, firsts = np.maximum(lasts, owners), np.minimum(firsts, owners)
        if valid is not None:
            lasts, firsts = np.where(valid, lasts, owners), np.where(valid, firsts, owners)
        return Routes(owners, firsts, lasts, int((lasts - firsts).sum()))

    def moved(self, number: int, distance: int) -> pa.Array:
        """The cut's value moved along the order; a NULL stays NULL."""
        key, cut = self.order_by[0], self.cuts[0]
        rank = rank_at(cut, number)
        if not isinstance(rank, int):
            return cut.slice(number, 1)
        rank += -distance if key.descending else distance
        held = min(max(rank, -_DECIMAL_LIMIT), _DECIMAL_LIMIT)
        digits = Decimal((int(held < 0), tuple(map(int, str(abs(held)))), -cut.type.scale))
        return pa.array([digits], pa.decimal128(38, cut.type.scale))

    def _at_or_behind(self, arrays: Sequence[pa.Array], cut: Sequence[pa.Array]) -> Bools:
        behind: Bools = np.ones(len(arrays[0]), np.bool_)
        for array, key, bound in reversed(list(zip(arrays, self.order_by, cut, strict=True))):
            before, equal = compared(array, key, bound)
            behind = (~before & ~equal) | (equal & behind)
        return behind

    def describe(self) -> str:
        return f"{len(self.cuts[0]) if self.cuts else 0} rows"


def compared(array: pa.Array, key: SortKey, bound: pa.Array) -> tuple[Bools, Bools]:
    """Which rows come before the bound (an array of one value), and which tie with it."""
    valid = validity_of(array)
    there: Bools = np.ones(len(array), np.bool_) if valid is None else valid
    if not bound[0].is_valid:
        before = np.zeros(len(array), np.bool_) if key.nulls_first else there
        return before, ~there
    if is_narrow(array.type):
        words = RangeKey(array.type, key.descending).words(array)
        limit = RangeKey(array.type, key.descending).words(bound)[0]
        before, equal = words < limit, words == limit
    else:
        order = pc.greater if key.descending else pc.less
        before, equal = (
            pc.fill_null(mask, False).to_numpy(zero_copy_only=False)
            for mask in (order(array, bound[0]), pc.equal(array, bound[0]))
        )
    return np.where(there, before, key.nulls_first), equal & there
