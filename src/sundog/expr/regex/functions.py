"""`regexp_replace`, `regexp_extract` and `rlike` with a constant pattern, as java.util.regex computes them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from sundog.expr.regex.engines import compiles, for_each_value, python_pattern, re2_text
from sundog.expr.regex.pattern import Pattern, Unsupported, parse

MAX_REFERENCE = 9  # RE2 cannot name later groups in a replacement
_DIGITS = tuple("0123456789")


@lru_cache(maxsize=256)
def checked_pattern(text: str) -> Pattern:
    """The pattern; raises `Unsupported` unless it is known to mean the same as in Java."""
    pattern = parse(text)
    if not compiles(pattern):
        raise Unsupported("a pattern that is too large")
    return pattern


@dataclass(frozen=True)
class Replacement:
    """Text and group numbers, in order."""

    parts: tuple[str | int, ...]

    @property
    def re2(self) -> str:
        return "".join(f"\\{part}" if isinstance(part, int) else part.replace("\\", "\\\\") for part in self.parts)

    def expand(self, found: re.Match[str]) -> str:
        return "".join((found[part] or "") if isinstance(part, int) else part for part in self.parts)


@lru_cache(maxsize=256)
def checked_replacement(pattern_text: str, text: str) -> Replacement:
    """The replacement by the rules of Java's `Matcher.appendReplacement`; raises `Unsupported`, also for the pattern.

    `$12` is group 12 if there is one, else group 1 and a 2.
    """
    pattern = checked_pattern(pattern_text)
    if pattern.may_be_empty_anywhere:  # Java would also replace an empty match inside a surrogate pair
        raise Unsupported("a pattern that may match nothing")
    parts: list[str | int] = []
    at = 0
    while at < len(text):
        char = text[at]
        at += 1
        if char not in "\\$":
            parts.append(char)
        elif at == len(text):
            raise Unsupported(f"a replacement that ends with {char}")
        elif char == "\\":
            parts.append(text[at])
            at += 1
        else:
            number, at = _reference(text, at, pattern)
            parts.append(number)
    return Replacement(tuple(parts))


def _reference(text: str, at: int, pattern: Pattern) -> tuple[int, int]:
    """The number of the group after a `$`, and the position after it."""
    if text[at] not in _DIGITS:
        raise Unsupported(f"a replacement with ${text[at]}")
    number = int(text[at])
    at += 1
    while text[at : at + 1] in _DIGITS and number * 10 + int(text[at]) <= pattern.groups:
        number = number * 10 + int(text[at])
        at += 1
    check_group(number, pattern)
    if number > MAX_REFERENCE:
        raise Unsupported(f"a replacement with ${number}")
    return number, at


def check_group(number: int, pattern: Pattern) -> None:
    if not 0 <= number <= pattern.groups:
        raise Unsupported(f"group {number} of {pattern.groups}")
    if number in pattern.repeated:
        raise Unsupported(f"group {number}, which repeats")


def replace_all(array: pa.Array, pattern_text: str, replacement_text: str) -> pa.Array:
    """Every match replaced, from left to right; NULL for NULL."""
    pattern, replacement = checked_pattern(pattern_text), checked_replacement(pattern_text, replacement_text)
    compiled, text = python_pattern(pattern), re2_text(pattern)
    return for_each_value(
        array,
        pattern,
        lambda values: pc.replace_substring_regex(values, text, replacement.re2),
        lambda value: compiled.sub(replacement.expand, value),
    )


def extract(array: pa.Array, pattern_text: str, group: int) -> pa.Array:
    """The text of a group in the first match; the empty string if there is no match, or the group has none. NULL for
    NULL."""
    pattern = checked_pattern(pattern_text)
    compiled, text = python_pattern(pattern), re2_text(pattern, named=group)

    def by_python(value: str) -> str:
        found = compiled.search(value)
        return "" if found is None else found[group] or ""

    def by_re2(values: pa.Array) -> pa.Array:
        found = pc.struct_field(pc.extract_regex(values, text), "g")
        return pc.if_else(pc.is_valid(values), pc.fill_null(found, ""), pa.scalar(None, pa.string()))

    return for_each_value(array, pattern, by_re2, by_python)


def has_match(array: pa.Array, pattern_text: str) -> pa.Array:
    """Whether any part of the text matches; NULL for NULL."""
    pattern = checked_pattern(pattern_text)
    compiled, text = python_pattern(pattern), re2_text(pattern)
    return for_each_value(
        array,
        pattern,
        lambda values: pc.match_substring_regex(values, text),
        lambda value: compiled.search(value) is not None,
    )
