"""round() and casts of doubles to decimals: HALF_UP on the digits that Java prints, the shortest ones here."""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sundog.expr.errors import SparkQueryError
from sundog.expr.evaluate import evaluate
from sundog.expr.evaluation.casts import MAX_DIGITS_OF_DOUBLES, cast
from sundog.expr.floats import rounded_units
from sundog.expr.nodes import Column, EvalMode, Round
from sundog.support import Declined

WIDE = Context(prec=400)
NAN, INF = math.nan, math.inf
PRICES = st.builds(lambda cents, places: cents / 10**places, st.integers(-(10**12), 10**12), st.integers(0, 9))
RATIOS = st.builds(lambda a, b: a / b, st.integers(-(10**7), 10**7), st.integers(1, 10**5))
DOUBLES = st.one_of(PRICES, RATIOS, st.floats(allow_nan=False, allow_infinity=False))


def printed_units(value: float, places: int) -> int:
    return int(Decimal(repr(value)).scaleb(places, WIDE).quantize(Decimal(1), ROUND_HALF_UP, WIDE))


@given(st.lists(DOUBLES, min_size=1, max_size=8), st.integers(-6, 12))
@example([0.145, 1.005, -1.005, 2.675, 0.125, -0.0, 0.5, 5e-324, 8.8e12, 0.285], 2)
@example([2.5, -2.5, 0.5, 1.5, 4503599627370495.5], 0)
@example([25.0, 35.0, 24.999999999999996, -25.0], -1)
def test_units_are_those_of_the_printed_digits(values: list[float], places: int) -> None:
    units, decided = rounded_units(np.array(values), places)
    for value, unit, is_decided in zip(values, units.tolist(), decided.tolist(), strict=True):
        assert is_decided == (abs(value) < 2**53 and Decimal(math.ulp(value)) < Decimal(10) ** -(places + 1))
        if is_decided:
            assert unit == printed_units(value, places)


def test_every_tie_of_three_places_is_rounded_up() -> None:
    """As old Javas print them too: the digits of a tie are those of the one double next to it."""
    ties = np.arange(5, 10_000_000, 10) / 1000.0
    units, decided = rounded_units(ties, 2)
    assert decided.all()
    assert (units == np.arange(1, len(ties) + 1)).all()


def rounded(values: list[Any], dtype: pa.DataType, places: int, result: pa.DataType, mode: EvalMode) -> list[Any]:
    batch = pa.record_batch({"x": pa.array(values, dtype)})
    return evaluate(Round(Column("x", dtype), places, result, mode), batch).to_pylist()


def of_doubles(values: list[Any], places: int) -> list[Any]:
    return rounded(values, pa.float64(), places, pa.float64(), EvalMode.ANSI)


def test_rounded_doubles() -> None:
    assert of_doubles([0.145, -2.675, 1 / 3, None, 1e300, -INF], 2) == [0.15, -2.68, 0.33, None, 1e300, -INF]
    assert of_doubles([1250.0, -1249.9, 0.4], -2) == [1300.0, -1200.0, 0.0]
    assert math.isnan(of_doubles([NAN], 1)[0])
    assert math.copysign(1, of_doubles([-0.001], 2)[0]) == 1


def test_a_double_whose_digits_differ_between_javas_is_left_to_spark() -> None:
    with pytest.raises(Declined, match="more digits than every Java prints alike"):
        of_doubles([1.0, 9e12 + 0.125], 2)
    assert of_doubles([9e12, None], 2) == [9e12, None]


def test_rounded_integers() -> None:
    for mode in (EvalMode.ANSI, EvalMode.LEGACY):
        assert rounded([15, -15, 14, None], pa.int32(), -1, pa.int32(), mode) == [20, -20, 10, None]
        assert rounded([15, 2**31 - 1], pa.int32(), 2, pa.int32(), mode) == [15, 2**31 - 1]
        assert rounded([2**62, -5], pa.int64(), -25, pa.int64(), mode) == [0, 0]
    assert rounded([127], pa.int8(), -1, pa.int8(), EvalMode.LEGACY) == [-126]
    for dtype, value, places in ((pa.int8(), 127, -1), (pa.int64(), 2**63 - 1, -19)):
        with pytest.raises(SparkQueryError, match="ARITHMETIC_OVERFLOW"):
            rounded([value], dtype, places, dtype, EvalMode.ANSI)


def test_rounded_decimals() -> None:
    five = pa.decimal128(5, 2)
    values = [Decimal("9.95"), Decimal("-0.05"), Decimal("999.99"), None]
    assert rounded(values, five, 1, pa.decimal128(5, 1), EvalMode.ANSI) == [
        Decimal("10.0"), Decimal("-0.1"), Decimal("1000.0"), None,
    ]  # fmt: skip
    assert rounded(values, five, -3, pa.decimal128(4, 0), EvalMode.ANSI) == [0, 0, 1000, None]
    assert rounded(values, five, -37, pa.decimal128(38, 0), EvalMode.ANSI) == [0, 0, 0, None]


def test_a_rounded_decimal_without_a_digit_left_is_null() -> None:
    largest = Decimal("9" * 37 + ".9")
    assert rounded([largest], pa.decimal128(38, 1), 0, pa.decimal128(38, 0), EvalMode.ANSI) == [10**37]
    wide = pa.decimal128(38, 2)
    assert rounded([Decimal("9" * 36 + ".99")], wide, 1, pa.decimal128(36, 1), EvalMode.ANSI) == [None]


@given(st.lists(DOUBLES, min_size=1, max_size=8), st.integers(1, MAX_DIGITS_OF_DOUBLES), st.data())
def test_doubles_as_decimals(values: list[float], precision: int, data: st.DataObject) -> None:
    scale = data.draw(st.integers(0, precision))
    units = [printed_units(value, scale) for value in values]
    expected = [Decimal(unit).scaleb(-scale) if abs(unit) < 10**precision else None for unit in units]
    dtype = pa.decimal128(precision, scale)
    assert cast(pa.array(values), dtype, EvalMode.TRY, None).to_pylist() == expected
    if None in expected:
        with pytest.raises(SparkQueryError, match="NUMERIC_VALUE_OUT_OF_RANGE"):
            cast(pa.array(values), dtype, EvalMode.ANSI, None)


@pytest.mark.parametrize("mode", list(EvalMode))
def test_nan_and_infinities_as_decimals_are_null_in_every_mode(mode: EvalMode) -> None:
    for dtype in (pa.float32(), pa.float64()):
        values = pa.array([NAN, INF, -INF, None, 0.5], dtype)
        assert cast(values, pa.decimal128(3, 0), mode, None).to_pylist() == [None, None, None, None, 1]


def test_a_float_as_a_decimal_shows_its_double() -> None:
    assert cast(pa.array([0.1], pa.float32()), pa.decimal128(12, 10), EvalMode.ANSI, None).to_pylist() == [
        Decimal("0.1000000015")
    ]
