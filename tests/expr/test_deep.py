"""Expressions far deeper than Python's stack: compared, hashed, pickled, printed, pruned by and evaluated."""

from __future__ import annotations

import pickle
import sys
from functools import reduce

import numpy as np
import pyarrow as pa
import pytest

from sundog.expr.evaluate import evaluate
from sundog.expr.nodes import (
    And,
    Arith,
    ArithOp,
    Case,
    Coalesce,
    Column,
    Compare,
    CompareOp,
    EvalMode,
    Expr,
    Literal,
    Not,
    Or,
    StringCall,
    StringFunction,
    columns_of,
    conjuncts,
    substitute,
)
from sundog.expr.printing import render
from sundog.expr.raising import can_raise
from sundog.tree import height, transform_down

LEVELS = 1500
LONG = pa.int64()
V = Column("v", LONG)
BATCH = pa.record_batch({"v": pa.array([1, None, -3, 4], LONG), "s": pa.array(["a", None, "", "b"])})


def sum_of_terms(count: int = LEVELS) -> Expr:
    return reduce(lambda left, right: Arith(ArithOp.ADD, left, right, LONG, EvalMode.ANSI), [V] * count)


def right_deep_sum() -> Expr:
    return reduce(lambda right, left: Arith(ArithOp.ADD, left, right, LONG, EvalMode.ANSI), [V] * LEVELS)


def is_one() -> Expr:
    return Compare(CompareOp.EQ, V, Literal(1, LONG))


DEEP: dict[str, tuple[Expr, list[object]]] = {
    "sum": (sum_of_terms(), [LEVELS, None, -3 * LEVELS, 4 * LEVELS]),
    "right_deep_sum": (right_deep_sum(), [LEVELS, None, -3 * LEVELS, 4 * LEVELS]),
    "and": (reduce(And, [is_one() for _ in range(LEVELS)]), [True, None, False, False]),
    "or": (reduce(Or, [is_one() for _ in range(LEVELS)]), [True, None, False, False]),
    "alternating": (
        reduce(lambda e, n: (And if n % 2 else Or)(e, is_one()), range(LEVELS), is_one()),
        [True, None, False, False],
    ),
    "not": (reduce(lambda e, _: Not(e), range(LEVELS), is_one()), [True, None, False, False]),
    "nested_case": (
        reduce(lambda e, n: Case(((is_one(), Literal(n, LONG)),), e, LONG), range(LEVELS), V),
        [LEVELS - 1, None, -3, 4],
    ),
    "coalesce": (reduce(lambda e, _: Coalesce((e, V), LONG), range(LEVELS), V), [1, None, -3, 4]),
    "concat": (
        reduce(
            lambda e, _: StringCall(StringFunction.CONCAT, (e, Literal("", pa.string())), pa.string()),
            range(LEVELS),
            Column("s", pa.string()),
        ),
        ["a", None, "", "b"],
    ),
}


@pytest.mark.parametrize("name", DEEP)
def test_a_deep_expression_is_evaluated(name: str) -> None:
    expr, expected = DEEP[name]
    assert height(expr) > sys.getrecursionlimit()
    assert evaluate(expr, BATCH).to_pylist() == expected


@pytest.mark.parametrize("name", DEEP)
def test_a_deep_expression_is_compared_and_pickled(name: str) -> None:
    expr, _ = DEEP[name]
    again = pickle.loads(pickle.dumps(expr))
    assert again == expr
    assert hash(again) == hash(expr)
    assert again != substitute(expr, {"v": Column("w", LONG), "s": Column("t", pa.string())})
    assert transform_down(expr, lambda node: node) is expr
    assert columns_of(again) <= {"v", "s"}


@pytest.mark.parametrize("name", DEEP)
def test_a_deep_expression_is_printed_without_what_is_deepest(name: str) -> None:
    expr, _ = DEEP[name]
    text = render(expr)
    assert "…" in text
    assert len(text) < 10_000
    assert can_raise(expr) == ("sum" in name)


def test_ranges_of_deep_sums_are_known() -> None:
    """A thousand constants of an int never leave a long; that many columns of type long may."""
    small = Literal(7, LONG)
    total = reduce(lambda left, right: Arith(ArithOp.ADD, left, right, LONG, EvalMode.ANSI), [small] * LEVELS)
    assert not can_raise(total)
    assert can_raise(sum_of_terms())


def test_a_wide_case_is_evaluated_branch_by_branch() -> None:
    branches = tuple((Compare(CompareOp.EQ, V, Literal(n, LONG)), Literal(n * 2, LONG)) for n in range(1000))
    batch = pa.record_batch({"v": pa.array(np.arange(990, 1003))})
    values = evaluate(Case(branches, None, LONG), batch).to_pylist()
    assert values == [n * 2 if n < 1000 else None for n in range(990, 1003)]


def test_conjuncts_of_a_long_chain() -> None:
    parts: list[Expr] = [Compare(CompareOp.EQ, V, Literal(n, LONG)) for n in range(LEVELS)]
    assert conjuncts(reduce(And, parts)) == parts
    assert conjuncts(reduce(lambda right, left: And(left, right), reversed(parts))) == parts


def test_equality_tells_zeros_apart_and_nan_is_itself() -> None:
    zero, minus, nan = (Literal(value, pa.float64()) for value in (0.0, -0.0, float("nan")))
    assert zero != minus
    assert nan == Literal(-float("nan"), pa.float64())
    assert hash(nan) == hash(Literal(-float("nan"), pa.float64()))
    assert Literal(1, LONG) != Column("v", LONG)
