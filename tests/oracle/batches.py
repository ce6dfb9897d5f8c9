"""Random Arrow data of every type that sundog handles, made to hurt: the one source for all property tests.

A uniform random column almost never holds what breaks engines. So a column here is drawn from a *small pool* of
values: edge values of the type (extremes, NaN of either sign, both zeros, infinities, prefixes of each other,
characters whose UTF-8 and UTF-16 orders differ) mixed with arbitrary ones. A pool gives ties, and picking from it with
skewed weights gives a hot value. The share of NULLs is none, few, half or all; sizes include zero.

    @given(arrow_arrays(pa.int64(), max_size=100))
    @given(record_batches(pa.schema([("a", pa.int64()), ("b", pa.string())]), max_size=100))
    @given(st.sampled_from(ALL_TYPES).flatmap(arrow_arrays))
"""

from __future__ import annotations

from decimal import Decimal
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from sundog.types import DAY_TIME_INTERVAL, TIMESTAMP, TIMESTAMP_NTZ

# Types that a Parquet file holds as Spark reads them back.
FILE_TYPES: list[pa.DataType] = [
    pa.bool_(),
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.decimal128(5, 2),
    pa.decimal128(18, 0),
    pa.decimal128(38, 10),
    pa.string(),
    pa.binary(),
    pa.date32(),
    TIMESTAMP,
    TIMESTAMP_NTZ,
]
ALL_TYPES: list[pa.DataType] = [*FILE_TYPES, DAY_TIME_INTERVAL]

FIRST_DAY, LAST_DAY = -719162, 2932896  # 0001-01-01 and 9999-12-31, the dates that Python can hold
DAY_MICROS = 86_400_000_000
FIRST_MICRO, LAST_MICRO = FIRST_DAY * DAY_MICROS, LAST_DAY * DAY_MICROS + DAY_MICROS - 1
STRING_EDGES = [
    "",
    " ",
    "a",
    "A",
    "ab",
    "a\x00",
    "a\x00b",
    "abc",
    "a%c",
    "a_c",
    "a\\c",
    "a\nc",
    "1",
    "-1",
    " 12 ",
    "1.5",
    "é",
    "e\u0301",
    "ß",
    "ı",
    "İ",
    "ΑΣ",
    "ŉ",
    "\uffff",
    "\U00010000",
    "😀",
    "2020-02-29",
    "NaN",
    "the quick brown fox jumps",
]


@cache
def values(dtype: pa.DataType) -> st.SearchStrategy[Any]:
    """One non-NULL value, as `pa.scalar(value, dtype)` takes it; edge values are frequent."""
    edges, anything = _domain(dtype)
    return st.one_of(st.sampled_from(edges), anything)


def arrow_arrays(
    dtype: pa.DataType, min_size: int = 0, max_size: int = 50, *, nulls: bool = True
) -> st.SearchStrategy[pa.Array]:
    """Arrays of the type, of `min_size` to `max_size` elements. Large sizes cost little: only the pool is drawn."""
    return st.integers(min_size, max_size).flatmap(lambda size: _sized(dtype, size, nulls))


def record_batches(
    schema: pa.Schema, min_size: int = 0, max_size: int = 50, *, nulls: bool = True
) -> st.SearchStrategy[pa.RecordBatch]:
    """Batches of the schema; the columns are drawn independently."""
    return st.integers(min_size, max_size).flatmap(
        lambda size: st.tuples(*(_sized(field.type, size, nulls) for field in schema)).map(
            lambda columns: pa.RecordBatch.from_arrays(list(columns), schema=schema)
        )
    )


def array_of(pool: list[Any], dtype: pa.DataType) -> pa.Array:
    """Python values, None included, as an array. Dates, timestamps and intervals are given as integers."""
    if pa.types.is_temporal(dtype):
        return pa.array(pool, _storage(dtype)).view(dtype)
    if pa.types.is_floating(dtype):
        floats = np.array([0.0 if value is None else value for value in pool], dtype=dtype.to_pandas_dtype())
        return pa.array(floats, dtype, mask=np.array([value is None for value in pool], dtype=bool))
    return pa.array(pool, dtype)


