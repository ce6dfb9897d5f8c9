"""The group table, kept across batches, gives equal keys the same number, with and without hashing."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sundog.columns.arrow import from_arrow, to_arrow
from sundog.columns.key_layout import KeyLayout
from sundog.operators.aggregate.keys.batch_slots import direct_groups
from sundog.operators.aggregate.keys.group_table import GroupTable
from sundog.plan.costs import DRIVER
from tests.operators.aggregate.reference import python_values, same_key
from tests.oracle.batches import ALL_TYPES, record_batches

LONG = "a string that is longer than twelve bytes "


@settings(max_examples=60, deadline=None)
@given(data=st.data(), hashing=st.booleans())
def test_equal_keys_have_one_number(data: st.DataObject, hashing: bool) -> None:
    types = data.draw(st.lists(st.sampled_from(ALL_TYPES), min_size=1, max_size=3))
    schema = pa.schema([(f"k{i}", dtype) for i, dtype in enumerate(types)])
    table = GroupTable(KeyLayout.of(types), replace(DRIVER, direct_slots=1) if hashing else DRIVER)
    seen: dict[tuple[object, ...], int] = {}
    for _ in range(3):
        batch = data.draw(record_batches(schema, max_size=30))
        keys = [from_arrow(column) for column in batch.columns]
        columns = [python_values(column) for column in batch.columns]
        rows = [tuple(map(same_key, row)) for row in zip(*columns, strict=True)]
        ids = table.assign(keys, batch.num_rows)
        assert ids.tolist() == [seen.setdefault(row, number) for row, number in zip(rows, ids.tolist(), strict=True)]
        assert sorted(seen.values()) == list(range(table.count))
    columns = [python_values(to_arrow(key)) for key in table.group_keys()]
    assert [tuple(map(same_key, row)) for row in zip(*columns, strict=True)] == sorted(seen, key=seen.__getitem__)


def test_table_grows_through_batches() -> None:
    table = GroupTable(KeyLayout.of([pa.int64()]), DRIVER)
    numbers = np.random.default_rng(1).integers(0, 2**40, 30_000)
    for part in np.split(numbers, 10):
        table.assign([from_arrow(pa.array(part))], len(part))
    expected = pa.array(numbers).unique()
    assert to_arrow(table.group_keys()[0]).equals(expected)
    again = table.assign([from_arrow(pa.array(numbers))], len(numbers))
    assert np.array_equal(expected.to_numpy()[again], numbers)


def test_long_strings_outlive_their_batches() -> None:
    table = GroupTable(KeyLayout.of([pa.string(), pa.string()]), DRIVER)
    for start in range(5):
        names = pa.array([LONG + str(n) for n in range(start, start + 3)])
        table.assign([from_arrow(names), from_arrow(names)], 3)
    first, second = (to_arrow(key).to_pylist() for key in table.group_keys())
    assert first == second == [LONG + str(n) for n in range(7)]
    assert table.nbytes > 7 * len(LONG)


@pytest.mark.parametrize(
    ("columns", "direct"),
    [
        ([pa.array([5, 7, 5, None], pa.int32())], True),
        ([pa.array([2**62, -(2**62), 0, 0])], False),
        ([pa.array([2**63 - 1, -(2**63), 0, 0])], False),
        ([pa.array([True, False, None, True]), pa.array([1, 1, 2, 1], pa.int8())], True),
        ([pa.array(["x", LONG, None, "x"]).dictionary_encode()], True),
        ([pa.array(["x", LONG, None, "x"])], False),
        ([pa.array([1.0, 2.0, 1.0, 2.0])], False),
        ([pa.array([None, None, None, None], pa.int32())], False),
        ([pa.array([10, 11, 12, 13], pa.date32())], True),
    ],
)
def test_which_keys_need_no_hashing(columns: list[pa.Array], direct: bool) -> None:
    keys = [from_arrow(column) for column in columns]
    found = direct_groups(keys, 4, DRIVER)
    assert (found is not None) == direct
    if found is not None:
        rows = list(zip(*(column.to_pylist() for column in columns), strict=True))
        founders = [rows[row] for row in found.founders]
        assert sorted(founders, key=repr) == sorted(set(rows), key=repr)
        ids = found.ids(np.arange(len(founders), dtype=np.int32))
        assert [founders[number] for number in ids] == rows


def test_more_slots_than_rows_allow_are_hashed() -> None:
    keys = [from_arrow(pa.array([0, 3, 5, 7]))]
    assert direct_groups(keys, 4, DRIVER) is not None
    assert direct_groups(keys, 4, replace(DRIVER, direct_slots_per_row=1)) is None


def test_a_string_that_is_twice_in_its_dictionary_is_one_group() -> None:
    twice = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int32()), pa.array(["x", "y", "x"]))
    table = GroupTable(KeyLayout.of([pa.string()]), DRIVER)
    assert table.assign([from_arrow(twice)], 3).tolist() == [0, 1, 0]


@settings(max_examples=80, deadline=None)
@given(
    batches=st.lists(
        st.lists(st.one_of(st.none(), st.integers(-4, 12), st.sampled_from([-(2**31), 2**31 - 1])), max_size=60),
        min_size=2,
        max_size=6,
    ),
    narrow=st.sampled_from([pa.int32(), pa.int64(), pa.date32()]),
)
def test_known_numbers_are_found_again(batches: list[list[int | None]], narrow: pa.DataType) -> None:
    """Batch after batch of few values: new ones among known ones, NULL, and values too far apart for a table."""
    table = GroupTable(KeyLayout.of([narrow]), DRIVER)
    seen: dict[int | None, int] = {}
    for batch in batches:
        rows = [*batch, *seen, *seen, *seen, *seen]
        ids = table.assign([from_arrow(pa.array(rows, pa.int32()).cast(narrow))], len(rows))
        assert ids.tolist() == [seen.setdefault(row, number) for row, number in zip(rows, ids.tolist(), strict=True)]
        assert sorted(seen.values()) == list(range(table.count))


small_keys = {
    pa.int32(): st.integers(-5, 40),
    pa.int64(): st.sampled_from([-(2**63), -(2**63) + 3, -(2**63) + 9]),
    pa.date32(): st.integers(2**31 - 4, 2**31 - 1),
    pa.bool_(): st.booleans(),
    pa.string(): st.sampled_from(["", "a", "b", LONG + "1", LONG + "2", *map(str, range(10, 90))]),
}


def coded(column: pa.Array, shuffled: bool) -> pa.Array:
    """A string column as a dictionary: its own, or one in another order that holds one of its strings twice."""
    if not pa.types.is_string(column.type):
        return column
    codes = column.dictionary_encode()
    if not shuffled or len(codes.dictionary) == 0:
        return codes
    last = len(codes.dictionary)
    turned = pa.concat_arrays([codes.dictionary, codes.dictionary[-1:]]).take(pa.array(range(last, -1, -1)))
    numbers = [None if code is None else last - code for code in codes.indices.to_pylist()]
    return pa.DictionaryArray.from_arrays(pa.array(numbers, pa.int32()), turned)


@settings(max_examples=150, deadline=None)
@given(data=st.data(), max_entries=st.sampled_from([5, 1 << 12]), max_slots=st.sampled_from([100, 1 << 18]))
def test_keys_that_were_seen_in_earlier_batches_have_the_same_number(
    data: st.DataObject, max_entries: int, max_slots: int
) -> None:
    types = data.draw(st.lists(st.sampled_from(list(small_keys)), min_size=1, max_size=3))
    costs = replace(DRIVER, direct_rows_per_string=0, direct_strings=max_entries, direct_slots=max_slots)
    table = GroupTable(KeyLayout.of(types), costs)
    seen: dict[tuple[object, ...], int] = {}
    for _ in range(5):
        size = data.draw(st.integers(0, 30))
        values = [data.draw(st.lists(small_keys[dtype] | st.none(), min_size=size, max_size=size)) for dtype in types]
        columns = [
            coded(pa.array(column, dtype), data.draw(st.booleans()))
            for column, dtype in zip(values, types, strict=True)
        ]
        keys = [from_arrow(column) for column in columns]
        ids = table.assign(keys, size).tolist()
        rows = list(zip(*values, strict=True))
        assert ids == [seen.setdefault(row, number) for row, number in zip(rows, ids, strict=True)]
        assert sorted(seen.values()) == list(range(table.count))
        if data.draw(st.integers(0, 9)) == 0:
            table.clear()
            seen.clear()


@pytest.mark.parametrize(
    "batches",
    [
        [[("a", 1), ("b", 1), (None, 2)], [("b", 1), ("a", 1), (None, 2)]],
        [[("a", 1), ("b", None)], [("b", None), ("a", 1)]],
    ],
)
def test_what_was_seen_is_not_looked_up_again(batches: list[list[tuple[object, object]]]) -> None:
    table = GroupTable(KeyLayout.of([pa.string(), pa.int32()]), replace(DRIVER, direct_rows_per_string=0))
    numbers = []
    with patch.object(table, "look_up", wraps=table.look_up) as look_up:
        for batch in batches:
            names, numbers_of = zip(*batch, strict=True)
            keys = [pa.array(names).dictionary_encode(), pa.array(numbers_of, pa.int32())]
            ids = table.assign([from_arrow(key) for key in keys], len(batch)).tolist()
            numbers.append(dict(zip(batch, ids, strict=True)))
    assert numbers[0] == numbers[1]
    assert look_up.call_count == 1
