"""Supported and refused patterns, and the results of their functions; `tests/spark/test_regex.py` compares with
Java."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sundog.expr.regex.functions import checked_pattern, checked_replacement, extract, has_match, replace_all
from sundog.expr.regex.pattern import Unsupported, complement, merged


@pytest.mark.parametrize(
    "pattern",
    [
        "(?i)a", "(?<n>a)", "(?=a)", "(?<!a)", r"\1", r"\b", r"\B", r"\p{L}", r"\x41", r"\u0041", r"\Qa\E", r"\A",
        r"\z", r"\h", "a++", "a*+", "a?+", "a**", "a{2}{3}", "(a)*", "(?:a|b)+", "(a?)?", "(a*){2}", "a{,3}",
        "a{3,2}", "a{101}", "a{", "{", "a}", "*a", "^*", "$?", "[a[b]]", "[a&&b]", "[]a]", "[a", "(a", "a)", "[b-a]",
        r"[\d-z]", r"[^\d\D]", "😀", "[\ue000-\uffff]", "\\", "a" * 1001, "(" * 400 + "a" + ")" * 400,
        "(" * 3 + "a{90}" + "){90}" * 3,
    ],
)  # fmt: skip
def test_other_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(Unsupported):
        checked_pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "replacement"),
    [
        ("a*", ""), ("", ""), ("$", "x"), ("^|a", ""), ("a|", ""), ("a", "$1"), ("a", "$"), ("a", "\\"),
        ("a", "${n}"), ("(a){2}", "$1"), ("(a)" * 10, "$10"),
    ],
)  # fmt: skip
def test_other_replacements_are_refused(pattern: str, replacement: str) -> None:
    with pytest.raises(Unsupported):
        checked_replacement(pattern, replacement)


def test_a_group_is_as_long_a_number_as_there_are_groups() -> None:
    assert checked_replacement("(a)(b)", "$12").parts == (1, "2")
    assert checked_replacement("(a)(b)", r"$2\$1\\x").parts == (2, "$", "1", "\\", "x")


def test_the_end_is_before_a_last_line_break_too() -> None:
    texts = pa.array(["ax", "ax\n", "ax\r\n", "ax\n\n", "ax\u2028", None])
    assert replace_all(texts, "x$", "!").to_pylist() == ["a!", "a!\n", "a!\r\n", "ax\n\n", "a!\u2028", None]
    assert has_match(texts, "^ax$").to_pylist() == [True, True, True, False, True, None]
    assert has_match(pa.array(["\r\n"]), "\\r$").to_pylist() == [False]
    assert extract(texts, "(a)x$", 1).to_pylist() == ["a", "a", "a", "", "a", None]


def test_classes_are_those_of_ascii() -> None:
    assert replace_all(pa.array(["1٣\x0b\u3000é_"]), r"[\d\s\w]", "").to_pylist() == ["٣\u3000é"]


def test_bytes_that_are_no_utf8_are_read_as_java_does() -> None:
    column = pa.array([b"a\xffb", None, "é/x".encode()], pa.binary()).view(pa.string())
    assert replace_all(column, "b|/x", "").to_pylist() == ["a\ufffd", None, "é"]


def test_a_group_that_took_no_part_is_empty() -> None:
    assert replace_all(pa.array(["b"]), "(a)?b", "<$1>").to_pylist() == ["<>"]
    assert extract(pa.array(["b", "ab", ""]), "(a)?b", 1).to_pylist() == ["", "a", ""]


def test_ranges() -> None:
    assert merged([(5, 9), (1, 2), (3, 4), (7, 8)]) == ((1, 9),)
    assert complement([(0, 3), (10, 0x10FFFF)]) == ((4, 9),)
