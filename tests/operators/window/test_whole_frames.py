"""A frame of all rows: one value, computed from the summaries of the ranges, and the same in every range."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sundog.expr.calls import Bound, BoundKind, Frame, WindowCall
from sundog.expr.nodes import Column
from sundog.operators.context import TaskContext
from sundog.operators.window.frames.range_columns import RangeColumns
from sundog.operators.window.ranges.carry import SummarizeRange, carries_of, read_summaries, summarize
from sundog.operators.window.window_operator import WindowOperator, serial_window, window_table

WHOLE = Frame("rows", Bound(BoundKind.UNBOUNDED_PRECEDING), Bound(BoundKind.UNBOUNDED_FOLLOWING))
LONGS, DOUBLES = pa.int64(), pa.float64()
CALLS = (
    ("sum", "i", LONGS),
    ("sum", "x", DOUBLES),
    ("avg", "x", DOUBLES),
    ("count", "x", LONGS),
    ("min", "x", DOUBLES),
    ("max", "i", LONGS),
    ("stddev_pop", "x", DOUBLES),
    ("first", "x", DOUBLES),
    ("last", "i", LONGS),
)
numbers = st.none() | st.integers(-1000, 1000)
doubles = st.none() | st.floats(0.5, 1e6) | st.sampled_from([math.nan, math.inf])


def call_of(function: str, column: str, dtype: pa.DataType) -> WindowCall:
    argument = Column(column, LONGS if column == "i" else DOUBLES)
    return WindowCall(f"{function}_{column}", function, (argument,), dtype, WHOLE)


@pytest.mark.parametrize(("function", "column", "dtype"), CALLS)
@given(
    rows=st.lists(st.tuples(numbers, doubles), min_size=1, max_size=40), cuts=st.lists(st.integers(0, 40), max_size=4)
)
def test_ranges_show_the_value_of_all_rows(
    function: str, column: str, dtype: pa.DataType, rows: list[tuple[int | None, float | None]], cuts: list[int]
) -> None:
    table = pa.table({"i": pa.array([i for i, _ in rows], LONGS), "x": pa.array([x for _, x in rows], DOUBLES)})
    call = call_of(function, column, dtype)
    places = sorted({0, len(rows), *(min(cut, len(rows)) for cut in cuts)})
    ranges = [table.slice(low, high - low) for low, high in pairwise(places)]
    carries = carries_of([summarize(n, RangeColumns(part), [call], []) for n, part in enumerate(ranges)], [call])
    assert carries is not None
    parts = [window_table(part, [call], [], [], carry) for part, carry in zip(ranges, carries, strict=True)]
    found = pa.concat_tables(parts).column(call.name).to_pylist()
    expected = serial_window(table, [call], [], []).column(call.name).to_pylist()
    for value, wanted in zip(found, expected, strict=True):
        assert value == (wanted if wanted is None else pytest.approx(wanted, rel=1e-12, nan_ok=True))
    if function not in ("first", "last"):
        assert len({repr(value) for value in found}) == 1


@pytest.mark.parametrize("sizes", [(0,), (0, 0), (5, 0, 3), (7,)])
def test_without_an_order_a_partition_is_never_in_memory_as_a_whole(sizes: tuple[int, ...]) -> None:
    """Neither is summarized nor computed as one table: a partition may be of any size."""
    calls = tuple(call_of(*call) for call in CALLS if call[0] not in ("first", "last"))
    taken = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal taken
        for start, size in zip((100, 200, 300), sizes, strict=False):
            taken += 1
            ids = range(start, start + size)
            columns = [pa.array(ids, LONGS), pa.array([n / 8 for n in ids], DOUBLES)]
            yield pa.record_batch(columns, names=["i", "x"])

    table = pa.Table.from_batches(list(batches()))
    (row,) = SummarizeRange(table.schema, calls, ()).run(batches(), TaskContext())
    carries = carries_of(read_summaries([row]), calls)
    assert carries == carries_of([summarize(0, RangeColumns(table), calls, [])], calls)
    assert carries is not None
    taken = 0
    output: list[pa.RecordBatch] = []
    for batch in WindowOperator(table.schema, calls, (), (), tuple(carries)).run(batches(), TaskContext()):
        output.append(batch)
        assert batch.num_rows == sizes[taken - 1]
    expected = serial_window(table, calls, [], [])
    assert pa.Table.from_batches(output, expected.schema).equals(expected)
