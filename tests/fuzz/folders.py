"""Parquet files of a table, by both writers and with every option that changes what is stored.

A `Layout` says how many files there are and how each is written; `write` makes the folder. What may differ from file to
file does: page version, codec, dictionaries, statistics, encodings, physical types that Spark widens, columns that are
missing or stand in another order.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.fuzz.schemas import Column, Data

CODECS = ("NONE", "SNAPPY", "SNAPPY", "GZIP", "ZSTD", "LZ4")  # Spark comes without BROTLI
SPARK_CODECS = ("uncompressed", "snappy", "snappy", "gzip", "zstd", "lz4raw")
_DELTA = {"int", "bigint", "date", "timestamp", "timestamp_ntz", "tinyint", "smallint"}


@dataclass(frozen=True)
class Part:
    """One file. `share` is its part of the rows; options are those of its writer."""

    writer: str  # "arrow" or "spark"
    share: float
    options: dict[str, Any] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    narrow: tuple[str, ...] = ()  # columns stored in a smaller type that Spark widens
    shuffled: bool = False


@dataclass(frozen=True)
class Layout:
    parts: tuple[Part, ...]
    partition_by: tuple[str, ...] = ()
    with_schema: bool = False  # read by an explicit schema, and not by that of a footer

    def __str__(self) -> str:
        lines = [
            f"  {part.writer} {part.share} missing={part.missing} narrow={part.narrow} shuffled={part.shuffled} {part.options}"
            for part in self.parts
        ]
        return "\n".join([f"partitioned by {self.partition_by}, explicit schema: {self.with_schema}", *lines])


def draw_layout(rng: Random, data: Data) -> Layout:
    parts = tuple(draw_part(rng, data) for _ in range(rng.choice((1, 1, 2, 3, 5))))
    explicit = rng.random() < 0.3 or any(column.family == "interval day to second" for column in data.columns)
    if not explicit:
        parts = tuple(replace(part, missing=(), narrow=()) for part in parts)
    candidates = [column.name for column in data.columns if column.name != "id" and _can_partition(column)]
    partition_by: tuple[str, ...] = ()
    if candidates and rng.random() < 0.15:
        partition_by = tuple(rng.sample(candidates, min(len(candidates), rng.choice((1, 1, 2)))))
        parts = tuple(Part("spark", part.share, _spark_options(rng)) for part in parts[:2])
    return Layout(parts, partition_by, explicit)


def _can_partition(column: Column) -> bool:
    """A folder name cannot hold every value: what Spark itself reads back as something else says nothing of sundog."""
    return column.style in ("few", "constant") and column.family in ("int", "bigint", "date", "string", "boolean")


def draw_part(rng: Random, data: Data) -> Part:
    share = rng.choice((0.0, 0.2, 1.0, 1.0, 3.0))
    if rng.random() < 0.3:
        return Part("spark", share, _spark_options(rng))
    others = [column for column in data.columns if column.name != "id"]
    missing = tuple(column.name for column in others if rng.random() < 0.05)
    narrow = tuple(column.name for column in others if rng.random() < 0.2)
    return Part("arrow", share, _arrow_options(rng, data), missing, narrow, rng.random() < 0.1)


def _spark_options(rng: Random) -> dict[str, Any]:
    mode = rng.choice(("CORRECTED", "CORRECTED", "LEGACY"))
    return {
        "spark.sql.parquet.writeLegacyFormat": rng.choice(("false", "false", "true")),
        "spark.sql.parquet.outputTimestampType": rng.choice(("INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS")),
        "spark.sql.parquet.datetimeRebaseModeInWrite": mode,
        "spark.sql.parquet.int96RebaseModeInWrite": rng.choice(("CORRECTED", mode)),
        "option:compression": rng.choice(SPARK_CODECS),
        "option:parquet.writer.version": rng.choice(("PARQUET_1_0", "PARQUET_1_0", "PARQUET_2_0")),
        "option:parquet.enable.dictionary": rng.choice(("true", "true", "false")),
        "option:parquet.page.size": rng.choice(("1048576", "512")),
        "option:parquet.page.row.count.limit": rng.choice(("20000", "7")),
        "option:parquet.block.size": rng.choice(("134217728", "4096")),
        "option:parquet.page.size.row.check.min": "3",
        "option:parquet.block.size.row.check.min": "3",
    }


def _arrow_options(rng: Random, data: Data) -> dict[str, Any]:
    options: dict[str, Any] = {
        "row_group_size": rng.choice((1, 7, 30, 100, 100_000)),
        "data_page_size": rng.choice((1 << 20, 64, 1)),
        "write_batch_size": rng.choice((1024, 5)),
        "data_page_version": rng.choice(("1.0", "2.0")),
        "version": rng.choice(("2.6", "2.6", "2.4", "1.0")),
        "compression": rng.choice(CODECS),
        "write_statistics": rng.choice((True, True, True, False)),
        "write_page_index": rng.choice((False, True)),
        "store_decimal_as_integer": rng.choice((False, True)),
        "write_page_checksum": rng.choice((False, False, True)),
        "use_deprecated_int96_timestamps": rng.random() < 0.1,
    }
    kind = rng.random()
    if kind < 0.3:
        options["use_dictionary"] = [column.name for column in data.columns if rng.random() < 0.5]
    elif kind < 0.45:
        options["dictionary_pagesize_limit"] = rng.choice((1, 50, 400))
    elif kind < 0.75:
        options["use_dictionary"] = False
        options["column_encoding"] = {column.name: rng.choice(_encodings(column)) for column in data.columns}
    if options["version"] == "1.0":
        options["coerce_timestamps"], options["allow_truncated_timestamps"] = "us", True
    return options


def _encodings(column: Column) -> tuple[str, ...]:
    if column.family in _DELTA or column.dtype == "interval day to second":
        return ("PLAIN", "DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT")
    if column.family in ("string", "binary"):
        return ("PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY")
    if column.family in ("float", "double"):
        return ("PLAIN", "BYTE_STREAM_SPLIT")
    return ("PLAIN", "RLE") if column.family == "boolean" else ("PLAIN",)


# --- writing ---------------------------------------------------------------------------------------------------------


def write(data: Data, layout: Layout, folder: Path, spark: Any) -> None:
    """Make `folder` anew. A part without rows is a file without rows."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for number, (part, rows) in enumerate(_shares(data.rows, layout)):
        if part.writer == "spark":
            _write_by_spark(data, rows, part, layout.partition_by, folder, number, spark)
        else:
            _write_by_arrow(data, rows, part, folder / f"part-{number}.parquet")


