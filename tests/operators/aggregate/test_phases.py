"""Every function, type and sequence of phases gives the result of plain Python."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sundog.expr.calls import AggregateCall, NamedExpr
from sundog.expr.errors import SparkQueryError
from sundog.expr.nodes import Arith, ArithOp, Column, Compare, CompareOp, Expr, Literal
from sundog.expr.ordering import SortKey
from sundog.operators.aggregate.final_operator import BestGroups
from sundog.operators.aggregate.phases import aggregate_phases
from sundog.operators.context import TaskContext
from sundog.operators.topk.topk import TopKOperator
from sundog.plan.costs import DRIVER
from sundog.support import Declined
from tests.operators.aggregate.reference import reference_groups
from tests.operators.aggregate.runner import HUGE, Setup, assert_same_results, rows_by_key, run_phases
from tests.oracle.batches import ALL_TYPES, array_of, record_batches

DOUBLE, LONG = pa.float64(), pa.int64()
NUMBERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()]
DECIMALS = [pa.decimal128(5, 2), pa.decimal128(18, 0), pa.decimal128(28, 6)]
PICKED = Compare(CompareOp.GT, Column("picked", pa.int8()), Literal(0, pa.int8()))


def column(name: str, dtype: pa.DataType) -> Column:
    return Column(name, dtype)


def call(function: str, *args: Expr, **options: Any) -> AggregateCall:
    """A call with Spark's result type."""
    return AggregateCall(f"{function}#1", function, args, result_type(function, args), **options)


def result_type(function: str, args: tuple[Expr, ...]) -> pa.DataType:
    first = args[0].dtype if args else LONG
    name = function.removeprefix("try_")
    if function == "count":
        return LONG
    if name in ("sum", "avg") and pa.types.is_decimal(first):
        grown = (first.precision + 10, first.scale) if name == "sum" else (first.precision + 4, first.scale + 4)
        return pa.decimal128(min(grown[0], 38), min(grown[1], 38))
    if name == "sum":
        return DOUBLE if pa.types.is_floating(first) else (first if pa.types.is_duration(first) else LONG)
    if name == "avg":
        return first if pa.types.is_duration(first) else DOUBLE
    if function in ("min", "max", "first", "last", "any_value", "min_by", "max_by", "bit_and", "bit_or", "bit_xor"):
        return first
    return DOUBLE


setups = st.builds(
    Setup,
    partitions=st.sampled_from([1, 2, 7]),
    in_process=st.booleans(),
    memory=st.sampled_from([HUGE, 2000, 1]),
    batch_rows=st.sampled_from([1, 3, 8, 1 << 18]),
    probe_rows=st.sampled_from([1, 4, 1 << 16]),
    targets=st.sampled_from([1, 3, 64, 1 << 40]),
    bucket_bytes=st.sampled_from([64, 1 << 19]),
    sampled_rows=st.sampled_from([1, 3, 1 << 13]),
    part_rows=st.sampled_from([5, 1 << 21]),
    table_groups=st.sampled_from([1, 6, 1 << 17]),
    shares=st.sampled_from([1, 1, 2, 3]),
    parts=st.sampled_from([1, 1, 3]),
)

MODERATE = [0.0, -0.0, 1.0, -1.0, 0.1, 2.5, -2.5, 1e6, -12345.678, 3e-5]


def moderate_array(dtype: pa.DataType, size: int, draw: Any, odd: bool) -> pa.Array:
    """Values whose sums stay in range; NaN and infinities among the floats if `odd`."""
    pool: list[Any]
    if pa.types.is_floating(dtype):
        pool = [*MODERATE, *([float("nan"), float("inf"), float("-inf")] if odd else [])]
    elif pa.types.is_decimal(dtype):
        pool = [Decimal(v).scaleb(-dtype.scale) for v in (0, 1, -1, 99999, -12345, 5, -15)]
    else:
        pool = [0, 1, -1, 2, 5, 100, -100, 127, -128]
    picked = draw(st.lists(st.sampled_from(pool) | st.none(), min_size=size, max_size=size))
    return array_of(picked, dtype)


