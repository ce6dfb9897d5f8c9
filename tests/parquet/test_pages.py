"""Rows read page by page equal those that Arrow decodes from the whole column chunk, for every type, encoding, codec
and page size."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sundog.metrics import Metrics
from sundog.parquet.decode.late import RowPicker
from sundog.parquet.decode.pages import PageReader
from sundog.parquet.decode.reader import FileReader
from sundog.parquet.meta.footer import read_footer
from sundog.plan.costs import DRIVER
from tests.operators.reference import same_rows
from tests.oracle.batches import FILE_TYPES, record_batches
from tests.parquet.files import data_file, relation, write_file

SCHEMA = pa.schema([(f"c{i}", dtype) for i, dtype in enumerate(FILE_TYPES)])


def picked_by_page(path, row_group, names, rows):
    footer = read_footer(data_file(path), ())
    assert footer is not None
    whole = pq.ParquetFile(path, coerce_int96_timestamp_unit="us").read_row_group(row_group)
    with pa.OSFile(str(path)) as source:
        reader = PageReader(source, footer)
        for leaf, name in enumerate(names):
            pages = reader.page_map(row_group, leaf)
            assert pages is not None
            found = (
                pa.table({"c": reader.decode(row_group, leaf, pages, rows).column(0).take(pa.array(pages.moved(rows)))})
                .combine_chunks()
                .to_batches()[0]
            )
            expected = pa.table({"c": whole[name].take(pa.array(rows))}).combine_chunks().to_batches()[0]
            assert same_rows(found, expected), name


@settings(max_examples=25, deadline=None)
@given(
    record_batches(SCHEMA, 20, 400),
    st.sampled_from(["none", "snappy", "gzip", "brotli", "zstd"]),
    st.sampled_from(["1.0", "2.0"]),
    st.booleans(),
    st.sampled_from([16, 100, 10**6]),
    st.data(),
)
def test_rows_by_page(tmp_path_factory, batch, codec, version, dictionary, page_rows, data):
    path = tmp_path_factory.mktemp("p") / "a.parquet"
    pq.write_table(
        pa.Table.from_batches([batch]),
        path,
        compression=codec,
        data_page_version=version,
        use_dictionary=dictionary,
        max_rows_per_page=page_rows,
        write_batch_size=8,
        row_group_size=max(batch.num_rows // 2, 1),
    )
    group_rows = pq.read_metadata(path).row_group(1).num_rows
    rows = data.draw(st.sets(st.integers(0, group_rows - 1), min_size=1, max_size=6))
    picked_by_page(path, 1, SCHEMA.names, np.array(sorted(rows), np.int64))


def test_required_columns_int96_and_page_checksums(tmp_path):
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False), ("t", pa.timestamp("us"))])
    table = pa.table({"a": np.arange(1000), "t": pa.array(np.arange(1000), pa.timestamp("us"))}, schema=schema)
    path = tmp_path / "a.parquet"
    pq.write_table(
        table,
        path,
        use_deprecated_int96_timestamps=True,
        write_page_checksum=True,
        max_rows_per_page=64,
        write_batch_size=16,
    )
    picked_by_page(path, 0, ["a", "t"], np.array([0, 500, 999]))


def test_a_dictionary_that_the_writer_gave_up(tmp_path):
    table = pa.table({"s": [f"value {i} {'x' * (i % 50)}" for i in range(5000)]})
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, dictionary_pagesize_limit=2000, max_rows_per_page=500, write_batch_size=100)
    picked_by_page(path, 0, ["s"], np.array([3, 700, 2500, 4999]))


def test_headers_with_long_statistics_are_read_whole(tmp_path):
    table = pa.table({"s": [chr(97 + i % 26) * 3000 for i in range(60)]})
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, use_dictionary=False, max_rows_per_page=10, write_batch_size=5)
    picked_by_page(path, 0, ["s"], np.array([1, 35]))


def test_an_unknown_codec_has_no_page_map(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": [1, 2]}), path, compression="lz4")
    footer = read_footer(data_file(path), ())
    assert footer is not None
    with pa.OSFile(str(path)) as source:
        assert PageReader(source, footer).page_map(0, 0) is None


ROWS = 100_000


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    table = pa.table(
        {
            "n": np.arange(ROWS),
            "few": pa.array(np.array(["red", "green", None, "blue"])[np.arange(ROWS) % 4]),
            "many": [f"text number {i}" for i in range(ROWS)],
        }
    )
    path = write_file(tmp_path_factory.mktemp("w") / "a.parquet", [table], use_dictionary=["few"])
    return relation([path], table.schema, [("p", pa.int32())], [(7,)]), table


@pytest.mark.parametrize("rows", [[70_001, 70_002, 70_500], list(range(0, ROWS, 5000))], ids=["close", "spread"])
def test_row_picker(wide, rows):
    files, table = wide
    metrics = Metrics()
    with FileReader.open(files, files.files[0], metrics) as reader:
        few, p, n, many = RowPicker(reader, DRIVER).take(0, ["few", "p", "n", "many"], np.array(rows))
    assert n.to_pylist() == rows
    assert few.equals(table["few"].take(pa.array(rows)).combine_chunks())
    assert many.equals(table["many"].take(pa.array(rows)).combine_chunks())
    assert p.to_pylist() == [7] * len(rows)
    footer = read_footer(files.files[0], ())
    whole = sum(footer.chunk_size(0, leaf)[0] for leaf in range(3))
    share = metrics.get("bytes_scanned") / whole
    assert share < 0.6 if rows[0] else share == 1


def test_row_picker_without_stored_columns(wide):
    files, _ = wide
    with FileReader.open(files, files.files[0], Metrics()) as reader:
        assert RowPicker(reader, DRIVER).take(0, ["p"], np.array([5, 6]))[0].to_pylist() == [7, 7]
