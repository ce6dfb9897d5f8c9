"""Strings as Spark sees them: bytes, code points, full case mapping, LIKE across lines."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sundog.expr.evaluate import evaluate
from sundog.expr.evaluation import case_mapping
from sundog.expr.evaluation.strings import valid_like_pattern
from sundog.expr.nodes import Column, Expr, Like, Literal, StringCall, StringFunction, StringMatch, StringTest

STRING = pa.string()
TEXT, BYTES = Column("s", STRING), Column("s", pa.binary())


def run(expr: Expr, *texts: Any, dtype: pa.DataType = STRING) -> list[Any]:
    raw = [text.encode() if isinstance(text, str) else text for text in texts]
    return evaluate(expr, pa.RecordBatch.from_pydict({"s": pa.array(raw, pa.binary()).view(dtype)})).to_pylist()


def call(function: StringFunction, *args: Expr, dtype: pa.DataType = STRING) -> StringCall:
    return StringCall(function, args, dtype)


def number(value: int) -> Literal:
    return Literal(value, pa.int32())


def naive_like(text: str, pattern: str) -> bool:
    """`%` and `_` by recursion, no escapes."""
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(naive_like(text[start:], pattern[1:]) for start in range(len(text) + 1))
    return bool(text) and pattern[0] in ("_", text[0]) and naive_like(text[1:], pattern[1:])


@given(st.lists(st.text("ab%_.\\\n\x00é😀[(^$", max_size=6), max_size=5), st.text("ab%_.\n\x00é😀[(^$", max_size=5))
def test_like_without_escapes(texts: list[str], pattern: str) -> None:
    assert run(Like(TEXT, pattern, "\\"), *texts) == [naive_like(text, pattern) for text in texts]


def test_like_escapes_its_own_characters() -> None:
    assert run(Like(TEXT, r"100\%", "\\"), "100%", "1000", r"100\%") == [True, False, False]
    assert run(Like(TEXT, "a#_c##", "#"), "a_c#", "abc#") == [True, False]
    assert run(Like(TEXT, "a%c"), "a\nc", None, "ab") == [True, None, False]


@pytest.mark.parametrize(
    ("pattern", "valid"),
    [("a%", True), ("a\\%", True), ("a\\", False), ("a\\b", False), ("\\\\", True), ("\\\\\\", False)],
)
def test_patterns_that_spark_refuses(pattern: str, valid: bool) -> None:
    assert valid_like_pattern(pattern, "\\") is valid


def test_length_counts_code_points_and_bytes() -> None:
    assert run(call(StringFunction.LENGTH, TEXT, dtype=pa.int32()), "", "é", "e\u0301", "😀a", None) == [
        0,
        1,
        2,
        2,
        None,
    ]
    assert run(call(StringFunction.LENGTH, BYTES, dtype=pa.int32()), "é", b"\xff", dtype=pa.binary()) == [2, 1]


def test_bytes_that_are_not_utf8_count_as_spark_counts_them() -> None:
    length = call(StringFunction.LENGTH, TEXT, dtype=pa.int32())
    assert run(length, b"\xff\xa9a", b"\xc3", b"\xf0\x9fab", "é") == [3, 1, 1, 1]
    first = StringCall(StringFunction.SUBSTRING, (TEXT, number(1), number(1)), pa.string())
    batch = pa.RecordBatch.from_pydict({"s": pa.array([b"\xffab", "éx".encode()], pa.binary()).view(pa.string())})
    assert evaluate(first, batch).view(pa.binary()).to_pylist() == [b"\xff", "é".encode()]
    assert run(Like(TEXT, "_a"), b"\xffa", "éa") == [True, True]


@given(st.lists(st.text("abé😀", max_size=6), max_size=4), st.integers(-8, 8), st.integers(-2, 8))
def test_substring(texts: list[str], position: int, count: int) -> None:
    expected = []
    for text in texts:
        start = position - 1 if position > 0 else len(text) + position if position < 0 else 0
        expected.append(text[max(start, 0) : max(start + count, 0)])
    assert run(call(StringFunction.SUBSTRING, TEXT, number(position), number(count)), *texts) == expected
    raw = [text.encode("utf-16-le") for text in texts]
    sliced = []
    for piece in raw:
        start = position - 1 if position > 0 else len(piece) + position if position < 0 else 0
        sliced.append(piece[max(start, 0) : max(start + count, 0)])
    binary = StringCall(StringFunction.SUBSTRING, (BYTES, number(position), number(count)), pa.binary())
    assert run(binary, *raw, dtype=pa.binary()) == sliced


def test_case_mapping_is_full() -> None:
    assert run(call(StringFunction.UPPER, TEXT), "straße", "ŉ", "abc", None) == ["STRASSE", "ʼN", "ABC", None]
    assert run(call(StringFunction.LOWER, TEXT), "ΑΣ", "ΑΣΑ", "İ", "ABC") == ["ας", "ασα", "i̇", "abc"]


def test_letters_that_the_icu_of_older_sparks_does_not_know() -> None:
    """Of Unicode 17, which ICU follows since Spark 4.2."""
    assert run(call(StringFunction.UPPER, TEXT), "\ua7d3\U00016ebb") == ["\ua7d2\U00016ea0"]
    assert run(call(StringFunction.UPPER_OF_UNICODE_16, TEXT), "é\ua7d3\U00016ebb") == ["É\ua7d3\U00016ebb"]
    assert run(call(StringFunction.LOWER, TEXT), "\ua7ce", "AΣ\u1acf", "\u0295Σ") == ["\ua7cf", "aς\u1acf", "\u0295σ"]
    older = ["\ua7ce", "aς\u1acf", "\u0295ς"]
    assert run(call(StringFunction.LOWER_OF_UNICODE_16, TEXT), "\ua7ce", "AΣ\u1acf", "\u0295Σ") == older
    assert case_mapping.lower("A\u03a3\u1acfA", 16) == "a\u03c2\u1acfa"
    assert case_mapping.lower("A\u03a3\u1acfA", 17) == "a\u03c3\u1acfa"


def test_letters_that_this_python_may_not_know() -> None:
    assert case_mapping.upper("\u2c5f\U00010597\U000105bc") == "\u2c2f\U00010570\U00010595"  # Unicode 14: Python 3.11
    assert case_mapping.lower("A\u03a3\U00010570") == "a\u03c3\U00010597"
    assert case_mapping.upper("\u0264\U00010d70") == "\ua7cb\U00010d50"
    assert case_mapping.lower("\ua7cb\U00010d50") == "\u0264\U00010d70"
    assert case_mapping.lower("A\u03a3\U00010d50") == "a\u03c3\U00010d70"  # followed by a letter, so not final
    assert case_mapping.lower("A\u03a3\u0897") == "a\u03c2\u0897"
    assert case_mapping.lower("A\u03a3\u0897İ") == "a\u03c3\u0897i̇"
    assert case_mapping.lower("\u0295\u03a3") == "\u0295\u03c3"  # no longer a cased letter


def test_concat_is_null_if_any_part_is() -> None:
    assert run(call(StringFunction.CONCAT, TEXT, Literal("x", pa.string()), TEXT), "a", None) == ["axa", None]
    binary = StringCall(StringFunction.CONCAT, (BYTES, Literal(b"\xff", pa.binary())), pa.binary())
    assert run(binary, b"\x00", dtype=pa.binary()) == [b"\x00\xff"]


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        (StringTest.STARTS_WITH, [True, False, None, True]),
        (StringTest.ENDS_WITH, [True, False, None, False]),
        (StringTest.CONTAINS, [True, True, None, True]),
    ],
)
def test_tests_are_by_bytes(test: StringTest, expected: list[Any]) -> None:
    assert run(StringMatch(test, TEXT, "é"), "é", "aéb", None, "é.") == expected
