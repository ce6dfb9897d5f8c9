"""Small, sound files of every kind that the reader knows: what damage starts from."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 300


def _numbers(required: bool) -> pa.Table:
    random = np.random.default_rng(1)
    missing = np.zeros(ROWS, np.bool_) if required else random.random(ROWS) < 0.2
    few = random.integers(0, 9, ROWS)
    arrays = {
        "tiny": pa.array(few, pa.int8(), mask=missing),
        "int": pa.array(random.integers(-(2**31), 2**31, ROWS), pa.int32(), mask=missing),
        "long": pa.array(few * 10**12, pa.int64(), mask=missing),
        "wide": pa.array(random.integers(-(2**62), 2**62, ROWS), pa.int64(), mask=missing),
        "float": pa.array(few / 3, pa.float32(), mask=missing),
        "double": pa.array(random.random(ROWS), pa.float64(), mask=missing),
        "date": pa.array(few, pa.int32(), mask=missing).cast(pa.date32()),
        "time": pa.array(few, pa.int64(), mask=missing).cast(pa.timestamp("us", "UTC")),
        "millis": pa.array(few, pa.int64(), mask=missing).cast(pa.timestamp("ms", "UTC")),
        "flag": pa.array(few > 4, pa.bool_(), mask=missing),
        "unsigned": pa.array(few, pa.uint32(), mask=missing),
    }
    return _table(arrays, required)


def _texts(required: bool) -> pa.Table:
    random = np.random.default_rng(2)
    missing = np.zeros(ROWS, np.bool_) if required else random.random(ROWS) < 0.2
    few = random.integers(0, 9, ROWS)
    words = np.array([f"number {n} of all" if n % 2 else f"{n}" for n in few], object)
    long = np.array([f"row {at} with a text that is not inside of its view" for at in range(ROWS)], object)
    prices = [None if gone else Decimal(int(n)) / 100 for n, gone in zip(few, missing, strict=True)]
    arrays = {
        "word": pa.array(words, pa.string(), mask=missing),
        "long": pa.array(long, pa.string(), mask=missing),
        "bytes": pa.array([word.encode() for word in words], pa.binary(), mask=missing),
        "fixed": pa.array([b"%08d" % n for n in few], pa.binary(8), mask=missing),
        "price": pa.array(prices, pa.decimal128(9, 2)),
        "wide": pa.array(prices, pa.decimal128(30, 2)),
    }
    return _table(arrays, required)


def _nested() -> pa.Table:
    return pa.table(
        {
            "x": pa.array(range(20), pa.int64()),
            "list": pa.array([[1, 2], [], None, [3]] * 5, pa.list_(pa.int32())),
            "pair": pa.array([{"a": 1, "b": "x"}, None] * 10),
            "y": pa.array(["a", None] * 10),
        }
    )


def _ancient() -> pa.Table:
    days = [dt.datetime(2020, 1, 1 + n % 5) for n in range(40)]
    return pa.table({"t": pa.array(days, pa.timestamp("us", "UTC"))})


def _table(arrays: dict[str, pa.Array], required: bool) -> pa.Table:
    fields = [pa.field(name, array.type, nullable=not required) for name, array in arrays.items()]
    return pa.Table.from_arrays(list(arrays.values()), schema=pa.schema(fields))


def _written(table: pa.Table, **options: Any) -> bytes:
    out = pa.BufferOutputStream()
    options = {"row_group_size": 200, "max_rows_per_page": 64, "write_batch_size": 16, "store_schema": False} | options
    pq.write_table(table, out, **options)
    return bytes(out.getvalue())


def _files() -> Iterator[tuple[str, bytes]]:
    for codec in ("none", "snappy", "gzip", "zstd", "lz4"):
        for version in ("1.0", "2.0"):
            usual = codec in ("none", "snappy")
            for kind, make in (("numbers", _numbers), ("texts", _texts)):
                for required in (False, True) if usual else (False,):
                    for dictionary in (True, False) if usual else (True,):
                        name = f"{kind}-{codec}-v{version[0]}"
                        name += ("-required" if required else "") + ("" if dictionary else "-plain")
                        yield (
                            name,
                            _written(
                                make(required), compression=codec, data_page_version=version, use_dictionary=dictionary
                            ),
                        )
    yield "texts-dictionary-given-up", _written(_texts(False), dictionary_pagesize_limit=200)
    yield "numbers-dictionary-given-up", _written(_numbers(False), dictionary_pagesize_limit=64)
    yield "no-statistics", _written(_numbers(False), write_statistics=False)
    yield "page-index", _written(_texts(False), write_page_index=True)
    yield "arrow-schema", _written(_texts(False), store_schema=True)
    yield "nested", _written(_nested())
    yield "int96", _written(_ancient(), use_deprecated_int96_timestamps=True)
    yield "no-rows", _written(_numbers(False).slice(0, 0))
    yield "all-null", _written(pa.table({"n": pa.nulls(100, pa.int64()), "s": pa.nulls(100, pa.string())}))
    integers = _numbers(False).select(["int", "long"])
    yield "delta", _written(integers, use_dictionary=False, column_encoding="DELTA_BINARY_PACKED")
    text = _texts(False).select(["word", "long"])
    yield "delta-lengths", _written(text, use_dictionary=False, column_encoding="DELTA_LENGTH_BYTE_ARRAY")
    yield "delta-strings", _written(text, use_dictionary=False, column_encoding="DELTA_BYTE_ARRAY")


@cache
def seed_files() -> dict[str, bytes]:
    """Content by name. The same in every process: damage is named by seed file and number."""
    return dict(_files())
