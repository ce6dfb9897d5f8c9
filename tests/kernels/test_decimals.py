"""128-bit decimal loops against Python's integers."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sundog.kernels import decimals, wide_integers

LARGEST = 10**38 - 1
LIMIT = 10**38
NUMBERS = st.one_of(
    st.integers(-LARGEST, LARGEST),
    st.integers(0, 126).flatmap(lambda bits: st.integers(-(2**bits) - 1, 2**bits + 1)).filter(lambda n: abs(n) < LIMIT),
    st.integers(-(2**40), 2**40),
    st.integers(0, 37).map(lambda digits: 10**digits),
)
PLACES = st.integers(0, 38)
ALL_VALID = np.zeros(0, np.uint8)


def words(*numbers: int) -> Any:
    raw = b"".join(number.to_bytes(16, "little", signed=True) for number in numbers)
    return np.frombuffer(raw, np.int64).reshape(-1, 2)


def unsigned(number: int) -> Any:
    return np.array([number & (2**64 - 1), number >> 64], np.uint64)


def parts(places: int) -> Any:
    return np.array([10 ** min(places, 19), 10 ** max(0, places - 19)], np.uint64)


def half(places: int) -> Any:
    return unsigned(10**places // 2)


def results(rows: int) -> tuple[Any, Any]:
    return np.zeros((rows, 2), np.int64), np.zeros(rows, np.uint8)


def numbers_of(out: Any, undone: Any) -> list[int | None]:
    found = [int.from_bytes(row.tobytes(), "little", signed=True) for row in out]
    return [None if left else number for number, left in zip(found, undone, strict=True)]


def half_up(number: Fraction) -> int:
    """Away from zero in the middle."""
    whole, rest = divmod(abs(number), 1)
    return (whole + (2 * rest >= 1)) * (-1 if number < 0 else 1)


def fitting(number: int) -> int | None:
    return number if abs(number) < LIMIT else None


WORDS = st.one_of(st.integers(0, 2**64 - 1), st.integers(0, 64).map(lambda bits: (1 << bits) - (bits == 64)))


@given(WORDS, WORDS, WORDS, WORDS, st.integers(1, 2**128 - 1))
def test_a_quotient_of_four_words_by_two(w0: int, w1: int, w2: int, w3: int, divisor: int) -> None:
    number = w0 + (w1 << 64) + (w2 << 128) + (w3 << 192)
    number %= divisor << 128
    four = [np.uint64((number >> (64 * place)) & (2**64 - 1)) for place in range(4)]
    q0, q1, r0, r1 = wide_integers.divide(*four, *unsigned(divisor))
    assert (int(q0) + (int(q1) << 64), int(r0) + (int(r1) << 64)) == divmod(number, divisor)


@given(WORDS, WORDS, WORDS, WORDS, st.integers(1, 2**64 - 1))
def test_a_quotient_of_four_words_by_one(w0: int, w1: int, w2: int, w3: int, divisor: int) -> None:
    found = wide_integers.divide_by_word(*map(np.uint64, (w0, w1, w2, w3)), np.uint64(divisor))
    number = w0 + (w1 << 64) + (w2 << 128) + (w3 << 192)
    assert sum(int(word) << (64 * place) for place, word in enumerate(found)) == number // divisor


@given(st.lists(NUMBERS, min_size=1, max_size=5), PLACES)
@example([-(2**63), 2**63 - 1, 2**62, -(2**62)], 1)
def test_more_places(numbers: list[int], places: int) -> None:
    out, undone = results(len(numbers))
    decimals.widen(words(*numbers), ALL_VALID, unsigned(10**places), unsigned(LIMIT), out, undone)
    assert numbers_of(out, undone) == [fitting(number * 10**places) for number in numbers]


@given(st.lists(NUMBERS, min_size=1, max_size=5), st.integers(1, 38))
@example([10**38 - 1, 5 * 10**37, -5 * 10**37, 5 * 10**37 - 1], 38)
def test_fewer_places_round_half_away_from_zero(numbers: list[int], places: int) -> None:
    out, undone = results(len(numbers))
    decimals.narrow(words(*numbers), ALL_VALID, half(places), parts(places), unsigned(LIMIT), out, undone)
    assert numbers_of(out, undone) == [half_up(Fraction(number, 10**places)) for number in numbers]


@given(NUMBERS, NUMBERS, PLACES)
@example(-(2**63), 1, 0)
@example(2**31, 2**31, 0)
@example(-(2**62), 2, 0)
def test_products(one: int, other: int, cut: int) -> None:
    out, undone = results(1)
    decimals.multiply(words(one), 1, words(other), 0, ALL_VALID, half(cut), parts(cut), unsigned(LIMIT), out, undone)
    assert numbers_of(out, undone) == [fitting(half_up(Fraction(one * other, 10**cut)))]


@given(NUMBERS, NUMBERS, st.integers(0, 8), st.booleans(), st.booleans(), st.integers(0, 8))
@example(-(2**63), -(2**63), 0, True, False, 0)
@example(-(2**63), 2**63, 1, False, True, 0)
def test_sums_and_differences(one: int, other: int, places: int, is_left: bool, is_minus: bool, cut: int) -> None:
    a, b = (10**places, 1) if is_left else (1, 10**places)
    out, undone = results(1)
    decimals.add(
        words(one), 1, unsigned(a), words(other), 1, unsigned(b), is_minus, ALL_VALID, half(cut), parts(cut),
        unsigned(LIMIT), out, undone,
    )  # fmt: skip
    if max(abs(one * a), abs(other * b)) >= 2**126:
        assert undone.tolist() == [1]
    else:
        exact = one * a - other * b if is_minus else one * a + other * b
        assert numbers_of(out, undone) == [fitting(half_up(Fraction(exact, 10**cut)))]


@given(NUMBERS, NUMBERS.filter(bool), PLACES)
@example(-(2**63), -(2**63), 0)
@example(2**62 - 1, -(2**63), 0)
@example(5, 2, 0)
@example(-5, 2, 0)
def test_quotients_round_half_away_from_zero(one: int, other: int, places: int) -> None:
    out, undone = results(1)
    decimals.divide_columns(
        words(one), 1, unsigned(10**places), words(other), 1, ALL_VALID, unsigned(LIMIT), out, undone
    )
    assert numbers_of(out, undone) == [fitting(half_up(Fraction(one * 10**places, other)))]


@given(NUMBERS, NUMBERS.filter(bool), st.integers(0, 8), st.booleans())
@example(-(2**63), 10, 0, True)
@example(7, -(2**63), 0, True)
def test_remainders_have_the_sign_of_the_left(one: int, other: int, places: int, is_left: bool) -> None:
    a, b = (10**places, 1) if is_left else (1, 10**places)
    out, undone = results(1)
    decimals.remainder(
        words(one), 1, unsigned(a), words(other), 1, unsigned(b), ALL_VALID, unsigned(LIMIT), out, undone
    )
    if max(abs(one * a), abs(other * b)) >= 2**128:
        assert undone.tolist() == [1]
    else:
        rest = abs(one * a) % abs(other * b)
        assert numbers_of(out, undone) == [fitting(-rest if one < 0 else rest)]


@given(st.lists(NUMBERS, min_size=1, max_size=5), PLACES)
@example([2**54 + 2, 2**54 + 6, 2**60 + 2**7, 2**60 + 2**7 + 1, (2**53 + 1) * 2**60, (2**53 + 1) * 2**70], 0)
@example([0], 38)
def test_the_nearest_doubles(numbers: list[int], places: int) -> None:
    out = np.zeros(len(numbers))
    exact = 10.0**places if places <= 22 else 0.0
    decimals.to_doubles(words(*numbers), ALL_VALID, unsigned(10**places), exact, out)
    assert out.tolist() == [number / 10**places for number in numbers]  # Python divides integers correctly rounded


@pytest.mark.parametrize("step", [0, 1])
def test_rows_that_are_not_valid_are_skipped(step: int) -> None:
    out, undone = results(3)
    right = words(2) if step == 0 else words(2, 0, 5)
    valid = np.array([1, 0, 1], np.uint8)
    decimals.divide_columns(words(7, 1, -5), 1, unsigned(1), right, step, valid, unsigned(10), out, undone)
    assert numbers_of(out, undone) == [4, 0, -3 if step == 0 else -1]
