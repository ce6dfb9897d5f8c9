"""Random windows: order keys of every type that RANGE knows, frames of every legal form, calls of every function."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from sundog.expr.calls import Bound, BoundKind, Frame, WindowCall
from sundog.expr.nodes import Column, Expr, Literal, columns_of
from sundog.types import DAY_TIME_INTERVAL, TIMESTAMP, TIMESTAMP_NTZ
from tests.oracle.batches import array_of, arrow_arrays, values

SETTINGS = settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
KEY_TYPES = [
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.decimal128(7, 2),
    pa.decimal128(30, 5),
    pa.date32(),
    TIMESTAMP,
    TIMESTAMP_NTZ,
]
UNBOUNDED_PRECEDING = Bound(BoundKind.UNBOUNDED_PRECEDING)
UNBOUNDED_FOLLOWING = Bound(BoundKind.UNBOUNDED_FOLLOWING)
CURRENT_ROW = Bound(BoundKind.CURRENT_ROW)
DAY = 86_400_000_000
INPUTS = pa.schema(
    [
        ("i", pa.int64()),
        ("n", pa.int32()),
        ("d", pa.float64()),
        ("f", pa.float32()),
        ("c", pa.decimal128(7, 2)),
        ("w", pa.decimal128(38, 4)),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("t", TIMESTAMP),
        ("v", DAY_TIME_INTERVAL),
        ("p", pa.int32()),
    ]
)


def column(name: str, dtype: pa.DataType | None = None) -> Column:
    return Column(name, dtype or INPUTS.field(name).type)


def integer(value: int) -> Literal:
    return Literal(value, pa.int32())


def rows_frame(start: int | None, end: int | None) -> Frame:
    return Frame("rows", _bound(start, UNBOUNDED_PRECEDING), _bound(end, UNBOUNDED_FOLLOWING))


def range_frame(start: Any, end: Any, unit: str | None = None) -> Frame:
    return Frame("range", _bound(start, UNBOUNDED_PRECEDING, unit), _bound(end, UNBOUNDED_FOLLOWING, unit))


def _bound(offset: Any, unbounded: Bound, unit: str | None = None) -> Bound:
    if offset is None:
        return unbounded
    return CURRENT_ROW if offset == 0 else Bound(BoundKind.OFFSET, offset, unit)


def call(function: str, frame: Frame, *args: Expr, dtype: pa.DataType, name: str = "r", **more: Any) -> WindowCall:
    return WindowCall(name, function, args, dtype, frame, **more)


def small_keys(dtype: pa.DataType, spread: int) -> st.SearchStrategy[Any]:
    """Keys close enough to each other for frames to hold some, far from the ends of the type."""
    number = st.integers(-spread, spread)
    if pa.types.is_floating(dtype):
        wild = [float("nan"), float("inf"), float("-inf"), -0.0, 0.1]
        return st.one_of(number.map(lambda n: n / 4), st.sampled_from(wild))
    if pa.types.is_boolean(dtype) or pa.types.is_string(dtype):
        return values(dtype)
    if pa.types.is_decimal(dtype):
        return number.map(lambda n: Decimal(n).scaleb(-dtype.scale))
    if pa.types.is_date32(dtype):
        return number.map(lambda n: 18_680 + n)
    if pa.types.is_timestamp(dtype):
        return number.map(lambda n: 18_686 * DAY + n * DAY // 3)
    return number


def offsets(dtype: pa.DataType, spread: int) -> st.SearchStrategy[tuple[Any, str | None]]:
    number = st.integers(-spread, spread)
    if pa.types.is_floating(dtype):
        return number.map(lambda n: (n / 4, None))
    if pa.types.is_decimal(dtype):
        return number.map(lambda n: (Decimal(n).scaleb(-dtype.scale), None))
    if pa.types.is_timestamp(dtype):
        return st.one_of(number.map(lambda n: (n * DAY // 3, "us")), st.integers(-2, 2).map(lambda n: (n, "months")))
    if pa.types.is_date32(dtype):
        return st.one_of(number.map(lambda n: (n, None)), st.integers(-2, 2).map(lambda n: (n, "months")))
    return number.map(lambda n: (n, None))


@st.composite
def range_frames(draw: st.DrawFn, dtype: pa.DataType, spread: int) -> Frame:
    """Any legal pair of bounds; both offsets have one unit, as Spark demands."""
    first, unit = draw(offsets(dtype, spread))
    second = draw(offsets(dtype, spread).filter(lambda pair: pair[1] == unit))[0]
    low, high = min(first, second), max(first, second)
    start = draw(st.sampled_from([UNBOUNDED_PRECEDING, CURRENT_ROW, Bound(BoundKind.OFFSET, low, unit)]))
    end = draw(st.sampled_from([UNBOUNDED_FOLLOWING, CURRENT_ROW, Bound(BoundKind.OFFSET, high, unit)]))
    return Frame("range", start, end)


@st.composite
def rows_frames(draw: st.DrawFn) -> Frame:
    low, high = sorted(draw(st.tuples(st.integers(-6, 6), st.integers(-6, 6))))
    start = draw(st.sampled_from([UNBOUNDED_PRECEDING, CURRENT_ROW, Bound(BoundKind.OFFSET, low)]))
    end = draw(st.sampled_from([UNBOUNDED_FOLLOWING, CURRENT_ROW, Bound(BoundKind.OFFSET, high)]))
    return Frame("rows", start, end)


def aggregate_calls(frame: Frame) -> list[WindowCall]:
    """Every aggregate over every kind of argument, LEGACY where ANSI could raise: errors have tests of their own."""
    double, wide = pa.float64(), pa.decimal128(38, 4)
    keep = column("b")
    specs: list[tuple[Any, ...]] = [
        ("count", (integer(1),), pa.int64(), {}),
        ("count", (column("s"), column("i")), pa.int64(), {"filter": keep}),
        ("sum", (column("i"),), pa.int64(), {"ansi": False}),
        ("try_sum", (column("i"),), pa.int64(), {}),
        ("sum", (column("n"),), pa.int64(), {"filter": keep}),
        ("sum", (column("d"),), double, {}),
        ("sum", (column("f"),), double, {"filter": keep}),
        ("avg", (column("n"),), double, {}),
        ("avg", (column("d"),), double, {}),
        ("sum", (column("c"),), pa.decimal128(17, 2), {}),
        ("avg", (column("c"),), pa.decimal128(11, 6), {}),
        ("sum", (column("w"),), wide, {"ansi": False}),
        ("try_avg", (column("w"),), pa.decimal128(38, 8), {}),
        ("try_sum", (column("v"),), DAY_TIME_INTERVAL, {}),
        ("try_avg", (column("v"),), DAY_TIME_INTERVAL, {}),
        *((name, (column(arg),), INPUTS.field(arg).type, {}) for name in ("min", "max") for arg in "idfcwsbt"),
        ("min", (column("s"),), pa.string(), {"filter": keep}),
        ("first", (column("s"),), pa.string(), {}),
        ("first", (column("d"),), double, {"ignore_nulls": True}),
        ("last", (column("t"),), TIMESTAMP, {"filter": keep}),
        ("last", (column("w"),), wide, {"ignore_nulls": True, "filter": keep}),
        ("nth_value", (column("i"), integer(2)), pa.int64(), {}),
        ("nth_value", (column("c"), integer(3)), pa.decimal128(7, 2), {"ignore_nulls": True}),
        *((name, (column("d"),), double, {}) for name in ("var_pop", "var_samp", "stddev_pop", "stddev_samp")),
    ]
    return [
        WindowCall(f"r{number}", function, args, dtype, frame, **more)
        for number, (function, args, dtype, more) in enumerate(specs)
    ]


def place_calls() -> list[WindowCall]:
    whole = rows_frame(None, 0)
    specs: list[tuple[Any, ...]] = [
        ("row_number", (), pa.int32(), {}),
        ("rank", (), pa.int32(), {}),
        ("dense_rank", (), pa.int32(), {}),
        ("ntile", (integer(3),), pa.int32(), {}),
        ("percent_rank", (), pa.float64(), {}),
        ("cume_dist", (), pa.float64(), {}),
        ("lag", (column("i"), integer(1), Literal(None, pa.int64())), pa.int64(), {}),
        ("lag", (column("s"), integer(2), Literal("none", pa.string())), pa.string(), {"ignore_nulls": True}),
        ("lead", (column("d"), integer(3), column("d")), pa.float64(), {}),
        ("lead", (column("t"), integer(1), Literal(None, TIMESTAMP)), TIMESTAMP, {"ignore_nulls": True}),
        ("lag", (column("n"), integer(-2), integer(-1)), pa.int32(), {}),
        ("lead", (column("n"), integer(0), integer(-1)), pa.int32(), {"ignore_nulls": True}),
    ]
    return [
        WindowCall(f"p{number}", function, args, dtype, whole, **more)
        for number, (function, args, dtype, more) in enumerate(specs)
    ]


@st.composite
def tables(
    draw: st.DrawFn, keys: list[pa.DataType], exprs: Iterable[Expr], max_rows: int = 24, spread: int = 12
) -> pa.Table:
    """Key columns k0, k1, ..., the inputs that the expressions read, and `id`; keys repeat values and may be NULL."""
    count = draw(st.integers(0, max_rows))
    names, arrays = [], []
    for number, dtype in enumerate(keys):
        pool = draw(st.lists(small_keys(dtype, spread), min_size=1, max_size=12))
        share = draw(st.sampled_from([0.0, 0.0, 0.2, 1.0]))
        random = np.random.default_rng(draw(st.integers(0, 2**32)))
        picks = [None if random.random() < share else pool[random.integers(len(pool))] for _ in range(count)]
        names.append(f"k{number}")
        arrays.append(array_of(picks, dtype))
    wanted = set().union(*(columns_of(expr) for expr in exprs))
    for field in INPUTS:
        if field.name in wanted:
            names.append(field.name)
            arrays.append(draw(arrow_arrays(field.type, count, count)))
    return pa.table([*arrays, pa.array(range(count), pa.int64())], names=[*names, "id"])


def inputs(calls: Iterable[WindowCall], *more: Expr) -> list[Expr]:
    """The expressions that calls read."""
    used = [arg for one in calls for arg in (*one.args, one.filter) if arg is not None]
    return [*used, *more]
