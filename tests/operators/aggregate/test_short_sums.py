"""Sums and averages of decimals that are held in one word a value: those of Python's decimals, whatever their form."""

from __future__ import annotations

from dataclasses import replace
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import reduce
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sundog.columns.arrow import from_arrow, to_arrow
from sundog.expr.calls import AggregateCall, NamedExpr
from sundog.expr.errors import SparkQueryError
from sundog.expr.nodes import Arith, ArithOp, Column, Compare, CompareOp, Expr, Literal
from sundog.functions.grouped import Groups
from sundog.functions.sums.functions import grouped_average, grouped_sum
from sundog.functions.sums.rules import average_type, sum_type
from tests.operators.aggregate.runner import Setup, run_phases

EXACT = Context(prec=200)


def values_of(dtype: pa.DataType) -> st.SearchStrategy[Any]:
    most = 10**dtype.precision - 1
    whole = st.one_of(
        st.integers(max(-most, -9), min(most, 200)), st.sampled_from([most, -most]), st.integers(-most, most)
    )
    return st.one_of(st.none(), whole.map(lambda number: Decimal(number).scaleb(-dtype.scale, EXACT)))


def total(values: list[Decimal]) -> Decimal:
    return reduce(EXACT.add, values, Decimal(0))


def average(values: list[Decimal], dtype: pa.DataType) -> Decimal:
    exact = EXACT.divide(total(values), Decimal(len(values)))
    return exact.quantize(Decimal(1).scaleb(-dtype.scale), rounding=ROUND_HALF_UP, context=EXACT)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_sums_in_every_form(data: st.DataObject) -> None:
    """Columns of one and of two words, sum and average of one column, of a product, beside others and with FILTER."""
    precision = data.draw(st.integers(1, 18))
    dtype = pa.decimal128(precision, data.draw(st.integers(0, min(precision, 4))))
    groups, rows = data.draw(st.sampled_from([1, 2, 5, 40])), data.draw(st.integers(1, 120))
    keys = data.draw(st.lists(st.integers(1, groups), min_size=rows, max_size=rows))
    values = data.draw(st.lists(values_of(dtype), min_size=rows, max_size=rows))
    column = Column("x", dtype)
    product_type = pa.decimal128(min(2 * precision + 1, 38), 2 * dtype.scale)
    product: Expr = Arith(ArithOp.MUL, column, column, product_type)
    passing = Compare(CompareOp.GT, column, Literal(Decimal(0), dtype))
    calls = [
        AggregateCall("sum", "sum", (column,), sum_type(dtype)),
        AggregateCall("avg", "avg", (column,), average_type(dtype)),
        AggregateCall("square", "sum", (product,), sum_type(product_type)),
        AggregateCall("above", "sum", (column,), sum_type(dtype), passing),
        AggregateCall("tried", "try_sum", (column,), sum_type(dtype)),
        AggregateCall("least", "min", (column,), dtype),
    ]
    if precision > 15:  # the sum of a single group might leave its type for some order of rows, and is left to Spark
        calls = [call for call in calls if call.name != "square"]
    chosen = data.draw(st.lists(st.sampled_from(calls), min_size=1, unique_by=lambda call: call.name))
    wide = pa.array(values, dtype)
    cut = data.draw(st.integers(0, rows))
    tasks = []
    for start, stop in ((0, cut), (cut, rows)):
        part = wide.slice(start, stop - start)
        if data.draw(st.booleans()):
            part = part.cast(pa.decimal64(dtype.precision, dtype.scale))
        tasks.append([pa.record_batch({"k": pa.array(keys[start:stop], pa.int32()), "x": part})])
    setup = Setup(
        batch_rows=data.draw(st.sampled_from([7, 1 << 18])), probe_rows=data.draw(st.sampled_from([4, 1 << 16]))
    )
    by_key = data.draw(st.booleans())
    table, _ = run_phases([NamedExpr("k", Column("k", pa.int32()))] if by_key else [], chosen, tasks, setup)
    expected = {}
    for key in sorted(set(keys)) if by_key else [None]:
        own = [value for at, value in zip(keys, values, strict=True) if key in (None, at) and value is not None]
        positive = [value for value in own if value > 0]
        expected[key] = {
            "sum": total(own) if own else None,
            "avg": average(own, average_type(dtype)) if own else None,
            "square": total([EXACT.multiply(value, value) for value in own]) if own else None,
            "above": total(positive) if positive else None,
            "tried": total(own) if own else None,
            "least": min(own, default=None),
        }
    for row in table.to_pylist():
        wanted = expected.pop(row.pop("k", None))
        assert row == {call.name: wanted[call.name] for call in chosen}
    assert not expected


