"""The casts that are exactly Spark's, and no others.

`EXACT_CASTS` below is the whole list: the front end declines all other casts. Left out on purpose are those whose
result depends on how a JVM prints or parses floating-point numbers (double to string, string to double), which changed
between Java releases. Doubles to decimals of up to 14 digits do not depend on it: see `floats.rounded_units`.

The mode decides about values outside of the target type: ANSI raises, TRY gives NULL, LEGACY converts like Java
(integers wrap around, floats saturate) or gives NULL for decimals and strings.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sundog.errors import InternalError
from sundog.expr.buffers import Bools, array_from, decimal_array, numpy_type, validity_of, values_of, without_rows
from sundog.expr.errors import ErrorKind, SparkQueryError, sql_value
from sundog.expr.evaluation.decimals import to_decimal, to_double
from sundog.expr.evaluation.temporal import SECOND, outside_range, split
from sundog.expr.evaluation.unscaled import Unscaled, as_decimal, integer_part, low_bits
from sundog.expr.evaluation.zones import DAY_SECONDS, UTC, Zone
from sundog.expr.floats import rounded_units
from sundog.expr.nodes import EvalMode
from sundog.types import TIMESTAMP, TIMESTAMP_NTZ

Numbers = npt.NDArray[Any]


def type_kind(dtype: pa.DataType) -> str:
    """The name of a type in `EXACT_CASTS`, without its width, precision or zone."""
    for name, test in (
        ("boolean", pa.types.is_boolean),
        ("integer", pa.types.is_integer),
        ("float", pa.types.is_float32),
        ("double", pa.types.is_float64),
        ("decimal", pa.types.is_decimal),
        ("string", pa.types.is_string),
        ("binary", pa.types.is_binary),
        ("date", pa.types.is_date32),
    ):
        if test(dtype):
            return name
    if dtype == TIMESTAMP:
        return "timestamp"
    if dtype == TIMESTAMP_NTZ:
        return "timestamp_ntz"
    return "void" if pa.types.is_null(dtype) else str(dtype)


MAX_DIGITS_OF_DOUBLES = 14
"""Up to this precision, every double that fits a decimal is rounded to the same digits by all Java releases."""


def cast(array: pa.Array, dtype: pa.DataType, mode: EvalMode, zone: Zone | None) -> pa.Array:
    """Cast like Spark, by the function in `EXACT_CASTS`. Raises InternalError for a pair of types without one."""
    if array.type == dtype:
        return array
    pair = type_kind(array.type), type_kind(dtype)
    if pair not in EXACT_CASTS:
        raise InternalError(f"no exact cast from {array.type} to {dtype}")
    return EXACT_CASTS[pair](array, dtype, mode, zone)


def _checked(
    array: pa.Array, result: Numbers, lost: Bools, dtype: pa.DataType, mode: EvalMode, valid: Bools | None
) -> pa.Array:
    """`result`; for the rows in `lost`, which did not fit the type, Spark's error for the first of them, or NULL."""
    if valid is not None:
        lost = lost & valid
    if not bool(lost.any()):
        return array_from(result, valid, dtype)
    if mode is EvalMode.ANSI:
        value = array[int(np.argmax(lost))].as_py()
        raise SparkQueryError.cast_overflow(sql_value(value, array.type), array.type, dtype)
    return array_from(result, without_rows(valid, lost), dtype)


def _instants(
    seconds: npt.NDArray[np.int64], micros: Any, valid: Bools | None, dtype: pa.DataType, mode: EvalMode
) -> pa.Array:
    """Timestamps; one that exceeds 64 bits raises in every mode but TRY."""
    outside = outside_range(seconds, valid)
    if bool(outside.any()):
        if mode is not EvalMode.TRY:
            raise SparkQueryError.java_overflow()
        valid = without_rows(valid, outside)
    return array_from(seconds * SECOND + micros, valid, dtype)


def _integer_to_integer(array: pa.Array, dtype: pa.DataType, mode: EvalMode, zone: Zone | None) -> pa.Array:
    values, valid = values_of(array), validity_of(array)
    result = values.astype(numpy_type(dtype))
    if mode is EvalMode.LEGACY or dtype.bit_width >= array.type.bit_width:
        return array_from(result, valid, dtype)
    return _checked(array, result, result != values, dtype, mode, valid)


def _convert(array: pa.Array, dtype: pa.DataType, mode: EvalMode, zone: Zone | None) -> pa.Array:
    with np.errstate(all="ignore"):
        return array_from(values_of(array).astype(numpy_type(dtype)), validity_of(array), dtype)


