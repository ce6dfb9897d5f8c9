"""Arithmetic on order keys: `RANGE BETWEEN 10 PRECEDING AND 5 FOLLOWING` needs key - 10 and key + 5.

Every fixed-width key becomes an int64 *word* whose order is the order of the rows. It is the stored integer, the
unscaled decimal, or the reordered bits of a double (NaN greatest, -0.0 = 0.0); all bits are flipped for DESC. Frame
bounds, cut points and halos are then computed on words alone:

    word of key + offset  =  word + distance            integers, decimals, dates, timestamps, either direction
                          =  encode(decode(word) + x)   floats (in their own width) and months (by the calendar)

NULLs have no word. They are peers of each other and come before or behind all values; no offset reaches them.

An integer key plus its offset may leave its type. Spark then raises or wraps, depending on how far it has moved its
frame pointers. Such queries are declined (`reach_overflows`), so nothing here overflows on rows. Decimals of more than
18 digits have two words and are handled by `wide_decimals.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.errors import InternalError
from sundog.expr.buffers import decimal_words, is_narrow, numpy_type, values_of
from sundog.expr.calls import Bound, BoundKind, Frame
from sundog.expr.ranks import array_of_ranks, rank_float
from sundog.kernels.windows.word_sort import float_bits_to_words

Longs = npt.NDArray[np.int64]
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
DAY_MICROS = 86_400_000_000
_EXACT = Context(prec=100)
_MONTH_END_SLACK = 3  # days by which the end of a month can shorten a move: from the 31st to the 28th


@dataclass(frozen=True)
class RangeKey:
    """The type and direction of a narrow order key."""

    dtype: pa.DataType
    descending: bool = False

    def words(self, array: pa.Array) -> Longs:
        """The words of an array; arbitrary where it is NULL."""
        if pa.types.is_floating(array.type):
            return float_words(values_of(array), self.descending)
        return self._directed(_integer_words(array))

    def word_of_rank(self, rank: int) -> int:
        """The word of a value given as its rank (`expr/ranks.py`)."""
        return ~rank if self.descending else rank

    def distance(self, bound: Bound) -> int | None:
        """What a bound adds to a word, if that is the same for all words; else None."""
        if bound.kind is BoundKind.CURRENT_ROW:
            return 0
        if bound.kind is not BoundKind.OFFSET:
            raise InternalError(f"{bound.kind} has no distance")
        if bound.unit == "months" or pa.types.is_floating(self.dtype):
            return None
        return unscaled(bound.offset, self.dtype)

    def moved(self, array: pa.Array, bound: Bound) -> Longs:
        """The words of all keys moved by the bound, for floats (in their own width) and months."""
        offset = -bound.offset if self.descending else bound.offset
        if bound.unit == "months":
            return self._directed(_months_later(_integer_words(array), self.dtype, offset))
        return self._moved_floats(values_of(array), offset)

    def move(self, word: int, bound: Bound) -> int:
        """One word moved by the bound; limited to 64 bits, beyond which there are no rows."""
        distance = self.distance(bound)
        if distance is not None:
            return min(max(word + distance, INT64_MIN), INT64_MAX)
        if pa.types.is_temporal(self.dtype):
            near_end = 2**31 - 3000 if pa.types.is_date32(self.dtype) else INT64_MAX - 3000 * DAY_MICROS
            reach = 31 * abs(int(bound.offset)) * (1 if pa.types.is_date32(self.dtype) else DAY_MICROS)
            if not -near_end + reach < word < near_end - reach:
                return min(max(word + (reach if bound.offset > 0 else -reach), INT64_MIN), INT64_MAX)
            return int(self.moved(array_of_ranks([self.word_of_rank(word)], self.dtype), bound)[0])
        with np.errstate(over="ignore", invalid="ignore"):
            values = np.array([rank_float(self.word_of_rank(word))]).astype(numpy_type(self.dtype))
        return int(self._moved_floats(values, -bound.offset if self.descending else bound.offset)[0])

    def slack(self, bound: Bound) -> int:
        """By how much a later key, moved, can come before an earlier one, moved; not 0 at ends of months only."""
        if bound.unit != "months" or not pa.types.is_timestamp(self.dtype):
            return 0
        return _MONTH_END_SLACK * DAY_MICROS

    def _moved_floats(self, values: npt.NDArray[Any], offset: float) -> Longs:
        with np.errstate(over="ignore", invalid="ignore"):
            return float_words(values + values.dtype.type(offset), self.descending)

    def _directed(self, words: Longs) -> Longs:
        return ~words if self.descending else words


def unscaled(offset: Any, dtype: pa.DataType) -> int:
    """An offset in the units of a key's stored integers."""
    if pa.types.is_decimal(dtype):
        return int(Decimal(offset).scaleb(dtype.scale, _EXACT))
    return int(offset)


