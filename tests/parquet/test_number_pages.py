"""Numbers from our decoder equal Arrow's, for every type, encoding, codec, page size and NULL. An inconsistent page is
left to Arrow, and no byte outside of it is accessed."""

from __future__ import annotations

import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sundog.metrics import Metrics
from sundog.parquet.decode import own_decoder
from sundog.parquet.decode.number_pages import read_numbers
from sundog.parquet.decode.reader import FileReader
from sundog.parquet.meta.file_schema import ColumnSource, FileSchemaProblem, resolve_columns
from sundog.parquet.reading import FileColumn, ReadOptions
from sundog.types import DAY_TIME_INTERVAL, TIMESTAMP, TIMESTAMP_NTZ
from tests.parquet.files import damage, footer_of, relation, write_file

# As stored, and as the query wants it.
TYPES = [
    (pa.int8(), pa.int8()),
    (pa.int16(), pa.int32()),
    (pa.int32(), pa.int32()),
    (pa.int32(), pa.int64()),
    (pa.int32(), pa.float64()),
    (pa.int64(), pa.int64()),
    (pa.int64(), DAY_TIME_INTERVAL),
    (pa.float32(), pa.float32()),
    (pa.float32(), pa.float64()),
    (pa.float64(), pa.float64()),
    (pa.date32(), pa.date32()),
    (TIMESTAMP, TIMESTAMP),
    (TIMESTAMP_NTZ, TIMESTAMP_NTZ),
    (pa.decimal128(9, 2), pa.decimal128(9, 2)),
    (pa.decimal128(18, 3), pa.decimal128(18, 3)),
    (pa.decimal128(7, 2), pa.decimal128(20, 2)),
]


def source_of(path: Path, dtype: pa.DataType) -> ColumnSource:
    return resolve_columns(
        footer_of(path), [FileColumn("n", "n", dtype)], ReadOptions(datetime_rebase_mode="CORRECTED")
    )[0]


def read(
    path: Path,
    dtype: pa.DataType,
    *row_groups: int,
    rows: npt.NDArray[np.int64] | None = None,
    short: frozenset[str] = frozenset(),
) -> pa.Array | None:
    """The column, read by Arrow's file and by the kernel itself, which it can when the pages are known."""
    given = footer_of(path), row_groups or (0,), [source_of(path, dtype)], rows, short
    by_arrow = read_numbers(pa.BufferReader(path.read_bytes()), *given).get("n")
    with pa.OSFile(str(path)) as source:
        by_kernel = read_numbers(source, *given).get("n")
    assert (by_arrow is None) == (by_kernel is None)
    assert by_arrow is None or by_arrow.equals(by_kernel)
    return by_kernel


