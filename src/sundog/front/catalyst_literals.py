"""Constants of Catalyst's JSON -> Python values that `pa.scalar(value, dtype)` takes.

Catalyst prints a constant as `Literal.toString` does: dates and timestamps as text (timestamps in the session's zone),
TIMESTAMP_NTZ and intervals as integers, binaries not at all. Members of an IN set are printed as Catalyst's internal
values instead, where dates and timestamps are integers too. Temporal values come out as integers: days, microseconds.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pyarrow as pa

from sundog.expr.zones import DAY_SECONDS, Zone, day_number
from sundog.support import Code, Declined
from sundog.types import DAY_TIME_INTERVAL, TIMESTAMP, TIMESTAMP_NTZ

_DATE = r"([+-]?\d{4,})-(\d\d)-(\d\d)"
_DATE_TEXT = re.compile(_DATE)
_TIMESTAMP_TEXT = re.compile(_DATE + r" (\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?")


def literal_value(value: Any, dtype: pa.DataType, zone: Zone | None) -> Any:
    """The value of a `Literal` node; None is NULL. `zone` is the session's, in which timestamps are printed."""
    if value is None:
        return None
    if pa.types.is_date32(dtype):
        return _days(str(value))
    if dtype == TIMESTAMP:
        return _instant(str(value), zone)
    return internal_value(value, dtype)


def internal_value(value: Any, dtype: pa.DataType) -> Any:
    """The same for a value as Catalyst holds it inside: days and microseconds as integers."""
    if value is None:
        return None
    if pa.types.is_binary(dtype):
        if not isinstance(value, bytes):
            raise Declined.because(Code.PLAN_VERSION, "the bytes of a binary constant are not in the plan", "Literal")
        return value
    text = str(value)
    try:
        if pa.types.is_boolean(dtype):
            return {"true": True, "false": False}[text]
        if pa.types.is_integer(dtype) or pa.types.is_date32(dtype):
            return int(text)
        if dtype in (TIMESTAMP, TIMESTAMP_NTZ, DAY_TIME_INTERVAL):
            return int(text)
        if pa.types.is_float32(dtype):
            return pa.scalar(float(text), dtype).as_py()
        if pa.types.is_float64(dtype):
            return float(text)
        if pa.types.is_decimal(dtype):
            return _decimal(text, dtype)
        if pa.types.is_string(dtype):
            return text
    except (ValueError, KeyError, ArithmeticError) as problem:
        raise _unreadable(text, dtype) from problem
    raise _unreadable(text, dtype)


def _unreadable(text: str, dtype: pa.DataType) -> Declined:
    return Declined.because(Code.PLAN_VERSION, f"the constant {text[:40]!r} of type {dtype} cannot be read", "Literal")


def _decimal(text: str, dtype: pa.DataType) -> Decimal:
    """With exactly the type's places, so that equal constants are equal values."""
    sign, digits, exponent = Decimal(text).as_tuple()
    if not isinstance(exponent, int) or exponent < -dtype.scale:
        raise ValueError(text)
    digits += (0,) * (exponent + dtype.scale)
    if len(digits) > dtype.precision and any(digits[: len(digits) - dtype.precision]):
        raise ValueError(text)
    return Decimal((sign, digits, -dtype.scale))


def _days(text: str) -> int:
    match = _DATE_TEXT.fullmatch(text)
    if match is None:
        raise _unreadable(text, pa.date32())
    return day_number(*map(int, match.groups()))


def _instant(text: str, zone: Zone | None) -> int:
    match = _TIMESTAMP_TEXT.fullmatch(text)
    if match is None:
        raise _unreadable(text, TIMESTAMP)
    if zone is None:
        raise Declined.because(Code.UNKNOWN_EXPRESSION, "the rules of the session's time zone are not known", "Literal")
    year, month, day, hour, minute, second = map(int, match.groups()[:6])
    local = day_number(year, month, day) * DAY_SECONDS + hour * 3600 + minute * 60 + second
    if zone.is_shown_twice(local):
        raise Declined.because(
            Code.UNKNOWN_EXPRESSION,
            f"clocks in {zone.name} showed {text} twice, so the constant is ambiguous",
            "Literal",
        )
    return zone.instant_of(local) * 1_000_000 + int((match[7] or "").ljust(6, "0"))
