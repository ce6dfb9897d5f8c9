"""One range against the quadratic reference: every key type, frame and function."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sundog.expr.errors import SparkQueryError
from sundog.expr.ordering import SortKey
from sundog.operators.window.window_operator import serial_window
from tests.operators.window.cases import (
    KEY_TYPES,
    SETTINGS,
    aggregate_calls,
    call,
    column,
    inputs,
    place_calls,
    range_frame,
    range_frames,
    rows_frame,
    rows_frames,
    tables,
)
from tests.operators.window.reference import Reference, plain, same


def check(table, calls, partition_by, order_by, tolerance=1e-12):
    result = serial_window(table, calls, partition_by, order_by)
    reference = Reference(table, partition_by, order_by)
    assert result.num_rows == table.num_rows
    if partition_by:  # one behind the other, in no order
        result = result.take(pc.index_in(reference.table.column("id"), result.column("id").combine_chunks()))
    assert result.column("id").equals(reference.table.column("id"))
    for one in calls:
        got = plain(result.column(one.name).combine_chunks())
        expected = reference.column(one)
        scale = 1.0 if one.function.startswith(("var", "stddev")) else 0.0
        bound = 1e-6 if scale else tolerance
        assert len(got) == len(expected)
        for row, (left, right) in enumerate(zip(got, expected, strict=True)):
            assert same(left, right, bound, scale), (one, row, left, right)


@SETTINGS
@given(st.data(), st.sampled_from(KEY_TYPES), st.booleans(), st.booleans(), st.booleans())
def test_range_frames(data, dtype, descending, nulls_first, partitioned):
    frame = data.draw(range_frames(dtype, 12))
    order = (SortKey(column("k0", dtype), descending, nulls_first),)
    calls = aggregate_calls(frame)
    picked = data.draw(st.lists(st.sampled_from(calls), min_size=1, max_size=5, unique_by=lambda c: c.name))
    partition_by = (column("p"),) if partitioned else ()
    check(data.draw(tables([dtype], inputs(picked, *partition_by))), picked, partition_by, order)


@SETTINGS
@given(st.data(), st.lists(st.sampled_from([*KEY_TYPES, pa.string(), pa.bool_()]), max_size=3), st.booleans())
def test_rows_frames_and_several_keys(data, types, partitioned):
    flags = data.draw(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=3, max_size=3))
    order = tuple(SortKey(column(f"k{n}", t), *flags[n]) for n, t in enumerate(types))
    frame = data.draw(rows_frames())
    calls = [*aggregate_calls(frame), *(aggregate_calls(range_frame(None, 0)) if order else []), *place_calls()]
    picked = data.draw(st.lists(st.sampled_from(calls), min_size=1, max_size=6, unique_by=lambda c: c.name))
    partition_by = (column("p"), column("s")) if partitioned else ()
    check(data.draw(tables(types, inputs(picked, *partition_by))), picked, partition_by, order)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("offset", [float("inf"), float("-inf"), float("nan")])
def test_offsets_that_are_no_numbers(offset, descending):
    values = [float("-inf"), None, 0.0, 1.0, float("nan"), float("inf"), 1.0]
    table = pa.table(
        {"k0": pa.array(values, pa.float64()), "id": pa.array(range(7)), "i": pa.array(range(7), pa.int64())}
    )
    order = (SortKey(column("k0", pa.float64()), descending, True),)
    for frame in (range_frame(offset, offset), range_frame(-1.0, offset), range_frame(offset, 1.0)):
        check(table, [call("sum", frame, column("i"), dtype=pa.int64())], (), order)


def test_a_month_end_moves_no_pointer_back():
    hours = [(30, 23), (31, 1), (59, 1), (59, 23)]
    micros = [day * 86_400_000_000 + hour * 3_600_000_000 for day, hour in hours]
    keys = pa.array([18_628 * 86_400_000_000 + value for value in micros], pa.int64()).view(pa.timestamp("us"))
    table = pa.table({"k0": keys, "i": pa.array(range(4), pa.int64()), "id": pa.array(range(4))})
    order = (SortKey(column("k0", keys.type)),)
    check(table, [call("count", range_frame(1, 1, "months"), column("i"), dtype=pa.int64())], (), order)


class TestErrors:
    order = (SortKey(column("i")),)

    def table(self, values, dtype):
        return pa.table({"i": pa.array(range(len(values)), pa.int64()), "x": pa.array(values, dtype)})

    def run(self, values, dtype, function, result, frame, **more):
        one = call(function, frame, column("x", dtype), dtype=result, **more)
        return serial_window(self.table(values, dtype), [one], (), self.order).column("r").to_pylist()

    def test_bigint_overflow_is_judged_on_the_frame_and_on_its_way(self):
        top = 2**63 - 1
        long = pa.int64()
        with pytest.raises(SparkQueryError, match="ARITHMETIC_OVERFLOW"):
            self.run([top, 1, -5], long, "sum", long, rows_frame(-1, 0))
        with pytest.raises(SparkQueryError, match="ARITHMETIC_OVERFLOW"):
            self.run([top, 1, -5], long, "sum", long, rows_frame(None, None))
        assert self.run([top, -5, 1], long, "sum", long, rows_frame(None, 0)) == [top, top - 5, top - 4]
        assert self.run([top, 0, 1], long, "sum", long, rows_frame(-1, 0)) == [top, top, 1]

    def test_bigint_overflow_wraps_or_gives_null(self):
        top = 2**63 - 1
        long = pa.int64()
        assert self.run([top, 1, -5], long, "sum", long, rows_frame(-1, 0), ansi=False) == [top, -(2**63), -4]
        assert self.run([top, 1, -5], long, "try_sum", long, rows_frame(-1, 0)) == [top, None, -4]
        assert self.run([top, 1, -5], long, "try_sum", long, rows_frame(None, 0)) == [top, None, None]

    def test_decimal_overflow(self):
        wide = pa.decimal128(38, 0)
        values = [10**38 - 1, 1, -5]
        with pytest.raises(SparkQueryError, match="NUMERIC_VALUE_OUT_OF_RANGE"):
            self.run(values, wide, "sum", wide, rows_frame(None, 0))
        got = self.run(values, wide, "sum", wide, rows_frame(None, 0), ansi=False)
        assert got == [10**38 - 1, None, 10**38 - 5]
        with pytest.raises(SparkQueryError, match="NUMERIC_VALUE_OUT_OF_RANGE"):
            self.run(values, wide, "avg", pa.decimal128(38, 4), rows_frame(None, 0))

    def test_interval_overflow_raises_whatever_the_mode(self):
        interval = pa.duration("us")
        with pytest.raises(SparkQueryError, match="INTERVAL_ARITHMETIC_OVERFLOW"):
            self.run([2**63 - 1, 1], interval, "sum", interval, rows_frame(None, 0), ansi=False)


def test_average_of_a_narrow_decimal_as_spark_rewrites_it():
    """cast(avg(unscaled) / 100.0 as decimal(9,6)): 1/32 of a cent is a tie in the seventh place."""
    dtype = pa.decimal128(5, 2)
    values = [0.01] + [0.0] * 31 + [123.45, 999.99, -0.01]
    table = pa.table({"i": pa.array(range(35), pa.int64()), "x": pa.array(map(str, values)).cast(dtype)})
    one = call("avg_unscaled", rows_frame(-31, 0), column("x", dtype), dtype=pa.decimal128(9, 6))
    result = serial_window(table, [one], (), (SortKey(column("i")),)).column("r")
    assert str(result[31].as_py()) == "0.000313"
    assert [str(value) for value in result.slice(32).to_pylist()] == ["3.857813", "35.107500", "35.107188"]


def test_no_rows():
    table = pa.table({"i": pa.array([], pa.int64()), "b": pa.array([], pa.bool_())})
    calls = [call("count", rows_frame(None, 0), column("i"), dtype=pa.int64())]
    result = serial_window(table, calls, (), (SortKey(column("i")),))
    assert result.num_rows == 0
    assert result.column_names == ["i", "b", "r"]