@cache
def _sized(dtype: pa.DataType, size: int, nulls: bool) -> st.SearchStrategy[pa.Array]:
    if size == 0:
        return st.just(pa.array([], dtype))
    return st.builds(
        lambda pool, skew, null_share, seed: _pick(array_of(pool, dtype), size, skew, null_share, seed),
        st.lists(values(dtype), min_size=1, max_size=min(size, 12)),
        st.sampled_from([0.0, 1.0, 3.0]),
        st.sampled_from([0.0, 0.1, 0.5, 1.0] if nulls else [0.0]),
        st.integers(0, 2**32 - 1),
    )


def _pick(pool: pa.Array, size: int, skew: float, null_share: float, seed: int) -> pa.Array:
    random = np.random.default_rng(seed)
    weights = np.arange(1, len(pool) + 1, dtype=float) ** -skew
    picked = random.choice(len(pool), size=size, p=weights / weights.sum())
    return pool.take(pa.array(picked, pa.int64(), mask=random.random(size) < null_share))


def _storage(dtype: pa.DataType) -> pa.DataType:
    return pa.int32() if pa.types.is_date32(dtype) else pa.int64()


def _domain(dtype: pa.DataType) -> tuple[list[Any], st.SearchStrategy[Any]]:
    if pa.types.is_boolean(dtype):
        return [False, True], st.booleans()
    if pa.types.is_integer(dtype):
        low, high = -(2 ** (dtype.bit_width - 1)), 2 ** (dtype.bit_width - 1) - 1
        return [0, 1, -1, 2, 3, -7, 10, low, low + 1, high, high - 1], st.integers(low, high)
    if pa.types.is_floating(dtype):
        edges = [0.0, -0.0, 1.0, -1.0, 0.1, 2.5, -2.5, 1e30, 2.0**31, 2.0**63, 1e-40, _nan(0), _nan(1), _INF, -_INF]
        return edges, st.floats(width=dtype.bit_width)
    if pa.types.is_decimal(dtype):
        largest = 10**dtype.precision - 1
        unscaled = [0, 1, -1, 5, -5, 10**dtype.scale, 15, 10 ** (dtype.precision - 1), largest, -largest]
        return (
            [_decimal(number, dtype.scale) for number in unscaled if abs(number) <= largest],
            st.integers(-largest, largest).map(lambda number: _decimal(number, dtype.scale)),
        )
    if pa.types.is_string(dtype):
        return STRING_EDGES, st.text(max_size=12)
    if pa.types.is_binary(dtype):
        return [b"", b"\x00", b"\x7f", b"\x80", b"\xff", b"\xff\xff", b"a", b"ab"], st.binary(max_size=12)
    if pa.types.is_date32(dtype):
        edges = [0, -1, 1, 18321, 18262, 365, FIRST_DAY, LAST_DAY, -141428, -141427, -25567]
        return edges, st.integers(FIRST_DAY, LAST_DAY)
    if pa.types.is_timestamp(dtype):
        edges = [0, -1, 1, 999_999, -1_000_000, 1_582_934_400_000_000, 1_616_893_200_000_000, FIRST_MICRO, LAST_MICRO]
        return edges, st.integers(FIRST_MICRO, LAST_MICRO)
    if pa.types.is_duration(dtype):
        edges = [0, 1, -1, 1_000_000, DAY_MICROS, -DAY_MICROS, 2**63 - 1, -(2**63)]
        return edges, st.integers(-(2**63), 2**63 - 1)
    raise TypeError(f"no random values for {dtype}")


_INF = float("inf")


def _nan(sign: int) -> float:
    """NaN with either sign bit: one value to Spark, two bit patterns to a careless comparison."""
    return float(np.uint64((sign << 63) | 0x7FF8000000000000).view(np.float64))


def _decimal(unscaled: int, scale: int) -> Decimal:
    """Built from digits: Decimal's own arithmetic would round to 28 of them."""
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))
