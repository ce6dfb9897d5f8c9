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

from sundog.versions import spark_version
from tests.fuzz.schemas import Column, Data

CODECS = ("NONE", "SNAPPY", "SNAPPY", "GZIP", "ZSTD", "LZ4")  # Spark comes without BROTLI
SPARK_CODECS = ("uncompressed", "snappy", "snappy", "gzip", "zstd", "lz4_raw")
_DELTA = {"int", "bigint", "date", "timestamp", "timestamp_ntz", "tinyint", "smallint"}


@dataclass(frozen=True)
class Part:
    """One file. `share` is its part of the rows; options are those of its writer."""

    writer: str  # "arrow" or "spark"
    share: float
    options: dict[str, Any] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    stored: tuple[tuple[str, str], ...] = ()  # columns stored in another type, which Spark turns into the table's
    shuffled: bool = False
    recased: tuple[str, ...] = ()  # columns whose names have letters of the other case here


@dataclass(frozen=True)
class Layout:
    parts: tuple[Part, ...]
    partition_by: tuple[str, ...] = ()
    with_schema: bool = False  # read by an explicit schema, and not by that of a footer
    defaults: tuple[tuple[str, str], ...] | None = (
        None  # read as a table of the catalog, with these columns added later
    )

    def __str__(self) -> str:
        lines = [
            f"  {part.writer} {part.share} missing={part.missing} stored={part.stored} recased={part.recased} "
            f"{part.options}"
            for part in self.parts
        ]
        how = (
            "a table with defaults " + repr(self.defaults)
            if self.defaults is not None
            else f"schema: {self.with_schema}"
        )
        return "\n".join([f"partitioned by {self.partition_by}, {how}", *lines])


def draw_layout(rng: Random, data: Data) -> Layout:
    parts = tuple(draw_part(rng, data) for _ in range(rng.choice((1, 1, 2, 3, 5))))
    explicit = rng.random() < 0.3 or any(column.family == "interval day to second" for column in data.columns)
    if not explicit:
        parts = tuple(replace(part, missing=(), stored=(), recased=()) for part in parts)
    elif rng.random() < 0.25:
        added = sorted({name for part in parts for name in part.missing})
        return Layout(parts, (), explicit, tuple((name, _default(rng, data, name)) for name in added))
    candidates = [column.name for column in data.columns if column.name != "id" and _can_partition(column)]
    partition_by: tuple[str, ...] = ()
    if candidates and rng.random() < 0.2:
        partition_by = tuple(rng.sample(candidates, min(len(candidates), rng.choice((1, 1, 2)))))
        parts = tuple(Part("spark", part.share, _spark_options(rng)) for part in parts[:2])
    return Layout(parts, partition_by, explicit)


def _default(rng: Random, data: Data, name: str) -> str:
    dtype = data.column(name).dtype
    values = [value for value in data.rows[name].cast("binary").to_pylist() if value] if dtype == "string" else []
    if values:
        return f"'{values[0].decode(errors='ignore').translate(_PLAIN)}'"
    return _DEFAULTS.get(dtype.split("(")[0], f"CAST(NULL AS {dtype})")


_PLAIN = {ord(letter): None for letter in "\\'\n\0"}
_DEFAULTS = {
    "int": "42",
    "bigint": "-7",
    "double": "1.5D",
    "decimal": "0",
    "date": "DATE '2020-02-02'",
    "boolean": "true",
}
_DEFAULTS |= {"timestamp": "TIMESTAMP '2024-03-31 02:30:00'", "smallint": "3", "tinyint": "1"}


def _can_partition(column: Column) -> bool:
    """Few values, of a type that Spark writes into a folder's name. What it reads back may be another, on both
    sides."""
    kinds = (
        "int",
        "bigint",
        "smallint",
        "date",
        "string",
        "boolean",
        "decimal",
        "double",
        "timestamp",
        "timestamp_ntz",
    )
    return column.style in ("few", "constant", "skew") and column.family in kinds


