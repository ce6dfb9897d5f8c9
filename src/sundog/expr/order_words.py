"""Values as unsigned 64-bit words whose numeric order is Spark's order, so that sorting does not depend on types.

ORDER BY compares NaN above everything, -0.0 equal to 0.0, strings by unsigned bytes, NULLs first or last. A comparator
with all these rules costs tens of nanoseconds per comparison; a word costs one instruction, and numpy sorts words with
vector instructions. Every key becomes one or more *digits*, most significant first:

    numbers, dates, times    one word (with NULL in it if a code is free, else a digit of its own before it)
    decimal(38)              high word, low word
    strings                  8 bytes per digit after the common prefix; long ones end in a digit of exact ranks

A digit is computed only when it is needed, and only for rows that tie in all digits before it. Most strings differ in
their first 8 bytes; their other bytes are never read.

Words are comparable only within one array: NULL codes and ranks depend on the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sundog.errors import InternalError
from sundog.expr.buffers import Bools, Indices, Words, decimal_words, string_parts, validity_of, values_of
from sundog.expr.floats import canonical_floats
from sundog.types import is_text

Digit = Callable[[Indices | None], Words]
"""The words of the given rows; of all rows for None."""

_SIGN = np.uint64(1 << 63)
_TOP = np.uint64(2**64 - 1)
_CHUNKS = 8  # of 8 bytes: strings that are longer are ranked exactly from there on


def digits(array: pa.Array, descending: bool, nulls_first: bool) -> Iterator[Digit]:
    """The digits of a key, most significant first; rows that tie in all of them are equal in Spark."""
    if pa.types.is_null(array.type):
        return
    valid = validity_of(array)
    if is_text(array.type):
        if valid is not None:
            yield _stored(_null_ranks(valid, nulls_first))
        yield from _text_digits(array, valid, descending)
        return
    for word in _number_words(array, valid, descending, nulls_first):
        yield _stored(word)


def _stored(words: Words) -> Digit:
    return lambda rows: words if rows is None else words[rows]


def _masked(words: Words, valid: Bools | None) -> Words:
    return words if valid is None else np.where(valid, words, np.uint64(0))


def _null_ranks(valid: Bools, nulls_first: bool) -> Words:
    return (valid if nulls_first else ~valid).astype(np.uint64)


def _with_nulls(words: Words, valid: Bools, nulls_first: bool) -> list[Words]:
    """NULL is the word before or after all values if no value uses it, else a word of its own in front."""
    used = words[valid]
    code = np.uint64(0) if nulls_first else _TOP
    if not len(used) or not bool((used == code).any()):
        return [np.where(valid, words, code)]
    return [_null_ranks(valid, nulls_first), np.where(valid, words, np.uint64(0))]


def _number_words(array: pa.Array, valid: Bools | None, descending: bool, nulls_first: bool) -> list[Words]:
    words = _ascending_words(array)
    if descending:
        words = [~word for word in words]
    if valid is None:
        return words
    if len(words) == 1:
        return _with_nulls(words[0], valid, nulls_first)
    return [_null_ranks(valid, nulls_first), *(_masked(word, valid) for word in words)]


def _ascending_words(array: pa.Array) -> list[Words]:
    dtype = array.type
    if pa.types.is_boolean(dtype):
        return [values_of(array).astype(np.uint64)]
    if pa.types.is_integer(dtype) or pa.types.is_temporal(dtype):
        return [_signed(values_of(array).astype(np.int64))]
    if pa.types.is_floating(dtype):
        return [_float_words(values_of(array).astype(np.float64))]
    if pa.types.is_decimal(dtype):
        low, high = decimal_words(array)
        if dtype.precision <= 18:
            return [_signed(low.view(np.int64))]
        return [_signed(high), low]
    raise InternalError(f"rows cannot be ordered by {dtype}")


def _signed(values: npt.NDArray[np.int64]) -> Words:
    words: Words = values.view(np.uint64) ^ _SIGN
    return words


def _float_words(values: npt.NDArray[np.float64]) -> Words:
    canonical = canonical_floats(values)
    bits = np.abs(canonical).view(np.uint64)
    words: Words = np.where(canonical < 0, ~(bits | _SIGN), bits | _SIGN)
    return words


def _text_digits(array: pa.Array, valid: Bools | None, descending: bool) -> Iterator[Digit]:
    bounds, data = string_parts(array)
    starts, lengths = bounds[:-1].astype(np.int64), np.diff(bounds).astype(np.int64)
    if valid is not None:
        lengths = np.where(valid, lengths, 0)
    shared = _shared_prefix(array)
    longest = int(lengths.max(initial=0)) - shared
    flip = _TOP if descending else np.uint64(0)
    for number in range(min(_CHUNKS, -(-longest // 8))):
        yield _chunk_digit(starts, lengths, data, shared + 8 * number, flip)
    if longest > 8 * _CHUNKS:
        yield _rank_digit(array, descending)
    elif bool((data == 0).any()):  # "a" and "a\0" pad to the same chunks
        yield lambda rows: lengths.astype(np.uint64)[slice(None) if rows is None else rows] ^ flip


def _shared_prefix(array: pa.Array) -> int:
    """The length of the common prefix: that of the least and the greatest value."""
    extremes = pc.min_max(array)
    if not extremes["min"].is_valid:
        return 0
    least, greatest = (bytes(memoryview(extremes[name].as_buffer())) for name in ("min", "max"))
    pairs = enumerate(zip(least, greatest, strict=False))
    return next((place for place, (one, other) in pairs if one != other), min(len(least), len(greatest)))


def _chunk_digit(starts: Indices, lengths: Indices, data: npt.NDArray[np.uint8], skip: int, flip: np.uint64) -> Digit:
    """Bytes skip .. skip + 8 as a big-endian number, zeros after the end."""

    def words(rows: Indices | None) -> Words:
        first, left = (starts, lengths) if rows is None else (starts[rows], lengths[rows])
        left = np.clip(left - skip, 0, 8)
        first = np.where(left > 0, first + skip, 0)
        # Numbers are read where 8 bytes follow; at the end of the data, from a padded copy.
        tail_start = max(len(data) - 7, 0)
        tail = np.concatenate([data[tail_start:], np.zeros(8, np.uint8)])
        in_tail = first >= tail_start
        result = np.empty(len(first), np.uint64)
        result[~in_tail] = _numbers_at(data, first[~in_tail])
        result[in_tail] = _numbers_at(tail, first[in_tail] - tail_start)
        keep = np.where(left > 0, _TOP << ((8 - left).astype(np.uint64) * np.uint64(8) % np.uint64(64)), np.uint64(0))
        chunk: Words = (result & keep) ^ flip
        return chunk

    return words


def _numbers_at(data: npt.NDArray[np.uint8], offsets: Indices) -> Words:
    if not len(offsets):
        return np.zeros(0, np.uint64)
    every = np.ndarray((len(data) - 7,), dtype=">u8", buffer=data, strides=(1,))
    return every[offsets].astype(np.uint64)


def _rank_digit(array: pa.Array, descending: bool) -> Digit:
    def words(rows: Indices | None) -> Words:
        subset = array if rows is None else array.take(pa.array(rows))
        return _masked(_text_ranks(subset, descending), validity_of(subset))

    return words


def _text_ranks(array: pa.Array, descending: bool) -> Words:
    """Dense ranks of the distinct values: found by hashing first, so that equal strings are compared once."""
    encoded = array.dictionary_encode()
    distinct = encoded.dictionary
    order = pc.sort_indices(distinct, sort_keys=[("", "descending" if descending else "ascending")])
    rank_of = np.empty(len(distinct) + 1, np.uint64)
    rank_of[order.to_numpy()] = np.arange(1, len(distinct) + 1, dtype=np.uint64)
    ranks: Words = rank_of[values_of(encoded.indices)]
    return ranks
