"""Catalyst's internal values -> Python values that `pa.scalar(value, dtype)` takes.

A constant is read from Catalyst's object, never from a printed text. `jvm/expression_details.py` writes its internal
value as exact JSON: dates as days, timestamps and day-time intervals as microseconds, year-month intervals as months.
Strings and binaries are bytes in base64, floats their bits, decimals digits with a scale. Temporal values stay integers
here.
"""

from __future__ import annotations

import base64
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa

from sundog.front.catalyst_json import Node
from sundog.support import Code, Declined
from sundog.types import DAY_TIME_INTERVAL, TIMESTAMP, TIMESTAMP_NTZ


def literal_value(literal: Node, dtype: pa.DataType) -> Any:
    """The value of a `Literal` node; None is NULL."""
    return internal_value(literal["internal"], dtype)


def internal_value(value: Any, dtype: pa.DataType) -> Any:
    """The Python value of an internal value of type `dtype`."""
    if value is None:
        return None
    try:
        return _read(value, dtype)
    except (ValueError, TypeError, ArithmeticError, struct.error) as problem:
        raise _unreadable(value, dtype) from problem


def _read(value: Any, dtype: pa.DataType) -> Any:
    if pa.types.is_boolean(dtype):
        return _of_kind(value, bool)
    if pa.types.is_string(dtype):
        return _text(base64.b64decode(_of_kind(value, str), validate=True))
    if pa.types.is_binary(dtype):
        return base64.b64decode(_of_kind(value, str), validate=True)
    if pa.types.is_decimal(dtype):
        return _decimal(_of_kind(value, str), dtype)
    number: int = _of_kind(value, int)
    if pa.types.is_float32(dtype):
        return struct.unpack("<f", struct.pack("<i", number))[0]
    if pa.types.is_float64(dtype):
        return struct.unpack("<d", struct.pack("<q", number))[0]
    if (
        pa.types.is_integer(dtype)
        or pa.types.is_date32(dtype)
        or dtype in (TIMESTAMP, TIMESTAMP_NTZ, DAY_TIME_INTERVAL)
    ):
        return number
    raise ValueError(dtype)


def _of_kind(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise ValueError(value)
    return value


def _text(content: bytes) -> str:
    """A string. Spark compares strings by their bytes, valid UTF-8 or not; Arrow's strings must be UTF-8."""
    try:
        return content.decode()
    except UnicodeDecodeError as problem:
        sentence = f"the string constant {content[:20]!r} is not valid UTF-8"
        raise Declined.because(Code.UNKNOWN_EXPRESSION, sentence, "Literal") from problem


def _unreadable(value: Any, dtype: pa.DataType) -> Declined:
    shown = f"the constant {str(value)[:40]!r} of type {dtype} cannot be read"
    return Declined.because(Code.PLAN_VERSION, shown, "Literal")


def _decimal(text: str, dtype: pa.DataType) -> Decimal:
    """A decimal with exactly the type's places, so that equal constants are equal values."""
    sign, digits, exponent = Decimal(text).as_tuple()
    if not isinstance(exponent, int) or exponent < -dtype.scale:
        raise ValueError(text)
    digits += (0,) * (exponent + dtype.scale)
    if len(digits) > dtype.precision and any(digits[: len(digits) - dtype.precision]):
        raise ValueError(text)
    return Decimal((sign, digits, -dtype.scale))
