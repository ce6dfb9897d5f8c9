"""The text of expressions in explain."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sundog.expr.nodes import (
    And,
    Arith,
    ArithOp,
    Case,
    Cast,
    Column,
    Compare,
    CompareOp,
    EvalMode,
    Expr,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
)
from sundog.expr.ordering import SortKey
from sundog.expr.printing import render, render_order
from sundog.types import DAY_TIME_INTERVAL, TIMESTAMP

PRICE, NAME, DAY = Column("price#3", pa.int64()), Column("name#4", pa.string()), Column("day#5", pa.date32())
TEN = Literal(10, pa.int64())


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (Compare(CompareOp.GT, PRICE, TEN), "(price#3 > 10)"),
        (Compare(CompareOp.EQ, NAME, Literal("it's\n", pa.string())), "(name#4 = 'it\\'s\\n')"),
        (Compare(CompareOp.LT, DAY, Literal(18262, pa.date32())), "(day#5 < 2020-01-01)"),
        (Literal(1_500_000, TIMESTAMP), "1970-01-01 00:00:01.5"),
        (Literal(60_000_000, DAY_TIME_INTERVAL), "INTERVAL 60000000 us"),
        (Literal(b"\x01\xff", pa.binary()), "X'01FF'"),
        (Literal(None, pa.int64()), "NULL"),
        (
            And(Not(IsNull(NAME)), Or(IsNull(PRICE), Literal(True, pa.bool_()))),
            "((name#4 IS NOT NULL) AND ((price#3 IS NULL) OR true))",
        ),
        (In(PRICE, tuple(range(7))), "(price#3 IN (0, 1, 2, 3, 4, … 2 more))"),
        (Like(NAME, "a%", "#"), "(name#4 LIKE 'a%' ESCAPE '#')"),
        (Arith(ArithOp.ADD, PRICE, TEN, pa.int64(), EvalMode.TRY), "try_add(price#3, 10)"),
        (Case(((IsNull(PRICE), TEN),), PRICE, pa.int64()), "CASE WHEN (price#3 IS NULL) THEN 10 ELSE price#3 END"),
        (Cast(PRICE, pa.int32(), EvalMode.TRY), "try_cast(price#3 AS int)"),
        (Cast(PRICE, pa.decimal128(20, 2)), "cast(price#3 AS decimal(20,2))"),
    ],
)  # fmt: skip
def test_expressions_read_like_sql(expr: Expr, text: str) -> None:
    assert render(expr) == text


def test_sort_keys_name_direction_and_null_place() -> None:
    keys = [SortKey(PRICE, descending=True, nulls_first=False), SortKey(NAME)]
    assert render_order(keys) == "price#3 DESC NULLS LAST, name#4 ASC NULLS FIRST"
