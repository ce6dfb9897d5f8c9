"""Ranks of many row groups as arrays, "unknown" included: pruning compares these, without an object per row group.

| type | kept as |
|---|---|
| one word (`expr/buffers.is_narrow`) | an int64 and a flag: 9 bytes |
| string, binary | Arrow's binary: at most `MAX_TEXT_BYTES`, 8 of an offset and a bit |
| decimal of more than 18 digits | a Python integer |

A comparison is True or False for slots in which both sides are known, and False for all others.
"""

from __future__ import annotations

import operator
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sundog.expr.buffers import (
    Bools,
    Indices,
    array_from,
    decimal_array,
    decimal_words,
    is_narrow,
    numpy_type,
    validity_of,
    values_of,
)
from sundog.expr.ranks import NAN_RANK, Rank, array_of_ranks, ranks_of
from sundog.types import is_text

Longs = npt.NDArray[np.int64]
MAX_TEXT_BYTES = 64
_LOW_BITS = np.int64((1 << 63) - 1)
_INT64 = -(1 << 63), (1 << 63) - 1
_OBJECT_BYTES = 44  # of a Python integer of two words and more


@dataclass(frozen=True, eq=False)
class RankColumn:
    """One rank per slot, or None. `values` is undefined where `known` is False. Immutable."""

    values: npt.NDArray[Any] | pa.Array
    known: Bools

    @classmethod
    def of(cls, ranks: Sequence[Rank | None], dtype: pa.DataType) -> RankColumn:
        """Ranks of values of a type. A rank outside of the 64 bits of a narrow type is unknown."""
        if is_text(dtype):
            return cls.of_texts(pa.array(ranks, pa.large_binary()))
        if not is_narrow(dtype):
            return cls.of_objects(ranks)
        fits = [isinstance(rank, int) and _INT64[0] <= rank <= _INT64[1] for rank in ranks]
        numbers = [rank if fit else 0 for rank, fit in zip(ranks, fits, strict=True)]
        return cls(np.array(numbers, np.int64), np.array(fits, np.bool_))

    @classmethod
    def all_known(cls, words: Longs) -> RankColumn:
        """Ranks of one word each."""
        return cls(words, np.ones(len(words), np.bool_))

    @classmethod
    def of_texts(cls, texts: pa.Array) -> RankColumn:
        valid = validity_of(texts)
        return cls(texts, np.ones(len(texts), np.bool_) if valid is None else valid)

    @classmethod
    def of_objects(cls, ranks: Sequence[Rank | None]) -> RankColumn:
        objects = np.full(len(ranks), None, np.object_)
        objects[:] = ranks
        return cls(objects, np.array([rank is not None for rank in ranks], np.bool_))

    @classmethod
    def of_array(cls, array: pa.Array) -> RankColumn:
        """The ranks of an array's values."""
        dtype = array.type
        if not is_narrow(dtype):
            return cls.of(ranks_of(array), dtype)
        valid = validity_of(array)
        known = np.ones(len(array), np.bool_) if valid is None else valid
        if pa.types.is_decimal(dtype):
            return cls(decimal_words(array)[0].view(np.int64), known)
        values = values_of(array)
        return cls(_float_words(values) if pa.types.is_floating(dtype) else values.astype(np.int64), known)

    @classmethod
    def filled(cls, rank: Rank | None, slots: int, dtype: pa.DataType) -> RankColumn:
        """The same rank in every slot."""
        return cls.of([rank], dtype).take(np.zeros(slots, np.int64))

    @classmethod
    def concat(cls, parts: Sequence[RankColumn]) -> RankColumn:
        """Columns of one type, one after the other."""
        known = np.concatenate([part.known for part in parts])
        if isinstance(parts[0].values, np.ndarray):
            return cls(np.concatenate([part.values for part in parts]), known)
        return cls(pa.concat_arrays([part.values for part in parts]), known)

    def __len__(self) -> int:
        return len(self.known)

    def __iter__(self) -> Iterator[Rank | None]:
        return iter(self.tolist())

    def __getitem__(self, slot: int) -> Rank | None:
        if not self.known[slot]:
            return None
        value = self.values[slot]
        found: Rank = value.as_py() if isinstance(value, pa.Scalar) else value
        return found if isinstance(found, bytes) else int(found)

    def tolist(self) -> list[Rank | None]:
        values = self.values.to_pylist() if isinstance(self.values, pa.Array) else self.values.tolist()
        return [value if known else None for value, known in zip(values, self.known.tolist(), strict=True)]

    @property
    def words(self) -> Longs | None:
        """The ranks of a type of one word, undefined where unknown; None for other types."""
        is_words = isinstance(self.values, np.ndarray) and self.values.dtype == np.int64
        return self.values if is_words else None

    def extreme(self, of: Callable[[Longs], np.int64]) -> int | None:
        """The least or greatest of ranks of one word; None if none is known."""
        assert self.words is not None, "other ranks have no words"
        return int(of(self.words[self.known])) if self.known.any() else None

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        is_objects = isinstance(self.values, np.ndarray) and self.values.dtype == np.object_
        return int(self.values.nbytes) + self.known.nbytes + is_objects * _OBJECT_BYTES * len(self.known)

    def take(self, slots: Indices) -> RankColumn:
        if isinstance(self.values, np.ndarray):
            return RankColumn(self.values[slots], self.known[slots])
        return RankColumn(self.values.take(pa.array(slots)), self.known[slots])

    def only(self, where: Bools) -> RankColumn:
        """The same ranks at `where`, unknown elsewhere."""
        known = self.known & where
        if isinstance(self.values, np.ndarray):
            return RankColumn(self.values, known)
        return RankColumn.of_texts(pc.if_else(pa.array(known), self.values, pa.scalar(None, self.values.type)))

    def less(self, other: RankColumn) -> Bools:
        return self._compare(other, operator.lt, pc.less)

    def less_equal(self, other: RankColumn) -> Bools:
        return self._compare(other, operator.le, pc.less_equal)

    def equal(self, other: RankColumn) -> Bools:
        return self._compare(other, operator.eq, pc.equal)

    def below(self, rank: Rank) -> Bools:
        """Whether each rank is known and less than a constant."""
        return self._compare_constant(rank, operator.lt, pc.less)

    def at_least(self, rank: Rank) -> Bools:
        return self._compare_constant(rank, operator.ge, pc.greater_equal)

    def equal_to(self, rank: Rank) -> Bools:
        return self._compare_constant(rank, operator.eq, pc.equal)

    def _compare(self, other: RankColumn, test: Callable[[Any, Any], Any], arrow: Callable[..., Any]) -> Bools:
        both: Bools = self.known & other.known
        mine, theirs = self.values, other.values
        if isinstance(mine, pa.Array) and isinstance(theirs, pa.Array):
            return both & _as_mask(arrow(mine, theirs))
        if self.words is not None and other.words is not None:
            both &= test(mine, theirs)
            return both
        pairs = zip(self, other, strict=True)
        return np.array([a is not None and b is not None and test(a, b) for a, b in pairs], np.bool_)

    def _compare_constant(self, rank: Rank, test: Callable[[Any, Any], Any], arrow: Callable[..., Any]) -> Bools:
        if isinstance(self.values, pa.Array):
            return self.known & _as_mask(arrow(self.values, pa.scalar(rank, self.values.type)))
        if self.words is not None and isinstance(rank, int) and _INT64[0] <= rank <= _INT64[1]:
            known: Bools = self.known & test(self.words, np.int64(rank))
            return known
        return np.array([each is not None and test(each, rank) for each in self], np.bool_)

    def places_in(self, ordered: Any, before_equal: bool, unknown: int) -> Indices:
        """The index at which each rank would be inserted into an ordered list; `unknown` for an unknown rank."""
        side: Literal["left", "right"] = "left" if before_equal else "right"
        if self.words is not None:
            return np.where(self.known, np.searchsorted(np.asarray(ordered, np.int64), self.words, side=side), unknown)
        if isinstance(self.values, pa.Array):
            both = pa.concat_arrays([pa.array(ordered, self.values.type), self.values])
            ranks = pc.rank(both, tiebreaker="dense").to_numpy()
            found = np.searchsorted(ranks[: len(ordered)], ranks[len(ordered) :], side=side)
            return np.where(self.known, found, unknown)
        bisect: Callable[[Sequence[Any], Any], int] = bisect_left if before_equal else bisect_right
        return np.array([unknown if rank is None else bisect(ordered, rank) for rank in self], np.int64)

    def to_array(self, dtype: pa.DataType) -> pa.Array:
        """The values of a type with these ranks, except for the sign of zero; NULL if unknown."""
        words = self.words
        if words is None:
            return array_of_ranks(self.tolist(), dtype)
        if pa.types.is_decimal(dtype):
            return decimal_array(words.view(np.uint64), words >> 63, self.known, dtype)
        if pa.types.is_floating(dtype):
            values = np.where(words >= 0, words, words ^ _LOW_BITS).view(np.float64)
            with np.errstate(over="ignore", invalid="ignore"):
                return array_from(values.astype(numpy_type(dtype)), self.known, dtype)
        if pa.types.is_boolean(dtype):
            return array_from(words != 0, self.known, dtype)
        storage = numpy_type(dtype)
        limits = np.iinfo(storage)
        return array_from(words.astype(storage), self.known & (words >= limits.min) & (words <= limits.max), dtype)

    def best_first(self, slots: Indices, descending: bool) -> Indices:
        """`slots`, whose ranks must be known, sorted by rank; ties keep their order."""
        words = self.words
        if words is not None:
            picked = ~words[slots] if descending else words[slots]
            return slots[np.argsort(picked, kind="stable")]
        if isinstance(self.values, pa.Array):
            ranks = pc.rank(self.values.take(pa.array(slots)), tiebreaker="dense").to_numpy().astype(np.int64)
            return slots[np.argsort(-ranks if descending else ranks, kind="stable")]
        sign = -1 if descending else 1
        return np.array(sorted(slots.tolist(), key=lambda slot: sign * self.values[slot]), np.int64)


def text_bounds(lows: Sequence[bytes | None], highs: Sequence[bytes | None]) -> tuple[RankColumn, RankColumn]:
    """Bounds of strings, cut to `MAX_TEXT_BYTES`: cutting lowers a lower one; an upper one is raised, or unknown."""
    most = MAX_TEXT_BYTES
    cut_highs = [high if high is None or len(high) <= most else successor(high[:most]) for high in highs]
    cut_lows = [None if low is None else low[:most] for low in lows]
    low, high = (RankColumn.of_texts(pa.array(cut, pa.large_binary())) for cut in (cut_lows, cut_highs))
    return low, high


def successor(prefix: bytes) -> bytes | None:
    """The least string that is greater than every string with this prefix; None if there is none."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None


def _float_words(values: npt.NDArray[Any]) -> Longs:
    doubles = values.astype(np.float64) + 0.0
    bits = doubles.view(np.int64)
    words: Longs = np.where(bits >= 0, bits, bits ^ _LOW_BITS)
    words[np.isnan(doubles)] = NAN_RANK
    return words


def _as_mask(found: pa.Array) -> Bools:
    return np.asarray(pc.fill_null(found, False).to_numpy(zero_copy_only=False), np.bool_)
