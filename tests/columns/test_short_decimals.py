"""Decimal expressions of one word a value: the numbers of Python's decimals, or none at all where a result might not
fit, be rounded or overflow."""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sundog.columns.arrow import from_arrow, in_plain_form, to_arrow
from sundog.columns.short_decimals import ShortDecimals
from sundog.expr.evaluate import evaluate
from sundog.expr.nodes import Arith, ArithOp, Cast, Column, EvalMode, Expr, Literal

EXACT = Context(prec=200)
WORD = 2**63 - 1


def spark_type(op: ArithOp, left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """Catalyst's result type, which rounds if it would need more than 38 digits."""
    if op is ArithOp.MUL:
        scale = left.scale + right.scale
        precision = left.precision + right.precision + 1
    else:
        scale = max(left.scale, right.scale)
        precision = max(left.precision - left.scale, right.precision - right.scale) + scale + 1
    if precision > 38:
        precision, scale = 38, max(38 - (precision - scale), min(scale, 6))
    return pa.decimal128(precision, scale)


def decimals(dtype: pa.DataType) -> st.SearchStrategy[Decimal]:
    most = 10**dtype.precision - 1
    edges = [edge for edge in (most, -most, WORD, -WORD, -WORD - 1, 2**31, 2**32) if abs(edge) <= most]
    whole = st.one_of(
        st.integers(max(-most, -9), min(most, 200)), st.sampled_from(edges or [0]), st.integers(-most, most)
    )
    return whole.map(lambda number: Decimal(number).scaleb(-dtype.scale, EXACT))


@st.composite
def types(draw: Any, most: int = 38) -> pa.DataType:
    precision = draw(st.one_of(st.integers(1, min(20, most)), st.integers(1, most)))
    return pa.decimal128(precision, draw(st.integers(0, min(precision, 6))))


@st.composite
def expressions(draw: Any, leaves: list[Expr], depth: int) -> Expr:
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        leaf: Expr = draw(st.sampled_from(leaves))
        if pa.types.is_integer(leaf.dtype):
            leaf = Cast(leaf, pa.decimal128(20, draw(st.integers(0, 1))))
        return leaf
    op = draw(st.sampled_from([ArithOp.ADD, ArithOp.SUB, ArithOp.MUL]))
    left, right = draw(expressions(leaves, depth - 1)), draw(expressions(leaves, depth - 1))
    return Arith(op, left, right, spark_type(op, left.dtype, right.dtype), draw(st.sampled_from(EvalMode)))


def exactly(expr: Expr, row: dict[str, Any]) -> Decimal | None:
    """The value without any rounding."""
    match expr:
        case Column():
            return row[expr.name]
        case Literal():
            return expr.value
        case Cast():
            value = exactly(expr.child, row)
            return None if value is None else Decimal(value)
        case Arith():
            left, right = exactly(expr.left, row), exactly(expr.right, row)
            if left is None or right is None:
                return None
            if expr.op is ArithOp.MUL:
                return EXACT.multiply(left, right)
            return EXACT.add(left, right) if expr.op is ArithOp.ADD else EXACT.subtract(left, right)
    raise AssertionError(expr)


def rows_of(expr: Expr, batch: pa.RecordBatch) -> list[Decimal | None] | None:
    vector = ShortDecimals(batch).vector(expr)
    if vector is None:
        return None
    assert vector.dtype == expr.dtype
    assert vector.short is not None
    assert all(abs(number) <= vector.short.bound for number in vector.short.numbers.tolist())
    return to_arrow(vector).to_pylist()


@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_results_are_those_of_pythons_decimals(data: st.DataObject) -> None:
    rows = data.draw(st.integers(1, 6))
    dtypes = data.draw(st.lists(types(), min_size=1, max_size=3))
    columns = {}
    for number, dtype in enumerate(dtypes):
        values = data.draw(st.lists(st.one_of(st.none(), decimals(dtype)), min_size=rows, max_size=rows))
        column = pa.array(values, dtype)
        is_stored_short = dtype.precision <= 18 and data.draw(st.booleans())
        columns[f"c{number}"] = column.cast(pa.decimal64(dtype.precision, dtype.scale)) if is_stored_short else column
    columns["i"] = pa.array(
        data.draw(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=rows, max_size=rows)), "int32"
    )
    batch = pa.record_batch(columns)
    leaves: list[Expr] = [Column(f"c{number}", dtype) for number, dtype in enumerate(dtypes)]
    constant = data.draw(types(9))
    leaves += [Literal(data.draw(decimals(constant)), constant), Column("i", pa.int32())]
    expr = data.draw(expressions(leaves, 3))
    found = rows_of(expr, batch)
    if found is None:
        return
    # Nothing was rounded and nothing is out of range; and so it is for `evaluate`, which rounds and checks.
    assert found == [exactly(expr, row) for row in batch.to_pylist()]
    assert all(
        value is None or abs(value) < Decimal(10) ** (expr.dtype.precision - expr.dtype.scale) for value in found
    )
    wide = pa.record_batch([in_plain_form(column) for column in batch.columns], names=batch.schema.names)
    assert evaluate(expr, wide).to_pylist() == found


def of(op: ArithOp, left: Any, right: Any, dtype: pa.DataType, places: int = 0) -> list[Decimal | None] | None:
    """`left op right` of one row, as columns of 19 digits."""
    column = pa.decimal128(19, places)
    batch = pa.record_batch({"a": pa.array([left], column), "b": pa.array([right], column)})
    return rows_of(Arith(op, Column("a", column), Column("b", column), dtype), batch)


