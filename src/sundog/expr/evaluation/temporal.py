"""Parts, truncation and shifts of dates and times, by the proleptic Gregorian calendar that Spark uses.

All of it is integer arithmetic over days and microseconds, so it works for every year that Spark can hold. Zones are
tables of offsets (`zones.py`). Weeks are ISO weeks: they start on Monday, and week 1 has the first Thursday.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.errors import InternalError
from sundog.expr.buffers import Bools, array_from, both_valid, decimal_array, validity_of, values_of
from sundog.expr.errors import SparkQueryError
from sundog.expr.evaluation.zones import DAY_SECONDS, UTC, Zone

Ints = npt.NDArray[np.int64]

SECOND = 1_000_000
DAY = DAY_SECONDS * SECOND
_MAX_SECONDS = (2**63 - 1) // SECOND
_UNIT_SECONDS = {"minute": 60, "hour": 3600, "day": DAY_SECONDS}
_UNIT_MICROS = {"microsecond": 1, "millisecond": 1000, "second": SECOND}
_LONGEST_UNIT_DAYS = 400  # a year, with a margin for the offsets of zones
TIME_PARTS = frozenset({"hour", "minute", "second", "second_fraction"})


def date_part(part: str, array: pa.Array, dtype: pa.DataType, zone: Zone | None) -> pa.Array:
    """A part of a date, or a time-of-day part of a timestamp in `zone` (of NTZ: none)."""
    valid = validity_of(array)
    if part not in TIME_PARTS:
        return array_from(_day_part(part, values_of(array).astype(np.int64)), valid, dtype)
    seconds, micros = split(values_of(array))
    if zone is not None:
        seconds = seconds + zone.offsets_at(seconds)
    of_day = seconds % DAY_SECONDS
    if part == "second_fraction":
        unscaled = (of_day % 60) * SECOND + micros
        return decimal_array(unscaled.view(np.uint64), np.zeros(len(unscaled), np.int64), valid, dtype)
    result = {"hour": of_day // 3600, "minute": of_day // 60 % 60, "second": of_day % 60}[part]
    return array_from(result, valid, dtype)


def truncate(unit: str, array: pa.Array, zone: Zone | None) -> pa.Array:
    """`trunc` of a date, `date_trunc` of a timestamp in `zone`."""
    values, valid = values_of(array), validity_of(array)
    if _near_the_ends(values, valid, array.type):
        raise SparkQueryError.java_overflow()
    if pa.types.is_date32(array.type):
        return array_from(_truncate_days(unit, values.astype(np.int64)), valid, array.type)
    if unit in _UNIT_MICROS:
        return array_from(values - values % _UNIT_MICROS[unit], valid, array.type)
    zone = zone or UTC
    seconds, _ = split(values)
    offsets = zone.offsets_at(seconds)
    local = seconds + offsets
    if unit in _UNIT_SECONDS:
        start = zone.to_instant(local - local % _UNIT_SECONDS[unit], offsets)
    else:
        start = zone.start_of_day(_truncate_days(unit, local // DAY_SECONDS))
    return array_from(join(start, np.zeros(len(start), np.int64), valid), valid, array.type)


def _near_the_ends(values: npt.NDArray[Any], valid: Bools | None, dtype: pa.DataType) -> bool:
    """Whether the start of a unit may be outside of the type. Spark then raises or wraps around, which is not modelled:
    the caller raises, and Spark runs the query."""
    limits = np.iinfo(values.dtype)
    margin = _LONGEST_UNIT_DAYS * (1 if pa.types.is_date32(dtype) else DAY)
    near = (values < limits.min + margin) | (values > limits.max - margin)
    return bool((near if valid is None else near & valid).any())


def add_interval(array: pa.Array, interval: pa.Array, zone: Zone | None) -> pa.Array:
    """A timestamp and a day-time interval: days move the wall clock, the rest moves the instant."""
    valid = both_valid(validity_of(array), validity_of(interval))
    zone = zone or UTC
    amount = values_of(interval)
    days = np.where(amount < 0, -(-amount // DAY), amount // DAY)
    seconds, micros = split(values_of(array))
    offsets = zone.offsets_at(seconds)
    moved = zone.to_instant(seconds + offsets + days * DAY_SECONDS, offsets)
    rest = micros + (amount - days * DAY)
    return array_from(join(moved + rest // SECOND, rest % SECOND, valid), valid, array.type)


def split(micros: npt.NDArray[np.int64]) -> tuple[Ints, Ints]:
    """Whole seconds, rounded down, and the microseconds above them."""
    seconds = micros // SECOND
    return seconds, micros - seconds * SECOND


def join(seconds: Ints, micros: Ints, valid: Bools | None) -> Ints:
    """The inverse of `split`. Raises like Spark for instants that exceed 64 bits of microseconds."""
    if bool(outside_range(seconds, valid).any()):
        raise SparkQueryError.java_overflow()
    return seconds * SECOND + micros


def outside_range(seconds: Ints, valid: Bools | None) -> Bools:
    """The values that exceed 64 bits of microseconds."""
    outside = (seconds > _MAX_SECONDS) | (seconds < -_MAX_SECONDS)
    return outside if valid is None else outside & valid


def _day_part(part: str, days: Ints) -> Ints:
    match part:
        case "year":
            return _years(days)
        case "quarter":
            return (_months(days) % 12) // 3 + 1
        case "month":
            return _months(days) % 12 + 1
        case "day":
            return days - _month_start(_months(days)) + 1
        case "dayofyear":
            return days - _year_start(_years(days)) + 1
        case "dayofweek":
            return (days + 4) % 7 + 1
        case "weekday":
            return (days + 3) % 7
        case "weekofyear":
            thursday = _thursday(days)
            return (thursday - _year_start(_years(thursday))) // 7 + 1
        case "yearofweek":
            return _years(_thursday(days))
        case _:
            raise InternalError(f"no such part of a date: {part}")


def _truncate_days(unit: str, days: Ints) -> Ints:
    match unit:
        case "week":
            return days - (days + 3) % 7
        case "month":
            return _month_start(_months(days))
        case "quarter":
            months = _months(days)
            return _month_start(months - months % 3)
        case "year":
            return _year_start(_years(days))
        case _:
            raise InternalError(f"dates are not truncated to {unit}")


def _thursday(days: Ints) -> Ints:
    """The Thursday of the ISO week: its year is the week's year."""
    return days - (days + 3) % 7 + 3


def _years(days: Ints) -> Ints:
    return days.astype("M8[D]").astype("M8[Y]").astype(np.int64) + 1970


def _months(days: Ints) -> Ints:
    """Months since January 1970; `% 12` is the month of the year from 0."""
    return days.astype("M8[D]").astype("M8[M]").astype(np.int64)


def _month_start(months: Ints) -> Ints:
    return months.astype("M8[M]").astype("M8[D]").astype(np.int64)


def _year_start(years: Ints) -> Ints:
    return (years - 1970).astype("M8[Y]").astype("M8[D]").astype(np.int64)
