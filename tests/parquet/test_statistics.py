"""The truth table of statistics.py, row by row."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sundog.expr.ranks import NAN_RANK, float_rank, ranks_of
from sundog.parquet.meta.footer import read_footer
from sundog.parquet.meta.statistics import Bounds
from sundog.parquet.reading import FileColumn, ReadOptions
from sundog.tables.parquet_folder import ParquetFolder
from sundog.types import TIMESTAMP, TIMESTAMP_NTZ
from tests.oracle.batches import FILE_TYPES, arrow_arrays
from tests.parquet.files import cut, data_file, relation, statistics_of, write_file


def bounds_of(path, dtype, options=ReadOptions(), created_by=None) -> Bounds:  # noqa: B008
    files = ParquetFolder((data_file(path),), (FileColumn("c", "c", dtype),), options=options)
    footer = read_footer(files.files[0], ())
    assert footer is not None
    if created_by is not None:
        footer.created_by = created_by
    return statistics_of(files, [footer]).column("c")


def bounds_in(tmp_path, array, dtype=None, created_by=None, options=ReadOptions(), **writer) -> Bounds:  # noqa: B008
    path = write_file(tmp_path / "a.parquet", [pa.table({"c": array})], **writer)
    return bounds_of(path, dtype or array.type, options, created_by)


def range_of(bounds):
    return bounds.low[0], bounds.high[0]


def test_no_statistics_is_unknown(tmp_path):
    bounds = bounds_in(tmp_path, pa.array([1, 2]), write_statistics=False)
    assert range_of(bounds) == (None, None)
    assert bounds.nulls[0]
    assert bounds.values[0]
    assert bounds.null_counts[0] == -1


@pytest.mark.parametrize(
    ("array", "dtype", "low", "high"),
    [
        (pa.array([3, None, -2], pa.int8()), pa.int64(), -2, 3),
        (pa.array([5, 2**32 - 1], pa.uint32()), pa.int64(), 5, 2**32 - 1),
        (pa.array([5, 2**64 - 1], pa.uint64()), pa.decimal128(20, 0), 5, 2**64 - 1),
        (pa.array([5, 6], pa.int32()), pa.float64(), float_rank(5.0), float_rank(6.0)),
        (pa.array([Decimal("-1.5"), Decimal("2.5")], pa.decimal128(4, 1)), pa.decimal128(20, 3), -1500, 2500),
        (pa.array([Decimal("-1.5")], pa.decimal128(38, 1)), pa.decimal128(38, 1), -15, -15),
        (pa.array([5, -6], pa.int32()), pa.decimal128(12, 2), -600, 500),
        (pa.array([True, False]), pa.bool_(), 0, 1),
        (pa.array(["é", "z"]), pa.string(), b"z", "é".encode()),  # by bytes, not by letters
        (pa.array([b"\x80", b"\x7f"]), pa.binary(), b"\x7f", b"\x80"),
        (pa.array([1, 2], pa.int32()).view(pa.date32()), TIMESTAMP_NTZ, 86_400_000_000, 172_800_000_000),
        (pa.array([1, 2], pa.timestamp("ms", "UTC")), TIMESTAMP, 1000, 2000),
        (pa.array([1, 2], pa.timestamp("us")), TIMESTAMP_NTZ, 1, 2),
    ],
)
def test_bounds_in_the_unit_of_the_query(tmp_path, array, dtype, low, high):
    assert range_of(bounds_in(tmp_path, array, dtype)) == (low, high)


def test_int96_has_none(tmp_path):
    array = pa.array([1, 2], pa.timestamp("us"))
    bounds = bounds_in(tmp_path, array, TIMESTAMP, use_deprecated_int96_timestamps=True)
    assert range_of(bounds) == (None, None)


def test_nan_is_above_the_bounds_of_most_writers(tmp_path):
    bounds = bounds_in(tmp_path, pa.array([1.0, math.nan, 3.0]))
    assert range_of(bounds) == (float_rank(1.0), NAN_RANK)


def test_only_nan(tmp_path):
    bounds = bounds_in(tmp_path, pa.array([math.nan, math.nan]))
    assert range_of(bounds) == (None, NAN_RANK)


@pytest.mark.parametrize(
    ("created_by", "high"),
    [
        ("parquet-mr version 1.9.0 (build x)", NAN_RANK),
        ("parquet-mr version 1.10.1 (build x)", float_rank(3.0)),
        ("parquet-mr version 1.17.0 (build x)", float_rank(3.0)),
        ("parquet-mr version 1.18.0 (build x)", NAN_RANK),  # counts NaN apart and leaves it out of max
        ("parquet-cpp-arrow version 26.0.1", NAN_RANK),
        ("", NAN_RANK),
    ],
)
def test_writers_that_put_nan_into_max(tmp_path, created_by, high):
    bounds = bounds_in(tmp_path, pa.array([1.0, 3.0]), created_by=created_by)
    assert range_of(bounds) == (float_rank(1.0), high)


@pytest.mark.parametrize(
    ("created_by", "known"),
    [("", False), ("parquet-mr version 1.8.1", False), ("parquet-mr version 1.12.0", True), ("parquet-cpp 1", True)],
)
def test_old_writers_sorted_the_bytes_of_decimals_wrongly(tmp_path, created_by, known):
    array = pa.array([Decimal("1"), Decimal("300")], pa.decimal128(30, 0))
    assert (bounds_in(tmp_path, array, created_by=created_by).low[0] is not None) == known


def test_zeros_have_one_rank(tmp_path):
    bounds = bounds_in(tmp_path, pa.array([-0.0, 0.0]))
    assert bounds.low[0] == float_rank(0.0)


def test_null_counts(tmp_path):
    table = pa.table({"c": pa.array([1, 2, None, 4, None, None])})
    bounds = bounds_of(write_file(tmp_path / "a.parquet", cut(table, 2)), pa.int64())
    assert bounds.nulls.tolist() == [False, True, True]
    assert bounds.values.tolist() == [True, True, False]
    assert bounds.null_counts.tolist() == [0, 1, 2]


def test_what_may_need_a_rebase_is_unknown(tmp_path):
    table = pa.table({"c": pa.array([-150_000, 5], pa.int32()).view(pa.date32())})
    path = write_file(tmp_path / "a.parquet", cut(table, 1))
    bounds = bounds_of(path, pa.date32(), ReadOptions(datetime_rebase_mode="LEGACY"))
    assert bounds.low.tolist() == [None, 5]
    assert bounds.high.tolist() == [None, 5]
    assert bounds_of(path, pa.date32()).low.tolist() == [-150_000, 5]


def test_partition_values_are_exact_and_missing_columns_null(tmp_path):
    path = write_file(tmp_path / "a.parquet", [pa.table({"c": [1, 2, 3]})])
    partitions = [("p", pa.string()), ("q", pa.date32())]
    schema = pa.schema([("c", pa.int64()), ("missing", pa.string())])
    files = relation([path], schema, partitions, [("x", None)])
    statistics = statistics_of(files)
    assert range_of(statistics.column("p")) == (b"x", b"x")
    assert not statistics.column("p").nulls[0]
    assert statistics.column("q").null_counts[0] == 3
    assert not statistics.column("q").values[0]
    assert not statistics.column("missing").values[0]
    before = files.known_statistics(files.files)
    assert range_of(before.column("p")) == (b"x", b"x")
    assert range_of(before.column("c")) == (None, None)


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(FILE_TYPES).flatmap(lambda dtype: arrow_arrays(dtype, 1, 40)), st.integers(1, 40))
def test_every_value_lies_within_the_bounds(tmp_path_factory, array, rows):
    table = pa.table({"c": array})
    path = write_file(tmp_path_factory.mktemp("s") / "a.parquet", cut(table, rows))
    bounds = bounds_of(path, array.type)
    for slot, part in enumerate(cut(table, rows)):
        ranks = ranks_of(part["c"].combine_chunks())
        values = [rank for rank in ranks if rank is not None]
        assert bounds.low[slot] is None or all(bounds.low[slot] <= rank for rank in values)
        assert bounds.high[slot] is None or all(rank <= bounds.high[slot] for rank in values)
        assert bounds.nulls[slot] or len(values) == len(ranks)
        assert bounds.values[slot] or not values
        assert bounds.null_counts[slot] in (-1, len(ranks) - len(values))


def test_constant_and_unknown_bounds_have_their_slots():
    rows = np.array([5, 6], np.int64)
    assert len(Bounds.unknown(pa.int64(), 3, safe=False)) == 3
    assert Bounds.constant(pa.int64(), None, rows).null_counts.tolist() == [5, 6]
    assert Bounds.constant(pa.int64(), 4, rows).low.tolist() == [4, 4]
