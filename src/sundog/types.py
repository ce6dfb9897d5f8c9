"""Spark's types as Arrow types: the one mapping that all of sundog uses inside a plan.

| Spark | Arrow inside sundog | note |
|---|---|---|
| boolean, byte .. long, float, double | bool, int8 .. int64, float32, float64 | |
| decimal(p,s) | decimal128(p,s) | |
| string, binary | string, binary | UTF8_BINARY only; other collations are declined |
| date | date32 | days |
| timestamp | timestamp[us, UTC] | an instant; the session's zone is put on at the border |
| timestamp_ntz | timestamp[us] | |
| interval day to second | duration[us] | any day-time fields |
| void | null | |

Nothing is lost in either direction: only the time zone of instants changes where rows enter or leave.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import pyarrow as pa

TIMESTAMP = pa.timestamp("us", tz="UTC")
TIMESTAMP_NTZ = pa.timestamp("us")
DAY_TIME_INTERVAL = pa.duration("us")

_SIMPLE: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP,
    "timestamp_ntz": TIMESTAMP_NTZ,
    "void": pa.null(),
}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")
_DAY_TIME = re.compile(r"interval (day|hour|minute|second)( to (hour|minute|second))?")


def is_plain(dtype: pa.DataType) -> bool:
    """Whether values lie in memory as numbers of one width: integers, floats, dates and times."""
    return bool(pa.types.is_integer(dtype) or pa.types.is_floating(dtype) or pa.types.is_temporal(dtype))


@cache
def is_text(dtype: pa.DataType) -> bool:
    """Whether values are strings or bytes, in whichever form Arrow holds them."""
    return bool(pa.types.is_string(dtype) or pa.types.is_binary(dtype) or is_view(dtype))


@cache
def is_view(dtype: pa.DataType) -> bool:
    """Whether strings or bytes are views into blocks that they may share."""
    return bool(pa.types.is_string_view(dtype) or pa.types.is_binary_view(dtype))


def arrow_type(spark_json: Any) -> pa.DataType | None:
    """The Arrow type for a Spark type as `DataType.json` writes it, or None where sundog has none."""
    if not isinstance(spark_json, str):
        return None
    if spark_json in _SIMPLE:
        return _SIMPLE[spark_json]
    if spark_json == "decimal":
        return pa.decimal128(10, 0)
    if match := _DECIMAL.fullmatch(spark_json):
        return pa.decimal128(int(match[1]), int(match[2]))
    if _DAY_TIME.fullmatch(spark_json):
        return DAY_TIME_INTERVAL
    return None


def spark_name(dtype: pa.DataType) -> str:
    """Spark's SQL name of a type of ours, for messages."""
    for name, arrow in _SIMPLE.items():
        if dtype.equals(arrow):
            return {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint"}.get(name, name)
    if pa.types.is_decimal(dtype):
        return f"decimal({dtype.precision},{dtype.scale})"
    if dtype.equals(DAY_TIME_INTERVAL):
        return "interval day to second"
    return str(dtype)


def spark_json(dtype: pa.DataType) -> str:
    """The inverse of `arrow_type`."""
    for name, arrow in _SIMPLE.items():
        if dtype.equals(arrow):
            return name
    if pa.types.is_decimal(dtype):
        return f"decimal({dtype.precision},{dtype.scale})"
    if dtype.equals(DAY_TIME_INTERVAL):
        return "interval day to second"
    raise TypeError(f"{dtype} is not one of sundog's types")
