"""Key filters: the keys of a join's build side as a `DynamicFilter` (`contract.py`) of the probe side's scan.

    SELECT … FROM fact JOIN dim ON fact.d = dim.id WHERE dim.name = 'x'

Once the build side is computed, every row of `fact` whose `d` is not among its keys is known to have no partner. A
file, row group or page whose bounds contain no key is not read; a row whose key is not in the set is dropped before its
other columns are decoded.

A set may contain too many values (a Bloom filter does), never too few: a value that is not in it has no partner.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sundog.expr.buffers import Bools, kernel_view, numpy_type, unpacked_bits
from sundog.expr.dynamic_filters.contract import SlotBounds
from sundog.expr.nodes import Column, Expr
from sundog.expr.rank_columns import RankColumn
from sundog.expr.ranks import Rank
from sundog.kernels.joins.key_bits import test_bits, test_bloom


@dataclass(frozen=True, eq=False)
class KeySet:
    """The distinct values of one key column, none of them NULL. `count` is an upper bound of their number.

    For integers, dates, instants and short decimals, `bits` has a bit for each value from `low` on, or `bloom` is a
    Bloom filter; `sorted_keys` are the keys, if there are not too many. For strings, `texts` are the values in order,
    if they are few. For other types only the bounds are known.
    """

    dtype: pa.DataType
    count: int
    low: Rank | None = None
    high: Rank | None = None
    bits: npt.NDArray[np.uint8] | None = None
    bloom: npt.NDArray[np.uint64] | None = None
    sorted_keys: npt.NDArray[np.int64] | None = None
    texts: pa.Array | None = None

    @property
    def nbytes(self) -> int:
        parts = (self.bits, self.bloom, self.sorted_keys, self.texts)
        return sum(int(part.nbytes) for part in parts if part is not None)

    @property
    def density(self) -> float:
        """Number of keys over the number of values from the least to the greatest; 1 if they are not integers."""
        if isinstance(self.low, int) and isinstance(self.high, int):
            return min(1.0, self.count / (self.high - self.low + 1))
        return 1.0

    def reached_by(self, lows: RankColumn, highs: RankColumn) -> Bools:
        """The slots in which a key may lie in low..high; an unknown bound is an open end."""
        if self.count == 0:
            return np.zeros(len(lows), np.bool_)
        if self.low is None or self.high is None:
            return np.ones(len(lows), np.bool_)
        reached = ~(highs.below(self.low) | (lows.at_least(self.high) & ~lows.equal_to(self.high)))
        keys = self.sorted_keys if self.texts is None else self.texts.cast(pa.large_binary()).to_pylist()
        if keys is not None:
            first = lows.places_in(keys, before_equal=True, unknown=0)
            behind = highs.places_in(keys, before_equal=False, unknown=len(keys))
            return reached & (behind > first)
        if self.bits is not None:
            for slot in np.flatnonzero(reached).tolist():
                reached[slot] = self._has_bit(lows[slot], highs[slot])
        return reached

    def listed(self, most: int) -> list[Rank] | None:
        """The keys in order, if they are known and at most `most`."""
        if self.count > most:
            return None
        if self.count == 0:
            return []
        if self.texts is not None:
            texts: list[Rank] = self.texts.cast(pa.binary()).to_pylist()
            return texts
        if self.sorted_keys is not None:
            keys: list[Rank] = self.sorted_keys.tolist()
            return keys
        if self.bits is None or not isinstance(self.low, int):
            return None
        used = np.flatnonzero(self.bits)
        places, bits = np.nonzero(np.unpackbits(self.bits[used, None], axis=1, bitorder="little"))
        return [self.low + place for place in (8 * used[places] + bits).tolist()]

    def passing(self, values: pa.Array) -> Bools:
        """The rows whose value may be among the keys; never NULLs. Values are neither dictionary-encoded nor views."""
        rows = len(values)
        if self.count == 0 or values.null_count == rows:
            return np.zeros(rows, np.bool_)
        if self.texts is not None:
            found: Bools = pc.is_in(values, value_set=self.texts).to_numpy(zero_copy_only=False)
            return found
        valid = unpacked_bits(values.buffers()[0], values.offset, rows) if values.null_count else _ALL_VALID
        mask = np.empty(rows, np.bool_)
        match self:
            case KeySet(low=int(low), high=int(high), bits=bits) if bits is not None:
                test_bits(_integers_of(values), valid, low, high, bits, mask)
            case KeySet(low=int(low), high=int(high), bloom=bloom) if bloom is not None:
                test_bloom(_integers_of(values), valid, low, high, bloom, mask)
            case _:
                return valid.view(np.bool_) if values.null_count else np.ones(rows, np.bool_)
        return mask

    def _has_bit(self, low: Any, high: Any) -> bool:
        """Whether a bit is set between `low`, or the first value, and `high`, or the last."""
        assert self.bits is not None, "bits are looked at"
        assert isinstance(self.low, int), "bits are of integers"
        assert isinstance(self.high, int), "bits are of integers"
        low = self.low if low is None or low < self.low else low
        high = self.high if high is None or high > self.high else high
        first, last = low - self.low, high - self.low
        if first > last:  # inconsistent bounds
            return True
        piece = self.bits[first >> 3 : (last >> 3) + 1]
        head, tail = 255 << (first & 7) & 255, 255 >> 7 - (last & 7)
        if len(piece) == 1:
            return bool(piece[0] & head & tail)
        return bool(piece[0] & head) or bool(piece[-1] & tail) or _any_bit(piece[1:-1])


_ALL_VALID: npt.NDArray[np.uint8] = np.zeros(0, np.uint8)  # for kernels


def _integers_of(array: pa.Array) -> npt.NDArray[Any]:
    """The integers behind values of one word each."""
    data = array.buffers()[1]
    if pa.types.is_decimal(array.type):
        words = kernel_view(data, np.dtype(np.int64), 2 * len(array), 2 * array.offset)
        return np.ascontiguousarray(words[::2])
    return kernel_view(data, numpy_type(array.type), len(array), array.offset)


def _any_bit(bits: npt.NDArray[np.uint8]) -> bool:
    """Whether a bit is set, searched in pieces of growing size.

    For an unclustered key the bounds of a row group span nearly all keys, and one of the first bytes has a bit.
    `bits.any()` reads all bytes for every row group: 3 ms for each with a bitmap of 32 MiB.
    """
    first, size = 0, 1 << 12
    while first < len(bits):
        if bits[first : first + size].max():  # 5 times as fast as `any`
            return True
        first, size = first + size, 4 * size
    return False


@dataclass(frozen=True)
class KeyFilter:
    """Rows whose `column` is not among `keys` have no partner in a join above, and need not be read.

    `keys` is None in a plan that is only explained: the build side is not computed.
    """

    column: str
    keys: KeySet | None = None

    @property
    def expr(self) -> Expr:
        return Column(self.column, pa.null() if self.keys is None else self.keys.dtype)

    @property
    def generation(self) -> int:
        return 0 if self.keys is None else 1

    def may_hold(self, bounds: SlotBounds) -> Bools:
        if self.keys is None:
            return np.ones(len(bounds), np.bool_)
        return bounds.values & self.keys.reached_by(bounds.low, bounds.high)

    def passing(self, values: pa.Array) -> Bools | None:
        return None if self.keys is None else self.keys.passing(values)

    def describe(self) -> str:
        return self.column if self.keys is None else f"{self.column}: {self.keys.count:,} keys"
