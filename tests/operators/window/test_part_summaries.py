"""Summaries of ranges by the tasks that send the rows: which calls have them, and that they say what ranges would."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sundog.expr.calls import Bound, BoundKind, Frame, WindowCall
from sundog.expr.ordering import SortKey
from sundog.operators.context import TaskContext
from sundog.operators.window.frames.frame_need import MAX_EDGE_ROWS
from sundog.operators.window.ranges.carry import read_summaries
from sundog.operators.window.ranges.part_summaries import PartSummaries, part_need
from sundog.operators.window.steps import WindowSteps
from sundog.operators.window.window_operator import serial_window
from sundog.plan.costs import DRIVER
from tests.operators.window.cases import (
    CURRENT_ROW,
    KEY_TYPES,
    SETTINGS,
    UNBOUNDED_FOLLOWING,
    UNBOUNDED_PRECEDING,
    aggregate_calls,
    call,
    column,
    inputs,
    integer,
    place_calls,
    range_frame,
    rows_frame,
    rows_frames,
    tables,
)
from tests.operators.window.driving import cut_up, drive
from tests.operators.window.test_halo import check_equal

NARROW_KEYS = [dtype for dtype in KEY_TYPES if dtype != pa.decimal128(30, 5)]
ONE_KEY = (SortKey(column("k0", pa.int64())),)


def with_parts(calls: list[WindowCall], order: tuple[SortKey, ...]) -> list[WindowCall]:
    return [one for one in calls if part_need([one], order) is not None]


@SETTINGS
@given(
    st.data(),
    st.sampled_from(NARROW_KEYS),
    st.lists(st.sampled_from([*KEY_TYPES, pa.string(), pa.bool_()]), max_size=2),
    st.integers(2, 6),
    st.integers(0, 2**32),
)
def test_ranges_that_are_summarized_on_the_way(
    data: Any, first: pa.DataType, more: list[pa.DataType], ranges: int, seed: int
) -> None:
    flags = data.draw(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=3, max_size=3))
    types = [first, *more]
    order = tuple(SortKey(column(f"k{n}", t), *flags[n]) for n, t in enumerate(types))
    opening = data.draw(st.sampled_from([rows_frame(None, 2), rows_frame(-2, None), rows_frame(None, 0)]))
    frames = [data.draw(rows_frames()), opening, range_frame(None, 0), range_frame(0, None), range_frame(None, None)]
    calls = [*aggregate_calls(data.draw(st.sampled_from(frames))), *place_calls()]
    picked = data.draw(
        st.lists(st.sampled_from(with_parts(calls, order)), min_size=1, max_size=5, unique_by=lambda c: c.name)
    )
    table = data.draw(tables(types, inputs(picked), max_rows=60))
    steps = WindowSteps(table.schema, tuple(picked), (), order, DRIVER)
    expected = serial_window(table, picked, (), order)
    parts = cut_up(table, 4, np.random.default_rng(seed))
    driven = drive(steps, parts, ranges, seed, on_the_way=True)
    check_equal(driven.table, expected, picked, in_order=steps.need.order_sensitive)


@SETTINGS
@given(
    st.integers(1, 400),
    st.integers(1, 30),
    st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=2),
    st.sampled_from([0.0, 0.1, 0.7]),
    st.integers(0, 2**32),
)
def test_edges_of_many_rows_with_few_keys(
    rows: int, edges: int, keys: list[tuple[bool, bool]], nulls: float, seed: int
) -> None:
    """Ties at the ends, more pieces than wait, ranges of fewer rows than are asked for."""
    random = np.random.default_rng(seed)
    ids = np.arange(rows)
    values = [pa.array(random.integers(0, 9, rows), mask=random.random(rows) < nulls) for _ in keys]
    table = pa.table([*values, ids, ids], names=[*(f"k{n}" for n in range(len(keys))), "i", "id"])
    order = tuple(SortKey(column(f"k{n}", pa.int64()), *flags) for n, flags in enumerate(keys))
    calls = [
        call("lag", rows_frame(None, 0), column("i"), integer(edges), integer(-1), dtype=pa.int64(), name="l"),
        call("sum", rows_frame(-edges // 2, edges), column("i"), dtype=pa.int64(), name="s", ansi=False),
        call("sum", rows_frame(None, edges), column("i"), dtype=pa.int64(), name="until", ansi=False),
        call("sum", rows_frame(-edges, None), column("i"), dtype=pa.int64(), name="from", ansi=False),
        call("lead", rows_frame(None, 0), column("i"), integer(1), integer(-1), dtype=pa.int64(), name="next"),
    ]
    steps = WindowSteps(table.schema, tuple(calls), (), order, DRIVER)
    driven = drive(steps, cut_up(table, 3, random), 3, seed, on_the_way=True)
    check_equal(driven.table, serial_window(table, calls, (), order), calls, in_order=True)


@pytest.mark.parametrize(
    ("function", "frame", "more", "edges"),
    [
        ("row_number", rows_frame(None, 0), {}, 0),
        ("rank", rows_frame(None, 0), {}, 0),
        ("ntile", rows_frame(None, 0), {}, 0),
        ("dense_rank", rows_frame(None, 0), {}, None),
        ("sum", range_frame(None, 0), {}, 0),
        ("sum", rows_frame(None, 3), {}, 3),
        ("sum", rows_frame(-7, 3), {}, 7),
        ("sum", range_frame(-7, 3), {}, 0),
        ("max", rows_frame(-MAX_EDGE_ROWS, 0), {}, MAX_EDGE_ROWS),
        ("first", rows_frame(None, 0), {}, 1),
        ("first", rows_frame(None, 4), {}, 4),
        ("last", rows_frame(0, None), {}, 1),
        ("first", rows_frame(-2, 2), {"ignore_nulls": True}, 2),
        ("first", rows_frame(None, 0), {"ignore_nulls": True}, None),
        ("first", rows_frame(None, 0), {"filter": column("b")}, None),
        ("nth_value", rows_frame(None, 0), {}, 3),
        ("lag", rows_frame(None, 0), {}, 3),
        ("lag", rows_frame(None, 0), {"ignore_nulls": True}, None),
        ("max_by", rows_frame(None, 0), {}, None),
    ],
)
def test_what_calls_need(function: str, frame: Frame, more: dict[str, Any], edges: int | None) -> None:
    args = {
        "row_number": (),
        "rank": (),
        "dense_rank": (),
        "ntile": (integer(3),),
        "nth_value": (column("i"), integer(3)),
        "lag": (column("i"), integer(3), integer(0)),
        "max_by": (column("i"), column("d")),
    }.get(function, (column("i"),))
    need = part_need([call(function, frame, *args, dtype=pa.int64(), **more)], ONE_KEY)
    assert (None if need is None else need.edges) == edges


def test_the_greatest_double_is_that_of_a_whole_range_since_its_first_zero_stays() -> None:
    greatest = call("max", rows_frame(None, 0), column("d"), dtype=pa.float64())
    assert part_need([greatest], ONE_KEY) is None
    assert part_need([call("max", rows_frame(None, 0), column("i"), dtype=pa.int64())], ONE_KEY) is not None


def test_ends_by_a_key_of_no_word_are_those_of_a_whole_range() -> None:
    by_name = (SortKey(column("s")),)
    shifted = call("lag", rows_frame(None, 0), column("i"), integer(1), integer(0), dtype=pa.int64())
    assert part_need([shifted], by_name) is None
    running = call("count", Frame("range", UNBOUNDED_PRECEDING, CURRENT_ROW), integer(1), dtype=pa.int64())
    assert part_need([running], by_name) is not None, "rows in any order are counted"
    after = Frame("rows", Bound(BoundKind.OFFSET, -1), UNBOUNDED_FOLLOWING)
    assert part_need([call("count", after, integer(1), dtype=pa.int64())], by_name) is None


def test_a_summary_is_as_small_as_what_it_says() -> None:
    """Not the arrays that its rows were cut from."""
    table = pa.table({"k0": np.arange(100_000), "i": np.arange(100_000), "name": ["x" * 50] * 100_000})
    calls = (call("lag", rows_frame(None, 0), column("i"), integer(2), integer(0), dtype=pa.int64()),)
    need = part_need(calls, ONE_KEY)
    assert need is not None
    assert need.columns == ("i", "k0")
    parts = PartSummaries(need)
    for batch in table.to_batches(max_chunksize=9_000):
        parts.add(0, batch)
    parts.add(1, table.slice(500, 1).to_batches()[0])
    found = parts.found()
    assert [found[0].rows, found[1].rows] == [100_000, 1]
    assert found[0].first[0].column("k0").to_pylist() == [0, 1]
    assert found[0].last[0].column("k0").to_pylist() == [99_998, 99_999]
    assert found[1].first[0].column("k0").to_pylist() == found[1].last[0].column("k0").to_pylist() == [500]
    assert len(pickle.dumps(found)) < 10_000


def test_a_task_without_rows_says_so() -> None:
    table = pa.table({"k0": pa.array([1, 2], pa.int64()), "id": [0, 1]})
    calls = (call("row_number", rows_frame(None, 0), dtype=pa.int32()),)
    steps = WindowSteps(table.schema, calls, (), ONE_KEY, DRIVER)
    driven = drive(steps, [table.to_batches(), []], 2, on_the_way=True)
    assert driven.table.column("r").to_pylist() == [1, 2]
    assert driven.move.summarizes
    (last,) = list(driven.move.split(iter([]), TaskContext(1)))
    assert last[0] == driven.move.partitions
    assert read_summaries([last[1]]) == [{}]
