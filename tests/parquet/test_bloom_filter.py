"""Bloom filters of files: no row group with a wanted value is skipped, whatever the type, however damaged."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sundog.columns.key_sets import key_set
from sundog.expr.dynamic_filters.key_set import KeyFilter
from sundog.expr.nodes import And, Column, Compare, CompareOp, Expr, In, IsNull, Literal, Not
from sundog.kernels.pages.thrift_values import I32, I64
from sundog.operators.context import TaskContext
from sundog.operators.scan.scan import scan_tasks
from sundog.parquet.meta.chunk_table import BLOOM_FILTER
from sundog.parquet.meta.file_metadata import parse_footer
from sundog.parquet.meta.thrift import read_struct, write_struct
from sundog.parquet.meta.thrift_fields import ChunkFields, ChunkMetadataFields, FileFields, RowGroupFields
from sundog.parquet.prune.access_plan import plan_access
from sundog.parquet.prune.bloom_filter import wanted_values
from sundog.parquet.prune.xxhash import xxhash64
from sundog.plan.costs import DRIVER
from tests.parquet.files import footer_of, relation, write_file

LONG = pa.int64()
FIRST_DAY = dt.date(1970, 1, 1)
VALUES: dict[str, tuple[pa.DataType, Any]] = {
    "int8": (pa.int8(), st.integers(-128, 127)),
    "int32": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "int64": (pa.int64(), st.one_of(st.sampled_from([-(2**63), 2**63 - 1, -1, 0]), st.integers(-99, 99))),
    "date": (pa.date32(), st.integers(0, 400).map(lambda days: FIRST_DAY + dt.timedelta(days))),
    "decimal": (pa.decimal128(9, 2), st.decimals(-100, 100, places=2)),
    "wide decimal": (pa.decimal128(30, 2), st.decimals(-100, 100, places=2)),
    "string": (
        pa.string(),
        st.sampled_from(["", "a", "é", "a text of more than thirty-two bytes, in blocks", "b" * 32]),
    ),
    "binary": (pa.binary(), st.binary(max_size=40)),
    "double": (pa.float64(), st.sampled_from([0.0, -0.0, float("nan"), 1.5])),
}
OPTIONS = {"x": {"ndv": 2000, "fpp": 0.001}}  # far more bits than the few values of these tests need


def equals(dtype: pa.DataType, value: Any) -> Expr:
    return Compare(CompareOp.EQ, Column("x", dtype), Literal(value, dtype))


def scanned(path: Path, schema: pa.Schema, predicate: Expr | None, *filters: KeyFilter) -> tuple[list[Any], int]:
    """The values of x that are read, and how many row groups a Bloom filter ruled out."""
    context = TaskContext()
    plan = plan_access(relation([path], schema), ("x",), predicate, filters)
    batches = [batch for task in scan_tasks(plan, 1, DRIVER) for batch in task.read(context)]
    rows = [value for batch in batches for value in batch.column(0).to_pylist()]
    return rows, int(context.metrics.get("row_groups_pruned_bloom_filter"))


def test_hashes_are_those_of_the_specification() -> None:
    assert xxhash64(b"") == 0xEF46DB3751D8E999
    assert xxhash64(b"abc") == 0x44BC2CF5AD770999
    assert xxhash64(b"Nobody inspects the spammish repetition") == 0xFBCEA83C8A378BF1


@pytest.mark.parametrize("name", sorted(VALUES))
@settings(max_examples=15)
@given(data=st.data())
def test_no_row_with_a_wanted_value_is_skipped(name: str, data: st.DataObject, tmp_path_factory: Any) -> None:
    dtype, values = VALUES[name]
    rows = st.lists(st.one_of(st.none(), values), min_size=1, max_size=8)
    groups = [pa.table({"x": pa.array(data.draw(rows), dtype)}) for _ in range(data.draw(st.integers(1, 4)))]
    path = tmp_path_factory.mktemp("bloom") / "t.parquet"
    write_file(path, groups, bloom_filter_options=OPTIONS, write_statistics=False, store_decimal_as_integer=True)
    everything = [value for group in groups for value in group.column(0).to_pylist()]
    wanted = data.draw(st.one_of(st.sampled_from(everything), values))
    listed = (wanted, *data.draw(st.lists(values, max_size=2)), None)
    if wanted is not None:
        found, _ = scanned(path, groups[0].schema, equals(dtype, wanted))
        assert same(found, [value for value in everything if same([value], [wanted])])
    among = [v for v in everything if v is not None and any(same([v], [each]) for each in listed)]
    found, _ = scanned(path, groups[0].schema, In(Column("x", dtype), listed))
    assert same(found, among)
    keys = KeyFilter("x", key_set(pa.array(listed, dtype), DRIVER))
    found, _ = scanned(path, groups[0].schema, None, keys)
    assert all(any(same([value], [each]) for each in found) for value in among)


def same(left: list[Any], right: list[Any]) -> bool:
    """Equal as Spark has it: NaN is NaN, and zero has no sign."""
    return len(left) == len(right) and all(a == b or (a != a and b != b) for a, b in zip(left, right, strict=True))


def scattered(tmp_path: Path, dtype: pa.DataType = LONG, **options: Any) -> tuple[Path, list[pa.Table]]:
    """Row groups whose bounds all hold the same values: number n is in row group n % 4."""
    groups = [
        pa.table({"x": pa.array([-1000, *range(first, 400, 4), 1000], pa.int16()).cast(dtype)}) for first in range(4)
    ]
    return write_file(tmp_path / "t.parquet", groups, bloom_filter_options=OPTIONS, **options), groups


@pytest.mark.parametrize("dtype", [pa.int16(), pa.int32(), pa.int64(), pa.string(), pa.decimal128(9, 0)], ids=str)
def test_row_groups_without_the_value_are_not_read(tmp_path: Path, dtype: pa.DataType) -> None:
    path, groups = scattered(tmp_path, dtype, store_decimal_as_integer=True)
    value = pa.scalar(77, pa.int16()).cast(dtype).as_py()
    assert scanned(path, groups[0].schema, equals(dtype, value)) == ([value], 3)
    assert scanned(path, groups[0].schema, And(equals(dtype, value), Not(IsNull(Column("x", dtype))))) == ([value], 3)
    keys = KeyFilter("x", key_set(pa.array([77, 81], pa.int16()).cast(dtype), DRIVER))
    assert scanned(path, groups[0].schema, None, keys)[1] == 3


def test_a_stored_int_is_asked_for_as_an_int(tmp_path: Path) -> None:
    path, _ = scattered(tmp_path, pa.int32())
    wide = pa.schema([("x", pa.int64())])
    assert scanned(path, wide, equals(pa.int64(), 77)) == ([77], 3)
    assert scanned(path, wide, In(Column("x", pa.int64()), (77, 1 << 40))) == ([77], 3)


def test_what_has_several_forms_is_not_asked_for() -> None:
    double = pa.float64()
    assert wanted_values(equals(double, 0.0), (), 9) == ()
    assert wanted_values(equals(pa.int64(), None), (), 9) == ()
    many = KeyFilter("x", key_set(pa.array(range(10)), DRIVER))
    assert wanted_values(None, (many, KeyFilter("x")), 9) == ()
    assert len(wanted_values(None, (many,), 10)) == 1


def test_keys_are_listed_whatever_they_are_kept_as() -> None:
    for numbers in ([5], [-3, 0, 12, 13], [0, 10**15, 10**17], [2**63 - 1], [-(2**63), 2**63 - 1]):
        assert key_set(pa.array([*numbers, None, numbers[0]]), DRIVER).listed(9) == numbers
    assert key_set(pa.array(["b", "a", None]), DRIVER).listed(9) == [b"a", b"b"]
    assert key_set(pa.array([Decimal("1.5"), None]), DRIVER).listed(9) == [15]
    assert key_set(pa.array([1.5]), DRIVER).listed(9) is None


@settings(max_examples=30)
@given(data=st.data())
def test_a_damaged_header_says_nothing(data: st.DataObject, tmp_path_factory: Any) -> None:
    path, groups = scattered(tmp_path_factory.mktemp("damaged"))
    raw = bytearray(path.read_bytes())
    places = footer_of(path).values.extras
    assert places is not None
    offset, length = places[1, 0, BLOOM_FILTER].tolist()
    at = data.draw(st.integers(offset, offset + length % 32 - 1))  # the header: what follows are blocks of 32 bytes
    raw[at] = data.draw(st.integers(0, 255))
    path.write_bytes(bytes(raw))
    rows, pruned = scanned(path, groups[0].schema, equals(pa.int64(), 77))
    assert rows == [77]
    assert pruned in (2, 3)


def test_a_place_outside_of_the_file_is_passed_over(tmp_path: Path) -> None:
    path, _ = scattered(tmp_path)
    raw = path.read_bytes()
    size = int.from_bytes(raw[-8:-4], "little")
    start = len(raw) - 8 - size
    for offset, length in ((-1, 9), (1 << 62, 9), (2**63 - 1, 2**31 - 1), (8, -5), (8, 2**31 - 1), (start, 1), (8, 0)):
        footer = read_struct(raw[start:-8])[0]
        for group in footer[FileFields.ROW_GROUPS][1][1]:
            for chunk in group[RowGroupFields.COLUMNS][1][1]:
                metadata = chunk[ChunkFields.METADATA][1]
                metadata[ChunkMetadataFields.BLOOM_FILTER_OFFSET] = (I64, offset)
                metadata[ChunkMetadataFields.BLOOM_FILTER_BYTES] = (I32, length)
                chunk[ChunkFields.COLUMN_INDEX_OFFSET] = chunk[ChunkFields.OFFSET_INDEX_OFFSET] = (I64, offset)
                chunk[ChunkFields.COLUMN_INDEX_BYTES] = chunk[ChunkFields.OFFSET_INDEX_BYTES] = (I32, length)
        data = write_struct(footer)
        values = parse_footer(data, start + len(data) + 8)
        assert all(values.extra(kind, group, 0) is None for kind in range(3) for group in range(4))


def test_files_without_any_keep_no_table_of_them(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": np.arange(10)}), path)
    assert footer_of(path).values.extras is None
