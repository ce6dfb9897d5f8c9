"""Verdicts: the truth table case by case, then random predicates over random files against what the rows really do."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sundog.expr.evaluate import predicate_mask
from sundog.expr.nodes import (
    AddInterval,
    And,
    Arith,
    ArithOp,
    Cast,
    Column,
    Compare,
    CompareOp,
    DateTrunc,
    EvalMode,
    Expr,
    In,
    IsNaN,
    IsNull,
    Like,
    Literal,
    Negate,
    NormalizeFloat,
    Not,
    Or,
    StringMatch,
    StringTest,
)
from sundog.parquet.prune.pruning import PruningPredicate, TruthValues, Verdict, like_prefix
from sundog.types import TIMESTAMP, TIMESTAMP_NTZ
from tests.oracle.batches import FILE_TYPES, record_batches, values
from tests.parquet.files import cut, relation, statistics_of, write_file

SKIP, SCAN, ALL = Verdict.SKIP, Verdict.SCAN, Verdict.ALL_ROWS_MATCH
LONG = pa.int64()


def verdicts(path, schema, predicate: Expr | None) -> list[Verdict]:
    files = relation([path], schema)
    statistics = statistics_of(files)
    return [Verdict(v) for v in PruningPredicate(predicate).verdicts(statistics)]


def verdict(tmp_path, array, predicate, **writer) -> Verdict:
    table = pa.table({"c": array})
    return verdicts(write_file(tmp_path / "a.parquet", [table], **writer), table.schema, predicate)[0]


def c(dtype=LONG) -> Column:
    return Column("c", dtype)


def compare(op: str, value, dtype=LONG) -> Compare:
    return Compare(CompareOp(op), c(dtype), Literal(value, dtype))


@pytest.mark.parametrize(
    ("true", "false", "null", "safe", "expected"),
    [
        (False, False, False, True, SKIP),
        (False, True, False, True, SKIP),
        (False, False, True, True, SKIP),
        (False, True, True, True, SKIP),
        (True, False, False, True, ALL),
        (True, True, False, True, SCAN),
        (True, False, True, True, SCAN),
        (True, True, True, True, SCAN),
        (False, True, False, False, SCAN),
        (True, False, False, False, SCAN),
    ],
)
def test_truth_table(true, false, null, safe, expected):
    outcome = TruthValues(*(np.array([flag]) for flag in (true, false, null, safe)))
    assert outcome.verdicts().tolist() == [expected]


FIVE_TO_NINE = pa.array([5, 9, 7])
WITH_NULL = pa.array([5, 9, None])
ALL_NULL = pa.nulls(3, LONG)
COMPARISONS = [
    ("<", 5, SKIP), ("<", 6, SCAN), ("<", 9, SCAN), ("<", 10, ALL),
    ("<=", 4, SKIP), ("<=", 5, SCAN), ("<=", 8, SCAN), ("<=", 9, ALL),
    (">", 9, SKIP), (">", 8, SCAN), (">", 5, SCAN), (">", 4, ALL),
    (">=", 10, SKIP), (">=", 9, SCAN), (">=", 6, SCAN), (">=", 5, ALL),
    ("=", 4, SKIP), ("=", 10, SKIP), ("=", 7, SCAN), ("=", 5, SCAN),
    ("<=>", 4, SKIP), ("<=>", 7, SCAN),
]  # fmt: skip


@pytest.mark.parametrize(("op", "value", "expected"), COMPARISONS)
def test_comparisons(tmp_path, op, value, expected):
    assert verdict(tmp_path, FIVE_TO_NINE, compare(op, value)) is expected
    mirrored = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(op, op)
    other_way = Compare(CompareOp(mirrored), Literal(value, LONG), c())
    assert verdict(tmp_path, FIVE_TO_NINE, other_way) is expected
    with_null = SCAN if expected is ALL else expected
    assert verdict(tmp_path, WITH_NULL, compare(op, value)) is with_null
    assert verdict(tmp_path, ALL_NULL, compare(op, value)) is SKIP
    assert verdict(tmp_path, FIVE_TO_NINE, compare(op, value), write_statistics=False) is SCAN
    negated = {SKIP: ALL, ALL: SKIP, SCAN: SCAN}[expected]
    assert verdict(tmp_path, FIVE_TO_NINE, Not(compare(op, value))) is negated


def test_equality_of_a_single_value_matches_all(tmp_path):
    assert verdict(tmp_path, pa.array([5, 5]), compare("=", 5)) is ALL
    assert verdict(tmp_path, pa.array([5, None]), compare("=", 5)) is SCAN


def test_comparison_with_null_is_never_true(tmp_path):
    assert verdict(tmp_path, FIVE_TO_NINE, compare("<", None)) is SKIP
    assert verdict(tmp_path, FIVE_TO_NINE, Not(compare("<", None))) is SKIP
    assert verdict(tmp_path, FIVE_TO_NINE, compare("<=>", None)) is SKIP
    assert verdict(tmp_path, ALL_NULL, compare("<=>", None)) is ALL


@pytest.mark.parametrize(
    ("array", "expected", "negated"),
    [(FIVE_TO_NINE, SKIP, ALL), (WITH_NULL, SCAN, SCAN), (ALL_NULL, ALL, SKIP)],
)
def test_is_null(tmp_path, array, expected, negated):
    assert verdict(tmp_path, array, IsNull(c())) is expected
    assert verdict(tmp_path, array, Not(IsNull(c()))) is negated


def test_is_null_of_a_predicate(tmp_path):
    assert verdict(tmp_path, FIVE_TO_NINE, IsNull(compare("<", 7))) is SKIP
    assert verdict(tmp_path, ALL_NULL, IsNull(compare("<", 7))) is ALL


@pytest.mark.parametrize(
    ("listed", "expected", "negated"),
    [
        ((1, 2), SKIP, ALL),
        ((1, 6), SCAN, SCAN),
        ((1, None), SKIP, SKIP),  # never true; NOT IN with a NULL is never true either
        ((6, None), SCAN, SCAN),
    ],
)
def test_in(tmp_path, listed, expected, negated):
    assert verdict(tmp_path, FIVE_TO_NINE, In(c(), listed)) is expected
    result = verdict(tmp_path, FIVE_TO_NINE, Not(In(c(), listed)))
    assert result in (negated, SKIP) if None in listed else result is negated


def test_in_that_pins_the_value(tmp_path):
    assert verdict(tmp_path, pa.array([5, 5]), In(c(), (4, 5))) is ALL


@pytest.mark.parametrize(
    ("words", "prefix", "expected"),
    [
        (["apple", "apricot"], "b", SKIP),
        (["apple", "apricot"], "ao", SKIP),
        (["apple", "apricot"], "ap", ALL),
        (["apple", "apricot"], "apple", SCAN),
        (["apple", "banana"], "az", SCAN),
        (["apple", None], "ap", SCAN),
    ],
)
def test_prefixes(tmp_path, words, prefix, expected):
    string = pa.string()
    array = pa.array(words, string)
    assert verdict(tmp_path, array, StringMatch(StringTest.STARTS_WITH, c(string), prefix)) is expected
    assert verdict(tmp_path, array, Like(c(string), prefix + "%")) is expected
    inexact = SCAN if expected is ALL else expected
    assert verdict(tmp_path, array, Like(c(string), prefix + "_%")) is inexact
    assert verdict(tmp_path, array, StringMatch(StringTest.ENDS_WITH, c(string), prefix)) is SCAN


@pytest.mark.parametrize(
    ("pattern", "prefix", "exact"),
    [("abc%", "abc", True), ("abc", "abc", False), ("a_c%", "a", False), ("a\\%b%", "a%b", True), ("%", "", True)],
)
def test_like_prefix(pattern, prefix, exact):
    assert like_prefix(pattern, "\\") == (prefix, exact)


def test_truncated_bounds_are_bounds(tmp_path):
    """A writer may shorten min, and shorten and raise max: no verdict may need them to be values."""
    string = pa.string()
    array = pa.array(["abcdefgh", "abcxyz"])
    for bound in ("abc", "abd", "abcdefgh", "abcxyz"):
        for op in ("<", "<=", ">", ">=", "="):
            found = verdict(tmp_path, array, compare(op, bound, string))
            mask = predicate_mask(compare(op, bound, string), pa.record_batch([array], names=["c"]))
            assert found is SCAN or (found is ALL) == bool(mask.all()) == bool(mask.any())


DOUBLE = pa.float64()


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (compare(">", 5.0, DOUBLE), SCAN),  # a NaN, which the bounds do not show, is greater
        (compare("<", 0.5, DOUBLE), SKIP),
        (compare("<=", 3.0, DOUBLE), SCAN),  # all shown values match, a NaN would not
        (compare(">=", 1.0, DOUBLE), ALL),
        (compare("=", math.nan, DOUBLE), SCAN),
        (IsNaN(c(DOUBLE)), SCAN),
        (Not(IsNaN(c(DOUBLE))), SCAN),
    ],
)
def test_nan_is_beyond_the_bounds(tmp_path, predicate, expected):
    assert verdict(tmp_path, pa.array([1.0, 3.0]), predicate) is expected
    assert verdict(tmp_path, pa.array([1.0, 3.0, math.nan]), predicate) is expected


def test_zeros_are_equal(tmp_path):
    assert verdict(tmp_path, pa.array([-0.0, -0.0]), compare("<", 0.0, DOUBLE)) is SKIP
    assert verdict(tmp_path, pa.array([0.0, 1.0]), compare(">=", -0.0, DOUBLE)) is ALL


def test_booleans(tmp_path):
    boolean = pa.bool_()
    assert verdict(tmp_path, pa.array([True, True]), c(boolean)) is ALL
    assert verdict(tmp_path, pa.array([False]), c(boolean)) is SKIP
    assert verdict(tmp_path, pa.array([False]), Not(c(boolean))) is ALL
    assert verdict(tmp_path, pa.array([False, True]), c(boolean)) is SCAN
    assert verdict(tmp_path, FIVE_TO_NINE, Literal(True, boolean)) is ALL
    assert verdict(tmp_path, FIVE_TO_NINE, Literal(False, boolean)) is SKIP
    assert verdict(tmp_path, FIVE_TO_NINE, Literal(None, boolean)) is SKIP


def test_and_or_in_three_values(tmp_path):
    inside, never, always = compare(">", 6), compare(">", 100), compare(">", 0)
    assert verdict(tmp_path, FIVE_TO_NINE, And(inside, never)) is SKIP
    assert verdict(tmp_path, FIVE_TO_NINE, Or(inside, always)) is ALL
    assert verdict(tmp_path, FIVE_TO_NINE, And(always, always)) is ALL
    assert verdict(tmp_path, FIVE_TO_NINE, Or(never, never)) is SKIP
    unknown = compare("<", None)
    assert verdict(tmp_path, FIVE_TO_NINE, Or(always, unknown)) is ALL
    assert verdict(tmp_path, FIVE_TO_NINE, And(always, unknown)) is SKIP
    assert verdict(tmp_path, FIVE_TO_NINE, Not(And(never, unknown))) is ALL


def test_no_predicate_matches_all_and_no_rows_are_skipped(tmp_path):
    assert verdict(tmp_path, FIVE_TO_NINE, None) is ALL
    assert verdict(tmp_path, pa.array([], LONG), None) in (SKIP,)


DURATION = pa.duration("us")
INSTANTS = FIVE_TO_NINE.view(TIMESTAMP_NTZ)
PLUS_ONE = Arith(ArithOp.ADD, c(), Literal(1, LONG), LONG)
MONOTONIC = [
    (PLUS_ONE, LONG, FIVE_TO_NINE, 6, 10),
    (Arith(ArithOp.SUB, c(), Literal(1, LONG), LONG), LONG, FIVE_TO_NINE, 4, 8),
    (Arith(ArithOp.SUB, Literal(10, LONG), c(), LONG), LONG, FIVE_TO_NINE, 1, 5),
    (Negate(c(), LONG), LONG, FIVE_TO_NINE, -9, -5),
    (Arith(ArithOp.ADD, PLUS_ONE, Literal(1, LONG), LONG), LONG, FIVE_TO_NINE, 7, 11),
    (Cast(c(pa.int32()), LONG), LONG, FIVE_TO_NINE.cast(pa.int32()), 5, 9),
    (Cast(c(pa.int32()), DOUBLE), DOUBLE, FIVE_TO_NINE.cast(pa.int32()), 5.0, 9.0),
    (AddInterval(c(TIMESTAMP_NTZ), Literal(3, DURATION), TIMESTAMP_NTZ), TIMESTAMP_NTZ, INSTANTS, 8, 12),
    (Cast(c(), pa.decimal128(22, 2)), pa.decimal128(22, 2), FIVE_TO_NINE, Decimal("5.00"), Decimal("9.00")),
]


@pytest.mark.parametrize(("expr", "dtype", "array", "low", "high"), MONOTONIC)
def test_monotonic_expressions_carry_bounds_over(tmp_path, expr, dtype, array, low, high):
    def against(op, value):
        return verdict(tmp_path, array, Compare(CompareOp(op), expr, Literal(value, dtype)))

    assert against("<", low) is SKIP
    assert against("<=", high) is ALL
    assert against(">", high) is SKIP
    assert against(">=", low) is ALL
    assert against("=", low) is SCAN


def test_normalizing_floats_changes_no_bound(tmp_path):
    normal = NormalizeFloat(c(DOUBLE), DOUBLE)
    assert verdict(tmp_path, pa.array([-0.0, 1.0]), Compare(CompareOp.LT, normal, Literal(0.0, DOUBLE))) is SKIP
    assert verdict(tmp_path, pa.array([-0.0, 1.0]), Compare(CompareOp.GT, normal, Literal(1.0, DOUBLE))) is SCAN


def test_date_trunc_and_date_to_timestamp(tmp_path):
    days = pa.array([40, 45], pa.int32()).view(pa.date32())
    month = DateTrunc("month", c(pa.date32()), pa.date32())
    before = Compare(CompareOp.LT, month, Literal(31, pa.date32()))
    assert verdict(tmp_path, days, before) is SKIP
    assert verdict(tmp_path, days, Compare(CompareOp.LE, month, Literal(31, pa.date32()))) is ALL
    midnight = Cast(c(pa.date32()), TIMESTAMP_NTZ)
    assert verdict(tmp_path, days, Compare(CompareOp.LT, midnight, Literal(40 * 86_400_000_000, TIMESTAMP_NTZ))) is SKIP


def test_what_might_raise_is_never_skipped(tmp_path):
    """max + 1 overflows: Spark would raise for that row, so the row group must be looked at."""
    top = pa.array([2**63 - 1, 0])
    never = Compare(CompareOp.LT, PLUS_ONE, Literal(-5, LONG))
    assert verdict(tmp_path, top, never) is SCAN
    assert verdict(tmp_path, FIVE_TO_NINE, never) is SKIP
    division = Compare(CompareOp.LT, Arith(ArithOp.INT_DIV, c(), c(), LONG), Literal(0, LONG))
    assert verdict(tmp_path, FIVE_TO_NINE, And(division, compare(">", 100))) is SCAN


def test_what_wraps_around_is_unknown(tmp_path):
    wrapping = Arith(ArithOp.ADD, c(), Literal(1, LONG), LONG, EvalMode.LEGACY)
    top = pa.array([2**63 - 1, 0])
    assert verdict(tmp_path, top, Compare(CompareOp.LT, wrapping, Literal(-5, LONG))) is SCAN
    trying = Arith(ArithOp.ADD, c(), Literal(1, LONG), LONG, EvalMode.TRY)
    assert verdict(tmp_path, top, IsNull(trying)) is SCAN


def test_partition_columns(tmp_path):
    path = write_file(tmp_path / "a.parquet", [pa.table({"c": FIVE_TO_NINE})])
    files = relation([path], pa.schema([("c", LONG)]), [("p", LONG)], [(3,)])
    statistics = statistics_of(files)
    p = Column("p", LONG)
    assert PruningPredicate(Compare(CompareOp.EQ, p, Literal(3, LONG))).verdicts(statistics)[0] == ALL
    assert PruningPredicate(Compare(CompareOp.EQ, p, Literal(4, LONG))).verdicts(statistics)[0] == SKIP
    assert PruningPredicate(Compare(CompareOp.LT, c(), p)).verdicts(statistics)[0] == SKIP


def literal_of(dtype):
    def as_literal(value):
        return Literal(value, dtype)

    return st.one_of(values(dtype), st.none()).map(as_literal)


def comparisons(name, dtype):
    column = Column(name, dtype)
    pairs = st.one_of(
        literal_of(dtype).map(lambda literal: (column, literal)),
        literal_of(dtype).map(lambda literal: (literal, column)),
    )
    return st.builds(lambda op, pair: Compare(op, *pair), st.sampled_from(list(CompareOp)), pairs)


def memberships(name, dtype):
    listed = st.lists(st.one_of(values(dtype), st.none()), min_size=1, max_size=4)
    return listed.map(lambda items: In(Column(name, dtype), tuple(items)))


def prefixes(name, dtype):
    needle = values(dtype).map(lambda value: value[:2])
    return needle.map(lambda value: StringMatch(StringTest.STARTS_WITH, Column(name, dtype), value))


def leaves(name, dtype):
    options = [comparisons(name, dtype), memberships(name, dtype), st.just(IsNull(Column(name, dtype)))]
    if pa.types.is_string(dtype):
        options.append(prefixes(name, dtype))
    if pa.types.is_floating(dtype):
        options.append(st.just(IsNaN(Column(name, dtype))))
    if pa.types.is_boolean(dtype):
        options.append(st.just(Column(name, dtype)))
    return st.one_of(options)


def predicates(schema):
    leaf = st.sampled_from(list(schema)).flatmap(lambda field: leaves(field.name, field.type))
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.builds(And, inner, inner), st.builds(Or, inner, inner), st.builds(Not, inner), st.builds(IsNull, inner)
        ),
        max_leaves=4,
    )


cases = st.lists(st.sampled_from([t for t in FILE_TYPES if t != TIMESTAMP]), min_size=1, max_size=2).flatmap(
    lambda types: st.tuples(
        record_batches(schema := pa.schema([(f"c{i}", dtype) for i, dtype in enumerate(types)]), max_size=24),
        predicates(schema),
    )
)


@settings(max_examples=150, deadline=None)
@given(cases, st.integers(1, 8), st.booleans())
def test_verdicts_hold_for_the_rows(tmp_path_factory, case, rows, statistics):
    batch, predicate = case
    table = pa.Table.from_batches([batch])
    groups = cut(table, rows)
    path = write_file(tmp_path_factory.mktemp("p") / "a.parquet", groups, write_statistics=statistics)
    for group, found in zip(groups, verdicts(path, table.schema, predicate), strict=True):
        whole = group.combine_chunks().to_batches()
        mask = predicate_mask(predicate, whole[0]) if whole else np.zeros(0, np.bool_)
        if found is SKIP:
            assert not mask.any()
        elif found is ALL:
            assert mask.all()
