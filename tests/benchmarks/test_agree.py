"""Tests of comparing two answers to one query: they are equal exactly if SQL says so."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal

import pyarrow as pa
import pytest

from sundog.benchmarks.agree import difference
from sundog.benchmarks.cases.model import Check, SameCount, SameKeys, SameOrder, SameRows, SameTop


def table(**columns: object) -> pa.Table:
    return pa.table(columns)


BASE = table(k=[1, 2, 3, 4], v=[1.0, 2.0, None, float("nan")])


def test_equal_tables_agree_whatever_the_names() -> None:
    assert difference(BASE, BASE.rename_columns(["a", "b"]), SameRows(ordered=True)) is None


def test_order_matters_only_if_asked() -> None:
    turned = BASE.take([3, 1, 0, 2])
    assert difference(BASE, turned, SameRows()) is None
    assert "column 0" in str(difference(BASE, turned, SameRows(ordered=True)))


def test_rounding_is_forgiven_and_more_is_not() -> None:
    assert difference(table(v=[1.0]), table(v=[1.0 + 1e-12]), SameRows()) is None
    assert difference(table(v=[1.0]), table(v=[1.0 + 1e-6]), SameRows()) is not None
    assert difference(table(v=[1]), table(v=[2]), SameRows()) is not None


def test_rounding_does_not_reorder_rows() -> None:
    left = table(v=[0.1, 0.1], k=[1, 2])
    right = table(v=[0.1, 0.1 - 1e-17], k=[2, 1])
    assert difference(left, right, SameRows()) is None


@pytest.mark.parametrize("check", [SameRows(), SameRows(ordered=True), SameCount(), SameTop((0,)), SameKeys((0,))])
def test_missing_rows_and_columns_are_found(check: Check) -> None:
    assert difference(BASE, BASE.slice(1), check) == "3 rows, not 4"
    assert difference(BASE, BASE.select(["k"]), check) == "1 columns, not 2"


def test_null_is_neither_zero_nor_nan() -> None:
    assert difference(table(v=[None, 1.0]), table(v=[0.0, 1.0]), SameRows(ordered=True)) is not None
    assert difference(table(v=[None, 1.0]), table(v=[float("nan"), 1.0]), SameRows(ordered=True)) is not None
    assert difference(table(v=pa.array([None], pa.int64())), table(v=[0]), SameRows()) is not None
    assert difference(table(v=[float("nan")]), table(v=[float("nan")]), SameRows()) is None


def test_engines_carry_the_same_values_in_different_types() -> None:
    instant = datetime(2013, 7, 1, 12, tzinfo=timezone.utc)
    spark = pa.table(
        {
            "sum": pa.array([5], pa.int64()),
            "text": pa.array(["a"]),
            "at": pa.array([instant], pa.timestamp("us", "UTC")),
            "day": pa.array([date(2013, 7, 1)]),
            "price": pa.array([Decimal("1.50")], pa.decimal128(15, 2)),
            "small": pa.array([1], pa.int16()),
        }
    )
    other = pa.table(
        {
            "sum": pa.array([Decimal(5)], pa.decimal128(38, 0)),
            "text": pa.array(["a"], pa.string_view()),
            "at": pa.array([instant.replace(tzinfo=None)], pa.timestamp("ns")),
            "day": pa.array([date(2013, 7, 1)], pa.date64()),
            "price": pa.array([1.5]),
            "small": pa.array([1], pa.uint32()),
        }
    )
    assert difference(spark, other, SameRows()) is None
    wrong = other.set_column(0, "sum", pa.array([Decimal(6)], pa.decimal128(38, 0)))
    assert "[6] instead of [5]" in str(difference(spark, wrong, SameRows()))


def test_ties_at_the_limit_may_differ_and_nothing_else() -> None:
    left = table(k=[9, 8, 7, 7], v=["a", "b", "c", "d"])
    assert difference(left, table(k=[9, 8, 7, 7], v=["a", "b", "x", "c"]), SameTop((0,))) is None
    assert difference(left, table(k=[9, 8, 7, 7], v=["a", "x", "c", "d"]), SameTop((0,))) is not None
    assert difference(left, table(k=[9, 8, 7, 6], v=["a", "b", "c", "d"]), SameTop((0,))) is not None


def test_ties_on_a_null_key() -> None:
    left = table(k=[2, None, None], v=[1, 2, 3])
    assert difference(left, table(k=[2, None, None], v=[1, 5, 6]), SameTop((0,))) is None
    assert difference(left, table(k=[2, None, None], v=[7, 2, 3]), SameTop((0,))) is not None


def test_after_an_offset_only_keys_count() -> None:
    left = table(v=["a", "b"], k=[3, 3])
    assert difference(left, table(v=["x", "y"], k=[3, 3]), SameKeys((1,))) is None
    assert difference(left, table(v=["a", "b"], k=[3, 2]), SameKeys((1,))) is not None


def test_any_rows_will_do_without_an_order() -> None:
    assert difference(table(v=[1]), table(v=[2]), SameCount()) is None


def test_an_order_with_ties_asks_for_the_keys_in_order_and_for_every_row() -> None:
    expected = table(k=[1, 1, 2], v=["a", "b", "c"])
    assert difference(expected, table(k=[1, 1, 2], v=["b", "a", "c"]), SameOrder((0,))) is None
    assert difference(expected, table(k=[1, 2, 1], v=["a", "c", "b"]), SameOrder((0,))) is not None
    assert difference(expected, table(k=[1, 1, 2], v=["a", "b", "d"]), SameOrder((0,))) is not None


def test_a_limit_that_cut_nothing_off_leaves_no_choice_of_rows() -> None:
    expected, other = table(k=[1, 2], v=["a", "b"]), table(k=[1, 2], v=["a", "c"])
    assert difference(expected, other, SameTop((0,), limit=2)) is None
    assert difference(expected, other, SameTop((0,), limit=3)) is not None
    assert difference(expected, other, SameTop((), limit=2)) is None
    assert difference(expected, other, SameTop((), limit=3)) is not None


def decimals(scale: int, *values: str) -> pa.Table:
    return table(v=pa.array([Decimal(value) for value in values], pa.decimal128(20, scale)))


def test_decimals_of_one_scale_are_exact() -> None:
    large = "123456789012345.67"
    wide = table(v=pa.array([Decimal(large)], pa.decimal128(38, 2)))
    assert difference(decimals(2, large), wide, SameRows()) is None
    for exact in (True, False):
        other = decimals(2, "123456789012345.68")
        assert difference(decimals(2, large), other, SameRows(), exact_decimals=exact) is not None
    assert difference(decimals(6, "0.333333"), decimals(6, "0.333334"), SameRows()) is not None


def test_another_engine_may_cut_off_what_spark_rounds() -> None:
    def differs(*values: str) -> bool:
        spark, other = (decimals(6, value) for value in values)
        return difference(spark, other, SameRows(), exact_decimals=False) is not None

    assert not differs("0.666667", "0.666666")
    assert differs("0.666667", "0.666660")


def test_a_quotient_may_be_off_by_the_last_digit_of_the_coarser_engine() -> None:
    assert difference(decimals(6, "0.333333"), table(v=[1 / 3]), SameRows()) is None
    assert difference(decimals(6, "0.333333"), decimals(4, "0.3334"), SameRows()) is None
    assert difference(decimals(6, "0.333333"), table(v=[0.33334]), SameRows()) is not None
    assert difference(decimals(2, "1.00"), table(v=[1.1]), SameRows()) is not None
