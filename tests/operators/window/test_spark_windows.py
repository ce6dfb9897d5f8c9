"""Window functions against Spark itself: one range, and ranges with halo and carried state."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sundog.expr.calls import WindowCall
from sundog.expr.nodes import Column
from sundog.expr.ordering import SortKey
from sundog.operators.window.steps import WindowSteps
from sundog.operators.window.window_operator import serial_window
from sundog.plan.costs import DRIVER
from sundog.types import DAY_TIME_INTERVAL, TIMESTAMP, TIMESTAMP_NTZ
from sundog.versions import spark_version
from tests.operators.window.cases import call, column, integer, range_frame, rows_frame
from tests.operators.window.driving import cut_up, drive
from tests.operators.window.reference import plain
from tests.oracle.needs import HAS_FILTERED_FRAMES

pytestmark = [pytest.mark.spark, pytest.mark.thin(3)]
DAY = 86_400_000_000
ROWS = 400


def events() -> pa.Table:
    """Keys of every type with NULLs, ties, NaN and infinities; inputs with NULLs; `u` has no ties at all."""
    random = np.random.default_rng(7)
    numbers = random.integers(-40, 40, ROWS)
    doubles = numbers / 4
    doubles[:4] = [math.nan, math.inf, -math.inf, -0.0]
    missing = random.random(ROWS) < 0.1

    def masked(values: Any, dtype: pa.DataType, mask: Any = missing) -> pa.Array:
        storage = pa.int32() if pa.types.is_date32(dtype) else pa.int64()
        if pa.types.is_temporal(dtype):
            return pa.array(values, storage, mask=mask).view(dtype)
        if pa.types.is_decimal(dtype):
            return pa.array([None if gone else Decimal(int(v)) for v, gone in zip(values, mask, strict=True)], dtype)
        return pa.array(values, mask=mask).cast(dtype)

    inputs = random.integers(-1000, 1000, ROWS)
    absent = random.random(ROWS) < 0.2
    return pa.table(
        {
            "u": pa.array(random.permutation(ROWS), pa.int64()),
            "b": masked(numbers, pa.int8()),
            "i": masked(numbers, pa.int32()),
            "l": masked(numbers, pa.int64()),
            "f": masked(doubles.astype(np.float32), pa.float32()),
            "d": masked(doubles, pa.float64()),
            "c": masked(numbers, pa.decimal128(9, 2)),
            "w": masked(numbers, pa.decimal128(30, 3)),
            "dt": masked(18_650 + numbers, pa.date32()),
            "ts": masked((18_650 * DAY + numbers * DAY // 5), TIMESTAMP),
            "tn": masked((18_650 * DAY + numbers * DAY // 5), TIMESTAMP_NTZ),
            "x": masked(inputs, pa.int32(), absent),
            "y": masked(inputs / 8, pa.float64(), absent),
            "z": masked(inputs, pa.decimal128(12, 2), absent),
            "n": masked(inputs, pa.decimal128(6, 2), absent),
            "s": masked([f"s{value % 37}" for value in inputs], pa.string(), absent),
            "g": masked(inputs > 0, pa.bool_(), absent),
            "v": masked(inputs * 1_000_003, DAY_TIME_INTERVAL, absent),
        }
    )


EVENTS = events()


def field(name: str) -> Column:
    return Column(name, EVENTS.schema.field(name).type)


@pytest.fixture(scope="module")
def view(spark, tmp_path_factory):
    import pyarrow.parquet as pq

    path = tmp_path_factory.mktemp("windows") / "events.parquet"
    stored = EVENTS.drop_columns(["v"])
    pq.write_table(stored, path)
    frame = spark.read.parquet(str(path)).selectExpr("*", "make_dt_interval(0, 0, 0, x * 1.000003) v")
    frame.createOrReplaceTempView("window_events")
    return "window_events"


# Aggregates: SQL text, function, argument, result type.
AGGREGATES: list[tuple[str, str, str, pa.DataType]] = [
    ("count(x)", "count", "x", pa.int64()),
    ("sum(x)", "sum", "x", pa.int64()),
    ("avg(x)", "avg", "x", pa.float64()),
    ("sum(y)", "sum", "y", pa.float64()),
    ("avg(y)", "avg", "y", pa.float64()),
    ("sum(z)", "sum", "z", pa.decimal128(22, 2)),
    ("avg(z)", "avg", "z", pa.decimal128(16, 6)),
    ("avg(n)", "avg_unscaled", "n", pa.decimal128(10, 6)),
    ("min(s)", "min", "s", pa.string()),
    ("max(y)", "max", "y", pa.float64()),
    ("max(d)", "max", "d", pa.float64()),
    ("min(g)", "min", "g", pa.bool_()),
    ("var_samp(y)", "var_samp", "y", pa.float64()),
    ("stddev_pop(y)", "stddev_pop", "y", pa.float64()),
]
# Order, SQL frame, our frame; offsets reach over some of the 80 keys.
# In 3.5 an interval of days is no offset of a date.
FOUR_DAYS = "4" if spark_version().name == "3.5" else "INTERVAL '4' DAY"
RANGES = [
    ("b", "2Y PRECEDING AND CURRENT ROW", range_frame(-2, 0)),
    ("i DESC", "3 PRECEDING AND 1 FOLLOWING", range_frame(-3, 1)),
    ("l NULLS LAST", "5 PRECEDING AND 2 PRECEDING", range_frame(-5, -2)),
    ("f", "1.3 PRECEDING AND 0.7 FOLLOWING", range_frame(-1.3, 0.7)),
    ("d DESC NULLS FIRST", "0.5D PRECEDING AND 2D FOLLOWING", range_frame(-0.5, 2.0)),
    ("dt", f"{FOUR_DAYS} PRECEDING AND CURRENT ROW", range_frame(-4, 0)),
    ("dt", "INTERVAL '1' MONTH PRECEDING AND INTERVAL '1' MONTH FOLLOWING", range_frame(-1, 1, "months")),
    ("ts", "INTERVAL '30' HOUR PRECEDING AND CURRENT ROW", range_frame(-30 * DAY // 24, 0, "us")),
    ("tn DESC", "INTERVAL '1' MONTH PRECEDING AND CURRENT ROW", range_frame(-1, 0, "months")),
    ("i", "UNBOUNDED PRECEDING AND 3 FOLLOWING", range_frame(None, 3)),
    ("d", "1D FOLLOWING AND UNBOUNDED FOLLOWING", range_frame(1.0, None)),
    ("d", "cast('infinity' as double) PRECEDING AND 1D FOLLOWING", range_frame(-math.inf, 1.0)),
]


def sort_key(text: str) -> SortKey:
    name, *words = text.split()
    descending = "DESC" in words
    nulls_first = "FIRST" in words or ("LAST" not in words and not descending)
    return SortKey(field(name), descending, nulls_first)


def from_spark(spark: Any, view: str, texts: list[str]) -> dict[int, tuple[Any, ...]]:
    columns = ", ".join(f"{text} AS r{number}" for number, text in enumerate(texts))
    table = spark.sql(f"SELECT u, {columns} FROM {view}").toArrow()
    return {row[0]: row[1:] for row in zip(*(values(column) for column in table.columns), strict=True)}


def from_table(table: pa.Table, count: int) -> dict[int, tuple[Any, ...]]:
    columns = [table.column("u"), *(table.column(f"r{number}") for number in range(count))]
    return {row[0]: row[1:] for row in zip(*(values(column) for column in columns), strict=True)}


def values(column: pa.ChunkedArray) -> list[Any]:
    array = column.combine_chunks()
    return plain(array if isinstance(array, pa.Array) else array.chunk(0))


def assert_same(got: dict[int, tuple[Any, ...]], wanted: dict[int, tuple[Any, ...]], texts: list[str]) -> None:
    assert got.keys() == wanted.keys()
    for row, expected in wanted.items():
        for left, right, text in zip(got[row], expected, texts, strict=True):
            if isinstance(right, float) and isinstance(left, float):
                close = math.isclose(left, right, rel_tol=1e-12, abs_tol=1e-9 if text.startswith(("var", "std")) else 0)
                assert close or (math.isnan(left) and math.isnan(right)), (text, row, left, right)
            else:
                assert (left, type(left)) == (right, type(right)), (text, row, left, right)


def both_ways(calls: list[WindowCall], order: tuple[SortKey, ...]) -> list[pa.Table]:
    steps = WindowSteps(EVENTS.schema, tuple(calls), (), order, DRIVER)
    parts = cut_up(EVENTS, 3, np.random.default_rng(3))
    return [serial_window(EVENTS, calls, (), order), drive(steps, parts, 5).table]


@pytest.mark.parametrize(("order", "between", "frame"), RANGES)
def test_range_frames(spark, view, order, between, frame):
    texts = [f"{sql} OVER (ORDER BY {order} RANGE BETWEEN {between})" for sql, *_ in AGGREGATES]
    calls = [
        call(function, frame, field(arg), dtype=dtype, name=f"r{number}")
        for number, (_, function, arg, dtype) in enumerate(AGGREGATES)
    ]
    wanted = from_spark(spark, view, texts)
    for table in both_ways(calls, (sort_key(order),)):
        assert_same(from_table(table, len(calls)), wanted, texts)


def test_rows_frames_places_and_values(spark, view):
    """Over `u`, which has no ties, so that every function has one answer."""
    whole, unbounded = rows_frame(None, 0), range_frame(None, 0)
    specs: list[tuple[str, WindowCall]] = [
        (
            "sum(y) OVER (ORDER BY u ROWS BETWEEN 7 PRECEDING AND 2 FOLLOWING)",
            call("sum", rows_frame(-7, 2), field("y"), dtype=pa.float64()),
        ),
        (
            "sum(v) OVER (ORDER BY u ROWS 9 PRECEDING)",
            call("sum", rows_frame(-9, 0), field("v"), dtype=DAY_TIME_INTERVAL),
        ),
        (
            "avg(v) OVER (ORDER BY u ROWS 9 PRECEDING)",
            call("avg", rows_frame(-9, 0), field("v"), dtype=DAY_TIME_INTERVAL),
        ),
        (
            "sum(x) FILTER (WHERE g) OVER (ORDER BY u)",
            call("sum", unbounded, field("x"), dtype=pa.int64(), filter=field("g")),
        ),
        (
            "count(*) OVER (ORDER BY u ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)",
            call("count", rows_frame(0, None), integer(1), dtype=pa.int64()),
        ),
        (
            "first(s) OVER (ORDER BY u ROWS 3 PRECEDING)",
            call("first", rows_frame(-3, 0), field("s"), dtype=pa.string()),
        ),
        (
            "first(s, true) OVER (ORDER BY u)",
            call("first", unbounded, field("s"), dtype=pa.string(), ignore_nulls=True),
        ),
        (
            "last(x, true) OVER (ORDER BY u ROWS BETWEEN 4 PRECEDING AND 1 PRECEDING)",
            call("last", rows_frame(-4, -1), field("x"), dtype=pa.int32(), ignore_nulls=True),
        ),
        (
            "last(y) FILTER (WHERE g) OVER (ORDER BY u)",
            call("last", unbounded, field("y"), dtype=pa.float64(), filter=field("g")),
        ),
        ("nth_value(x, 3) OVER (ORDER BY u)", call("nth_value", unbounded, field("x"), integer(3), dtype=pa.int32())),
        (
            "nth_value(x, 3) IGNORE NULLS OVER (ORDER BY u ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)",
            call("nth_value", whole, field("x"), integer(3), dtype=pa.int32(), ignore_nulls=True),
        ),
        (
            "nth_value(s, 2) IGNORE NULLS OVER (ORDER BY u ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING)",
            call("nth_value", rows_frame(-2, 2), field("s"), integer(2), dtype=pa.string(), ignore_nulls=True),
        ),
        ("lag(s, 2) OVER (ORDER BY u)", call("lag", whole, field("s"), integer(2), dtype=pa.string())),
        (
            "lag(x, 1, i) IGNORE NULLS OVER (ORDER BY u)",
            call("lag", whole, field("x"), integer(1), field("i"), dtype=pa.int32(), ignore_nulls=True),
        ),
        ("lead(y, 3) OVER (ORDER BY u)", call("lead", whole, field("y"), integer(3), dtype=pa.float64())),
        (
            "lead(x, 2, -1) IGNORE NULLS OVER (ORDER BY u)",
            call("lead", whole, field("x"), integer(2), integer(-1), dtype=pa.int32(), ignore_nulls=True),
        ),
        ("row_number() OVER (ORDER BY u)", call("row_number", whole, dtype=pa.int32())),
        ("ntile(7) OVER (ORDER BY u)", call("ntile", whole, integer(7), dtype=pa.int32())),
        (
            "max(z) OVER (ORDER BY u ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)",
            call("max", rows_frame(None, None), field("z"), dtype=pa.decimal128(12, 2)),
        ),
        ("var_pop(y) OVER (ORDER BY u)", call("var_pop", unbounded, field("y"), dtype=pa.float64())),
    ]
    specs = [(text, made) for text, made in specs if HAS_FILTERED_FRAMES or "FILTER" not in text]
    texts = [text for text, _ in specs]
    calls = [
        WindowCall(f"r{n}", c.function, c.args, c.dtype, c.frame, c.filter, c.ignore_nulls, c.ansi)
        for n, (_, c) in enumerate(specs)
    ]
    wanted = from_spark(spark, view, texts)
    for table in both_ways(calls, (SortKey(field("u")),)):
        assert_same(from_table(table, len(calls)), wanted, texts)


@pytest.mark.parametrize("order", ["d, s DESC", "w DESC", "s NULLS LAST, ts", "dt DESC NULLS FIRST"])
def test_ranks_with_ties(spark, view, order):
    whole = rows_frame(None, 0)
    functions = [
        ("rank", pa.int32()),
        ("dense_rank", pa.int32()),
        ("percent_rank", pa.float64()),
        ("cume_dist", pa.float64()),
    ]
    texts = [f"{name}() OVER (ORDER BY {order})" for name, _ in functions]
    texts += [
        f"sum(x) OVER (ORDER BY {order})",
        f"max(s) OVER (ORDER BY {order} RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)",
    ]
    calls = [call(name, whole, dtype=dtype, name=f"r{n}") for n, (name, dtype) in enumerate(functions)]
    calls.append(call("sum", range_frame(None, 0), field("x"), dtype=pa.int64(), name="r4"))
    calls.append(call("max", range_frame(0, None), field("s"), dtype=pa.string(), name="r5"))
    keys = tuple(sort_key(text.strip()) for text in order.split(","))
    wanted = from_spark(spark, view, texts)
    for table in both_ways(calls, keys):
        assert_same(from_table(table, len(calls)), wanted, texts)


def test_partitions(spark, view):
    texts = [
        "sum(y) OVER (PARTITION BY g, b ORDER BY u ROWS 3 PRECEDING)",
        "rank() OVER (PARTITION BY g, b ORDER BY u)",
        "count(x) OVER (PARTITION BY g, b ORDER BY u RANGE BETWEEN 60 PRECEDING AND CURRENT ROW)",
    ]
    calls = [
        call("sum", rows_frame(-3, 0), field("y"), dtype=pa.float64(), name="r0"),
        call("rank", rows_frame(None, 0), dtype=pa.int32(), name="r1"),
        call("count", range_frame(-60, 0), field("x"), dtype=pa.int64(), name="r2"),
    ]
    table = serial_window(EVENTS, calls, (field("g"), field("b")), (SortKey(field("u")),))
    assert_same(from_table(table, 3), from_spark(spark, view, texts), texts)


def test_a_sum_that_cancels_is_sparks(spark):
    """1e16, 1, -1e16, 1, …: in order the small ones are lost, and Spark adds in order."""
    numbers = [1e16, 1.0, -1e16, 1.0] * 30
    table = pa.table({"u": pa.array(range(120)), "y": pa.array(numbers)})
    rows = ", ".join(f"({number}L, {value!r}D)" for number, value in enumerate(numbers))
    texts, calls = [], []
    for number, width in enumerate((1, 2, 3, 7, 20, 119)):
        texts.append(f"sum(y) OVER (ORDER BY u ROWS {width} PRECEDING)")
        calls.append(
            call("sum", rows_frame(-width, 0), column("y", pa.float64()), dtype=pa.float64(), name=f"r{number}")
        )
    wanted = from_spark(spark, f"(SELECT * FROM VALUES {rows} AS t(u, y))", texts)
    got = from_table(serial_window(table, calls, (), (SortKey(column("u", pa.int64())),)), 6)
    assert_same(got, wanted, texts)
