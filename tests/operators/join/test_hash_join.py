"""Every kind of join, over every type of key, NULLs, NaN, duplicates and empty sides, against joins in plain Python."""

from __future__ import annotations

import pickle
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sundog.columns.arrow import from_arrow
from sundog.expr.calls import JoinKind
from sundog.expr.nodes import BOOL, Column, Compare, CompareOp, Expr
from sundog.operators.context import TaskContext
from sundog.operators.join.hash_join import HashJoin, JoinSpec
from sundog.operators.join.key_index import KeyIndex
from sundog.plan.costs import DRIVER
from tests.operators.join.reference import reference_join, sorted_rows

LONG = pa.int64()
KEYS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "small int": (pa.int32(), [None, 1, 2, 3, 7, -5]),
    "wide long": (LONG, [None, 0, 1, -(2**63), 2**63 - 1, 10**15]),
    "date": (pa.date32(), [None, 0, 1, 19000]),
    "short decimal": (pa.decimal128(9, 2), [None, Decimal("1.00"), Decimal("-2.50"), Decimal("0.00")]),
    "long decimal": (pa.decimal128(38, 4), [None, Decimal("1e30"), Decimal("-1e30"), Decimal("0.0001")]),
    "double": (pa.float64(), [None, float("nan"), 0.0, -0.0, 1.5, float("inf")]),
    "string": (pa.string(), [None, "", "a", "ab", "a string that is longer than twelve bytes", "another long string…"]),
    "bool": (pa.bool_(), [None, True, False]),
}
LEFT_KINDS = [kind for kind in JoinKind if kind is not JoinKind.FULL]


@st.composite
def sides(draw: st.DrawFn) -> tuple[pa.RecordBatch, pa.RecordBatch, list[str], list[bool]]:
    names = draw(st.lists(st.sampled_from(sorted(KEYS)), min_size=1, max_size=2))
    null_safe = [draw(st.booleans()) for _ in names]
    batches = []
    for side in "lr":
        rows = draw(st.integers(0, 12))
        arrays = []
        for name in names:
            dtype, values = KEYS[name]
            drawn = draw(st.lists(st.sampled_from(values), min_size=rows, max_size=rows))
            arrays.append(pa.array(drawn, pa.int32() if name == "date" else dtype).cast(dtype))
        arrays.append(pa.array(draw(st.lists(st.integers(0, 5), min_size=rows, max_size=rows)), LONG))
        columns = [*(f"{side}k{at}" for at in range(len(names))), f"{side}v"]
        batches.append(pa.RecordBatch.from_arrays(arrays, names=columns))
    return batches[0], batches[1], names, null_safe


def spec_of(
    left: pa.RecordBatch,
    right: pa.RecordBatch,
    kind: JoinKind,
    null_safe: list[bool],
    condition: Expr | None,
    **numbers: float,
) -> JoinSpec:
    count = len(null_safe)
    fields = list(left.schema) + (list(right.schema) if kind.shows_right else [])
    exists = "e" if kind is JoinKind.EXISTENCE else None
    output = pa.schema([*fields, *([pa.field("e", BOOL)] if exists else [])])
    left_keys, right_keys = (
        tuple(Column(f"{side}k{at}", batch.schema.field(f"{side}k{at}").type) for at in range(count))
        for side, batch in (("l", left), ("r", right))
    )
    costs = replace(DRIVER, **numbers)
    return JoinSpec(kind, left_keys, right_keys, tuple(null_safe), condition, output, exists, costs=costs)


def run(join: JoinSpec, left: pa.RecordBatch, right: pa.RecordBatch, pieces: int = 3) -> list[pa.RecordBatch]:
    build = join.build_side(_cut(right, pieces), right.schema)
    build = pickle.loads(pickle.dumps(build))
    return list(HashJoin(join, build).run(iter(_cut(left, pieces)), TaskContext()))


