"""Which calls may raise for rows that a join filter would drop: sums that can leave their type under ANSI."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sundog.expr.calls import AggregateCall
from sundog.expr.nodes import Column, DecimalToUnscaled, Expr
from sundog.functions.table import may_raise


@pytest.mark.parametrize(
    ("function", "argument", "expected"),
    [
        ("sum", pa.int64(), True),
        ("sum", pa.int32(), False),  # fewer than 2^32 of them fit a bigint
        ("sum", pa.float64(), False),
        ("sum", pa.decimal128(15, 2), False),  # ten digits more than the argument
        ("sum", pa.decimal128(30, 2), True),
        ("sum", pa.duration("us"), True),
        ("try_sum", pa.int64(), False),
        ("avg", pa.int64(), False),  # computed in double
        ("avg", pa.decimal128(30, 2), True),
        ("count", pa.int64(), False),
        ("max", pa.int64(), False),
    ],
)
def test_sums_that_can_leave_their_type_may_raise(function: str, argument: pa.DataType, expected: bool) -> None:
    assert may_raise(_call(function, Column("x", argument))) is expected


def test_without_ansi_only_intervals_raise() -> None:
    for dtype, expected in ((pa.int64(), False), (pa.decimal128(38, 0), False), (pa.duration("us"), True)):
        assert may_raise(_call("sum", Column("x", dtype), ansi=False)) is expected


def test_digits_of_short_decimals_cannot_leave_a_bigint() -> None:
    for digits, expected in ((8, False), (18, True)):
        assert may_raise(_call("sum", DecimalToUnscaled(Column("x", pa.decimal128(digits, 2))))) is expected


def _call(function: str, argument: Expr, ansi: bool = True) -> AggregateCall:
    return AggregateCall("r", function, (argument,), argument.dtype, ansi=ansi)