def batches_of(draw: Any, key_types: list[pa.DataType], arg_types: list[pa.DataType], odd: bool) -> pa.RecordBatch:
    size = draw(st.integers(0, 40))
    keys = draw(record_batches(pa.schema([(f"k{i}", t) for i, t in enumerate(key_types)]), size, size))
    arrays = [*keys.columns, *(moderate_array(dtype, size, draw, odd) for dtype in arg_types)]
    names = [*keys.schema.names, *(f"x{i}" for i in range(len(arg_types)))]
    picked = array_of(draw(st.lists(st.sampled_from([0, 1, None]), min_size=size, max_size=size)), pa.int8())
    if not key_types:
        arrays, names = arrays[len(keys.columns) :], names[len(keys.columns) :]
    return pa.RecordBatch.from_arrays([*arrays, picked], names=[*names, "picked"])


def tasks_of(draw: Any, batch: pa.RecordBatch) -> list[list[pa.RecordBatch]]:
    cuts = sorted(draw(st.lists(st.integers(0, batch.num_rows), max_size=3)))
    bounds = [0, *cuts, batch.num_rows]
    pieces = [batch.slice(a, b - a) for a, b in pairwise(bounds)]
    tasks = draw(st.integers(1, 2))
    return [pieces[: len(pieces) // 2], pieces[len(pieces) // 2 :]] if tasks == 2 else [pieces]


def check(
    keys: list[NamedExpr],
    calls: list[AggregateCall],
    tasks: list[list[pa.RecordBatch]],
    setup: Setup,
    scale: float = 1.0,
) -> None:
    table, metrics = run_phases(keys, calls, tasks, setup)
    expected = reference_groups(keys, calls, [batch for task in tasks for batch in task])
    assert_same_results(rows_by_key(table, len(keys)), expected, calls, scale)
    assert metrics.get("groups") == len(expected)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), setup=setups)
def test_keys_of_every_type_and_number(data: st.DataObject, setup: Setup) -> None:
    types = data.draw(st.lists(st.sampled_from(ALL_TYPES), max_size=4))
    batch = batches_of(data.draw, types, [pa.int32()], odd=False)
    keys = [NamedExpr(f"k{i}", column(f"k{i}", dtype)) for i, dtype in enumerate(types)]
    calls = [call("count"), call("sum", column("x0", pa.int32()))]
    check(keys, calls, tasks_of(data.draw, batch), setup)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), setup=setups)
def test_the_best_groups_and_the_keys_that_are_wanted(data: st.DataObject, setup: Setup) -> None:
    """Choosing before keys are shown, and keys that are never shown, change nothing of what is left."""
    types = data.draw(st.lists(st.sampled_from(ALL_TYPES), min_size=1, max_size=3))
    tasks = tasks_of(data.draw, batches_of(data.draw, types, [pa.int32()], odd=False))
    keys = [NamedExpr(f"k{i}", column(f"k{i}", dtype)) for i, dtype in enumerate(types)]
    calls = [call("count"), call("sum", column("x0", pa.int32()))]
    distinct = call("count", column("x0", pa.int32()), distinct=True)
    calls = [*calls, replace(distinct, name="distinct")] if data.draw(st.booleans()) else calls
    order = (
        SortKey(Column(calls[1].name, calls[1].dtype), descending=data.draw(st.booleans())),
        SortKey(Column(calls[0].name, calls[0].dtype)),
    )
    limit = data.draw(st.integers(1, 5))
    hidden = frozenset(data.draw(st.sets(st.sampled_from([key.name for key in keys]))))
    everything, _ = run_phases(keys, calls, tasks, setup)
    chosen, metrics = run_phases(keys, calls, tasks, setup, hidden=hidden, best=BestGroups(order, limit, DRIVER))
    assert metrics.get("groups") == everything.num_rows
    assert chosen.column_names == [name for name in everything.column_names if name not in hidden]
    results = [key.expr.name for key in order if isinstance(key.expr, Column)]
    top, expected = (best_of(table, order, limit) for table in (chosen, everything))
    assert [[row[name] for name in results] for row in top] == [[row[name] for name in results] for row in expected]
    possible = {repr(row) for row in everything.select(chosen.column_names).to_pylist()}
    assert {repr(row) for row in chosen.to_pylist()} <= possible
    narrow, _ = run_phases(keys, calls, tasks, setup, hidden=hidden)
    assert repr(narrow.to_pylist()) == repr(everything.select(narrow.column_names).to_pylist())


