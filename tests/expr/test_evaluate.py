"""The evaluator against the row interpreter: random trees over random batches, errors, and expressions that must not be
evaluated for a row."""

from __future__ import annotations

import math
import pickle
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sundog.expr.errors import SparkQueryError
from sundog.expr.evaluate import evaluate, predicate_mask
from sundog.expr.evaluation.casts import MAX_DIGITS_OF_DOUBLES
from sundog.expr.nodes import (
    Abs,
    AddInterval,
    And,
    Arith,
    ArithOp,
    Case,
    Cast,
    Coalesce,
    Column,
    Compare,
    CompareOp,
    DatePart,
    DateTrunc,
    DecimalFromUnscaled,
    DecimalToUnscaled,
    EvalMode,
    Expr,
    In,
    IsNaN,
    IsNull,
    Literal,
    Negate,
    NormalizeFloat,
    Not,
    Or,
    Round,
    StringCall,
    StringFunction,
    columns_of,
)
from sundog.expr.raising import can_raise
from sundog.types import DAY_TIME_INTERVAL, TIMESTAMP_NTZ
from tests.oracle.batches import record_batches, values
from tests.oracle.row_interpreter import RowError, interpret

INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
DECIMALS = [pa.decimal128(5, 2), pa.decimal128(18, 0), pa.decimal128(38, 10)]
TYPES = [*INTEGERS, pa.float32(), pa.float64(), *DECIMALS, pa.string(), pa.bool_(), pa.date32(), TIMESTAMP_NTZ]
SCHEMA = pa.schema([(f"{dtype}#{number}", dtype) for dtype in TYPES for number in (1, 2)])
NOW_AND_THEN = st.sampled_from(list(EvalMode))


@cache
def columns(dtype: pa.DataType) -> st.SearchStrategy[Expr]:
    return st.sampled_from([Column(f"{dtype}#{number}", dtype) for number in (1, 2)])


@cache
def literals(dtype: pa.DataType) -> st.SearchStrategy[Expr]:
    return values(dtype).map(lambda value: Literal(pa.scalar(value, dtype).as_py(), dtype))


@cache  # hypothesis spends its time on making strategies, not on drawing from them
def exprs(dtype: pa.DataType, depth: int) -> st.SearchStrategy[Expr]:
    leaf = st.one_of(columns(dtype), literals(dtype))
    if depth == 0:
        return leaf
    same = st.deferred(lambda: exprs(dtype, depth - 1))
    condition = st.deferred(lambda: exprs(pa.bool_(), depth - 1))
    options = [
        leaf,
        st.builds(lambda c, a, b: Case(((c, a),), b, dtype), condition, same, st.one_of(st.none(), same)),
        st.builds(lambda a, b: Coalesce((a, b), dtype), same, same),
    ]
    if pa.types.is_boolean(dtype):
        options += [_predicates(depth)] * 3
    elif pa.types.is_integer(dtype) or pa.types.is_floating(dtype):
        options += [_arithmetic(dtype, same), _casts(dtype, depth)] * 2
    elif pa.types.is_decimal(dtype):
        options += [_decimal_arithmetic(dtype, depth), _casts(dtype, depth)]
    elif pa.types.is_string(dtype):
        options.append(_strings(same))
    if pa.types.is_date32(dtype) or dtype == TIMESTAMP_NTZ:
        units = ["year", "quarter", "month", "week"]
        units += [] if pa.types.is_date32(dtype) else ["day", "hour", "minute", "second", "millisecond", "microsecond"]
        options.append(st.builds(lambda u, c: DateTrunc(u, c, dtype), st.sampled_from(units), same))
    if dtype == pa.int32():
        options.append(_parts(depth))
    return st.one_of(options)


def _predicates(depth: int) -> st.SearchStrategy[Expr]:
    condition = st.deferred(lambda: exprs(pa.bool_(), depth - 1))

    def over(dtype: pa.DataType) -> st.SearchStrategy[Expr]:
        child = exprs(dtype, depth - 1)
        members = st.lists(st.one_of(st.none(), literals(dtype).map(lambda e: e.value)), min_size=1, max_size=4)  # type: ignore[attr-defined]
        return st.one_of(
            st.builds(Compare, st.sampled_from(list(CompareOp)), child, child),
            st.builds(lambda c, m: In(c, tuple(m)), child, members),
            st.builds(IsNull, child),
        )

    return st.one_of(
        st.sampled_from(TYPES).flatmap(over),
        st.builds(And, condition, condition),
        st.builds(Or, condition, condition),
        st.builds(Not, condition),
        st.sampled_from([pa.float32(), pa.float64()]).flatmap(lambda t: st.builds(IsNaN, exprs(t, depth - 1))),
    )


