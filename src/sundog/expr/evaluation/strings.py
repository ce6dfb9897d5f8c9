"""String functions like Spark's: on UTF-8 bytes, counting code points, full case mapping, LIKE across line breaks.

Arrow's kernels are used wherever they agree with Spark, which for valid UTF-8 is nearly everywhere. Spark also accepts
strings that are not valid UTF-8 (it never checks a file's strings) and reads them in its own way: a byte that cannot
start a character counts as one. Columns with such bytes, and case mapping beyond ASCII, are processed value by value,
each distinct value once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sundog.expr.buffers import string_parts
from sundog.expr.evaluation import case_mapping
from sundog.expr.evaluation.case_mapping import NEWEST_UNICODE


def is_ascii(array: pa.Array) -> bool:
    bounds, data = string_parts(array)
    return not len(data) or int(data[bounds[0] : bounds[-1]].max(initial=0)) < 0x80


def is_utf8(array: pa.Array) -> bool:
    """Whether the column is valid UTF-8, as Arrow's kernels assume."""
    if is_ascii(array):
        return True
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def length(array: pa.Array) -> pa.Array:
    """Code points of a string, bytes of a binary."""
    if pa.types.is_binary(array.type):
        return pc.binary_length(array)
    if is_utf8(array):
        return pc.utf8_length(array)
    return _each(array, lambda raw: len(_characters(raw)), pa.int32())


def upper(array: pa.Array, unicode: int = NEWEST_UNICODE) -> pa.Array:
    if is_ascii(array):
        return pc.ascii_upper(array)
    return _each(array, lambda raw: case_mapping.upper(raw.decode("utf-8", "replace"), unicode), pa.string())


def lower(array: pa.Array, unicode: int = NEWEST_UNICODE) -> pa.Array:
    if is_ascii(array):
        return pc.ascii_lower(array)
    return _each(array, lambda raw: case_mapping.lower(raw.decode("utf-8", "replace"), unicode), pa.string())


def concat(parts: list[pa.Array | pa.Scalar]) -> pa.Array:
    """NULL if any part is."""
    separator = pa.scalar(b"" if pa.types.is_binary(parts[0].type) else "", parts[0].type)
    return pc.binary_join_element_wise(*parts, separator, null_handling="emit_null")


def substring(array: pa.Array, position: int, count: int) -> pa.Array:
    """1-based; 0 means 1; a negative position counts from the end, and may be before the start."""
    if position > 0:
        start, stop = position - 1, position - 1 + count
    elif position < 0:
        start, stop = position, position + count
    else:
        start, stop = 0, count
    if count <= 0 or (position >= 0 and stop <= 0):
        return _emptied(array)
    end = None if start < 0 <= stop else stop
    if pa.types.is_binary(array.type):
        return pc.binary_slice(array, start, end)
    if is_utf8(array):
        return pc.utf8_slice_codeunits(array, start, end)
    return _each(array, lambda raw: b"".join(_characters(raw)[start:end]), pa.binary()).view(pa.string())


def like(array: pa.Array, pattern: str, escape: str) -> pa.Array:
    """`%` is any characters, line breaks too; `_` is one code point."""
    if is_utf8(array):
        return pc.match_substring_regex(array, _re2(pattern, escape))
    python = re.compile(_regex(pattern, escape, re.escape), re.DOTALL)
    return _each(array, lambda raw: python.fullmatch(raw.decode("utf-8", "replace")) is not None, pa.bool_())


def valid_like_pattern(pattern: str, escape: str) -> bool:
    """Whether Spark accepts it: no escape character at the end, or before anything but `%`, `_` and itself."""
    places = iter(range(len(pattern)))
    for place in places:
        if pattern[place] == escape:
            if pattern[place + 1 : place + 2] not in ("%", "_", escape):
                return False
            next(places)
    return True


@lru_cache(maxsize=256)
def _re2(pattern: str, escape: str) -> str:
    return r"(?s)\A" + _regex(pattern, escape, _quote_for_re2) + r"\z"


def _regex(pattern: str, escape: str, quote: Callable[[str], str]) -> str:
    result = []
    chars = iter(pattern)
    for char in chars:
        if char == escape:
            result.append(quote(next(chars)))
        else:
            result.append({"%": ".*", "_": "."}.get(char) or quote(char))
    return "".join(result)


def _quote_for_re2(char: str) -> str:
    return char if char.isalnum() or ord(char) >= 0x80 else f"\\x{{{ord(char):x}}}"


_LEADING = np.ones(256, np.int64)
_LEADING[0xC2:0xE0] = 2
_LEADING[0xE0:0xF0] = 3
_LEADING[0xF0:0xF5] = 4
_WIDTH = _LEADING.tolist()


def _characters(raw: bytes) -> list[bytes]:
    """Spark's characters: of the length that the first byte gives, one byte if it gives none."""
    result = []
    place = 0
    while place < len(raw):
        result.append(raw[place : place + _WIDTH[raw[place]]])
        place += _WIDTH[raw[place]]
    return result


def _each(array: pa.Array, function: Callable[[bytes], Any], dtype: pa.DataType) -> pa.Array:
    encoded = array.view(pa.binary()).dictionary_encode()
    results = [function(raw) for raw in encoded.dictionary.to_pylist()]
    return pa.array(results, dtype).take(encoded.indices)


def _emptied(array: pa.Array) -> pa.Array:
    empty = pa.scalar(b"" if pa.types.is_binary(array.type) else "", array.type)
    return pc.if_else(pc.is_null(array), pa.scalar(None, array.type), empty)