def best_of(table: pa.Table, order: tuple[SortKey, ...], limit: int) -> list[Any]:
    top = TopKOperator(table.schema, order, limit, costs=DRIVER).run(iter(table.to_batches()), TaskContext())
    return [row for batch in top for row in batch.to_pylist()]


NUMERIC_CALLS = [
    *((function, dtype) for function in ("sum", "avg", "try_sum", "try_avg") for dtype in [*NUMBERS, *DECIMALS]),
    *((f, dtype) for f in ("var_pop", "var_samp", "stddev_pop", "stddev_samp") for dtype in [pa.float64()]),
    *((f, dtype) for f in ("bit_and", "bit_or", "bit_xor") for dtype in NUMBERS[:4]),
    *((f, pa.duration("us")) for f in ("sum", "avg", "try_sum", "try_avg")),
]


@settings(max_examples=80, deadline=None)
@given(data=st.data(), setup=setups)
def test_functions_of_numbers(data: st.DataObject, setup: Setup) -> None:
    chosen = data.draw(st.lists(st.sampled_from(NUMERIC_CALLS), min_size=1, max_size=3))
    odd = not any(function.startswith(("var", "stddev")) for function, _ in chosen)
    batch = batches_of(data.draw, [pa.int8()], [dtype for _, dtype in chosen], odd)
    filtered = data.draw(st.lists(st.booleans(), min_size=len(chosen), max_size=len(chosen)))
    calls = [
        call(function, column(f"x{i}", dtype), filter=PICKED if filtered[i] else None)
        for i, (function, dtype) in enumerate(chosen)
    ]
    keys = [NamedExpr("k0", column("k0", pa.int8()))] if data.draw(st.booleans()) else []
    check(keys, calls, tasks_of(data.draw, batch), setup, scale=1e7 if odd else 1e13)


@settings(max_examples=80, deadline=None)
@given(data=st.data(), setup=setups)
def test_functions_of_any_type(data: st.DataObject, setup: Setup) -> None:
    dtype, other = data.draw(st.sampled_from(ALL_TYPES)), data.draw(st.sampled_from(ALL_TYPES))
    schema = pa.schema([("k0", pa.int8()), ("x", dtype), ("y", other), ("picked", pa.int8())])
    batch = data.draw(record_batches(schema, max_size=40))
    x, y = column("x", dtype), column("y", other)
    function = data.draw(st.sampled_from(["count", "min", "max", "min_by", "max_by"]))
    condition = PICKED if data.draw(st.booleans()) else None
    calls = [call(function, *((x, y) if function.endswith("_by") else (x,)), filter=condition)]
    keys = [NamedExpr("k0", column("k0", pa.int8()))] if data.draw(st.booleans()) else []
    check(keys, calls, tasks_of(data.draw, batch), setup)