def _integer_words(array: pa.Array) -> Longs:
    dtype = array.type
    if pa.types.is_decimal(dtype):
        return decimal_words(array)[0].view(np.int64)
    if is_narrow(dtype):
        return values_of(array).astype(np.int64, copy=False)
    raise InternalError(f"{dtype} does not fit one word")


def float_words(values: npt.NDArray[Any], descending: bool = False) -> Longs:
    """`float_rank` of many values; float32 through the double of the same value."""
    words = np.empty(len(values), np.int64)
    float_bits_to_words(values.astype(np.float64, copy=False).view(np.int64), descending, words)
    return words


def _months_later(words: Longs, dtype: pa.DataType, months: int) -> Longs:
    if pa.types.is_date32(dtype):
        return add_months(words, months)
    days, time_of_day = np.divmod(words, DAY_MICROS)
    return add_months(days, months) * DAY_MICROS + time_of_day


def add_months(days: Longs, months: int) -> Longs:
    """Dates, as days since the epoch, some months later; the last day of the month if the month is too short."""
    dates = days.astype("M8[D]")
    month = dates.astype("M8[M]")
    day_of_month = (dates - month.astype("M8[D]")).astype(np.int64)
    target = month + np.timedelta64(int(months), "M")
    first = target.astype("M8[D]").astype(np.int64)
    length = (target + np.timedelta64(1, "M")).astype("M8[D]").astype(np.int64) - first
    moved: Longs = first + np.minimum(day_of_month, length - 1)
    return moved


def is_finite(bound: Bound) -> bool:
    """Whether a bound's offset is neither NaN nor an infinity."""
    return not isinstance(bound.offset, float) or math.isfinite(bound.offset)


def reach_overflows(low: int, high: int, frame: Frame, dtype: pa.DataType, descending: bool = False) -> bool:
    """Whether a key between `low` and `high` (as ranks), moved by a bound of the frame, can leave the key's type.

    Spark's result then depends on the position of its frame pointers (an error or not), or wraps around.
    """
    if frame.units != "range" or pa.types.is_floating(dtype):
        return False
    limit_low, limit_high = _limits(dtype)
    for bound in (frame.start, frame.end):
        if bound.kind is not BoundKind.OFFSET:
            continue
        months = 31 if pa.types.is_date32(dtype) else 31 * DAY_MICROS
        distance = int(bound.offset) * months if bound.unit == "months" else unscaled(bound.offset, dtype)
        distance = -distance if descending else distance
        if not limit_low <= distance <= limit_high:
            return True
        if low + distance < limit_low or high + distance > limit_high:
            return True
    return False


def _limits(dtype: pa.DataType) -> tuple[int, int]:
    if pa.types.is_decimal(dtype):
        return -(10**38) + 1, 10**38 - 1
    if pa.types.is_integer(dtype):
        return -(2 ** (dtype.bit_width - 1)), 2 ** (dtype.bit_width - 1) - 1
    if pa.types.is_date32(dtype):
        return -(2**31), 2**31 - 1
    return INT64_MIN, INT64_MAX


def rank_text(rank: int, dtype: pa.DataType) -> str:
    """A rank as text for users: the value that it stands for."""
    return str(rank_float(rank)) if pa.types.is_floating(dtype) else str(rank)