def _arithmetic(dtype: pa.DataType, same: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    ops = [ArithOp.ADD, ArithOp.SUB, ArithOp.MUL, ArithOp.MOD]
    if dtype == pa.int64():
        ops.append(ArithOp.INT_DIV)
    if pa.types.is_floating(dtype):
        ops.append(ArithOp.DIV)
    two_modes = st.sampled_from([EvalMode.ANSI, EvalMode.LEGACY])
    return st.one_of(
        st.builds(lambda o, a, b, m: Arith(o, a, b, dtype, m), st.sampled_from(ops), same, same, NOW_AND_THEN),
        st.builds(lambda c, m: Negate(c, dtype, m), same, two_modes),
        st.builds(lambda c, m: Abs(c, dtype, m), same, two_modes),
        *([_integer_rounding(dtype, same)] if pa.types.is_integer(dtype) else []),
    )


def _integer_rounding(dtype: pa.DataType, same: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    two_modes = st.sampled_from([EvalMode.ANSI, EvalMode.LEGACY])
    return st.builds(lambda c, p, m: Round(c, p, dtype, m), same, st.integers(-21, 3), two_modes)


def _decimal_arithmetic(dtype: pa.DataType, depth: int) -> st.SearchStrategy[Expr]:
    ops = st.sampled_from([ArithOp.ADD, ArithOp.SUB, ArithOp.MUL, ArithOp.DIV, ArithOp.MOD])
    operands = st.sampled_from(DECIMALS[:2]).flatmap(lambda t: exprs(t, depth - 1))
    arithmetic = st.builds(lambda o, a, b, m: Arith(o, a, b, dtype, m), ops, operands, operands, NOW_AND_THEN)
    if dtype != DECIMALS[1]:  # of any places
        return arithmetic
    rounded = st.sampled_from(DECIMALS).flatmap(lambda t: exprs(t, depth - 1))
    return st.one_of(arithmetic, st.builds(lambda c, p: Round(c, -p, dtype), rounded, st.integers(0, 17)))


def _casts(dtype: pa.DataType, depth: int) -> st.SearchStrategy[Expr]:
    sources = [*INTEGERS, pa.bool_()]
    if not pa.types.is_floating(dtype):
        sources += DECIMALS[:2]
    if not pa.types.is_decimal(dtype) or dtype.precision <= MAX_DIGITS_OF_DOUBLES:
        sources += [pa.float64()]
    if pa.types.is_decimal(dtype) and dtype.precision <= MAX_DIGITS_OF_DOUBLES:
        sources += [pa.float32()]
    return st.sampled_from(sources).flatmap(
        lambda source: st.builds(lambda c, m: Cast(c, dtype, m), exprs(source, depth - 1), NOW_AND_THEN)
    )


def _strings(same: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    number = st.integers(-6, 6).map(lambda n: Literal(n, pa.int32()))
    call = lambda function, *args: StringCall(function, args, pa.string())  # noqa: E731
    return st.one_of(
        st.builds(lambda a, b: call(StringFunction.CONCAT, a, b), same, same),
        st.builds(lambda a, p, n: call(StringFunction.SUBSTRING, a, p, n), same, number, number),
    )


def _parts(depth: int) -> st.SearchStrategy[Expr]:
    day = st.sampled_from(
        "year quarter month day dayofweek weekday dayofyear weekofyear yearofweek".split()  # noqa: SIM905
    )
    return st.one_of(
        st.builds(lambda p, c: DatePart(p, c, pa.int32()), day, exprs(pa.date32(), depth - 1)),
        st.builds(
            lambda p, c: DatePart(p, c, pa.int32()),
            st.sampled_from(["hour", "minute", "second"]),
            exprs(TIMESTAMP_NTZ, depth - 1),
        ),
        st.builds(lambda c: StringCall(StringFunction.LENGTH, (c,), pa.int32()), exprs(pa.string(), depth - 1)),
    )


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        if math.isnan(one) or math.isnan(other):
            return math.isnan(one) and math.isnan(other)
        return one == other and math.copysign(1, one) == math.copysign(1, other)
    return type(one) is type(other) and one == other


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_equals_the_row_interpreter(data: st.DataObject) -> None:
    expr = data.draw(st.sampled_from(TYPES).flatmap(lambda t: exprs(t, 3)))
    used = columns_of(expr) | {SCHEMA.names[0]}
    batch = data.draw(record_batches(pa.schema([field for field in SCHEMA if field.name in used]), max_size=8))
    expected, conditions = [], set()
    for row in batch.to_pylist():
        try:
            expected.append(interpret(expr, row))
        except RowError as error:
            conditions.add(error.args[0])
    if conditions:
        assert can_raise(expr)
        with pytest.raises(SparkQueryError) as raised:
            evaluate(expr, batch)
        assert raised.value.condition in conditions
        return
    result = evaluate(expr, batch)
    result.validate(full=True)
    assert isinstance(result, pa.Array)
    assert result.type == expr.dtype
    got = result.to_pylist()
    assert len(got) == len(expected)
    assert all(same(a, b) for a, b in zip(got, expected, strict=True)), (got, expected)


def batch_of(**arrays: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({name: pa.array(array) for name, array in arrays.items()})


LONG = pa.int64()
A, B = Column("a", LONG), Column("b", LONG)
ZERO, ONE = Literal(0, LONG), Literal(1, LONG)
DIVISION = Arith(ArithOp.INT_DIV, A, B, LONG)
WITH_ZEROS = batch_of(a=[6, 7, 8, None], b=[2, 0, 4, 0])


def test_a_column_comes_out_without_a_copy() -> None:
    batch = batch_of(a=[1, 2, 3])
    assert evaluate(A, batch).buffers()[1].address == batch.column("a").buffers()[1].address


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_a_constant_has_the_batchs_length(rows: int) -> None:
    batch = batch_of(a=pa.array([1] * rows, LONG))
    assert evaluate(Literal("x", pa.string()), batch).to_pylist() == ["x"] * rows
    assert evaluate(Literal(None, pa.string()), batch).to_pylist() == [None] * rows
    assert len(evaluate(Arith(ArithOp.ADD, ONE, ONE, LONG), batch)) == rows


def test_division_by_zero_raises_sparks_error() -> None:
    with pytest.raises(SparkQueryError) as raised:
        evaluate(DIVISION, WITH_ZEROS)
    assert raised.value.condition == "DIVIDE_BY_ZERO"
    again = pickle.loads(pickle.dumps(raised.value))
    assert (again.condition, again.parameters, again.kind) == (
        "DIVIDE_BY_ZERO",
        {"config": '"spark.sql.ansi.enabled"'},
        raised.value.kind,
    )


NONZERO = Not(Compare(CompareOp.EQ, B, ZERO))


@pytest.mark.parametrize(
    ("shielded", "expected"),
    [
        (Case(((NONZERO, DIVISION),), None, LONG), [3, None, 2, None]),
        (Case(((Not(NONZERO), ZERO),), DIVISION, LONG), [3, 0, 2, 0]),
        (Coalesce((Case(((Not(NONZERO), ONE),), None, LONG), DIVISION), LONG), [3, 1, 2, 1]),
        (And(NONZERO, Compare(CompareOp.GT, DIVISION, Literal(2, LONG))), [True, False, False, False]),
        (Or(Not(NONZERO), Compare(CompareOp.GT, DIVISION, Literal(2, LONG))), [True, True, False, True]),
        (Arith(ArithOp.ADD, Case(((NONZERO, ONE),), None, LONG), DIVISION, LONG), [4, None, 3, None]),
    ],
    ids=["case", "otherwise", "coalesce", "and", "or", "null left operand"],
)
def test_rows_that_spark_would_not_divide_are_not_divided(shielded: Expr, expected: list[Any]) -> None:
    assert evaluate(shielded, WITH_ZEROS).to_pylist() == expected


def test_a_null_on_the_left_does_not_shield_a_raising_and() -> None:
    unknown = Compare(CompareOp.GT, Column("n", LONG), ZERO)
    with pytest.raises(SparkQueryError):
        evaluate(And(unknown, Compare(CompareOp.GT, DIVISION, ZERO)), batch_of(a=[1], b=[0], n=pa.array([None], LONG)))


def test_null_divided_by_zero_is_null() -> None:
    assert evaluate(DIVISION, batch_of(a=pa.array([None], LONG), b=[0])).to_pylist() == [None]


@pytest.mark.parametrize("mode", [EvalMode.LEGACY, EvalMode.TRY])
def test_division_by_zero_is_null_without_ansi(mode: EvalMode) -> None:
    division = Arith(ArithOp.DIV, Column("a", pa.float64()), Literal(-0.0, pa.float64()), pa.float64(), mode)
    assert evaluate(division, batch_of(a=[1.0, math.nan])).to_pylist() == [None, None]


def test_predicate_mask_counts_null_as_false() -> None:
    mask = predicate_mask(Compare(CompareOp.GT, A, Literal(6, LONG)), WITH_ZEROS)
    assert isinstance(mask, np.ndarray)
    assert mask.dtype == np.bool_
    assert mask.tolist() == [False, True, True, False]


def test_in_with_nan_zeros_and_null() -> None:
    batch = batch_of(d=np.array([0.0, -0.0, math.nan, 1.0]))
    column = Column("d", pa.float64())
    assert evaluate(In(column, (-0.0, math.nan)), batch).to_pylist() == [True, True, True, False]
    assert evaluate(In(column, (1.0, None)), batch).to_pylist() == [None, None, None, True]


def test_normalized_floats_have_one_nan_and_one_zero() -> None:
    odd = np.array([0xFFF8000000000001, 0x8000000000000000, 0x7FF0000000000001], np.uint64).view(np.float64)
    result = evaluate(NormalizeFloat(Column("d", pa.float64()), pa.float64()), batch_of(d=odd))
    assert result.to_numpy().view(np.uint64).tolist() == [0x7FF8000000000000, 0, 0x7FF8000000000000]


def test_unscaled_decimals_and_back() -> None:
    dtype = pa.decimal128(10, 2)
    column = pa.array([-1, 0, 12345, None]).cast(pa.int64())
    batch = pa.RecordBatch.from_pydict({"l": column})
    decimals = DecimalFromUnscaled(Column("l", LONG), dtype)
    assert [None if v is None else str(v) for v in evaluate(decimals, batch).to_pylist()] == [
        "-0.01",
        "0.00",
        "123.45",
        None,
    ]
    assert evaluate(DecimalToUnscaled(decimals), batch).equals(column)


def test_an_interval_moves_a_timestamp() -> None:
    batch = pa.RecordBatch.from_pydict({"t": pa.array([0, None], pa.int64()).view(TIMESTAMP_NTZ)})
    shift = AddInterval(Column("t", TIMESTAMP_NTZ), Literal(-1_500_000, DAY_TIME_INTERVAL), TIMESTAMP_NTZ)
    assert evaluate(shift, batch).view(pa.int64()).to_pylist() == [-1_500_000, None]


YEAR = DatePart("year", Column("d", pa.date32()), pa.int32())


def product(one: pa.DataType, result: pa.DataType) -> Expr:
    return Arith(ArithOp.MUL, Column("p", one), Column("q", one), result)


@pytest.mark.parametrize(
    ("expr", "raises"),
    [
        (Arith(ArithOp.ADD, A, ONE, LONG), True),
        (Arith(ArithOp.ADD, A, ONE, LONG, EvalMode.LEGACY), False),
        (Arith(ArithOp.ADD, Cast(Column("i", pa.int32()), LONG), ONE, LONG), False),
        (Arith(ArithOp.MUL, YEAR, Literal(100, pa.int32()), pa.int32()), False),
        (Arith(ArithOp.MOD, A, Literal(10, LONG), LONG), False),
        (Arith(ArithOp.MOD, A, B, LONG), True),
        (Arith(ArithOp.INT_DIV, A, Literal(-1, LONG), LONG), True),
        (Arith(ArithOp.INT_DIV, A, Literal(2, LONG), LONG), False),
        (Arith(ArithOp.MUL, Column("x", pa.float64()), Column("y", pa.float64()), pa.float64()), False),
        (product(pa.decimal128(12, 2), pa.decimal128(25, 4)), False),
        (product(pa.decimal128(38, 10), pa.decimal128(38, 6)), True),
        (Cast(A, pa.int32()), True),
        (Cast(A, pa.int32(), EvalMode.TRY), False),
        (Cast(Column("i", pa.int32()), pa.decimal128(12, 2)), False),
        (Cast(Column("i", pa.int32()), pa.decimal128(11, 2)), True),
        (Cast(Column("s", pa.string()), pa.int32()), True),
        (Cast(Column("x", pa.float64()), pa.decimal128(11, 6)), True),
        (Cast(Column("x", pa.float64()), pa.decimal128(11, 6), EvalMode.LEGACY), False),
        (Round(A, -1, LONG), True),
        (Round(A, -1, LONG, EvalMode.LEGACY), False),
        (Round(A, 1, LONG), False),
        (Round(Column("x", pa.float64()), 2, pa.float64()), False),
        (Round(Column("p", pa.decimal128(38, 10)), 2, pa.decimal128(31, 2)), False),
        (Negate(A, LONG), True),
        (Negate(Cast(Column("i", pa.int32()), LONG), LONG), False),
        (And(Compare(CompareOp.GT, A, ONE), Compare(CompareOp.GT, DIVISION, ONE)), True),
    ],
)  # fmt: skip
def test_can_raise(expr: Expr, raises: bool) -> None:
    assert can_raise(expr) is raises