@settings(max_examples=40, deadline=None)
@given(data=st.data(), setup=setups)
def test_first_and_last(data: st.DataObject, setup: Setup) -> None:
    """In one task the order of rows is that of the input, so that even these have one answer; grouped by batch or
    not."""
    dtype = data.draw(st.sampled_from(ALL_TYPES))
    schema = pa.schema([("k0", pa.int8()), ("x", dtype), ("picked", pa.int8())])
    batch = data.draw(record_batches(schema, max_size=40))
    function = data.draw(st.sampled_from(["first", "last", "any_value"]))
    condition = PICKED if data.draw(st.booleans()) else None
    chosen = call(function, column("x", dtype), filter=condition, ignore_nulls=data.draw(st.booleans()))
    setup = Setup(in_process=setup.in_process, bucket_bytes=setup.bucket_bytes, batch_rows=setup.batch_rows)
    check([NamedExpr("k0", column("k0", pa.int8()))], [chosen], [[batch]], setup)


def test_a_small_batch_in_front_of_a_large_one_stays_in_front() -> None:
    """As a small file, or a row group of which a filter has left little, lies in front of others."""
    batches = [
        pa.record_batch({"k0": pa.array([1] * size, pa.int8()), "x": [at] * size}) for at, size in enumerate([1, 9, 2])
    ]
    calls = [replace(call(function, column("x", LONG)), name=function) for function in ("first", "last")]
    table, _ = run_phases([NamedExpr("k0", column("k0", pa.int8()))], calls, [batches], Setup(batch_rows=3))
    assert table.to_pylist() == [{"k0": 1, "first": 0, "last": 2}]


@settings(max_examples=40, deadline=None)
@given(data=st.data(), setup=setups)
def test_pairs_of_numbers(data: st.DataObject, setup: Setup) -> None:
    batch = batches_of(data.draw, [pa.int8()], [DOUBLE, DOUBLE], odd=False)
    x, y = column("x0", DOUBLE), column("x1", DOUBLE)
    calls = [call(function, x, y) for function in ("covar_pop", "covar_samp")]
    check([NamedExpr("k0", column("k0", pa.int8()))], calls, tasks_of(data.draw, batch), setup, scale=1e13)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), setup=setups)
def test_distinct_alone_and_beside_others(data: st.DataObject, setup: Setup) -> None:
    dtype, other = data.draw(st.sampled_from(ALL_TYPES)), data.draw(st.sampled_from(ALL_TYPES))
    schema = pa.schema([("k0", pa.string()), ("x", dtype), ("y", other), ("n", pa.int16()), ("picked", pa.int8())])
    batch = data.draw(record_batches(schema, max_size=40))
    x, y, n = column("x", dtype), column("y", other), column("n", pa.int16())
    calls = data.draw(
        st.sampled_from(
            [
                [call("count", x, distinct=True)],
                [call("count", x, y, distinct=True), call("count"), call("max", y)],
                [call("sum", n, distinct=True), call("count", n, distinct=True), call("avg", n), call("min", x)],
                [call("avg", n, distinct=True), call("sum", n, filter=PICKED), call("max_by", x, n, filter=PICKED)],
            ]
        )
    )
    keys = [NamedExpr("k0", column("k0", pa.string()))] if data.draw(st.booleans()) else []
    check(keys, calls, tasks_of(data.draw, batch), setup)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), setup=setups)
def test_dictionary_arrays_as_keys_and_arguments(data: st.DataObject, setup: Setup) -> None:
    schema = pa.schema([("k0", pa.string()), ("x", pa.string()), ("picked", pa.int8())])
    batch = data.draw(record_batches(schema, max_size=40))
    encoded = pa.RecordBatch.from_arrays(
        [batch.column(0).dictionary_encode(), batch.column(1).dictionary_encode(), batch.column(2)],
        names=schema.names,
    )
    keys = [NamedExpr("k0", column("k0", pa.string()))]
    x = column("x", pa.string())
    calls = [call("count", x), call("min", x), call("max", x)]
    table, _ = run_phases(keys, calls, tasks_of(data.draw, encoded), setup)
    expected = reference_groups(keys, calls, [batch])
    assert_same_results(rows_by_key(table, 1), expected, calls)


def one_batch(**columns: pa.Array) -> list[list[pa.RecordBatch]]:
    return [[pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))]]


