"""Catalyst's internal rows as Python values, exactly: from the bytes of UnsafeRows, never from printed text.

An UnsafeRow is a bit set of NULLs in whole words, one word for each field, then the bytes of strings, binaries and wide
decimals (the field's word is `offset << 32 | length`). Numbers are little-endian on every machine that Spark runs on.
Values are returned as `pyarrow.scalar(value, dtype)` takes them: dates and times as integers.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from decimal import Context
from typing import Any

import pyarrow as pa

_WORD = 8
LONG_DIGITS = 18  # a decimal of at most these digits is one word
_EXACT = Context(prec=38)


class UnreadableValue(ValueError):
    """A value of a type that sundog does not read, or a string that is not UTF-8."""


def decode_row(row: bytes, dtypes: Sequence[pa.DataType | None]) -> tuple[Any, ...]:
    """The fields of an UnsafeRow. A field whose type is None, which sundog does not read, must be NULL; else
    UnreadableValue is raised."""
    bitset = (len(dtypes) + 63) // 64 * _WORD
    values = []
    for index, dtype in enumerate(dtypes):
        is_null = row[index // 8] >> (index % 8) & 1
        values.append(None if is_null else _value(row, bitset + index * _WORD, dtype))
    return tuple(values)


def _value(row: bytes, at: int, dtype: pa.DataType | None) -> Any:
    word = row[at : at + _WORD]
    if dtype is None:
        raise UnreadableValue("a type that sundog does not read")
    if pa.types.is_boolean(dtype):
        return word[0] != 0
    if pa.types.is_float64(dtype):
        return struct.unpack("<d", word)[0]
    if pa.types.is_float32(dtype):
        return struct.unpack("<f", word[:4])[0]
    if pa.types.is_decimal(dtype) and dtype.precision <= LONG_DIGITS:
        return _EXACT.scaleb(int.from_bytes(word, "little", signed=True), -dtype.scale)
    if pa.types.is_decimal(dtype):
        return _EXACT.scaleb(int.from_bytes(_bytes(row, word), "big", signed=True), -dtype.scale)
    if pa.types.is_binary(dtype):
        return _bytes(row, word)
    if pa.types.is_string(dtype):
        try:
            return _bytes(row, word).decode("utf-8")
        except UnicodeDecodeError as problem:
            raise UnreadableValue(f"a string that is no UTF-8 ({problem.reason})") from problem
    width = dtype.bit_width // 8  # integers, dates, times and intervals
    return int.from_bytes(word[:width], "little", signed=True)


def _bytes(row: bytes, word: bytes) -> bytes:
    length, offset = struct.unpack("<ii", word)
    return row[offset : offset + length]
