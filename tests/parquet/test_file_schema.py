"""Files whose schema differs from Spark's: read as Spark reads them, or declined."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal

import pyarrow as pa
import pytest

from sundog.metrics import Metrics
from sundog.parquet.decode.reader import FileReader
from sundog.parquet.meta.footer import read_footer
from sundog.parquet.problems import FileSchemaProblem
from sundog.parquet.reading import FileColumn, ReadOptions
from sundog.tables.parquet_folder import ParquetFolder
from sundog.types import DAY_TIME_INTERVAL, TIMESTAMP, TIMESTAMP_NTZ
from tests.parquet.files import data_file, footer_of, write_file


def read(path, name, dtype, options=ReadOptions()):  # noqa: B008
    relation = ParquetFolder((data_file(path),), (FileColumn("c", name, dtype),), options=options)
    with FileReader.open(relation, relation.files[0], Metrics()) as reader:
        return reader.read(range(reader.layout.footer.num_row_groups), ["c"])[0]


def stored(tmp_path, array, **options):
    return write_file(tmp_path / "a.parquet", [pa.table({"c": array})], **options)


READABLE = [
    (pa.array([True, None]), pa.bool_(), [True, None]),
    (pa.array([-1, None], pa.int8()), pa.int8(), [-1, None]),
    (pa.array([-1, None], pa.int8()), pa.int64(), [-1, None]),
    (pa.array([7], pa.int16()), pa.int32(), [7]),
    (pa.array([7], pa.int32()), pa.int64(), [7]),
    (pa.array([7], pa.int32()), pa.float64(), [7.0]),
    (pa.array([7], pa.int32()), pa.decimal128(12, 2), [Decimal("7.00")]),
    (pa.array([-(2**63)], pa.int64()), pa.decimal128(22, 1), [Decimal(-(2**63)) * Decimal("1.0")]),
    (pa.array([255], pa.uint8()), pa.int16(), [255]),
    (pa.array([65535], pa.uint16()), pa.int32(), [65535]),
    (pa.array([2**32 - 1], pa.uint32()), pa.int64(), [2**32 - 1]),
    (pa.array([2**64 - 1], pa.uint64()), pa.decimal128(20, 0), [Decimal(2**64 - 1)]),
    (pa.array([1.5], pa.float32()), pa.float32(), [1.5]),
    (pa.array([1.5], pa.float32()), pa.float64(), [1.5]),
    (pa.array([Decimal("1.25")], pa.decimal128(5, 2)), pa.decimal128(5, 2), [Decimal("1.25")]),
    (pa.array([Decimal("1.25")], pa.decimal128(5, 2)), pa.decimal128(38, 4), [Decimal("1.2500")]),
    (pa.array([Decimal("1.25")], pa.decimal128(38, 2)), pa.decimal128(38, 2), [Decimal("1.25")]),
    (pa.array(["é"]), pa.string(), ["é"]),
    (pa.array(["é"], pa.large_string()), pa.string(), ["é"]),
    (pa.array(["é"]).dictionary_encode(), pa.string(), ["é"]),
    (pa.array(["é"]), pa.binary(), ["é".encode()]),
    (pa.array([b"\xff"]), pa.binary(), [b"\xff"]),
    (pa.array([b"abc"]), pa.string(), ["abc"]),
    (pa.array([b"ab"], pa.binary(2)), pa.binary(), [b"ab"]),
    (pa.array([date(2020, 1, 2)]), pa.date32(), [date(2020, 1, 2)]),
    (pa.array([date(2020, 1, 2)]), TIMESTAMP_NTZ, [datetime(2020, 1, 2)]),
    (pa.array([datetime(2020, 1, 2)], pa.timestamp("us")), TIMESTAMP_NTZ, [datetime(2020, 1, 2)]),
    (pa.array([datetime(2020, 1, 2)], pa.timestamp("ms")), TIMESTAMP_NTZ, [datetime(2020, 1, 2)]),
    (
        pa.array([1577923200000], pa.timestamp("ms", "Europe/Berlin")),
        TIMESTAMP,
        [datetime(2020, 1, 2, tzinfo=timezone.utc)],
    ),
    (pa.array([5], pa.int64()), DAY_TIME_INTERVAL, None),
    (pa.array([5], pa.duration("us")), pa.int64(), [5]),
    (pa.nulls(2), pa.string(), [None, None]),
]


@pytest.mark.parametrize(("array", "dtype", "expected"), READABLE, ids=[f"{a.type}-{t}" for a, t, _ in READABLE])
def test_read_as(tmp_path, array, dtype, expected):
    result = read(stored(tmp_path, array), "c", dtype)
    assert result.type == dtype
    if expected is not None:
        assert result.to_pylist() == expected


UNREADABLE = [
    (pa.array([1], pa.int64()), pa.int32()),
    (pa.array([1], pa.int32()), pa.int16()),
    (pa.array([1], pa.int32()), pa.float32()),
    (pa.array([1], pa.int32()), pa.decimal128(10, 2)),
    (pa.array([1], pa.int64()), pa.float64()),
    (pa.array([1], pa.uint32()), pa.int32()),
    (pa.array([1], pa.uint64()), pa.int64()),
    (pa.array([1.5]), pa.float32()),
    (pa.array([Decimal("1.25")], pa.decimal128(5, 2)), pa.decimal128(5, 1)),
    (pa.array([Decimal("1.25")], pa.decimal128(5, 2)), pa.decimal128(5, 3)),
    (pa.array([Decimal("1.25")], pa.decimal128(5, 2)), pa.float64()),
    (pa.array([datetime(2020, 1, 2)], pa.timestamp("us")), TIMESTAMP),
    (pa.array([datetime(2020, 1, 2)], pa.timestamp("us", "UTC")), TIMESTAMP_NTZ),
    (pa.array([1], pa.timestamp("ns")), TIMESTAMP_NTZ),
    (pa.array([1], pa.time64("us")), pa.int64()),
    (pa.array([1.5], pa.float16()), pa.float32()),
    (pa.array([b"\xff"]), pa.string()),
    (pa.array(["1"]), pa.int64()),
    (pa.array([[1]]), pa.int64()),
    (pa.array([{"x": 1}]), pa.int64()),
]


@pytest.mark.parametrize(("array", "dtype"), UNREADABLE, ids=[f"{a.type}-{t}" for a, t in UNREADABLE])
def test_left_to_spark(tmp_path, array, dtype):
    with pytest.raises(FileSchemaProblem):
        read(stored(tmp_path, array), "c", dtype)


def test_a_column_that_is_not_there_is_null(tmp_path):
    assert read(stored(tmp_path, pa.array([1, 2])), "other", pa.string()).to_pylist() == [None, None]


def test_names_match_without_case_unless_told(tmp_path):
    path = write_file(tmp_path / "a.parquet", [pa.table({"Name": [1]})])
    assert read(path, "nAME", pa.int64()).to_pylist() == [1]
    assert read(path, "nAME", pa.int64(), ReadOptions(case_sensitive=True)).to_pylist() == [None]


def test_two_columns_of_one_name_are_ambiguous(tmp_path):
    path = write_file(tmp_path / "a.parquet", [pa.table({"a": [1], "A": [2]})])
    with pytest.raises(FileSchemaProblem, match="more than once"):
        read(path, "a", pa.int64())
    assert read(path, "A", pa.int64(), ReadOptions(case_sensitive=True)).to_pylist() == [2]


def test_a_dot_in_a_name_is_no_path(tmp_path):
    path = write_file(tmp_path / "a.parquet", [pa.table({"a": [{"b": 1}], "x.y": [2]})])
    assert read(path, "x.y", pa.int64()).to_pylist() == [2]


def test_int96(tmp_path):
    instants = pa.array([0, 1_600_000_000_123_456, -2_000_000_000_000_000], pa.timestamp("us"))
    path = stored(tmp_path, instants, use_deprecated_int96_timestamps=True)
    result = read(path, "c", TIMESTAMP)
    assert result.view(pa.int64()).to_pylist() == instants.view(pa.int64()).to_pylist()


def _with_version(array, version, *keys):
    table = pa.table({"c": array})
    metadata = {b"org.apache.spark.version": version} if version else {}
    return table.replace_schema_metadata({**metadata, **dict.fromkeys(keys, b"")})


ANCIENT, RECENT = pa.array([-150_000], pa.int32()).view(pa.date32()), pa.array([0], pa.int32()).view(pa.date32())


@pytest.mark.parametrize(
    ("version", "keys", "mode", "ancient_is_read"),
    [
        (b"4.3.0", (), "LEGACY", True),  # the writer's version outweighs the session's mode
        (b"2.4.8", (), "CORRECTED", False),
        (b"3.5.0", (b"org.apache.spark.legacyDateTime",), "CORRECTED", False),
        (None, (), "CORRECTED", True),
        (None, (), "LEGACY", False),
        (None, (), "EXCEPTION", False),
    ],
)
def test_dates_that_spark_would_rebase(tmp_path, version, keys, mode, ancient_is_read):
    options = ReadOptions(datetime_rebase_mode=mode)
    recent = write_file(tmp_path / "recent.parquet", [_with_version(RECENT, version, *keys)])
    ancient = write_file(tmp_path / "ancient.parquet", [_with_version(ANCIENT, version, *keys)])
    assert read(recent, "c", pa.date32(), options).equals(RECENT)
    if ancient_is_read:
        assert read(ancient, "c", pa.date32(), options).equals(ANCIENT)
    else:
        with pytest.raises(FileSchemaProblem):
            read(ancient, "c", pa.date32(), options)


def test_exception_mode_needs_statistics_to_prove_the_absence_of_ancient_dates(tmp_path):
    path = write_file(tmp_path / "a.parquet", [pa.table({"c": RECENT})], write_statistics=False)
    with pytest.raises(FileSchemaProblem):
        read(path, "c", pa.date32(), ReadOptions(datetime_rebase_mode="EXCEPTION"))
    assert read(path, "c", pa.date32(), ReadOptions(datetime_rebase_mode="LEGACY")).equals(RECENT)


def test_exception_mode_needs_no_statistics_of_no_rows(tmp_path):
    path = write_file(tmp_path / "a.parquet", [pa.table({"c": RECENT.slice(0, 0)})])
    assert footer_of(path).row_counts.tolist() == [0]
    assert len(read(path, "c", pa.date32(), ReadOptions(datetime_rebase_mode="EXCEPTION"))) == 0


@pytest.mark.parametrize("mode", ["CORRECTED", "LEGACY"])
def test_int96_before_1900(tmp_path, mode):
    instants = pa.array([-3_000_000_000_000_000], pa.timestamp("us"))
    path = stored(tmp_path, instants, use_deprecated_int96_timestamps=True)
    options = ReadOptions(int96_rebase_mode=mode)
    if mode == "CORRECTED":
        assert read(path, "c", TIMESTAMP, options).view(pa.int64()).to_pylist() == [-3_000_000_000_000_000]
    else:
        with pytest.raises(FileSchemaProblem):
            read(path, "c", TIMESTAMP, options)


def test_leaves_tell_their_annotations(tmp_path):
    table = pa.table(
        {
            "u": pa.array([1], pa.uint16()),
            "t": pa.array([1], pa.timestamp("ms", "UTC")),
            "d": pa.array([Decimal("1.2")], pa.decimal128(7, 1)),
        }
    )
    footer = read_footer(data_file(write_file(tmp_path / "a.parquet", [table])), ())
    assert footer is not None
    unsigned, instant, decimal = (footer.leaf(i) for i in range(3))
    assert (unsigned.bit_width, unsigned.signed) == (16, False)
    assert (instant.time_unit, instant.adjusted_to_utc) == ("milli", True)
    assert (decimal.precision, decimal.scale) == (7, 1)