def only_row(calls: list[AggregateCall], tasks: list[list[pa.RecordBatch]], **options: Any) -> dict[str, Any]:
    table, _ = run_phases([], calls, tasks, Setup(**options))
    (row,) = table.to_pylist()
    return row


def test_without_keys_there_is_one_row_also_for_no_input() -> None:
    calls = [call("count"), call("sum", column("x", LONG)), call("count", column("x", LONG), distinct=True)]
    table, _ = run_phases([], calls, [[], []])
    assert [tuple(row.values()) for row in table.select([0, 1]).to_pylist()] == [(0, None)]
    assert table.column(2).to_pylist() == [0]


def test_with_keys_there_is_no_row_for_no_input() -> None:
    table, _ = run_phases([NamedExpr("k", column("k", LONG))], [call("count")], [[], []])
    assert table.num_rows == 0


def test_distinct_rows_without_aggregates() -> None:
    keys = [NamedExpr("k", column("k", pa.string()))]
    table, _ = run_phases(keys, [], one_batch(k=pa.array(["a", None, "a", "", None])))
    assert sorted(map(str, table.column("k").to_pylist())) == ["", "None", "a"]


def test_variance_of_large_neighbours_does_not_cancel() -> None:
    x = column("x", LONG)
    row = only_row([call("var_pop", x)], one_batch(x=pa.array([7_000_000_000_005, 7_000_000_000_007])))
    assert row == {"var_pop#1": 1.0}


@pytest.mark.parametrize("function", ["corr", "regr_r2"])
def test_variances_whose_product_no_double_holds_are_left_to_spark(function: str) -> None:
    """Spark divides by zero there: an error under ANSI, else NULL."""
    x, y = column("x", DOUBLE), column("y", DOUBLE)
    batch = one_batch(x=pa.array([1e-90, 3e-90]), y=pa.array([2e-90, 5e-90]))
    with pytest.raises(Declined, match="less than any double"):
        only_row([call(function, x, y)], batch)


def test_correlation_is_null_where_a_variable_does_not_vary() -> None:
    x, y = column("x", DOUBLE), column("y", DOUBLE)
    assert only_row([call("corr", x, y)], one_batch(x=pa.array([1.0, 1.0]), y=pa.array([1.0, 2.0]))) == {"corr#1": None}
    row = only_row([call("corr", x, y)], one_batch(x=pa.array([1.0, 2.0, 4.0]), y=pa.array([2.0, 4.0, 8.0])))
    assert row["corr#1"] == pytest.approx(1.0, rel=1e-12)


def test_group_of_zeros_and_nans_shows_positive_zero_and_one_nan() -> None:
    keys = [NamedExpr("k", column("k", DOUBLE))]
    values = pa.array(np.array([-0.0, 0.0, np.nan, -np.nan]))
    table, _ = run_phases(keys, [call("count")], one_batch(k=values))
    rows = {str(k): c for k, c in zip(table.column(0).to_pylist(), table.column(1).to_pylist(), strict=True)}
    assert rows == {"0.0": 2, "nan": 2}


def test_first_of_equal_zeros_stays_in_min_and_max() -> None:
    x = column("x", DOUBLE)
    row = only_row([call("max", x)], one_batch(x=pa.array([-0.0, 0.0])))
    assert str(row["max#1"]) == "-0.0"
    row = only_row([call("min", x)], one_batch(x=pa.array([0.0, -0.0])))
    assert str(row["min#1"]) == "0.0"


def test_nan_is_the_greatest() -> None:
    x = column("x", DOUBLE)
    batches = one_batch(x=pa.array([1.0, float("nan"), float("inf")]))
    assert only_row([call("min", x)], batches)["min#1"] == 1.0
    assert str(only_row([call("max", x)], batches)["max#1"]) == "nan"
    alone = one_batch(x=pa.array([float("nan"), None]))
    assert str(only_row([call("min", x)], alone)["min#1"]) == "nan"


