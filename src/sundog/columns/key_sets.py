"""Makes a `KeySet` of a key column, and tests rows against it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sundog.columns.arrow import from_arrow, in_plain_form
from sundog.columns.vectors import Ints, Vector, full_mask
from sundog.expr.buffers import Bools, is_narrow
from sundog.expr.dynamic_filters.contract import DynamicFilter
from sundog.expr.dynamic_filters.key_set import KeySet
from sundog.expr.ranks import ranks_of
from sundog.kernels.joins.key_bits import mark_bits, mark_bloom
from sundog.types import is_text


@dataclass(frozen=True)
class KeySetCosts:
    """The form in which the keys of a build side are kept for tests in scans. The values are in `plan/costs.py`."""

    key_bits: int  # values that a bitmap covers, at most
    key_bits_per_key: int  # the same for each key
    key_bits_at_least: int  # values that a bitmap may cover however few keys there are
    bloom_bits_per_key: int  # of a Bloom filter, if the bitmap would be too large
    sorted_keys: int  # keys that are also kept sorted, to test bounds of row groups, at most
    key_strings: int  # distinct strings that are kept, at most
    rows_per_key_string: int  # rows for each of these, at most: in more rows, distinct strings are not searched


def key_set(keys: pa.Array, costs: KeySetCosts) -> KeySet:
    """The distinct values of a build side's key."""
    dtype, count = keys.type, len(keys) - keys.null_count
    if count == 0:
        return KeySet(dtype, 0)
    if is_text(dtype):
        return _text_set(keys, costs)
    if _has_words(dtype):
        return _word_set(from_arrow(keys), dtype, costs)
    return KeySet(dtype, count)


def _has_words(dtype: pa.DataType) -> bool:
    """Whether equal values are equal integers. Floats are not: NaN and zero have several bit patterns."""
    return is_narrow(dtype) and not pa.types.is_floating(dtype) and not pa.types.is_boolean(dtype)


def _text_set(keys: pa.Array, costs: KeySetCosts) -> KeySet:
    values = in_plain_form(keys)
    ends = pc.min_max(values.cast(pa.binary()))  # binary, since Spark's strings need not be UTF-8
    low, high = ranks_of(pa.array([ends["min"].as_py(), ends["max"].as_py()], pa.binary()))
    if len(values) > costs.key_strings * costs.rows_per_key_string:
        return KeySet(values.type, len(values), low, high)
    distinct = pc.unique(values).drop_null().sort()
    texts = distinct if len(distinct) <= costs.key_strings else None
    return KeySet(values.type, len(distinct), low, high, texts=texts)


def _word_set(keys: Vector, dtype: pa.DataType, costs: KeySetCosts) -> KeySet:
    words = integers_of(keys)
    present = words if keys.valid is None else words[full_mask(keys).view(np.bool_)]
    low, high, count = int(present.min()), int(present.max()), len(present)
    span = high - low + 1
    if span <= min(costs.key_bits, max(count * costs.key_bits_per_key, costs.key_bits_at_least)):
        bits = np.zeros((span + 7) >> 3, np.uint8)
        mark_bits(words, keys.mask, low, bits)
        return KeySet(dtype, int(np.bitwise_count(bits).sum()), low, high, bits=bits)
    distinct = _distinct(present) if count <= costs.sorted_keys else None
    bloom = np.zeros(max(count * costs.bloom_bits_per_key // 64, 1), np.uint64)
    mark_bloom(words, keys.mask, bloom)
    return KeySet(dtype, count if distinct is None else len(distinct), low, high, bloom=bloom, sorted_keys=distinct)


def _distinct(words: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """The distinct words in order. NumPy's `unique` hashes them first: 800 ns a key of a million, against 40."""
    ordered = np.sort(words).astype(np.int64, copy=False)
    found: npt.NDArray[np.int64] = ordered[np.append(True, ordered[1:] != ordered[:-1])]
    return found


def integers_of(vector: Vector) -> npt.NDArray[Any]:
    """The integers of values of one word each."""
    if pa.types.is_decimal(vector.dtype):
        low: Ints = np.ascontiguousarray(vector.values[:, 0])
        return low
    return vector.values


def rows_passing(test: DynamicFilter, column: pa.Array) -> Bools:
    """The rows that pass a filter; the column may be in any form."""
    if pa.types.is_dictionary(column.type):
        passing = rows_passing(test, column.dictionary)
        codes = column.indices
        if codes.null_count:
            of_null = rows_passing(test, pa.nulls(1, column.type.value_type))
            passing, codes = np.append(passing, of_null), codes.fill_null(len(passing))
        of_rows: Bools = passing.take(codes.to_numpy())
        return of_rows
    mask = test.passing(in_plain_form(column))
    return np.ones(len(column), np.bool_) if mask is None else mask
