"""Columns of a range: chunks as one array, and one value for all rows in the batches of the others."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sundog.expr.calls import Bound, BoundKind, Frame, WindowCall
from sundog.expr.nodes import Column
from sundog.operators.window.frames import range_columns
from sundog.operators.window.frames.range_columns import batches_of, joined, parts_by_owner
from sundog.operators.window.ranges.carry import Carry
from sundog.operators.window.window_operator import window_table

WHOLE = Frame("rows", Bound(BoundKind.UNBOUNDED_PRECEDING), Bound(BoundKind.UNBOUNDED_FOLLOWING))


def address(array: pa.Array) -> int:
    return int(array.buffers()[1].address)


def chunked(array: pa.Array, *cuts: int) -> pa.ChunkedArray:
    places = [0, *cuts, len(array)]
    return pa.chunked_array([array.slice(low, high - low) for low, high in pairwise(places)])


@pytest.mark.parametrize("dtype", [pa.int32(), pa.int64(), pa.float64(), pa.date32(), pa.timestamp("us")], ids=str)
@pytest.mark.parametrize("first", [0, 3])
def test_chunks_of_one_array_are_joined_without_a_copy(dtype: pa.DataType, first: int) -> None:
    array = pa.array(np.arange(20, dtype=np.int32)).cast(pa.int64() if dtype != pa.date32() else pa.int32()).cast(dtype)
    whole = joined(chunked(array.slice(first), 4, 4, 9))
    assert whole.equals(array.slice(first))
    assert address(whole) == address(array)


@pytest.mark.parametrize(
    "chunks",
    [
        [pa.array([1, 2]), pa.array([3])],
        [pa.array([1, 2, 3]).slice(1), pa.array([1, 2, 3]).slice(0, 1)],
        chunked(pa.array([1, None, 3, 4]), 2).chunks,
        chunked(pa.array([1, 2, 3, None]), 2).chunks,
        chunked(pa.array([True, False, True]), 1).chunks,
        chunked(pa.array(["a", "b", "c"]), 1).chunks,
        chunked(pa.nulls(4), 2).chunks,
        chunked(pa.array([1, 2, 3, 4]), 2).chunks[::-1],
        [chunked(pa.array([1, 2, 3, 4]), 2).chunk(0)] * 2,
    ],
    ids=["arrays", "offsets", "null", "null-last", "bits", "strings", "untyped", "backwards", "twice"],
)
def test_other_chunks_are_copied_in_their_order(chunks: list[pa.Array]) -> None:
    column = pa.chunked_array(chunks)
    assert joined(column).to_pylist() == column.to_pylist()


def test_a_value_of_all_rows_has_the_batches_of_the_other_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut elsewhere, it would cut them too."""
    monkeypatch.setattr(range_columns, "OUTPUT_ROWS", 4)
    table = pa.table({"x": chunked(pa.array(np.arange(20)), 7, 7, 9)})
    call = WindowCall("total", "sum", (Column("x", pa.int64()),), pa.int64(), WHOLE)
    found = window_table(table, [call], [], [], Carry(whole={"total": pa.array([190])}))
    assert found.column("total").to_pylist() == [190] * 20
    assert [batch.num_rows for batch in batches_of(found)] == [batch.num_rows for batch in batches_of(table)]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(0, 5), max_size=60), st.integers(0, 3), st.booleans(), st.booleans())
def test_each_owner_gets_its_rows_in_order(owners: list[int], first: int, nulls: bool, ordered: bool) -> None:
    """Columns of every kind and width, cut from longer ones; owners without rows, one owner of all, owners in order."""
    owners = sorted(owners) if ordered else owners
    numbers = [None if nulls and number % 3 == 0 else number for number in range(first + len(owners))]
    columns = {
        str(dtype): pa.array(numbers, pa.int32()).cast(dtype).slice(first)
        for dtype in (pa.int8(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.date32())
    }
    columns["bool"] = pa.array([None if number is None else number % 2 == 0 for number in numbers]).slice(first)
    batch = pa.RecordBatch.from_pydict(columns)
    parts = dict(parts_by_owner(batch, np.array(owners, np.int32), 7))
    assert list(parts) == sorted(set(owners))
    for owner, part in parts.items():
        part.validate(full=True)
        assert part.equals(batch.take(pa.array([row for row, each in enumerate(owners) if each == owner])))