TOO_MUCH = [9 * 10**17, 9 * 10**17, 2 * 10**17, -(2 * 10**17)]


@pytest.mark.parametrize("many_groups", [False, True])
@pytest.mark.parametrize("ansi", [False, True])
@pytest.mark.parametrize("is_short", [False, True])
def test_a_sum_that_leaves_its_type_on_the_way_is_lost(is_short: bool, ansi: bool, many_groups: bool) -> None:
    """Also if it comes back: with a type of 18 digits, which no query has for these values, in one word."""
    dtype = pa.decimal128(18, 0)
    column = pa.array([Decimal(value) for value in TOO_MUCH] * 4, dtype)
    column = column.cast(pa.decimal64(18, 0)) if is_short else column
    call = AggregateCall("s", "sum", (Column("x", dtype),), dtype, ansi=ansi)
    count = 16 if many_groups else 1
    groups = Groups((pa.array(range(16)).to_numpy() // 4 * 4 % count).astype("int32"), count)
    accumulator = grouped_sum(call, forgiving=False)
    accumulator.update([from_arrow(column)], None, groups)
    if ansi:
        with pytest.raises(SparkQueryError, match="OVERFLOW"):
            accumulator.evaluate()
    else:
        assert set(to_arrow(accumulator.evaluate()).to_pylist()[:count:4]) == {None}


@pytest.mark.parametrize("batches", [1, 3])
def test_sums_beyond_a_word(batches: int) -> None:
    """The largest short decimals: a group's sum needs a second word after ten rows, a batch's after one more."""
    dtype = pa.decimal128(18, 0)
    for sign in (1, -1):
        column = pa.array([Decimal(sign * (10**18 - 1))] * 2000, dtype).cast(pa.decimal64(18, 0))
        call = AggregateCall("s", "sum", (Column("x", dtype),), pa.decimal128(28, 0))
        summed = grouped_sum(call, forgiving=False)
        mean = grouped_average(replace(call, function="avg", dtype=pa.decimal128(22, 4)), forgiving=False)
        groups = Groups(pa.array([0, 1] * 1000, pa.int32()).to_numpy(), 2)
        for _ in range(batches):
            for accumulator in (summed, mean):
                accumulator.update([from_arrow(column)], None, groups)
        assert to_arrow(summed.evaluate()).to_pylist() == [Decimal(sign * (10**18 - 1) * 1000 * batches)] * 2
        assert to_arrow(mean.evaluate()).to_pylist() == [Decimal(sign * (10**18 - 1)).quantize(Decimal("0.0001"))] * 2


def test_wide_rows_between_short_ones_are_held_against_the_type() -> None:
    dtype = pa.decimal128(18, 0)
    call = AggregateCall("s", "sum", (Column("x", dtype),), dtype, ansi=False)
    accumulator = grouped_sum(call, forgiving=False)
    groups = Groups(pa.array([0], pa.int32()).to_numpy(), 1)
    for value, is_short in ((6 * 10**17, True), (3 * 10**17, False), (2 * 10**17, True), (-9 * 10**17, True)):
        column = pa.array([Decimal(value)], dtype)
        accumulator.update([from_arrow(column.cast(pa.decimal64(18, 0)) if is_short else column)], None, groups)
    assert to_arrow(accumulator.evaluate()).to_pylist() == [None]
