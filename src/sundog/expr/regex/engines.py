"""A parsed pattern over columns: by RE2 in Arrow, which releases the GIL, or by Python's `re`, on distinct values.

Python's `re` is used for patterns that RE2 cannot express (Java's `$` before a last line break, as RE2 has no
lookahead), on values with a line break. It is also used for columns of invalid UTF-8, whose invalid bytes Java reads as
U+FFFD.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sundog.expr.evaluation.strings import is_utf8
from sundog.expr.regex.pattern import (
    LINE_BREAKS,
    Alternatives,
    Chars,
    End,
    Group,
    Part,
    Pattern,
    Repeat,
    Sequence,
    Start,
)


@dataclass(frozen=True)
class _Words:
    """How an engine writes a character and the two anchors."""

    char: str
    start: str
    end: str


_RE2 = _Words(r"\x{{{:x}}}", r"\A", r"\z")  # its \z is right for texts without a line break
_PYTHON = _Words(r"\U{:08x}", r"\A", r"(?:\Z|(?=\r\n\Z)|(?<!\r)(?=\n\Z)|(?=[\r\x85\u2028\u2029]\Z))")


def re2_text(pattern: Pattern, named: int | None = None) -> str:
    """The pattern for RE2. `named`: this group alone is captured, under the name `g`; 0 is the whole match."""
    text = _write(pattern.body, _RE2, named)
    return f"(?P<g>{text})" if named == 0 else text


def python_pattern(pattern: Pattern) -> re.Pattern[str]:
    return re.compile(_write(pattern.body, _PYTHON, None))


def compiles(pattern: Pattern) -> bool:
    """Whether RE2 accepts it: with many repetitions it may be too large."""
    try:
        pc.match_substring_regex(pa.array([""]), re2_text(pattern))
    except pa.ArrowInvalid:
        return False
    return True


def for_each_value(
    array: pa.Array,
    pattern: Pattern,
    by_re2: Callable[[pa.Array], pa.Array],
    by_python: Callable[[str], Any],
) -> pa.Array:
    """The result of one of the engines for each string; NULL for NULL."""
    if not is_utf8(array):
        encoded = array.view(pa.binary()).dictionary_encode()
        texts = [raw.decode("utf-8", "replace") for raw in encoded.dictionary.to_pylist()]
        dtype = by_re2(pa.array([], pa.string())).type
        return pa.array([by_python(text) for text in texts], dtype).take(encoded.indices)
    encoded = array.dictionary_encode()
    values = encoded.dictionary
    broken = pc.match_substring_regex(values, _LINE_BREAK) if _has_end(pattern) else pa.array([], pa.bool_())
    if not broken.true_count:
        return by_re2(values).take(encoded.indices)
    results = by_re2(pc.if_else(broken, pa.scalar("", pa.string()), values))
    places = pa.array(np.flatnonzero(broken.to_numpy(zero_copy_only=False)))
    corrected = pa.array([by_python(text) for text in values.take(places).to_pylist()], results.type)
    return pc.replace_with_mask(results, broken, corrected).take(encoded.indices)


def _has_end(pattern: Pattern) -> bool:
    return any(isinstance(part, End) for part in pattern.parts())


def _write(part: Part, words: _Words, named: int | None) -> str:
    match part:
        case Chars(ranges):
            return _chars(ranges, words)
        case Start():
            return words.start
        case End():
            return words.end
        case Sequence(parts):
            return "".join(_write(each, words, named) for each in parts)
        case Alternatives(options):
            return "(?:" + "|".join(_write(each, words, named) for each in options) + ")"
        case Group(number, body):
            return f"({_group_sign(number, named)}{_write(body, words, named)})"
        case Repeat(body, least, most, lazy):
            return _write(body, words, named) + _counts(least, most) + ("?" if lazy else "")


def _group_sign(number: int, named: int | None) -> str:
    if named is None:
        return "" if number else "?:"
    return "?P<g>" if number and number == named else "?:"


def _chars(ranges: tuple[tuple[int, int], ...], words: _Words) -> str:
    ends = (sorted({low, high}) for low, high in ranges)
    return "[" + "".join("-".join(words.char.format(code) for code in pair) for pair in ends) + "]"


def _counts(least: int, most: int | None) -> str:
    known = {(0, 1): "?", (0, None): "*", (1, None): "+"}
    if (least, most) in known:
        return known[least, most]
    return f"{{{least}}}" if most == least else f"{{{least},{'' if most is None else most}}}"


_LINE_BREAK = _chars(LINE_BREAKS, _RE2)
