"""Substring search over a column finds a needle exactly where Python finds it in the value, whatever bytes adjoin the
row."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sundog.expr.evaluation.matching import matches
from sundog.expr.nodes import StringTest

FEW_BYTES = st.lists(st.sampled_from([0, 1, 97, 98, 255]), max_size=12).map(bytes)
LONG_BYTES = st.tuples(st.integers(0, 200), st.sampled_from([b"ab", b"aab", b"ba", b""]), st.integers(0, 80)).map(
    lambda parts: b"a" * parts[0] + parts[1] + b"b" * parts[2]
)


def contains(array: pa.Array, needle: str | bytes) -> list[bool | None]:
    found: list[bool | None] = matches(StringTest.CONTAINS, array, needle).to_pylist()
    return found


@settings(deadline=None)
@given(
    values=st.lists(st.one_of(FEW_BYTES, LONG_BYTES, st.none()), max_size=60),
    needle=st.one_of(FEW_BYTES, LONG_BYTES),
    skipped=st.integers(0, 5),
)
def test_what_python_finds(values: list[bytes | None], needle: bytes, skipped: int) -> None:
    array = pa.array(values, pa.binary()).slice(skipped)
    assert contains(array, needle) == [None if value is None else needle in value for value in values[skipped:]]


@settings(deadline=None)
@given(st.lists(st.text(alphabet="aé😀b", max_size=20), max_size=40), st.text(alphabet="aé😀b", max_size=3))
def test_text(values: list[str], needle: str) -> None:
    assert contains(pa.array(values, pa.string()), needle) == [needle in value for value in values]


def test_a_match_does_not_reach_into_the_next_row() -> None:
    assert contains(pa.array(["go", "ogle google", "goo", "", "gle"]), "google") == [False, True, False, False, False]


def test_bytes_behind_null_are_not_looked_at() -> None:
    raw = pa.array(["needle", "needle"])
    _, bounds, data = raw.buffers()
    array = pa.Array.from_buffers(pa.string(), 2, [pa.py_buffer(np.array([2], np.uint8)), bounds, data])
    assert contains(array, "needle") == [None, True]


@pytest.mark.parametrize("dtype", [pa.string(), pa.binary()])
def test_a_column_without_rows_or_bytes(dtype: pa.DataType) -> None:
    assert contains(pa.array([], dtype), "x") == []
    assert contains(pa.array(["", None, ""], dtype), "x") == [False, None, False]
