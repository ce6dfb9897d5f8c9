"""Row filters of a scan: which rows pass, in which order the filters run, and when one is no longer applied."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from sundog.columns.key_sets import key_set
from sundog.expr.dynamic_filters.key_set import KeyFilter
from sundog.expr.nodes import Arith, ArithOp, Column, Compare, CompareOp, EvalMode, Expr, Literal, conjunction
from sundog.expr.raising import can_raise
from sundog.operators.scan.row_tests import RowTests
from sundog.plan.costs import DRIVER, Costs

COSTS = replace(DRIVER, key_filter_probe_rows=8, max_key_filter_share=0.5)
FEW, MANY = KeyFilter("a", key_set(pa.array([1]), DRIVER)), KeyFilter("b", key_set(pa.array([0, 1, 2]), DRIVER))
ROWS = pa.record_batch({"a": pa.array([0, 1, 2, 3]), "b": pa.array([3, 2, 1, 0]), "s": pa.array(["x", "y", "x", "x"])})
A, S = Column("a", pa.int64()), Column("s", pa.string())


def row_tests(*filters: KeyFilter, predicate: Expr | None = None, costs: Costs = COSTS) -> RowTests:
    return RowTests(predicate, filters, ROWS.schema, costs)


def made(tests: RowTests, all_match: bool = False) -> dict[str, list[bool]]:
    return {
        ",".join(test.columns): test.passing(ROWS.select(test.columns)).tolist() for test in tests.of_run(all_match)
    }


def test_a_row_passes_a_filter_if_it_has_one_of_its_keys() -> None:
    assert made(row_tests(FEW, MANY)) == {"a": [False, True, False, False], "b": [False, True, True, True]}


def test_the_test_that_drops_most_comes_first() -> None:
    tests = row_tests(MANY, FEW)
    assert list(made(tests)) == ["b", "a"]  # nothing is known yet
    assert list(made(tests)) == ["a", "b"]


def test_few_keys_of_a_wide_range_are_expected_to_drop_most() -> None:
    sparse = KeyFilter("a", key_set(pa.array([1, 1000]), DRIVER))
    assert [test.columns for test in row_tests(MANY, sparse).of_run(all_match=False)] == [("a",), ("b",)]


def test_numbers_come_before_strings_unless_these_drop_far_more() -> None:
    predicate = conjunction(
        [
            Compare(CompareOp.EQ, S, Literal("none", pa.string())),
            Compare(CompareOp.GE, A, Literal(0, pa.int64())),
        ]
    )
    assert predicate is not None
    tests = row_tests(predicate=predicate)
    assert list(made(tests)) == ["a", "s"]
    assert list(made(tests)) == ["s", "a"]
    assert list(made(tests, all_match=True)) == []


def test_a_where_that_can_raise_comes_first() -> None:
    one = Literal(1, pa.int64())
    raising = Compare(CompareOp.EQ, Arith(ArithOp.ADD, A, one, pa.int64(), EvalMode.ANSI), one)
    assert can_raise(raising)
    tests = row_tests(FEW, predicate=raising)
    first, second = tests.of_run(all_match=False)
    assert (first.is_of_join, second.is_of_join) == (False, True)
    for _ in range(3):
        second.passing(ROWS.select(["a"]))
    assert [test.is_of_join for test in tests.of_run(all_match=False)] == [False, True]


def test_a_filter_that_drops_too_little_is_given_up_once_enough_rows_were_tested() -> None:
    tests = row_tests(FEW, MANY)
    made(tests)
    assert list(made(tests)) == ["a", "b"]  # too early to judge
    assert list(made(tests)) == ["a"]  # three of four rows pass the other
    patient = row_tests(MANY, costs=replace(COSTS, max_key_filter_share=0.75))
    for _ in range(3):
        assert list(made(patient)) == ["b"]


def test_a_filter_whose_keys_are_unknown_is_none() -> None:
    assert row_tests(KeyFilter("a")).of_run(all_match=False) == []
