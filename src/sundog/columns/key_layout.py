"""Layout of keys of any types as int64 words: words are equal exactly if the keys are.

    bigint, timestamp, double          one word
    int, date, float, smallint, ...    packed with others into one word
    decimal(p,s)                       one word up to 18 digits, else two
    string, binary                     two words (`kernels/strings.py`)
    which keys are NULL                one bit each in a last word, only if there is a NULL at all

Spark's equality is part of the layout: all NaN are one key, -0.0 is 0.0 (groups show these), NULL is a value. The
layout of the value words depends on the types alone, so tasks agree on it without communicating.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.columns.blocks import addresses
from sundog.columns.vectors import NO_MASK, Blocks, Bytes, Ints, Vector, nulls, storage
from sundog.expr.floats import canonical_floats
from sundog.kernels.groups.hash_groups import (
    PLAIN,
    STRING_TAIL,
    finish_hashes,
    fold_coded,
    fold_views,
    fold_words,
    hash_views,
)
from sundog.kernels.groups.partition import get_pair, get_word, put_pair, put_word, scatter_pair, scatter_word
from sundog.types import is_text

Hashes = npt.NDArray[np.uint64]
Targets = npt.NDArray[np.uint16]
MAX_TARGETS = 1 << 16
"""Partitions that `Targets` can number: a limit of representation, not a cost."""

_ONE_WORD_DIGITS = 18


@dataclass(frozen=True)
class _KeyBits:
    """The place of a key: from bit `shift` of word `word`; `words` of them."""

    word: int
    shift: int
    words: int


@dataclass(frozen=True)
class KeyLayout:
    """The layout of the words for keys of these types."""

    dtypes: tuple[pa.DataType, ...]
    places: tuple[_KeyBits, ...]
    value_words: int

    @classmethod
    def of(cls, dtypes: Sequence[pa.DataType]) -> KeyLayout:
        places: dict[int, _KeyBits] = {}
        used = 0
        for index, dtype in enumerate(dtypes):
            if (words := _whole_words(dtype)) > 0:
                places[index] = _KeyBits(used, 0, words)
                used += words
        free = 0
        narrow = [index for index in range(len(dtypes)) if index not in places]
        for index in sorted(narrow, key=lambda index: -_bits(dtypes[index])):
            bits = _bits(dtypes[index])
            if free < bits:
                used += 1
                free = 64
            places[index] = _KeyBits(used - 1, 64 - free, 1)
            free -= bits
        return cls(tuple(dtypes), tuple(places[index] for index in range(len(dtypes))), used)

    def null_words(self, null_mask: bool) -> int:
        return -(-len(self.dtypes) // 64) if null_mask else 0

    @cached_property
    def kinds(self) -> npt.NDArray[np.int8]:
        kinds = np.full(self.value_words + self.null_words(True), PLAIN, np.int8)
        for dtype, place in zip(self.dtypes, self.places, strict=True):
            if is_text(dtype):
                kinds[place.word + 1] = STRING_TAIL
        return kinds

    @property
    def has_text(self) -> bool:
        return any(is_text(dtype) for dtype in self.dtypes)

    def hashes(self, keys: Sequence[Vector], length: int) -> Hashes:
        """The hashes that `hash_rows` gives for the words, computed column by column without making the words.

        The strings of a dictionary are hashed once for each entry.
        """
        hashes = np.zeros(length, np.uint64)
        packed: dict[int, Ints] = {}
        for key, place in sorted(zip(keys, self.places, strict=True), key=lambda each: each[1].word):
            if is_text(key.dtype):
                _fold_text(key, hashes)
            elif place.words == 2:
                for at in range(2):
                    fold_words(np.ascontiguousarray(key.values[:, at]), key.mask, hashes)
            elif _bits(key.dtype) >= 64:
                fold_words(_as_words(key), key.mask, hashes)
            else:
                fresh = place.word not in packed
                words = packed.setdefault(place.word, np.empty((length, 1), np.int64))
                put_word(_as_words(key), key.mask, place.shift, fresh, words, 0)
        for _, words in sorted(packed.items()):
            fold_words(words.reshape(length), NO_MASK, hashes)
        finish_hashes(self._nulls_of(keys, length), hashes)
        return hashes

    def _nulls_of(self, keys: Sequence[Vector], length: int) -> Ints:
        """The words of the NULL bits; none if there is no NULL."""
        if not has_nulls(keys):
            return np.empty((length, 0), np.int64)
        firsts = range(0, len(keys), 64)
        return np.stack([_null_word(keys[first : first + 64], length) for first in firsts], axis=1)

    def scatter(
        self,
        chunks: Sequence[Sequence[Vector]],
        first_blocks: Sequence[Sequence[int]],
        null_mask: bool,
        targets: Sequence[Targets],
        starts: Ints,
    ) -> Ints:
        """The words of the keys of several chunks, written directly to the partition of each row: `encode` and `Spread`
        in one pass."""
        words = np.empty((int(starts[-1]), self.value_words + self.null_words(null_mask)), np.int64)
        started: set[int] = set()
        for number, place in enumerate(self.places):
            positions = starts[:-1].copy()
            for keys, firsts, target in zip(chunks, first_blocks, targets, strict=True):
                key = keys[number]
                if place.words == 2:
                    scatter_pair(key.values, key.mask, firsts[number], target, positions, words, place.word)
                else:
                    fresh = place.word not in started
                    scatter_word(_as_words(key), key.mask, place.shift, fresh, target, positions, words, place.word)
            started.add(place.word)
        for at in range(self.value_words, words.shape[1]):
            first = 64 * (at - self.value_words)
            positions = starts[:-1].copy()
            for keys, target in zip(chunks, targets, strict=True):
                missing = _null_word(keys[first : first + 64], len(target))
                scatter_word(missing, NO_MASK, 0, True, target, positions, words, at)
        return words

    def encode(self, keys: Sequence[Vector], length: int, null_mask: bool, first_blocks: Sequence[int]) -> Ints:
        """The words of each row, one row of them for each; with `null_mask`, words of the NULL bits at the end.

        `first_blocks`: for each key the number of blocks before its own.
        """
        width = self.value_words + self.null_words(null_mask)
        if width == 1 and len(keys) == 1 and _bits(self.dtypes[0]) == 64:
            return _as_words(keys[0]).reshape(length, 1)
        if width == 2 and len(keys) == 1 and self.places[0].words == 2 and not null_mask and first_blocks[0] == 0:
            return keys[0].values
        words = np.empty((length, width), np.int64)
        started: set[int] = set()
        for key, place, first_block in zip(keys, self.places, first_blocks, strict=True):
            if place.words == 2:
                put_pair(key.values, key.mask, first_block, words, place.word)
            else:
                put_word(_as_words(key), key.mask, place.shift, place.word not in started, words, place.word)
                started.add(place.word)
        for at in range(self.value_words, width):
            first = 64 * (at - self.value_words)
            put_word(_null_word(keys[first : first + 64], length), NO_MASK, 0, True, words, at)
        return words

    def decode(
        self, words: Ints, rows: npt.NDArray[np.int32], null_mask: bool, blocks: Sequence[Blocks]
    ) -> list[Vector]:
        """The keys of the chosen rows; `blocks` hold the bytes of each key's strings."""
        return [self.decode_key(key, words, rows, null_mask, blocks[key]) for key in range(len(self.dtypes))]

    def decode_key(self, key: int, words: Ints, rows: npt.NDArray[np.int32], null_mask: bool, blocks: Blocks) -> Vector:
        valid: Bytes | None = None
        if null_mask:
            missing = _column(words, rows, self.value_words + key // 64)
            valid = ((missing >> (key % 64)) & 1 == 0).view(np.uint8)
            valid = None if valid.all() else valid
        return _read_key(self.dtypes[key], self.places[key], words, rows, valid, blocks)


def has_nulls(keys: Sequence[Vector]) -> bool:
    return any(key.all_null or key.valid is not None for key in keys)


def _fold_text(key: Vector, hashes: Hashes) -> None:
    if key.coded is None:
        fold_views(key.values, key.mask, addresses(key.blocks), hashes)
        return
    entries = np.empty(key.coded.entries.length + 1, np.uint64)
    hash_views(key.coded.entries.values, addresses(key.blocks), entries)
    fold_coded(entries, key.coded.codes, key.mask, hashes)


def _whole_words(dtype: pa.DataType) -> int:
    """Number of words that a key of the type fills by itself; 0 if it shares one with others."""
    if is_text(dtype):
        return 2
    if pa.types.is_decimal(dtype):
        return 1 if dtype.precision <= _ONE_WORD_DIGITS else 2
    return 1 if _bits(dtype) == 64 else 0


def _bits(dtype: pa.DataType) -> int:
    numpy_type, words = storage(dtype)
    return 8 * numpy_type.itemsize * words


def _as_words(key: Vector) -> npt.NDArray[Any]:
    """A key of up to 64 bits as words, or as narrower unsigned numbers; undefined for NULLs."""
    values = key.values
    if values.ndim == 2:  # a decimal that fits its low half
        return np.ascontiguousarray(values[:, 0])
    if values.dtype.kind == "f":
        values = canonical_floats(values)
    size = values.dtype.itemsize
    return values.view(np.int64 if size == 8 else f"u{size}")


def _null_word(keys: Sequence[Vector], length: int) -> Ints:
    missing = np.zeros(length, np.int64)
    for index, key in enumerate(keys):
        if key.all_null:
            missing |= np.int64(1) << index
        elif key.valid is not None:
            missing |= (key.valid ^ 1).astype(np.int64) << index
    return missing


def _column(words: Ints, rows: npt.NDArray[np.int32], at: int) -> Ints:
    values = np.empty(len(rows), np.int64)
    get_word(words, rows, at, values)
    return values


def _read_key(
    dtype: pa.DataType, place: _KeyBits, words: Ints, rows: npt.NDArray[np.int32], valid: Bytes | None, blocks: Blocks
) -> Vector:
    length = len(rows)
    if pa.types.is_null(dtype) or (valid is not None and not valid.any()):
        return nulls(dtype, length)
    numpy_type, width = storage(dtype)
    values: npt.NDArray[Any]
    if place.words == 2:
        values = np.empty((length, 2), np.int64)
        get_pair(words, rows, place.word, values)
        return Vector(dtype, length, values, valid, blocks)
    column = _column(words, rows, place.word)
    if width == 2:
        values = np.empty((length, 2), np.int64)
        values[:, 0] = column
        values[:, 1] = column >> 63
    elif numpy_type.itemsize == 8:
        values = column.view(numpy_type)
    else:
        values = (column >> place.shift).astype(f"i{numpy_type.itemsize}").view(numpy_type)
    return Vector(dtype, length, values, valid)