def numbers(dtype: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_floating(dtype):
        return st.one_of(st.sampled_from([0.0, -0.0, float("inf")]), st.floats(width=dtype.bit_width, allow_nan=False))
    if pa.types.is_decimal(dtype):
        most = 10**dtype.precision - 1
        unscaled = st.one_of(st.integers(-5, 20), st.sampled_from([-most, most]), st.integers(-most, most))
        return unscaled.map(lambda number: Decimal(number).scaleb(-dtype.scale))
    most = 1 << (dtype.bit_width - 1)
    return st.one_of(st.integers(-5, 20), st.sampled_from([-most, most - 1]), st.integers(-most, most - 1))


def column_of(values: list[Any], dtype: pa.DataType) -> pa.Array:
    if pa.types.is_floating(dtype) or pa.types.is_decimal(dtype):
        return pa.array(values, dtype)
    return pa.array(values, pa.int32() if dtype.bit_width == 32 else pa.int64()).cast(dtype)


@settings(max_examples=200, deadline=None)
@given(
    data=st.data(),
    types=st.sampled_from(TYPES),
    repeat=st.integers(1, 40),
    codec=st.sampled_from(["none", "snappy", "snappy", "gzip", "zstd"]),
    version=st.sampled_from(["1.0", "2.0"]),
    dictionary=st.booleans(),
    dictionary_bytes=st.sampled_from([40, 400, 1 << 20]),
    page_rows=st.sampled_from([16, 100, 10**6]),
    required=st.booleans(),
)
def test_what_arrow_reads(
    tmp_path_factory, data, types, repeat, codec, version, dictionary, dictionary_bytes, page_rows, required
):
    stored, wanted = types
    values = data.draw(st.lists(numbers(stored) if required else st.one_of(numbers(stored), st.none()), min_size=2))
    column = column_of(values * repeat, stored)
    schema = pa.schema([pa.field("n", stored, nullable=not required)])
    path = tmp_path_factory.mktemp("n") / "a.parquet"
    table = pa.Table.from_arrays([column], schema=schema)
    write_file(
        path,
        [table, table.slice(1, 7)],
        compression=codec,
        data_page_version=version,
        use_dictionary=dictionary,
        dictionary_pagesize_limit=dictionary_bytes,
        max_rows_per_page=page_rows,
        write_batch_size=8,
        store_schema=False,
        store_decimal_as_integer=True,
    )
    groups = column, column.slice(1, 7)
    for row_groups in ([0], [1], [0, 1]):
        found = read(path, wanted, *row_groups)
        expected = pa.concat_arrays(groups[number] for number in row_groups).cast(wanted)
        assert found is not None
        assert found.cast(wanted).equals(expected)
        if pa.types.is_decimal(wanted):
            short = read(path, wanted, *row_groups, short=frozenset("n"))
            assert short is not None
            assert pa.types.is_decimal64(short.type) == (wanted.precision <= 18)
            assert short.cast(wanted).equals(expected)
        chosen = data.draw(st.lists(st.integers(0, len(expected) - 1), unique=True, max_size=30))
        rows = np.array(sorted(chosen), np.int64)
        found = read(path, wanted, *row_groups, rows=rows)
        assert found is not None
        assert found.cast(wanted).equals(expected.take(pa.array(rows)))


@pytest.mark.parametrize("spread", [1, 3, 200, 5000, 200_000])
@pytest.mark.parametrize("missing", [0, 3])
def test_codes_of_every_width(tmp_path, spread, missing):
    """A row group of real size: pages of 20,000 rows, runs and bit-packed groups, a dictionary that is given up."""
    values = np.random.default_rng(spread).integers(0, spread, 150_000)
    values[1000:3000] = 0
    column = pa.array(values, pa.int64(), mask=(values % 7 < missing))
    path = write_file(tmp_path / "a.parquet", [pa.table({"n": column})])
    assert read(path, pa.int64()).equals(column)
    for share in (0.0001, 0.01, 0.5):
        rows = np.flatnonzero(np.random.default_rng(1).random(150_000) < share)
        assert read(path, pa.int64(), rows=rows).equals(column.take(pa.array(rows)))


@pytest.mark.parametrize(
    ("dtype", "options"),
    [
        (pa.int32(), {"compression": "lz4"}),
        (pa.int32(), {"use_dictionary": False, "column_encoding": "DELTA_BINARY_PACKED"}),
        (pa.decimal128(9, 2), {}),
        (pa.bool_(), {}),
        (pa.string(), {}),
    ],
)
def test_what_is_unusual_is_left_to_arrow(tmp_path, dtype, options):
    table = pa.table({"n": pa.array([1, 0, 1, None] * 50, pa.int8()).cast(dtype)})
    assert read(write_file(tmp_path / "a.parquet", [table], **options), dtype) is None


def test_encodings_that_are_arrows_are_not_read_for_nothing(tmp_path):
    options = {"use_dictionary": False, "column_encoding": "DELTA_BINARY_PACKED"}
    path = write_file(tmp_path / "a.parquet", [pa.table({"n": pa.array(range(100), pa.int32())})], **options)
    source = pa.OSFile(str(path))
    source.close()  # whoever reads raises
    assert not read_numbers(source, footer_of(path), [0], [source_of(path, pa.int32())])


@pytest.mark.parametrize("dictionary", [True, False])
def test_numbers_that_do_not_fit_their_annotation_are_not_cut(tmp_path, dictionary):
    """INT32 that says of itself to be 16 bits wide, with a number that is wider."""
    table = pa.table({"n": pa.array([1, 12_345], pa.int16())})
    path = write_file(tmp_path / "a.parquet", [table], compression="none", use_dictionary=dictionary)
    narrow, wide = (number.to_bytes(4, "little") for number in (12_345, 70_000))
    raw = path.read_bytes()
    path.write_bytes(raw.replace(narrow, wide))
    found = read(path, pa.int16())
    assert found is None if dictionary else found.to_pylist() == [1, 70_000]


@settings(max_examples=300, deadline=None)
@given(
    data=st.data(),
    dictionary=st.booleans(),
    version=st.sampled_from(["1.0", "2.0"]),
    codec=st.sampled_from(["none", "none", "snappy", "snappy", "gzip", "zstd"]),
)
def test_broken_pages_are_never_followed(tmp_path_factory, data, dictionary, version, codec):
    values = [None if number % 7 == 0 else number * 37 % 300 for number in range(400)]
    path = tmp_path_factory.mktemp("n") / "a.parquet"
    write_file(
        path,
        [pa.table({"n": pa.array(values, pa.int64())})],
        compression=codec,
        use_dictionary=dictionary,
        dictionary_pagesize_limit=900,
        max_rows_per_page=50,
        write_batch_size=10,
        data_page_version=version,
    )
    damage(path, data)
    found = read(path, pa.int64())
    if found is not None:
        found.validate(full=True)
        assert len(found) == len(values)
    rows = np.array(sorted(data.draw(st.sets(st.integers(0, len(values) - 1)))), np.int64)
    chosen = read(path, pa.int64(), rows=rows)
    if chosen is not None:
        chosen.validate(full=True)
        assert len(chosen) == len(rows)
        assert found is None or chosen.equals(found.take(pa.array(rows)))


def test_pages_without_a_chosen_row_are_not_read(tmp_path):
    """A page in the middle is overwritten, and nobody notices."""
    column = pa.array(np.arange(10_000) * 7919 % 10_007)
    options = {"use_dictionary": False, "compression": "none", "max_rows_per_page": 1000, "write_batch_size": 100}
    path = write_file(tmp_path / "a.parquet", [pa.table({"n": column})], **options)
    footer, source = footer_of(path), source_of(path, pa.int64())
    rows = np.array([5, 999, 3000, 9999])
    with pa.OSFile(str(path)) as file:
        assert read_numbers(file, footer, [0], [source])["n"].equals(column)  # its pages are known from now on
    raw = path.read_bytes()
    place = raw.index(column.slice(1100, 100).buffers()[1][1100 * 8 : 1200 * 8].to_pybytes())
    path.write_bytes(raw[:place] + b"\xff" * 800 + raw[place + 800 :])
    with pa.OSFile(str(path)) as file:
        assert read_numbers(file, footer, [0], [source], rows)["n"].equals(column.take(pa.array(rows)))


def test_a_file_that_ends_early_is_left_to_arrow(tmp_path):
    path = write_file(tmp_path / "a.parquet", [pa.table({"n": pa.array(range(1000))})], compression="none")
    footer, column = footer_of(path), source_of(path, pa.int64())
    with pa.OSFile(str(path)) as source:
        for size in (path.stat().st_size, 4000, 30):
            os.truncate(path, size)
            assert bool(read_numbers(source, footer, [0], [column])) == (size > 4000)


def test_several_columns_of_several_row_groups(tmp_path):
    """Of all widths in one call; those that are Arrow's are left out, and do not disturb the others."""
    rng = np.random.default_rng(7)
    table = pa.table(
        {
            "tiny": pa.array(rng.integers(-100, 100, 9000), pa.int8()),
            "text": pa.array(["a", None, "b"] * 3000),
            "long": pa.array(rng.integers(-(2**62), 2**62, 9000)),
            "short": pa.array([None if number % 3 else number for number in range(9000)], pa.int16()),
            "double": pa.array(rng.random(9000)),
            "day": pa.array(rng.integers(0, 99, 9000), pa.int32()).cast(pa.date32()),
        }
    )
    path = write_file(tmp_path / "a.parquet", [table.slice(0, 4000), table.slice(4000, 1), table.slice(4001)])
    files = relation([path], table.schema, datetime_rebase_mode="CORRECTED")
    with FileReader.open(files, files.files[0], Metrics()) as opened:
        for _ in range(2):  # the second time the pages are known
            found = opened.read([0, 1, 2], table.column_names)
            assert pa.table(found, table.column_names).equals(table.combine_chunks())


def test_very_many_pages(tmp_path):
    column = pa.array(range(5000), pa.int32())
    path = write_file(
        tmp_path / "a.parquet", [pa.table({"n": column})], max_rows_per_page=5, write_batch_size=5, use_dictionary=False
    )
    assert read(path, pa.int32()).equals(column)


def test_dates_of_the_hybrid_calendar_are_still_refused(tmp_path):
    """The check of dates is made on what was decoded, whoever decoded it."""
    table = pa.table({"n": pa.array([0, -200_000], pa.int32()).cast(pa.date32())})
    path = write_file(tmp_path / "a.parquet", [table], store_schema=False)
    files = relation([path], table.schema, datetime_rebase_mode="LEGACY")
    with FileReader.open(files, files.files[0], Metrics()) as opened, pytest.raises(FileSchemaProblem):
        opened.read([0], ["n"])


def test_the_reader_uses_it(tmp_path, monkeypatch):
    path = write_file(tmp_path / "a.parquet", [pa.table({"n": pa.array(range(100))})])
    files = relation([path], pa.schema([("n", pa.int64())]))
    asked = []
    monkeypatch.setattr(own_decoder, "read_numbers", lambda *given: asked.append(given) or read_numbers(*given))
    with FileReader.open(files, files.files[0], Metrics()) as opened:
        assert opened.read([0], ["n"])[0].to_pylist() == list(range(100))
    assert len(asked) == 1