def _cut(batch: pa.RecordBatch, pieces: int) -> list[pa.RecordBatch]:
    size = max(1, -(-batch.num_rows // pieces))
    return [batch.slice(first, size) for first in range(0, batch.num_rows, size)]


@pytest.mark.parametrize("kind", LEFT_KINDS, ids=lambda kind: kind.value)
@given(
    drawn=sides(),
    has_condition=st.booleans(),
    slots=st.sampled_from([1, DRIVER.join_slots]),  # by hash only, or by value where that is possible
    batch_rows=st.sampled_from([1, 5, DRIVER.join_batch_rows]),
)
@settings(max_examples=150)
def test_joins_as_pairs_in_plain_python(
    kind: JoinKind, drawn: Any, has_condition: bool, slots: int, batch_rows: int
) -> None:
    left, right, _, null_safe = drawn
    condition = Compare(CompareOp.LT, Column("lv", LONG), Column("rv", LONG)) if has_condition else None
    if kind is JoinKind.NULL_AWARE_ANTI:
        null_safe, condition = [False], None
        left, right = (batch.select([0, batch.num_columns - 1]) for batch in (left, right))
    join = spec_of(left, right, kind, null_safe, condition, join_slots=slots, join_batch_rows=batch_rows)
    keys = [[f"{side}k{at}" for at in range(len(null_safe))] for side in "lr"]
    expected = reference_join(left, right, kind, *keys, null_safe, condition)
    assert sorted_rows(run(join, left, right), join.output.names) == expected


@pytest.mark.parametrize("kind", [JoinKind.INNER, JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI, JoinKind.EXISTENCE])
@given(drawn=sides(), has_condition=st.booleans())
@settings(max_examples=40)
def test_a_join_without_keys_pairs_all_rows(kind: JoinKind, drawn: Any, has_condition: bool) -> None:
    left, right, _, _ = drawn
    condition = Compare(CompareOp.LT, Column("lv", LONG), Column("rv", LONG)) if has_condition else None
    join = spec_of(left, right, kind, [], condition)
    assert sorted_rows(run(join, left, right), join.output.names) == reference_join(
        left, right, kind, [], [], [], condition
    )


def test_a_build_side_has_sets_of_the_keys_that_filter_the_other_side() -> None:
    left = pa.record_batch({"lk0": pa.array([1], LONG), "lk1": pa.array([1], LONG), "lv": pa.array([1], LONG)})
    right = pa.record_batch(
        {"rk0": pa.array([7, 8], LONG), "rk1": pa.array([4, 4], LONG), "rv": pa.array([1, 2], LONG)}
    )
    side = spec_of(left, right, JoinKind.INNER, [False, False], None).build_side([right], right.schema, sets_of=(1,))
    assert list(side.key_sets) == [1]
    assert [(each.low, each.high) for each in side.key_sets.values()] == [(4, 4)]
    assert not side.narrowed(["rv"]).key_sets, "they are in the scans by then"


def test_rows_with_many_partners_come_in_pieces() -> None:
    left = pa.record_batch({"lk0": pa.array([1, 2, 1, 3] * 20, LONG), "lv": pa.array(range(80), LONG)})
    right = pa.record_batch({"rk0": pa.array([1] * 30 + [2] * 250, LONG), "rv": pa.array(range(280), LONG)})
    for kind in (JoinKind.INNER, JoinKind.LEFT):
        join = spec_of(left, right, kind, [False], None, join_batch_rows=100)
        found = run(join, left, right, pieces=1)
        assert max(batch.num_rows for batch in found) == 100
        assert min(batch.num_rows for batch in found[:-1]) == 100
        assert sorted_rows(found, join.output.names) == reference_join(left, right, kind, ["lk0"], ["rk0"], [False])


@pytest.mark.parametrize("kind", LEFT_KINDS, ids=lambda kind: kind.value)
@pytest.mark.parametrize("has_condition", [False, True])
def test_rows_of_a_key_are_listed_only_where_the_join_needs_them(kind: JoinKind, has_condition: bool) -> None:
    left = pa.record_batch({"lk0": pa.array([1, 2, 3], LONG), "lv": pa.array([1, 2, 3], LONG)})
    right = pa.record_batch({"rk0": pa.array([2, 2, 3, 5] * 100, LONG), "rv": pa.array(range(400), LONG)})
    condition = Compare(CompareOp.LT, Column("lv", LONG), Column("rv", LONG)) if has_condition else None
    side = spec_of(left, right, kind, [False], condition).build_side([right], right.schema)
    listed = kind.shows_right or has_condition
    assert len(side.index.rows) == (400 if listed else 0)
    assert side.index.find([from_arrow(left.column("lk0"))], 3).tolist() == [-1, 0, 1]


@pytest.mark.parametrize("kind", [JoinKind.INNER, JoinKind.LEFT, JoinKind.SEMI])
@pytest.mark.parametrize("has_condition", [False, True])
def test_an_exploding_join_takes_no_more_memory_than_one_piece(kind: JoinKind, has_condition: bool) -> None:
    """A row of 1 KB with 100,000 partners: 100 MB. `tracemalloc` does not see Arrow's memory, its own pool does."""
    text = "x" * 1000
    left = pa.record_batch({"lk0": pa.array([1, 1], LONG), "lv": pa.array([1, 2], LONG), "ls": pa.array([text] * 2)})
    right = pa.record_batch({"rk0": pa.array([1] * 100_000, LONG), "rv": pa.array(range(100_000), LONG)})
    condition = Compare(CompareOp.LT, Column("lv", LONG), Column("rv", LONG)) if has_condition else None
    join = spec_of(left, right, kind, [False], condition, join_batch_bytes=1 << 20)
    build = join.build_side([right], right.schema)
    before, rows, most = pa.total_allocated_bytes(), 0, 0
    for batch in HashJoin(join, build).run(iter([left]), TaskContext()):
        rows, most = rows + batch.num_rows, max(most, pa.total_allocated_bytes() - before)
    matches = [100_000 - 2, 100_000 - 3] if has_condition else [100_000, 100_000]
    assert rows == (2 if kind is JoinKind.SEMI else sum(matches))
    assert most < 4 << 20


def test_rows_that_all_have_one_partner_are_not_copied() -> None:
    left = pa.record_batch({"lk0": pa.array([2, 1, 2], LONG), "lv": pa.array([10, 20, 30], LONG)})
    right = pa.record_batch({"rk0": pa.array([1, 2], LONG), "rv": pa.array([5, 6], LONG)})
    [found] = run(spec_of(left, right, JoinKind.INNER, [False], None), left, right, pieces=1)
    assert found.column("lv").buffers()[1].address == left.column("lv").buffers()[1].address
    assert found.column("rv").to_pylist() == [6, 5, 6]


def test_a_large_table_of_scattered_keys_finds_each() -> None:
    """More keys than a table by value takes, enough for looks ahead."""
    rows = 200_000
    keys = np.random.default_rng(1).permutation(np.arange(rows) * 7919)
    right = pa.record_batch({"rk0": pa.array(keys), "rv": pa.array(np.arange(rows))})
    left = pa.record_batch({"lk0": pa.array(np.arange(2 * rows) * 7919 // 2), "lv": pa.array(np.arange(2 * rows))})
    found = pa.Table.from_batches(run(spec_of(left, right, JoinKind.INNER, [False], None), left, right, pieces=1))
    assert found.num_rows == len(np.intersect1d(keys, left.column("lk0").to_numpy()))
    assert found.column("lk0").equals(found.column("rk0"))


@pytest.mark.parametrize(
    ("numbers", "by_value"),
    [
        ({}, True),
        ({"join_slots_at_least": 0, "join_slots_per_row": 9}, False),
        ({"join_slots_at_least": 0, "join_slots_per_row": 10}, True),
        ({"join_slots_at_least": 991, "join_slots_per_row": 1}, True),
        ({"join_slots": 990}, False),
    ],
)
def test_keys_are_indexed_by_value_where_the_costs_allow_so_many_slots(numbers: dict[str, int], by_value: bool) -> None:
    keys = from_arrow(pa.array(range(0, 1000, 10), LONG))  # 100 keys in 991 slots
    index = KeyIndex.over([keys], (False,), 100, replace(DRIVER, **numbers))
    assert index.find([from_arrow(pa.array([10, 15, None, 990], LONG))], 4).tolist() == [1, -1, -1, 99]
    slots = 991 * 4
    assert (index.numbers.nbytes == slots) is by_value