WIDE = pa.decimal128(38, 0)


@pytest.mark.parametrize(
    ("op", "left", "right", "fits"),
    [
        (ArithOp.ADD, WORD - 1, 1, True),
        (ArithOp.ADD, WORD, 1, False),
        (ArithOp.SUB, -WORD + 1, 1, True),
        (ArithOp.SUB, -WORD, 1, False),
        (ArithOp.MUL, (WORD - 1) // 2, 2, True),
        (ArithOp.MUL, 2**62, 2, False),
        (ArithOp.MUL, -(2**62), 2, False),
        (ArithOp.MUL, WORD, -1, True),
        (ArithOp.MUL, -WORD - 1, 1, False),
        (ArithOp.ADD, -WORD - 1, 0, False),
    ],
)
def test_the_last_number_of_a_word(op: ArithOp, left: int, right: int, fits: bool) -> None:
    exact = {ArithOp.ADD: left + right, ArithOp.SUB: left - right, ArithOp.MUL: left * right}[op]
    assert of(op, Decimal(left), Decimal(right), WIDE) == ([Decimal(exact)] if fits else None)


def test_what_may_leave_the_digits_of_its_type_is_left_to_evaluate() -> None:
    assert of(ArithOp.ADD, Decimal(998), Decimal(1), pa.decimal128(3, 0)) == [Decimal(999)]
    assert of(ArithOp.ADD, Decimal(999), Decimal(1), pa.decimal128(3, 0)) is None
    assert of(ArithOp.SUB, Decimal(-999), Decimal(1), pa.decimal128(3, 0)) is None
    assert of(ArithOp.MUL, Decimal(100), Decimal(10), pa.decimal128(3, 0)) is None


def test_what_is_rounded_is_left_to_evaluate() -> None:
    two = Decimal("0.25")
    assert of(ArithOp.MUL, two, two, pa.decimal128(38, 4), places=2) == [Decimal("0.0625")]
    assert of(ArithOp.MUL, two, two, pa.decimal128(38, 3), places=2) is None
    assert of(ArithOp.ADD, two, two, pa.decimal128(38, 1), places=2) is None


def test_columns_of_other_kinds_are_left_to_evaluate() -> None:
    batch = pa.record_batch({"s": ["1"], "d": [1.5], "n": pa.array([None], pa.decimal128(5, 2))})
    cents = pa.decimal128(5, 2)
    for expr in (Cast(Column("s", pa.string()), cents), Cast(Column("d", pa.float64()), cents), Column("n", cents)):
        assert ShortDecimals(batch).vector(expr) is None
    assert ShortDecimals(batch).vector(Column("d", pa.float64())) is None
    assert ShortDecimals(batch).vector(Literal(Decimal(1), cents)) is None
    assert ShortDecimals(batch).vector(Literal(None, cents)) is None


def test_a_cast_to_fewer_places_or_digits_is_left_to_evaluate() -> None:
    cents = pa.decimal128(5, 2)
    batch = pa.record_batch({"c": pa.array([Decimal("99.95")], cents)})
    assert rows_of(Cast(Column("c", cents), pa.decimal128(7, 3)), batch) == [Decimal("99.950")]
    assert rows_of(Cast(Column("c", cents), pa.decimal128(5, 1)), batch) is None
    assert rows_of(Cast(Column("c", cents), pa.decimal128(3, 2)), batch) is None


def test_deep_expressions_are_left_to_evaluate() -> None:
    cents = pa.decimal128(5, 2)
    expr: Expr = Column("c", cents)
    for _ in range(100):
        expr = Arith(ArithOp.ADD, expr, Literal(Decimal("0.01"), cents), pa.decimal128(38, 2))
    batch = pa.record_batch({"c": pa.array([Decimal("1.00")], cents)})
    assert ShortDecimals(batch).vector(expr) is None
    assert evaluate(expr, batch).to_pylist() == [Decimal("2.00")]


def test_an_expression_of_two_calls_is_computed_once() -> None:
    cents = pa.decimal128(5, 2)
    batch = pa.record_batch({"c": pa.array([Decimal("1.00")] * 3, cents)})
    short = ShortDecimals(batch)
    one = Arith(ArithOp.ADD, Column("c", cents), Column("c", cents), pa.decimal128(6, 2))
    again = Arith(ArithOp.ADD, Column("c", cents), Column("c", cents), pa.decimal128(6, 2))
    found = [vector.short for expr in (one, again) if (vector := short.vector(expr)) is not None]
    assert found[0] is not None
    assert found[1] is not None
    assert found[0].numbers is found[1].numbers


def test_short_vectors_are_moved_as_other_vectors_are() -> None:
    values = [Decimal("1.25"), None, Decimal("-3.50"), Decimal("0.00")]
    wide = from_arrow(pa.array(values, pa.decimal128(9, 2)))
    short = from_arrow(pa.array(values, pa.decimal128(9, 2)).cast(pa.decimal64(9, 2)))
    assert short.short is not None
    assert short.dtype == wide.dtype
    assert not short.all_null
    assert short.nbytes == wide.nbytes
    rows = pa.array([3, 1, 0]).to_numpy()
    passing = pa.array([1, 1, 0, 1], pa.uint8()).to_numpy()
    for moved in (lambda v: v, lambda v: v.take(rows), lambda v: v.slice(1, 4), lambda v: v.where(passing)):
        assert to_arrow(moved(short)).equals(to_arrow(moved(wide)))
