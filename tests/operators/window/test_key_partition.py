"""PARTITION BY: rows moved by the hash of their keys give what all rows in one place give, for keys of every type."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sundog.columns.arrow import from_arrow
from sundog.columns.key_words import key_numbers
from sundog.expr.nodes import Column
from sundog.expr.ordering import SortKey
from sundog.operators.window.steps import WindowSteps
from sundog.operators.window.window_operator import serial_window
from sundog.plan.costs import DRIVER
from tests.operators.window.cases import SETTINGS, call, column, range_frame, rows_frame
from tests.operators.window.driving import cut_up, drive_by_key
from tests.operators.window.reference import Reference, plain
from tests.oracle.batches import ALL_TYPES, record_batches

CALLS = (
    call("sum", range_frame(None, 0), column("n"), dtype=pa.int64(), name="running"),
    call("count", range_frame(-5, 5), column("s"), dtype=pa.int64(), name="near"),
    call("first", rows_frame(-2, 0), column("s"), dtype=pa.string(), name="before"),
    call("row_number", rows_frame(None, 0), dtype=pa.int32(), name="place"),
)


@st.composite
def keyed_tables(draw: st.DrawFn) -> tuple[pa.Table, tuple[Column, ...]]:
    """Rows with one to three partition keys; the order key `id` is unique, so that every answer is the only one."""
    types = draw(st.lists(st.sampled_from(ALL_TYPES), min_size=1, max_size=3))
    keys = tuple(Column(f"p{number}", dtype) for number, dtype in enumerate(types))
    fields = [(key.name, key.dtype) for key in keys]
    batch = draw(record_batches(pa.schema([*fields, ("n", pa.int32()), ("s", pa.string())]), max_size=60))
    numbers = draw(st.permutations(range(batch.num_rows)))
    return pa.Table.from_batches([batch]).append_column("id", pa.array(numbers, pa.int64())), keys


@SETTINGS
@given(keyed_tables(), st.integers(1, 5), st.integers(1, 4), st.booleans(), st.integers(0, 99))
def test_every_partition_by_itself(keyed, partitions, inputs, descending, seed):
    table, keys = keyed
    order = (SortKey(Column("id", pa.int64()), descending),)
    steps = WindowSteps(table.schema, CALLS, keys, order, DRIVER)
    parts = cut_up(table, inputs, np.random.default_rng(seed))
    columns = ["id", *(one.name for one in CALLS)]
    result = drive_by_key(steps, parts, partitions, seed).sort_by("id").select(columns)
    assert result.equals(serial_window(table, CALLS, keys, order).sort_by("id").select(columns))
    reference = Reference(table, keys, order)
    ids = reference.table.column("id").to_pylist()
    for one in CALLS:
        expected = [value for _, value in sorted(zip(ids, reference.column(one), strict=True))]
        assert plain(result.column(one.name).combine_chunks()) == expected


@SETTINGS
@given(keyed_tables())
def test_equal_keys_have_equal_numbers(keyed):
    table, keys = keyed
    if not table.num_rows:
        return
    reference = Reference(table, keys, (SortKey(Column("id", pa.int64())),))
    numbers = key_numbers([from_arrow(reference.table.column(key.name).combine_chunks()) for key in keys])
    seen = [set(numbers[segment.first : segment.last].tolist()) for segment in reference.segments]
    assert all(len(each) == 1 for each in seen)
    assert len(set.union(*seen)) == len(seen)


def test_rows_in_order_already_stay_as_they_are():
    table = pa.table({"p": [1, 1, 2, 2], "id": [1, 2, 1, 2], "n": pa.array([1, 2, 3, 4], pa.int32()), "s": ["a"] * 4})
    order = (SortKey(Column("id", pa.int64())),)
    result = serial_window(table, CALLS[:1], (Column("p", pa.int64()),), order)
    assert result.column("running").to_pylist() == [1, 3, 3, 7]


def test_keys_that_fit_no_common_word():
    """Words of 64 bits each, both ends of the type among them."""
    low, high = -(2**63), 2**63 - 1
    table = pa.table({"p": [high, low, high, 0, low], "id": [low, 5, high, 0, -5], "n": pa.array(range(5), pa.int32())})
    order = (SortKey(Column("id", pa.int64())),)
    result = serial_window(table, CALLS[:1], (Column("p", pa.int64()),), order)
    rows = {(row["p"], row["id"]): row["running"] for row in result.to_pylist()}
    assert rows == {(high, low): 0, (high, high): 2, (low, -5): 4, (low, 5): 5, (0, 0): 3}
