"""The order in which the conjuncts of a WHERE are evaluated, and subexpressions that are computed once."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sundog.expr.errors import SparkQueryError
from sundog.expr.evaluation.sharing import evaluated_early, shared_in_tests
from sundog.expr.evaluation.where import in_spark_order, where_mask
from sundog.expr.nodes import And, Arith, ArithOp, Case, Column, Compare, CompareOp, Expr, IsNull, Literal, Not

LONG = pa.int64()
N, X = Column("n", LONG), Column("x", LONG)
SOME_N, SOME_X = Not(IsNull(N)), Not(IsNull(X))


def above(expr: Expr, value: int) -> Expr:
    return Compare(CompareOp.GT, expr, Literal(value, LONG))


QUOTIENT = Arith(ArithOp.INT_DIV, Literal(10, LONG), X, LONG)
DIVIDES, BIG = above(QUOTIENT, 0), above(N, 10)


def test_a_check_for_null_comes_just_before_the_first_test_that_reads_the_column() -> None:
    assert in_spark_order(And(And(SOME_N, SOME_X), And(DIVIDES, BIG))) == [SOME_X, DIVIDES, SOME_N, BIG]
    assert in_spark_order(And(And(SOME_N, SOME_X), BIG)) == [SOME_N, BIG, SOME_X]


def test_a_check_of_an_expression_comes_last_and_its_columns_are_checked_before_the_tests() -> None:
    check = Not(IsNull(QUOTIENT))
    assert in_spark_order(And(check, And(BIG, above(X, 1)))) == [BIG, SOME_X, above(X, 1), check]


def test_a_row_that_failed_a_test_is_not_tested_again() -> None:
    batch = pa.record_batch({"n": pa.array([None, 20, 5], LONG), "x": pa.array([0, 1, 0], LONG)})
    assert where_mask(And(SOME_N, And(BIG, DIVIDES)), batch).tolist() == [False, True, False]
    with pytest.raises(SparkQueryError, match="DIVIDE_BY_ZERO"):
        where_mask(And(SOME_N, And(DIVIDES, BIG)), batch)


def test_what_two_columns_share_behind_a_guard_is_evaluated_early() -> None:
    one, two = And(BIG, DIVIDES), And(BIG, above(QUOTIENT, 1))
    assert evaluated_early([(one, False), (two, False)])
    assert not evaluated_early([(one, False)])
    assert not evaluated_early([(one, False), (DIVIDES, False)])  # somebody asks for it in every row
    assert not evaluated_early([(one, False), (one, False)])  # shared with its guard
    branch = Case(((BIG, QUOTIENT),), None, LONG)
    assert not evaluated_early([(branch, False), (above(branch, 1), False)])
    both = Case(((BIG, QUOTIENT),), Arith(ArithOp.MUL, N, QUOTIENT, LONG), LONG)
    assert evaluated_early([(both, False), (And(BIG, DIVIDES), False)])


def test_a_where_computes_what_is_shared_before_the_first_test_that_holds_it() -> None:
    guarded = And(BIG, DIVIDES)
    assert shared_in_tests([Not(guarded), above(QUOTIENT, 1)])
    assert not shared_in_tests([above(QUOTIENT, 1), Not(guarded)])


def test_deep_sums_are_compared_without_recursion() -> None:
    deep: Expr = QUOTIENT
    for _ in range(5000):
        deep = Arith(ArithOp.ADD, deep, N, LONG)
    assert not evaluated_early([(deep, False), (DIVIDES, False)])
