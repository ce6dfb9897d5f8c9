"""Sums of a column and constants, computed from one sum and one count, must be those that the rows give."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sundog.expr.calls import AggregateCall, NamedExpr
from sundog.expr.evaluate import evaluate
from sundog.expr.nodes import Arith, ArithOp, Cast, Column, Compare, CompareOp, Expr, Literal
from sundog.front.shapes.shared_sums import share_sums
from tests.operators.aggregate.runner import run_phases

INT, LONG = pa.int32(), pa.int64()
SMALL = Column("x", pa.int16())
KEY = NamedExpr("k", Column("k", LONG))
POSITIVE = Compare(CompareOp.GT, Column("k", LONG), Literal(0, LONG))


def plus(constant: int, column: Column = SMALL, dtype: pa.DataType = INT, op: ArithOp = ArithOp.ADD) -> Expr:
    return Arith(op, Cast(column, dtype), Literal(constant, dtype), dtype)


def total(name: str, arg: Expr, **others: object) -> AggregateCall:
    return AggregateCall(name, "sum", (arg,), LONG, **others)  # type: ignore[arg-type]


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, 2), st.one_of(st.none(), st.integers(-(2**15), 2**15 - 1))), max_size=40),
    constants=st.lists(st.integers(-(2**20), 2**20), min_size=1, max_size=6, unique=True),
    filters=st.booleans(),
    plain=st.booleans(),
    grouped=st.booleans(),
)
def test_the_sums_are_those_of_the_rows(rows, constants, filters, plain, grouped) -> None:
    calls = [total(f"s{number}#0", plus(constant)) for number, constant in enumerate(constants)]
    if filters:
        calls += [replace(call, name=f"f{call.name}", filter=POSITIVE) for call in calls]
    if plain:
        calls.insert(1, total("plain#0", SMALL))
    left, meaning = share_sums(calls, "t")
    keys = [KEY] if grouped else []
    batch = pa.record_batch(
        {"k": pa.array([k for k, _ in rows], LONG), "x": pa.array([x for _, x in rows], pa.int16())}
    )
    expected, _ = run_phases(keys, calls, [[batch]])
    found, _ = run_phases(keys, left, [[batch]])
    columns = found.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], found.schema)]
    for call in calls:
        value = evaluate(meaning.get(call.name, Column(call.name, LONG)), columns[0])
        assert value.to_pylist() == expected.column(call.name).to_pylist()
    if len(constants) > 1:
        assert len(left) <= 4


def test_ninety_sums_are_one_sum_and_one_count() -> None:
    calls = [total("w#0", SMALL), *(total(f"s{number}#0", plus(number)) for number in range(1, 90))]
    left, meaning = share_sums(calls, "t")
    assert [call.function for call in left] == ["sum", "count"]
    assert len(meaning) == 89


@pytest.mark.parametrize(
    "arg",
    [
        plus(1, Column("x", INT), LONG),  # 2^32 rows of them could overflow
        plus(2**21),
        plus(1, dtype=pa.int16()),  # 32767 + 1 raises
        plus(3, op=ArithOp.MUL),
        Arith(ArithOp.SUB, Literal(1, INT), Cast(SMALL, INT), INT),
        Arith(ArithOp.ADD, Cast(Cast(SMALL, pa.int8()), INT), Literal(1, INT), INT),
        Arith(ArithOp.ADD, Cast(SMALL, INT), Literal(None, INT), INT),
        Arith(ArithOp.ADD, Cast(SMALL, pa.float64()), Literal(1.0, pa.float64()), pa.float64()),
    ],
)
def test_what_might_overflow_or_is_no_such_sum_stays(arg: Expr) -> None:
    calls = [total("a#0", arg), total("b#0", arg)]
    assert share_sums(calls, "t") == (calls, {})


@pytest.mark.parametrize("change", [{"distinct": True}, {"function": "try_sum"}, {"function": "avg"}])
def test_other_functions_stay(change: dict[str, object]) -> None:
    calls = [replace(total(f"{number}#0", plus(number)), **change) for number in range(3)]  # type: ignore[arg-type]
    assert share_sums(calls, "t") == (calls, {})


def test_a_single_sum_stays() -> None:
    calls = [
        total("a#0", plus(1)),
        total("b#0", plus(1), filter=POSITIVE),
        total("c#0", plus(1, Column("y", pa.int8()))),
    ]
    assert share_sums(calls, "t") == (calls, {})