def draw_part(rng: Random, data: Data) -> Part:
    share = rng.choice((0.0, 0.2, 1.0, 1.0, 3.0))
    if rng.random() < 0.3:
        return Part("spark", share, _spark_options(rng))
    others = [column for column in data.columns if column.name != "id"]
    missing = tuple(column.name for column in others if rng.random() < 0.05)
    stored = tuple(
        (column.name, rng.choice(_STORED[column.family]))
        for column in others
        if column.family in _STORED and rng.random() < 0.25
    )
    recased = tuple(column.name for column in others if rng.random() < 0.03)
    return Part("arrow", share, _arrow_options(rng, data), missing, stored, rng.random() < 0.1, recased)


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
        return ("PLAIN", "DELTA_BINARY_PACKED")
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
    for name, other in part.stored:
        rows = _stored_as(rows, name, other)
    if part.shuffled:
        rows = rows.select(list(reversed(rows.column_names)))
    options = dict(part.options)
    for several in ("column_encoding", "use_dictionary"):
        if isinstance(options.get(several), dict):
            options[several] = {name: value for name, value in options[several].items() if name in rows.column_names}
        elif isinstance(options.get(several), list):
            options[several] = [name for name in options[several] if name in rows.column_names]
    if part.recased:
        rows = rows.rename_columns([name.swapcase() if name in part.recased else name for name in rows.column_names])
        for several in ("column_encoding", "use_dictionary"):
            options.pop(several, None)
    try:
        pq.write_table(rows, path, **options)
    except (pa.ArrowNotImplementedError, OSError, ValueError):
        pq.write_table(rows, path, row_group_size=options["row_group_size"], compression="NONE")


_STORED = {
    "bigint": ("int32", "int16", "uint32"),
    "int": ("int16", "uint16", "uint8"),
    "smallint": ("int8",),
    "double": ("float", "int32"),
    "decimal": ("narrow",),
    "string": ("binary",),
    "timestamp": ("ms", "naive"),
    "timestamp_ntz": ("ms", "zoned"),
}


def _stored_as(rows: pa.Table, name: str, other: str) -> pa.Table:
    """With a column in another type, where it holds the values."""
    if name not in rows.column_names:
        return rows
    column = rows[name]
    if other == "narrow":
        target = pa.decimal128(max(column.type.scale, 1, column.type.precision - 3), column.type.scale)
    elif other in ("ms", "naive", "zoned"):
        zone = None if other == "naive" else "UTC" if other == "zoned" else column.type.tz
        target = pa.timestamp("ms" if other == "ms" else "us", zone)
    else:
        target = pa.type_for_alias(other)
    try:
        return rows.set_column(rows.column_names.index(name), name, column.cast(target))
    except pa.ArrowInvalid:
        return rows


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


def create_table(spark: Any, data: Data, layout: Layout, folder: Path, name: str) -> None:
    """A table of the catalog over the folder, to which the columns with defaults were added after it was made."""
    added = dict(layout.defaults or ())
    kept = Data(tuple(column for column in data.columns if column.name not in added), data.rows)
    spark.sql(f"CREATE TABLE {name} ({kept.ddl}) USING parquet LOCATION '{folder}'")
    for column in data.columns:
        if column.name in added:
            ddl = Data((column,), data.rows).ddl
            spark.sql(f"ALTER TABLE {name} ADD COLUMN {ddl} DEFAULT {added[column.name]}")


def read(spark: Any, data: Data, layout: Layout, folder: Path, table: str) -> Any:
    """The DataFrame over the folder, or over the table of this name if the layout is one of the catalog."""
    if layout.defaults is not None:
        return spark.table(table)
    with active(spark):
        return (spark.read.schema(data.ddl) if layout.with_schema else spark.read).parquet(str(folder))


@contextmanager
def active(spark: Any) -> Iterator[None]:
    """The session is the thread's active one: in 3.5 a V2 table belongs to that, whichever session reads it."""
    sessions = spark_version().session_class(spark)
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()