def _shares(rows: pa.Table, layout: Layout) -> Iterator[tuple[Part, pa.Table]]:
    whole = sum(part.share for part in layout.parts)
    ends = [0.0]
    for part in layout.parts:
        ends.append(ends[-1] + (part.share / whole if whole else 1 / len(layout.parts)))
    cuts = [round(end * rows.num_rows) for end in ends]
    for part, (low, high) in zip(layout.parts, pairwise(cuts), strict=True):
        yield part, rows.slice(low, high - low)


def _write_by_arrow(data: Data, rows: pa.Table, part: Part, path: Path) -> None:
    """A column for which the writer has no such encoding, or a codec it was built without, is written the plain way."""
    rows = rows.drop_columns([name for name in part.missing if name in rows.column_names])
    for name in part.narrow:
        rows = _narrowed(rows, name)
    if part.shuffled:
        rows = rows.select(list(reversed(rows.column_names)))
    options = dict(part.options)
    for several in ("column_encoding", "use_dictionary"):
        if isinstance(options.get(several), dict):
            options[several] = {name: value for name, value in options[several].items() if name in rows.column_names}
        elif isinstance(options.get(several), list):
            options[several] = [name for name in options[several] if name in rows.column_names]
    try:
        pq.write_table(rows, path, **options)
    except (pa.ArrowNotImplementedError, OSError, ValueError):
        pq.write_table(rows, path, row_group_size=options["row_group_size"], compression="NONE")


_NARROWER = {pa.int64(): pa.int32(), pa.float64(): pa.float32(), pa.int16(): pa.int8()}


def _narrowed(rows: pa.Table, name: str) -> pa.Table:
    if name not in rows.column_names:
        return rows
    place, column = rows.column_names.index(name), rows[name]
    smaller = _NARROWER.get(column.type)
    if smaller is None:
        return rows
    try:
        cast = column.cast(smaller)
    except pa.ArrowInvalid:
        return rows
    return rows.set_column(place, name, cast)


def _write_by_spark(
    data: Data, rows: pa.Table, part: Part, partition_by: tuple[str, ...], folder: Path, number: int, spark: Any
) -> None:
    """Spark reads the values from a plain file that Arrow wrote, and writes them its own way."""
    staged = folder.parent / f"{folder.name}-staged"
    staged.mkdir(exist_ok=True)
    pq.write_table(rows, staged / "rows.parquet")
    options = {key: value for key, value in part.options.items() if key.startswith("option:")}
    confs = {key: value for key, value in part.options.items() if not key.startswith("option:")}
    with set_confs(spark, confs):
        frame = spark.read.schema(data.ddl).parquet(str(staged)).coalesce(1)
        writer = frame.write.mode("append" if partition_by else "overwrite")
        for key, value in options.items():
            writer = writer.option(key.removeprefix("option:"), value)
        if partition_by:
            writer.partitionBy(*partition_by).parquet(str(folder))
        else:
            target = folder.parent / f"{folder.name}-written"
            writer.parquet(str(target))
            for made in target.glob("part-*.parquet"):
                made.rename(folder / f"part-{number}.parquet")
            shutil.rmtree(target)
    shutil.rmtree(staged)


@contextmanager
def set_confs(spark: Any, confs: dict[str, str]) -> Iterator[None]:
    """Settings for a while; afterwards those that were there before."""
    before = {key: spark.conf.get(key, None) for key in confs}
    try:
        for key, value in confs.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, value in before.items():
            if value is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, value)


def read(spark: Any, data: Data, layout: Layout, folder: Path) -> Any:
    reader = spark.read
    if layout.with_schema:
        reader = reader.schema(data.ddl)
    return reader.parquet(str(folder))