LARGE = pa.array([2**63 - 1, 1], LONG)


@pytest.mark.parametrize("probe_rows", [1, 1 << 16])
def test_sum_of_longs_raises_under_ansi_and_wraps_without(probe_rows: int) -> None:
    x = column("x", LONG)
    keys = [NamedExpr("k", column("k", LONG))]
    tasks = one_batch(x=LARGE, k=pa.array([5, 5]))
    with pytest.raises(SparkQueryError) as raised:
        run_phases(keys, [call("sum", x)], tasks, Setup(probe_rows=probe_rows))
    assert raised.value.condition == "ARITHMETIC_OVERFLOW"
    wrapped, _ = run_phases(keys, [call("sum", x, ansi=False)], tasks, Setup(probe_rows=probe_rows))
    assert wrapped.column(1).to_pylist() == [-(2**63)]
    forgiven, _ = run_phases(keys, [call("try_sum", x)], tasks, Setup(probe_rows=probe_rows))
    assert forgiven.column(1).to_pylist() == [None]


def test_try_sum_stays_null_after_an_overflow_in_another_task() -> None:
    keys, x = [NamedExpr("k", column("k", LONG))], column("x", LONG)
    tasks = [*one_batch(x=LARGE, k=pa.array([5, 5])), *one_batch(x=pa.array([-5]), k=pa.array([5]))]
    table, _ = run_phases(keys, [call("try_sum", x)], tasks)
    assert table.column(1).to_pylist() == [None]


def test_average_of_longs_does_not_overflow() -> None:
    row = only_row([call("avg", column("x", LONG))], one_batch(x=LARGE))
    assert row == {"avg#1": 4.611686018427388e18}


def test_interval_sums_raise_also_without_ansi() -> None:
    dtype = pa.duration("us")
    tasks = one_batch(x=pa.array([2**63 - 1, 1], dtype))
    with pytest.raises(SparkQueryError, match="INTERVAL_ARITHMETIC_OVERFLOW"):
        only_row([call("sum", column("x", dtype), ansi=False)], tasks)
    assert only_row([call("try_sum", column("x", dtype))], tasks) == {"try_sum#1": None}


WIDE = pa.decimal128(38, 0)
NINES = pa.array([Decimal(9 * 10**37), Decimal(9 * 10**37)], WIDE)


def one_of_two_groups(function: AggregateCall, values: pa.Array) -> Any:
    """The result of a group; another one beside it."""
    keys = pa.array([1] * len(values) + [2])
    rows = one_batch(k=keys, x=pa.concat_arrays([values, pa.array([Decimal(1)], values.type)]))
    table, _ = run_phases([NamedExpr("k", column("k", LONG))], [function], rows, Setup())
    return next(row[function.name] for row in table.to_pylist() if row["k"] == 1)


def test_decimal_sum_that_leaves_38_digits() -> None:
    x = column("x", WIDE)
    with pytest.raises(SparkQueryError) as raised:
        one_of_two_groups(call("sum", x), NINES)
    assert raised.value.parameters["message"] == "Overflow in sum of decimals"
    assert one_of_two_groups(call("sum", x, ansi=False), NINES) is None
    assert one_of_two_groups(call("try_sum", x), NINES) is None


def test_decimal_sum_is_lost_for_good() -> None:
    """As Spark's buffer becomes NULL: a later row does not bring the sum back into its type."""
    back = pa.concat_arrays([NINES, pa.array([Decimal(-9 * 10**37)], WIDE)])
    assert one_of_two_groups(call("sum", column("x", WIDE), ansi=False), back) is None