def _float_to_integer(array: pa.Array, dtype: pa.DataType, mode: EvalMode, zone: Zone | None) -> pa.Array:
    """Towards zero. Java saturates at int and long, and byte and short take the low bits of that int."""
    values, valid = values_of(array).astype(np.float64), validity_of(array)
    through: Any = np.int64 if dtype.bit_width == 64 else np.int32
    limits = np.iinfo(through)
    with np.errstate(all="ignore"):
        saturated = np.where(
            values >= -float(limits.min),
            limits.max,
            np.where(values <= limits.min, limits.min, np.nan_to_num(values, posinf=0, neginf=0).astype(through)),
        )
        saturated = np.where(np.isnan(values), 0, saturated).astype(through)
        result = saturated.astype(numpy_type(dtype))
        if mode is EvalMode.LEGACY:
            return array_from(result, valid, dtype)
        target = np.iinfo(numpy_type(dtype))
        fits = (np.floor(values) <= float(target.max)) & (np.ceil(values) >= float(target.min))
    return _checked(array, result, ~fits, dtype, mode, valid)


def _decimal_to_integer(array: pa.Array, dtype: pa.DataType, mode: EvalMode, zone: Zone | None) -> pa.Array:
    """Towards zero. Spark checks long decimals against byte, short and int through a double."""
    whole, valid = integer_part(array)
    result = low_bits(whole, dtype)
    if mode is EvalMode.LEGACY:
        return array_from(result, valid, dtype)
    limits = np.iinfo(numpy_type(dtype))
    if dtype.bit_width < 64 and array.type.precision > 18:
        doubles, _ = to_double(array)
        lost = ~((np.floor(doubles) <= limits.max) & (np.ceil(doubles) >= limits.min))
    else:
        lost = ((whole > limits.max) | (whole < limits.min)).astype(np.bool_)
    return _checked(array, result, lost, dtype, mode, valid)


def _to_decimal(array: pa.Array, dtype: pa.DataType, mode: EvalMode, zone: Zone | None) -> pa.Array:
    return to_decimal(array, dtype, mode)


def _float_to_decimal(array: pa.Array, dtype: pa.DataType, mode: EvalMode, zone: Zone | None) -> pa.Array:
    """HALF_UP on the digits that Java prints. NaN and infinities become NULL, also under ANSI."""
    values, valid = values_of(array).astype(np.float64), validity_of(array)
    units, decided = rounded_units(values, dtype.scale)
    limit = 10**dtype.precision
    lost = np.isfinite(values) & (~decided | (np.abs(units) >= limit))
    if valid is not None:
        lost &= valid
    if mode is EvalMode.ANSI and bool(lost.any()):
        raise SparkQueryError.decimal_out_of_range(Decimal(repr(float(values[np.argmax(lost)]))), dtype)
    kept = without_rows(valid, lost | ~np.isfinite(values))
    units = np.where(kept, units, 0)
    return decimal_array(units.view(np.uint64), units >> 63, kept, dtype)


def _decimal_to_double(array: pa.Array, dtype: pa.DataType, mode: EvalMode, zone: Zone | None) -> pa.Array:
    values, valid = to_double(array)
    return array_from(values, valid, dtype)


def _to_boolean(array: pa.Array, dtype: pa.DataType, mode: EvalMode, zone: Zone | None) -> pa.Array:
    values = Unscaled.of(array).values if pa.types.is_decimal(array.type) else values_of(array)
    return array_from((values != 0).astype(np.bool_), validity_of(array), dtype)


