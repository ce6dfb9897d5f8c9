"""Ranks: values as integers or byte strings whose order is Spark's order, for bounds.

Statistics, literals and thresholds have many types. As *ranks* they compare with plain `<`, so pruning has one
implementation for all types, without special cases for NaN or zeros:

| type | rank |
|---|---|
| boolean, integers, date, timestamps, intervals | the stored integer |
| decimal(p,s) | the unscaled integer (comparable for one scale) |
| float, double | the bits of the double, turned so that they sort; -0.0 as 0.0, every NaN as the greatest |
| string, binary | the bytes |

Ranks are Python objects: exact at any size, and meant for few values, not for rows.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sundog.errors import InternalError
from sundog.expr.buffers import array_from, decimal_words, numpy_type, validity_of
from sundog.types import is_text

Rank = int | bytes

_LOW_BITS = (1 << 63) - 1


def float_rank(value: float) -> int:
    """The rank of a float: one for -0.0 and 0.0, and NAN_RANK, above infinity, for all NaN."""
    if value != value:
        return NAN_RANK
    bits: int = struct.unpack("<q", struct.pack("<d", value + 0.0))[0]
    return bits if bits >= 0 else bits ^ _LOW_BITS


def rank_float(rank: int) -> float:
    """The inverse of `float_rank`."""
    bits = rank if rank >= 0 else rank ^ _LOW_BITS
    value: float = struct.unpack("<d", struct.pack("<q", bits))[0]
    return value


NAN_RANK: int = struct.unpack("<q", struct.pack("<d", float("nan")))[0] & _LOW_BITS


def rank_at(array: pa.Array, index: int) -> Rank | None:
    """The rank of one element; None for NULL."""
    return ranks_of(array.slice(index, 1))[0]


def ranks_of(array: pa.Array) -> list[Rank | None]:
    """The ranks of a short array."""
    dtype = array.type
    if pa.types.is_null(dtype):
        return [None] * len(array)
    if is_text(dtype):
        return [scalar.as_buffer().to_pybytes() if scalar.is_valid else None for scalar in array]
    if pa.types.is_decimal(dtype):
        low, high = decimal_words(array)
        valid = validity_of(array)
        return [
            None if valid is not None and not valid[i] else (int(high[i]) << 64) | int(low[i])
            for i in range(len(array))
        ]
    if pa.types.is_floating(dtype):
        return [None if value is None else float_rank(value) for value in array.to_pylist()]
    if pa.types.is_boolean(dtype):
        return [None if value is None else int(value) for value in array.to_pylist()]
    if pa.types.is_temporal(dtype):
        array = array.view(pa.int32() if pa.types.is_date32(dtype) else pa.int64())
    elif not pa.types.is_integer(dtype):
        raise InternalError(f"{dtype} has no ranks")
    ranks: list[Rank | None] = array.to_pylist()
    return ranks


def ranks_of_values(values: Sequence[Any], dtype: pa.DataType) -> list[Rank | None]:
    """The ranks of Python values that `pa.array(values, dtype)` takes, or of the integers behind dates and times."""
    if pa.types.is_temporal(dtype) and all(value is None or isinstance(value, int) for value in values):
        return list(values)
    return ranks_of(pa.array(values, dtype))


def array_of_ranks(ranks: Sequence[Rank | None], dtype: pa.DataType) -> pa.Array:
    """The inverse of `ranks_of`, up to the sign of zero."""
    if is_text(dtype):
        return pa.array(ranks, pa.binary()).view(dtype)
    valid = np.array([rank is not None for rank in ranks], np.bool_)
    numbers = [0 if rank is None else rank for rank in ranks]
    if pa.types.is_decimal(dtype):
        words = b"".join(int(number).to_bytes(16, "little", signed=True) for number in numbers)
        validity = pa.py_buffer(np.packbits(valid, bitorder="little"))
        return pa.Array.from_buffers(dtype, len(ranks), [validity, pa.py_buffer(words)])
    if pa.types.is_floating(dtype):
        return array_from(np.array([rank_float(int(n)) for n in numbers], numpy_type(dtype)), valid, dtype)
    return array_from(np.array(numbers, np.bool_ if pa.types.is_boolean(dtype) else numpy_type(dtype)), valid, dtype)
