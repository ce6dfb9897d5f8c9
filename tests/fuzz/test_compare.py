"""Tests of the comparison of answers: differences that it must report, and freedoms that it must allow."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tests.fuzz.compare import Answer, difference
from tests.fuzz.queries import Check

NAN = float("nan")
TOTAL, MULTISET = Check(order="total"), Check()
BY_FIRST = Check(order="keys", keys=(0,), cut=True)


def answer(*rows: tuple[object, ...]) -> Answer:
    return Answer("struct<…>", rows)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (answer((1,)), answer((1.0,))),
        (answer((0.0,)), answer((-0.0,))),
        (answer((True,)), answer((1,))),
        (answer((Decimal("1.0"),)), answer((Decimal("1.00"),))),
        (answer((b"a",)), answer(("a",))),
        (answer((None,)), answer((NAN,))),
        (answer((0.1 + 0.2,)), answer((0.3,))),
        (answer((1,), (1,)), answer((1,))),
        (Answer("int", ((1,),)), Answer("bigint", ((1,),))),
        (Answer(error="ArithmeticException DIVIDE_BY_ZERO"), answer((1,))),
        (answer((1,)), Answer(error="ArithmeticException DIVIDE_BY_ZERO")),
        (Answer(error="SparkException A"), Answer(error="SparkException B")),
        (Answer(value=3), Answer(value=4)),
    ],
)
def test_a_difference_is_seen(ours: Answer, theirs: Answer) -> None:
    assert difference(ours, theirs, TOTAL) is not None
    assert difference(ours, theirs, MULTISET) is not None


def test_nan_equals_nan_and_a_multiset_has_no_order() -> None:
    assert difference(answer((NAN, 1), (2.0, None)), answer((2.0, None), (NAN, 1)), MULTISET) is None


def test_a_small_decimal_is_the_same_in_engineering_notation() -> None:
    assert difference(answer((Decimal("-8E-10"),)), answer((Decimal("-800E-12"),)), TOTAL) is None
    assert difference(answer((Decimal("-8E-10"),)), answer((Decimal("-8E-9"),)), TOTAL) is not None


def test_a_total_order_is_an_order() -> None:
    assert difference(answer((1,), (2,)), answer((2,), (1,)), TOTAL) is not None


def test_a_multiset_counts_how_often_a_row_comes() -> None:
    assert difference(answer((1,), (1,), (2,)), answer((1,), (2,), (2,)), MULTISET) is not None


def test_only_marked_outputs_are_compared_within_a_tolerance() -> None:
    ours, theirs = answer((1, 0.1 + 0.2)), answer((1, 0.3))
    assert difference(ours, theirs, Check(inexact=(1,))) is None
    assert difference(ours, theirs, Check(inexact=(0,))) is not None
    assert difference(answer((1, 0.31)), theirs, Check(inexact=(1,))) is not None


def test_rows_of_equal_keys_may_change_places_and_others_not() -> None:
    theirs = answer((1, "a"), (1, "b"), (2, "c"), (3, "d"))
    assert difference(answer((1, "b"), (1, "a"), (2, "c"), (3, "d")), theirs, BY_FIRST) is None
    assert difference(answer((2, "c"), (1, "a"), (1, "b"), (3, "d")), theirs, BY_FIRST) is not None
    assert difference(answer((1, "a"), (1, "x"), (2, "c"), (3, "d")), theirs, BY_FIRST, lambda: theirs) is not None


def test_at_the_cut_a_tied_row_is_free_only_if_the_query_has_it() -> None:
    theirs = answer((1, "a"), (2, "b"))
    whole = answer((1, "a"), (2, "b"), (2, "c"))
    assert difference(answer((1, "a"), (2, "c")), theirs, BY_FIRST, lambda: whole) is None
    assert difference(answer((1, "a"), (2, "d")), theirs, BY_FIRST, lambda: whole) is not None


def test_a_tied_row_that_comes_twice_is_seen() -> None:
    theirs, whole = answer((2, "b"), (2, "c")), answer((2, "b"), (2, "c"), (2, "d"))
    assert difference(answer((2, "d"), (2, "d")), theirs, BY_FIRST, lambda: whole) is not None


def test_zeros_tie_in_a_sort_key_and_keep_their_sign() -> None:
    theirs = answer((-0.0, 1), (0.0, 2), (3.0, 0))
    assert difference(answer((0.0, 2), (-0.0, 1), (3.0, 0)), theirs, BY_FIRST) is None
    assert difference(answer((0.0, 1), (-0.0, 2), (3.0, 0)), theirs, BY_FIRST, lambda: theirs) is not None