def _timestamp_to_date(array: pa.Array, dtype: pa.DataType, mode: EvalMode, zone: Zone | None) -> pa.Array:
    seconds, _ = split(values_of(array))
    if array.type == TIMESTAMP:
        seconds = seconds + (zone or UTC).offsets_at(seconds)
    return array_from(seconds // DAY_SECONDS, validity_of(array), dtype)


def _date_to_timestamp(array: pa.Array, dtype: pa.DataType, mode: EvalMode, zone: Zone | None) -> pa.Array:
    days, valid = values_of(array).astype(np.int64), validity_of(array)
    at = (zone or UTC) if dtype == TIMESTAMP else UTC
    return _instants(at.start_of_day(days), 0, valid, dtype, mode)


def _timestamp_to_ntz(array: pa.Array, dtype: pa.DataType, mode: EvalMode, zone: Zone | None) -> pa.Array:
    seconds, micros = split(values_of(array))
    return _instants(seconds + (zone or UTC).offsets_at(seconds), micros, validity_of(array), dtype, mode)


def _ntz_to_timestamp(array: pa.Array, dtype: pa.DataType, mode: EvalMode, zone: Zone | None) -> pa.Array:
    seconds, micros = split(values_of(array))
    return _instants((zone or UTC).to_instant(seconds), micros, validity_of(array), dtype, mode)


def _timestamp_to_integer(array: pa.Array, dtype: pa.DataType, mode: EvalMode, zone: Zone | None) -> pa.Array:
    """Seconds, rounded down; in LEGACY mode Spark gives NULL if they do not fit."""
    seconds, _ = split(values_of(array))
    valid = validity_of(array)
    result = seconds.astype(numpy_type(dtype))
    lost = result != seconds if valid is None else (result != seconds) & valid
    if mode is EvalMode.ANSI and bool(lost.any()):
        text = _timestamp_to_string(array.slice(int(np.argmax(lost)), 1), pa.string(), mode, zone)[0]
        raise SparkQueryError.cast_overflow(f"TIMESTAMP '{text}'", array.type, dtype)
    return array_from(result, without_rows(valid, lost), dtype)


def _integer_to_timestamp(array: pa.Array, dtype: pa.DataType, mode: EvalMode, zone: Zone | None) -> pa.Array:
    """Seconds; they saturate at the limits of 64 bits, like TimeUnit.SECONDS.toMicros."""
    seconds = values_of(array).astype(np.int64)
    limit = (2**63 - 1) // SECOND
    micros = np.clip(seconds, -limit, limit) * SECOND
    micros = np.where(seconds > limit, 2**63 - 1, np.where(seconds < -limit, -(2**63), micros))
    return array_from(micros, validity_of(array), dtype)


def _reinterpret(array: pa.Array, dtype: pa.DataType, mode: EvalMode, zone: Zone | None) -> pa.Array:
    """Strings and binaries, which for Spark are the same bytes, valid UTF-8 or not."""
    return array.view(dtype)


def _plain_to_string(array: pa.Array, dtype: pa.DataType, mode: EvalMode, zone: Zone | None) -> pa.Array:
    return pc.cast(array, dtype)


def _decimal_to_string(array: pa.Array, dtype: pa.DataType, mode: EvalMode, zone: Zone | None) -> pa.Array:
    """Plain digits under ANSI and in try_cast; else like BigDecimal.toString, which writes exponents by the same rule
    as Python."""
    numbers = Unscaled.of(array)
    plain = mode is not EvalMode.LEGACY
    decimals = (as_decimal(int(value), numbers.scale) for value in numbers.values)
    texts = [format(value, "f") if plain else str(value) for value in decimals]
    return _texts(texts, numbers.valid)


def _date_to_string(array: pa.Array, dtype: pa.DataType, mode: EvalMode, zone: Zone | None) -> pa.Array:
    return _texts(_date_texts(values_of(array).astype(np.int64)), validity_of(array))


def _timestamp_to_string(array: pa.Array, dtype: pa.DataType, mode: EvalMode, zone: Zone | None) -> pa.Array:
    """`2020-01-31 23:59:59.5`: the fraction without trailing zeros."""
    seconds, micros = split(values_of(array))
    if array.type == TIMESTAMP:
        seconds = seconds + (zone or UTC).offsets_at(seconds)
    days = seconds // DAY_SECONDS
    of_day = seconds - days * DAY_SECONDS
    texts = [
        f"{date} {second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
        + (f".{micro:06d}".rstrip("0") if micro else "")
        for date, second, micro in zip(_date_texts(days), of_day.tolist(), micros.tolist(), strict=True)
    ]
    return _texts(texts, validity_of(array))


def _date_texts(days: npt.NDArray[np.int64]) -> list[str]:
    """ISO dates; a year above 9999 has a sign, one before year 0 too."""
    months = days.astype("M8[D]").astype("M8[M]")
    years = (months.astype("M8[Y]").astype(np.int64) + 1970).tolist()
    of_year = (months.astype(np.int64) % 12 + 1).tolist()
    of_month = (days - months.astype("M8[D]").astype(np.int64) + 1).tolist()
    return [
        f"{_year_text(year)}-{month:02d}-{day:02d}" for year, month, day in zip(years, of_year, of_month, strict=True)
    ]


def _year_text(year: int) -> str:
    if year > 9999:
        return f"+{year}"
    return f"{year:04d}" if year >= 0 else f"-{-year:04d}"


def _texts(texts: list[str], valid: Bools | None) -> pa.Array:
    return pa.array(texts, pa.string(), mask=None if valid is None else ~valid)


_TRIM = "".join(map(chr, range(0x21))) + "\x7f"
_INTEGER_ANSI = re.compile(r"[+-]?[0-9]+")
_INTEGER_LEGACY = re.compile(r"(?=.)(?![+-]$)([+-]?[0-9]*)(\.[0-9]*)?", re.DOTALL)


def _string_to_integer(array: pa.Array, dtype: pa.DataType, mode: EvalMode, zone: Zone | None) -> pa.Array:
    limits = np.iinfo(numpy_type(dtype))
    legacy = mode is EvalMode.LEGACY
    pattern = _INTEGER_LEGACY if legacy else _INTEGER_ANSI

    def parse(text: str) -> int | None:
        match = pattern.fullmatch(text.strip(_TRIM))
        if match is None:
            return None
        digits = match[1] if legacy else match[0]
        number = int(digits) if digits.strip("+-") else 0
        return number if limits.min <= number <= limits.max else None

    return _parsed(array, dtype, mode, ErrorKind.NUMBER_FORMAT, parse)


_TRUE = {"t", "true", "y", "yes", "1"}
_FALSE = {"f", "false", "n", "no", "0"}


def _string_to_boolean(array: pa.Array, dtype: pa.DataType, mode: EvalMode, zone: Zone | None) -> pa.Array:
    def parse(text: str) -> bool | None:
        word = text.strip(_TRIM)
        lower = "".join(chr(ord(c) + 32) if "A" <= c <= "Z" else c for c in word)
        return True if lower in _TRUE else False if lower in _FALSE else None

    return _parsed(array, dtype, mode, ErrorKind.RUNTIME, parse)


def _parsed(
    array: pa.Array, dtype: pa.DataType, mode: EvalMode, kind: ErrorKind, parse: Callable[[str], Any]
) -> pa.Array:
    """Parsed strings, each distinct one once; invalid UTF-8 is no valid text of any type."""
    encoded = array.dictionary_encode()
    texts = [raw.decode("utf-8", "replace") for raw in encoded.dictionary.view(pa.binary()).to_pylist()]
    values = [parse(text) for text in texts]
    if mode is EvalMode.ANSI:
        for text, value in zip(texts, values, strict=True):
            if value is None:
                raise SparkQueryError.cast_invalid_input(text, dtype, kind)
    return pa.array(values, dtype).take(encoded.indices)


Caster = Callable[[pa.Array, pa.DataType, EvalMode, Zone | None], pa.Array]

EXACT_CASTS: dict[tuple[str, str], Caster] = {
    ("boolean", "integer"): _convert,
    ("boolean", "float"): _convert,
    ("boolean", "double"): _convert,
    ("boolean", "decimal"): _to_decimal,
    ("boolean", "string"): _plain_to_string,
    ("integer", "boolean"): _to_boolean,
    ("integer", "integer"): _integer_to_integer,
    ("integer", "float"): _convert,
    ("integer", "double"): _convert,
    ("integer", "decimal"): _to_decimal,
    ("integer", "string"): _plain_to_string,
    ("integer", "timestamp"): _integer_to_timestamp,
    ("float", "boolean"): _to_boolean,
    ("float", "integer"): _float_to_integer,
    ("float", "double"): _convert,
    ("float", "decimal"): _float_to_decimal,
    ("double", "boolean"): _to_boolean,
    ("double", "integer"): _float_to_integer,
    ("double", "float"): _convert,
    ("double", "decimal"): _float_to_decimal,
    ("decimal", "boolean"): _to_boolean,
    ("decimal", "integer"): _decimal_to_integer,
    ("decimal", "double"): _decimal_to_double,
    ("decimal", "decimal"): _to_decimal,
    ("decimal", "string"): _decimal_to_string,
    ("string", "integer"): _string_to_integer,
    ("string", "boolean"): _string_to_boolean,
    ("string", "binary"): _reinterpret,
    ("binary", "string"): _reinterpret,
    ("date", "timestamp"): _date_to_timestamp,
    ("date", "timestamp_ntz"): _date_to_timestamp,
    ("date", "string"): _date_to_string,
    ("timestamp", "date"): _timestamp_to_date,
    ("timestamp", "timestamp_ntz"): _timestamp_to_ntz,
    ("timestamp", "integer"): _timestamp_to_integer,
    ("timestamp", "string"): _timestamp_to_string,
    ("timestamp_ntz", "date"): _timestamp_to_date,
    ("timestamp_ntz", "timestamp"): _ntz_to_timestamp,
    ("timestamp_ntz", "string"): _timestamp_to_string,
}
