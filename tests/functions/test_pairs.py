"""Each function gives what its oracles give: plain Python by group and over frames, however rows are cut; and Spark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sundog
from sundog.expr.calls import AggregateCall, Bound, BoundKind, Frame, NamedExpr, WindowCall
from sundog.expr.nodes import Column, Expr, Literal
from sundog.expr.ordering import SortKey
from sundog.functions.declaration import Function, Order
from sundog.functions.table import FUNCTIONS
from sundog.operators.window.steps import WindowSteps
from sundog.operators.window.window_operator import serial_window
from sundog.plan.costs import DRIVER
from sundog.versions import spark_version
from tests.operators.aggregate.reference import python_values
from tests.operators.aggregate.runner import HUGE, Setup, run_phases
from tests.operators.window.driving import cut_up, drive
from tests.operators.window.reference import Reference
from tests.oracle.batches import array_of
from tests.oracle.pairs import COLUMNS, PAIRS, POOLS, Pair
from tests.oracle.plain_spark import plain_spark

DECLARED = [function for function in FUNCTIONS.values() if not function.internal]
GROUPED = [function.name for function in DECLARED if function.grouped]
FRAMED = [function.name for function in DECLARED if function.over_windows]
QUICK = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
KEY = Column("k", pa.int32())
UNIQUE = Column("id", pa.int64())
UNBOUNDED = Bound(BoundKind.UNBOUNDED_PRECEDING), Bound(BoundKind.UNBOUNDED_FOLLOWING)
HERE = Bound(BoundKind.CURRENT_ROW)
ROWS_FRAMES = [
    Frame("rows", Bound(BoundKind.OFFSET, -3), Bound(BoundKind.OFFSET, 1)),
    Frame("rows", Bound(BoundKind.OFFSET, -20), HERE),
    Frame("rows", Bound(BoundKind.OFFSET, -4), Bound(BoundKind.OFFSET, -2)),
    Frame("rows", UNBOUNDED[0], HERE),
    Frame("rows", HERE, UNBOUNDED[1]),
    Frame("rows", *UNBOUNDED),
]
RANGE_FRAMES = [
    Frame("range", Bound(BoundKind.OFFSET, -2), Bound(BoundKind.OFFSET, 1)),
    Frame("range", Bound(BoundKind.OFFSET, -40), Bound(BoundKind.OFFSET, 40)),
    Frame("range", UNBOUNDED[0], HERE),
]


def test_every_function_has_a_pair() -> None:
    assert set(PAIRS) == {function.name for function in DECLARED}


@st.composite
def tables(draw: st.DrawFn, max_rows: int = 40) -> pa.Table:
    """Keys `k` with ties, some of them NULL; a number `id` for each row; the columns of the pairs."""
    count = draw(st.integers(0, max_rows))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    nulls = draw(st.sampled_from([0.0, 0.2]))
    keys = [None if random.random() < nulls else int(random.integers(-4, 5)) for _ in range(count)]
    spread = draw(st.integers(1, 9))
    pools = {name: [pool[at] for at in random.permutation(len(pool))[:spread]] for name, pool in POOLS.items()}
    drawn = [
        array_of([pools[f.name][at] for at in random.integers(0, len(pools[f.name]), count)], f.type) for f in COLUMNS
    ]
    ids = pa.array(random.permutation(count), pa.int64())
    return pa.table([pa.array(keys, pa.int32()), ids, *drawn], names=["k", "id", *COLUMNS.names])


def arguments(function: Function, pair: Pair, names: Sequence[str]) -> tuple[Expr, ...]:
    args: list[Expr] = [Column(name, COLUMNS.field(name).type) for name in names]
    if pair.constant is not None:
        args.insert(function.constant or 0, Literal(pair.constant, pa.int32()))
    return tuple(args)


def result_type(function: Function, args: Sequence[Expr]) -> pa.DataType:
    found = function.result(args[0].dtype if args else pa.null())
    assert found is not None
    return found


def rows_of(table: pa.Table, names: Sequence[str]) -> list[tuple[Any, ...]]:
    columns = [python_values(table.column(name).combine_chunks()) for name in names]
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows


def close(got: Any, wanted: Any) -> bool:
    if isinstance(got, float) and isinstance(wanted, float):
        if math.isnan(got) or math.isnan(wanted):
            return math.isnan(got) and math.isnan(wanted)
        return math.isclose(got, wanted, rel_tol=1e-9, abs_tol=1e-6)
    return type(got) is type(wanted) and bool(got == wanted)


def check(got: Sequence[Any], wanted: Sequence[Any], what: Any) -> None:
    assert len(got) == len(wanted)
    wrong = [(at, *both) for at, both in enumerate(zip(got, wanted, strict=True)) if not close(*both)]
    assert wrong == [], what


@pytest.mark.parametrize("name", GROUPED)
@QUICK
@given(data=st.data())
def test_by_group_as_in_plain_python(name: str, data: st.DataObject) -> None:
    function, pair = FUNCTIONS[name], PAIRS[name]
    table = data.draw(tables())
    names = data.draw(st.sampled_from(pair.arguments))
    args = arguments(function, pair, names)
    call = AggregateCall("r", name, args, result_type(function, args))
    cuts = sorted(data.draw(st.lists(st.integers(0, table.num_rows), max_size=3)))
    batches = [
        batch
        for low, high in zip([0, *cuts], [*cuts, table.num_rows], strict=True)
        for batch in table.slice(low, high - low).combine_chunks().to_batches()
    ]
    in_order = function.order is not Order.IGNORED  # whose rows must stay in one task
    setup = Setup(
        in_process=data.draw(st.booleans()),
        batch_rows=data.draw(st.sampled_from([3, 1 << 18])),
        bucket_bytes=data.draw(st.sampled_from([64, 1 << 19])),
        probe_rows=1 << 16 if in_order else data.draw(st.sampled_from([1, 4, 1 << 16])),
        memory=HUGE if in_order else data.draw(st.sampled_from([HUGE, 2000])),
        table_groups=1 << 17 if in_order else data.draw(st.sampled_from([1, 6, 1 << 17])),
    )
    tasks = [batches] if in_order else [batches[::2], batches[1::2]]
    found, _ = run_phases([NamedExpr("k", KEY)], [call], tasks, setup)
    got = dict(zip(python_values(found.column("k").combine_chunks()), rows_of(found, ["r"]), strict=True))
    groups: dict[Any, list[Any]] = {}
    for key, row in zip(table.column("k").to_pylist(), rows_of(table, names), strict=True):
        groups.setdefault(key, []).append(row)
    assert pair.of_rows is not None
    assert got.keys() == groups.keys()
    for key, rows in groups.items():
        check(got[key], [pair.of_rows(rows, call.dtype)], (name, names, rows))


def windowed(name: str, names: Sequence[str], frame: Frame) -> WindowCall:
    args = arguments(FUNCTIONS[name], PAIRS[name], names)
    return WindowCall("r", name, args, result_type(FUNCTIONS[name], args), frame)


def reference(table: pa.Table, pair: Pair, names: Sequence[str], call: WindowCall, order: SortKey) -> list[Any]:
    sorted_rows = Reference(table, (), (order,))
    rows = rows_of(sorted_rows.table, names)
    if pair.of_place is not None:
        keys = sorted_rows.keys[0]
        return [pair.of_place(rows, keys, place) for place in range(len(rows))]
    assert pair.of_rows is not None
    return [pair.of_rows(rows[low:high], call.dtype) for low, high in sorted_rows.bounds(call.frame)]


@pytest.mark.parametrize("name", FRAMED)
@QUICK
@given(data=st.data())
def test_over_frames_as_in_plain_python(name: str, data: st.DataObject) -> None:
    """In one range and cut into several, over a unique order, or over ties where the order of rows does not show."""
    function, pair = FUNCTIONS[name], PAIRS[name]
    table = data.draw(tables())
    names = data.draw(st.sampled_from(pair.arguments))
    ties = function.order is Order.IGNORED and data.draw(st.booleans())
    frames = RANGE_FRAMES if ties else ROWS_FRAMES
    call = windowed(name, names, ROWS_FRAMES[3] if pair.of_place else data.draw(st.sampled_from(frames)))
    order = SortKey(KEY if ties else UNIQUE)
    wanted = reference(table, pair, names, call, order)
    serial = serial_window(table, [call], (), (order,))
    check(python_values(serial.column("r").combine_chunks()), wanted, call)
    steps = WindowSteps(table.schema, (call,), (), (order,), DRIVER)
    parts = cut_up(table, 3, np.random.default_rng(1))
    driven = drive(steps, parts, data.draw(st.integers(2, 6))).table
    check(python_values(driven.column("r").combine_chunks()), wanted, call)


def spark_texts() -> tuple[list[str], list[str]]:
    """Outputs of a GROUP BY, and of windows over a unique order and, where it does not show, over ties."""

    def columns(name: str) -> list[tuple[str, ...]]:
        return [names for names in PAIRS[name].arguments if "v" not in names]  # no interval comes out of a file

    # Before 4.3 `corr` raises where nothing varies, and stays on Spark (tests/versions/test_smoke.py).
    left_out = {"corr"} if spark_version().corr_may_raise else set()
    # With aggregates of strings Spark sorts rows by key first, in no order of equals
    # (tests/spark/test_order_of_rows.py).
    settled = [name for name in GROUPED if FUNCTIONS[name].order is not Order.DECIDES and name not in left_out]
    grouped = [PAIRS[name].sql.format(*names) for name in settled for names in columns(name)]
    windows = []
    for name in FRAMED:
        if name in left_out:
            continue
        pair, function = PAIRS[name], FUNCTIONS[name]
        for names in columns(name):
            call = pair.sql.format(*names)
            windows.append(
                f"{call} OVER (ORDER BY id{'' if pair.of_place else ' ROWS BETWEEN 3 PRECEDING AND 1 FOLLOWING'})"
            )
            if function.order is Order.IGNORED and pair.of_rows:
                windows.append(f"{call} OVER (ORDER BY k RANGE BETWEEN 2 PRECEDING AND CURRENT ROW)")
    return grouped, windows


@pytest.mark.spark
@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(table=tables(max_rows=100))
def test_as_in_spark(enabled: Any, tmp_path_factory: pytest.TempPathFactory, table: pa.Table) -> None:
    folder = Path(tmp_path_factory.mktemp("pairs")) / "t"
    folder.mkdir()
    pq.write_table(table.drop_columns(["v"]), folder / "rows.parquet")
    enabled.read.parquet(str(folder)).createOrReplaceTempView("pairs")
    grouped, windows = spark_texts()
    for key, texts in (("k", grouped), ("id", windows)):
        names = [f"{text} AS r{number}" for number, text in enumerate(texts)]
        sql = f"SELECT {key}, {', '.join(names)} FROM pairs {'GROUP BY k' if key == 'k' else ''}"
        with plain_spark(enabled):
            wanted = enabled.sql(sql).toArrow()
        got = enabled.sql(sql).toArrow()
        assert sundog.last_run().accelerated, sundog.last_run().fallback_reasons
        assert got.schema.equals(wanted.schema)
        got, wanted = got.sort_by(key), wanted.sort_by(key)
        for number, text in enumerate(texts):
            columns = (python_values(found.column(f"r{number}").combine_chunks()) for found in (got, wanted))
            check(*columns, text)
