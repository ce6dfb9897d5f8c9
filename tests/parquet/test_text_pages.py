"""Strings read in place equal those that Arrow copies, for every encoding, codec, page size and NULL. An inconsistent
page is left to Arrow, and no byte outside of it is accessed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sundog.columns.arrow import from_arrow, to_arrow
from sundog.parquet.decode.text_pages import read_chosen_text, read_text
from tests.parquet.files import damage, footer_of, write_file

TEXTS = st.one_of(
    st.sampled_from(["", "a", "tenor", "twelve bytes", "thirteen byte", "https://example.org/a/rather/long/path?x=1"]),
    st.text(max_size=20),
    st.integers(0, 40).map(lambda number: "x" * number),
)


def read_both(read_column: Callable[..., pa.Array | None], path: Path, *given: Any) -> pa.Array | None:
    """A column, read by Arrow's file and by the kernel itself, which it can when the pages are known."""
    footer = footer_of(path)
    by_arrow = read_column(pa.BufferReader(path.read_bytes()), footer, *given)
    with pa.OSFile(str(path)) as source:
        by_kernel = read_column(source, footer, *given)
    assert (by_arrow is None) == (by_kernel is None)
    assert by_arrow is None or by_arrow.equals(by_kernel)
    return by_kernel


def read(path: Path, row_group: int = 0, dtype: pa.DataType | None = None) -> pa.Array | None:
    return read_both(read_text, path, row_group, 0, dtype or pa.string())


def plain(array: pa.Array) -> pa.Array:
    return to_arrow(from_arrow(array))


def read_chosen(
    path: Path, row_group: int, dtype: pa.DataType, rows: list[int], as_dictionary: bool = True
) -> pa.Array | None:
    return read_both(read_chosen_text, path, row_group, 0, dtype, np.array(rows, np.int64), as_dictionary)


@settings(max_examples=150, deadline=None)
@given(
    data=st.data(),
    values=st.lists(st.one_of(TEXTS, st.none()), min_size=2, max_size=300),
    repeat=st.integers(1, 5),
    codec=st.sampled_from(["none", "snappy", "gzip", "zstd"]),
    version=st.sampled_from(["1.0", "2.0"]),
    dictionary=st.booleans(),
    dictionary_bytes=st.sampled_from([40, 400, 1 << 20]),
    page_rows=st.sampled_from([16, 100, 10**6]),
    binary=st.booleans(),
    required=st.booleans(),
)
def test_what_arrow_reads(
    tmp_path_factory, data, values, repeat, codec, version, dictionary, dictionary_bytes, page_rows, binary, required
):
    dtype = pa.binary() if binary else pa.string()
    values = [value or "" for value in values] if required else values
    column = pa.array(values * repeat, pa.string()).cast(dtype)
    table = pa.Table.from_arrays([column], schema=pa.schema([pa.field("s", dtype, nullable=not required)]))
    path = tmp_path_factory.mktemp("t") / "a.parquet"
    write_file(
        path,
        [table, table.slice(1, 7)],
        compression=codec,
        data_page_version=version,
        use_dictionary=dictionary,
        dictionary_pagesize_limit=dictionary_bytes,
        max_rows_per_page=page_rows,
        write_batch_size=8,
    )
    for row_group, expected in enumerate([column, column.slice(1, 7)]):
        found = read(path, row_group, dtype)
        assert found is not None
        assert plain(found).equals(expected.cast(dtype))
        rows = sorted(data.draw(st.sets(st.integers(0, len(expected) - 1), max_size=20)))
        chosen = read_chosen(path, row_group, dtype, rows)
        is_read = codec in ("none", "snappy")
        assert (chosen is not None) == is_read
        is_coded = chosen is not None and pa.types.is_dictionary(chosen.type)
        assert is_coded == (pa.types.is_dictionary(found.type) and is_read)
        wanted = expected.cast(dtype).take(pa.array(rows, pa.int64()))
        assert chosen is None or plain(chosen).equals(wanted)
        copied = read_chosen(path, row_group, dtype, rows, as_dictionary=False)
        assert (copied is not None) == is_read
        assert copied is None or copied.equals(wanted)


def test_dictionaries_stay_and_mixtures_become_views(tmp_path):
    few = pa.table({"s": ["a", "bb", None] * 1000})
    many = pa.table({"s": [f"number {number}" for number in range(3000)]})
    path = write_file(tmp_path / "a.parquet", [few, many], dictionary_pagesize_limit=2000, write_batch_size=100)
    found = read(path, 0)
    assert pa.types.is_dictionary(found.type)
    assert len(found.dictionary) == 2
    mixed = read(path, 1)
    assert mixed.type == pa.string_view()
    encodings = pq.read_metadata(path).row_group(1).column(0).encodings
    assert {"PLAIN", "RLE_DICTIONARY"} <= set(encodings)


@pytest.mark.parametrize(
    "options", [{"compression": "lz4"}, {"use_dictionary": False, "column_encoding": "DELTA_BYTE_ARRAY"}]
)
def test_what_is_unusual_is_left_to_arrow(tmp_path, options):
    path = write_file(tmp_path / "a.parquet", [pa.table({"s": ["a", "b"] * 50})], **options)
    assert read(path) is None


def test_other_types_and_nested_columns_are_left_to_arrow(tmp_path):
    table = pa.table({"s": pa.array([["a"], ["b", "c"]], pa.list_(pa.string()))})
    assert read(write_file(tmp_path / "a.parquet", [table])) is None
    assert read(write_file(tmp_path / "b.parquet", [pa.table({"s": [1, 2]})])) is None


@settings(max_examples=300, deadline=None)
@given(
    data=st.data(),
    dictionary=st.booleans(),
    version=st.sampled_from(["1.0", "2.0"]),
    codec=st.sampled_from(["none", "none", "snappy", "gzip", "zstd"]),
)
def test_broken_pages_are_never_followed(tmp_path_factory, data, dictionary, version, codec):
    values = [None if number % 7 == 0 else f"value {number % 13}" * (number % 5) for number in range(200)]
    path = tmp_path_factory.mktemp("t") / "a.parquet"
    write_file(
        path,
        [pa.table({"s": values})],
        compression=codec,
        use_dictionary=dictionary,
        dictionary_pagesize_limit=60,
        max_rows_per_page=50,
        write_batch_size=10,
        data_page_version=version,
    )
    damage(path, data)
    found = read(path, dtype=pa.binary())
    if found is not None:
        assert len(plain(found)) == len(values)
    rows = sorted(data.draw(st.sets(st.integers(0, len(values) - 1))))
    chosen = read_chosen(path, 0, pa.binary(), rows)
    if chosen is not None:
        assert len(plain(chosen)) == len(rows)
        assert found is None or plain(chosen).equals(plain(found).take(pa.array(rows, pa.int64())))
    copied = read_chosen(path, 0, pa.binary(), rows, as_dictionary=False)
    if copied is not None:
        assert len(copied) == len(rows)
        assert found is None or copied.equals(plain(found).take(pa.array(rows, pa.int64())))


def test_a_file_that_ends_early_is_left_to_arrow(tmp_path):
    for codec in ("none", "snappy"):
        path = write_file(tmp_path / f"{codec}.parquet", [pa.table({"s": ["some text"] * 1000})], compression=codec)
        footer = footer_of(path)
        with pa.OSFile(str(path)) as source:
            assert read_text(source, footer, 0, 0, pa.string()) is not None
            os.truncate(path, 30)
            assert read_text(source, footer, 0, 0, pa.string()) is None
