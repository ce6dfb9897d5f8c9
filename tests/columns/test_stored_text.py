"""A predicate gives the same result for strings in any form: plain, dictionary indices, or views of their pages."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sundog.columns.stored_text import StoredPredicate
from sundog.expr.evaluate import predicate_mask
from sundog.expr.nodes import (
    And,
    Arith,
    ArithOp,
    Column,
    Compare,
    CompareOp,
    EvalMode,
    Expr,
    In,
    IsNull,
    Literal,
    Not,
    Or,
    StringMatch,
    StringTest,
)
from tests.columns.test_key_layout import in_form
from tests.oracle.batches import record_batches, values

TEXT, LONG = pa.string(), pa.int64()
SCHEMA = pa.schema([("s", TEXT), ("t", TEXT), ("n", LONG)])
S, T, N = (Column(name, SCHEMA.field(name).type) for name in SCHEMA.names)


@st.composite
def text_tests(draw: st.DrawFn, column: Column) -> Expr:
    literal = Literal(draw(values(TEXT)), TEXT)
    test: Expr = draw(
        st.sampled_from(
            [
                *(Compare(op, column, literal) for op in CompareOp),
                IsNull(column),
                In(column, (literal.value, "abc")),
                StringMatch(StringTest.CONTAINS, column, "a"),
                StringMatch(StringTest.STARTS_WITH, column, "a"),
            ]
        )
    )
    return Not(test) if draw(st.booleans()) else test


@st.composite
def predicates(draw: st.DrawFn) -> Expr:
    number = Compare(CompareOp.GT, N, Literal(draw(values(LONG)), LONG))
    either = Or(draw(text_tests(T)), number)
    pool = [draw(text_tests(S)), draw(text_tests(S)), draw(text_tests(T)), number, either, Compare(CompareOp.LT, S, T)]
    parts = draw(st.lists(st.sampled_from(pool), min_size=1, max_size=4))
    whole = parts[0]
    for part in parts[1:]:
        whole = And(whole, part)
    return whole


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_the_form_of_a_string_makes_no_difference(data: st.DataObject) -> None:
    predicate = data.draw(predicates())
    batch = data.draw(record_batches(SCHEMA, max_size=40))
    stored = StoredPredicate.of(predicate)
    assert set(stored.columns) >= stored.as_stored
    form = data.draw(st.sampled_from(["plain", "dictionary", "view"]))
    columns = [
        in_form(column, form) if name in stored.as_stored else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    found = stored.mask(pa.record_batch(columns, names=batch.schema.names))
    assert found.tolist() == predicate_mask(predicate, batch).tolist()


@pytest.mark.parametrize(
    ("predicate", "as_stored"),
    [
        (Not(Compare(CompareOp.EQ, S, Literal("", TEXT))), {"s"}),
        (And(IsNull(S), Compare(CompareOp.EQ, N, Literal(1, LONG))), {"s", "n"}),
        (And(IsNull(S), Compare(CompareOp.EQ, S, T)), set()),
        (Or(IsNull(S), IsNull(T)), set()),
        (
            And(
                IsNull(S),
                Compare(CompareOp.EQ, Arith(ArithOp.ADD, N, Literal(1, LONG), LONG, EvalMode.ANSI), Literal(1, LONG)),
            ),
            set(),
        ),
        (Literal(True, pa.bool_()), set()),
    ],
)
def test_which_columns_may_come_as_they_are_stored(predicate: Expr, as_stored: set[str]) -> None:
    assert StoredPredicate.of(predicate).as_stored == as_stored