def test_a_decimal_sum_without_keys_that_may_leave_its_type_on_the_way_is_spark_s() -> None:
    """Spark looks at the sums of its tasks, not of rows, and where tasks begin is not known here."""
    x = column("x", WIDE)
    halves = [*one_batch(x=pa.array([Decimal(6 * 10**37)], WIDE)), *one_batch(x=pa.array([Decimal(-6 * 10**37)], WIDE))]
    for function in ("sum", "avg", "try_sum"):
        for in_process in (True, False):
            with pytest.raises(Declined, match="depends on its tasks"):
                only_row([call(function, x)], halves, in_process=in_process)
    small = pa.array([Decimal(10**33), Decimal(-5), None], WIDE)
    assert only_row([call("sum", x)], one_batch(x=small)) == {"sum#1": Decimal(10**33 - 5)}


def test_decimal_average_with_too_many_digits_for_its_type() -> None:
    dtype = pa.decimal128(38, 10)
    largest = pa.array([Decimal("9999999999999999999999999999.1234567891")], dtype)
    x = column("x", dtype)
    with pytest.raises(SparkQueryError) as raised:
        one_of_two_groups(call("avg", x), largest)
    assert raised.value.condition == "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION"
    assert one_of_two_groups(call("avg", x, ansi=False), largest) is None
    assert one_of_two_groups(call("try_avg", x), largest) is None


def test_filter_shields_its_argument_from_errors() -> None:
    x = column("x", LONG)
    quotient = Arith(ArithOp.INT_DIV, Literal(10, LONG), x, LONG)
    batches = one_batch(x=pa.array([0, 5, None, 2]))
    with pytest.raises(SparkQueryError):
        only_row([call("sum", quotient)], batches)
    shielded = call("sum", quotient, filter=Compare(CompareOp.GT, x, Literal(0, LONG)))
    assert only_row([shielded], batches) == {"sum#1": 7}


def test_expressions_as_keys() -> None:
    key = Arith(ArithOp.MOD, column("x", LONG), Literal(2, LONG), LONG)
    table, _ = run_phases([NamedExpr("k", key)], [call("count")], one_batch(x=pa.array([1, 2, 3, 4, 5])))
    assert sorted(zip(*(c.to_pylist() for c in table.columns), strict=True)) == [(0, 2), (1, 3)]


def test_more_keys_than_bits_in_a_word() -> None:
    names = [f"k{i}" for i in range(70)]
    rows = [[None if (i + row) % 7 == 0 else i % 3 for i in range(70)] for row in (0, 1, 0, 69, 1)]
    batch = pa.RecordBatch.from_arrays([pa.array([row[i] for row in rows], pa.int8()) for i in range(70)], names=names)
    keys = [NamedExpr(name, column(name, pa.int8())) for name in names]
    check(keys, [call("count")], [[batch]], Setup())


def test_strings_that_differ_only_at_the_end_or_in_length() -> None:
    stem = "a string that is longer than twelve bytes"
    values = [stem, stem + "x", stem + "y", stem, "", None, stem[:12], stem[:13], "\0", "\0\0", stem + "y"]
    keys = [NamedExpr("k", column("k", pa.string()))]
    for in_process in (True, False):
        check(keys, [call("count")], one_batch(k=pa.array(values)), Setup(in_process=in_process, bucket_bytes=64))


def test_phases_describe_themselves() -> None:
    keys = (NamedExpr("k#1", column("k#1", LONG)),)
    calls = (call("count", column("x", LONG), distinct=True), call("sum", column("x", LONG)))
    lines = [
        line
        for phase in aggregate_phases(keys, calls, 4, DRIVER, in_process=False)
        for line in (phase.operator.describe(), phase.partitioner.describe() if phase.partitioner else "")
    ]
    assert lines == [
        "Aggregate: mode=partial, keys=[k#1, x AS __distinct0], aggregates=[sum(x) AS sum#1]",
        "HashExchange: keys=[k#1, __distinct0]",
        "Aggregate: mode=distinct, keys=[k#1], distinct=[x AS __distinct0]",
        "HashExchange: keys=[k#1]",
        "Aggregate: mode=final, keys=[k#1]",
        "",
    ]
