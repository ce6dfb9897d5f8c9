"""Resolves the query's columns in a file, and converts stored values to Spark's.

A table format may find columns by field id (`FileColumn.field_id`). Otherwise names decide.

Spark resolves names without case (unless `spark.sql.caseSensitive`), gives NULLs (or the column's default) for a column
that the file lacks, and its vectorised reader widens some types. sundog reads exactly the following; for everything
else it raises `FileSchemaProblem`, and Spark runs the query, which may read the column or raise its own error.

| in the file | read as |
|---|---|
| BOOLEAN | boolean |
| INT32, signed 8/16/32 bits or plain | byte..long that hold the width, double, decimal with >= 10 integer digits |
| INT32, unsigned 8, 16, 32 bits | short and wider, int and wider, long |
| INT64, signed or plain | long, decimal with >= 20 integer digits, day-time interval |
| INT64, unsigned | decimal(20,0) |
| DATE | date, timestamp_ntz |
| TIMESTAMP, milli- or microseconds | timestamp if adjusted to UTC, else timestamp_ntz |
| INT96 | timestamp |
| FLOAT, DOUBLE | float, double; double |
| DECIMAL on INT32, INT64, bytes | decimal whose scale and integer digits are no smaller |
| BYTE_ARRAY, FIXED_LEN_BYTE_ARRAY | string (BYTE_ARRAY; bytes checked to be UTF-8 unless annotated), binary |
| any type, all NULL by annotation | anything: NULLs |

Dates before 1582-10-15 and instants before 1900 may be stored in the hybrid calendar of Spark 2. The version of a
file's writer, or a key in its footer, says so; for other writers the session's rebase mode decides. If a value would
have to be rebased, or Spark would refuse it, the query is left to Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sundog.parquet.meta.chunk_table import CODECS
from sundog.parquet.meta.file_statistics import LeafColumn
from sundog.parquet.meta.footer import Footer
from sundog.parquet.problems import FileSchemaProblem, TooLargeForOneArray
from sundog.parquet.reading import FileColumn, ReadOptions
from sundog.types import DAY_TIME_INTERVAL, TIMESTAMP, TIMESTAMP_NTZ, spark_name

_SPARK_VERSION = b"org.apache.spark.version"
_LEGACY_DATETIME = b"org.apache.spark.legacyDateTime"
_LEGACY_INT96 = b"org.apache.spark.legacyINT96"

FIRST_GREGORIAN_DAY = -141427  # 1582-10-15
FIRST_COMMON_MICROSECOND = -2208988800 * 1_000_000  # 1900-01-01T00:00:00Z: both calendars agree from here on
_MICROS_PER_DAY = 86_400_000_000

_BYTE_STREAM_SPLIT = 1 << 9  # among the bits of a chunk's encodings
_CODECS_WITHOUT_READER = [CODECS.index("LZO"), CODECS.index("BROTLI")]


class Reading(Enum):
    """How stored values become values of the query; statistics follow the same rule."""

    AS_IS = "the stored value is the value"
    UNSIGNED = "the stored bits are an unsigned number"
    MILLISECONDS = "stored milliseconds become microseconds"
    DAYS_TO_MICROSECONDS = "stored days become microseconds"
    DECIMAL = "a stored unscaled number, brought to the wanted scale"
    INT96 = "12 bytes of day and nanosecond; no statistics"
    MISSING = "the file has no such column (its default, or NULL), or nothing but NULLs"


@dataclass(frozen=True)
class ColumnSource:
    """The source of one query column's values in one file."""

    name: str
    dtype: pa.DataType
    leaf: int  # -1 for MISSING
    reading: Reading
    stored_bits: int = 0  # of an integer in the file
    stored_scale: int = 0  # of a decimal in the file
    earliest: int | None = None  # lower values (in the query's unit) would need a rebase, which only Spark does
    default: Any = None  # of a column that the file lacks

    @property
    def may_be_refused(self) -> bool:
        """Whether decoding may meet a value that only Spark reads."""
        return self.earliest is not None or self.reading is Reading.MILLISECONDS


def resolve_columns(footer: Footer, columns: Iterable[FileColumn], options: ReadOptions) -> tuple[ColumnSource, ...]:
    """One source for each column. Raises FileSchemaProblem for a form that sundog does not read."""
    return tuple(_resolve_once(footer, column, options) for column in columns)


def _resolve_once(footer: Footer, column: FileColumn, options: ReadOptions) -> ColumnSource:
    """Resolved once for each file: queries use different internal names for the same stored column."""
    key = (ColumnSource, column.file_name, column.field_id, column.dtype, repr(column.default), options)
    known: ColumnSource | None = footer.derived.get(key)
    if known is None:
        known = footer.derived[key] = _resolve(footer, column, options)
    if known.name == column.name:
        return known
    return replace(known, name=column.name)


def _resolve(footer: Footer, column: FileColumn, options: ReadOptions) -> ColumnSource:
    if column.field_id is None:
        index = _find(footer, column.file_name, options.case_sensitive)
    else:
        index = _find_by_id(footer, column.file_name, column.field_id)
    if index is None:
        return ColumnSource(column.name, column.dtype, -1, Reading.MISSING, default=column.default)
    _check_stored(footer, index, column.file_name)
    leaf = footer.leaf(index)
    if leaf.logical_type in ("UNKNOWN", "NULL"):
        return ColumnSource(column.name, column.dtype, -1, Reading.MISSING)
    reading = _reading(leaf, column.dtype) if options.widens else _reading_as_stored(leaf, column.dtype)
    if reading is Reading.INT96 and options.int96_conversion and not footer.created_by.startswith("parquet-mr"):
        raise FileSchemaProblem(
            footer.path, f"column {column.file_name} is INT96, which spark.sql.parquet.int96TimestampConversion shifts"
        )
    if reading is None:
        annotation = "" if leaf.logical_type == "NONE" else f" ({leaf.logical_type})"
        raise FileSchemaProblem(
            footer.path,
            f"column {column.file_name} is stored as {leaf.physical_type}{annotation}, "
            f"which sundog does not read as {spark_name(column.dtype)}",
        )
    earliest = _earliest_safe(footer, leaf, column.dtype, options)
    bits = {"INT32": 32, "INT64": 64}.get(leaf.physical_type, 0)
    return ColumnSource(column.name, column.dtype, index, reading, bits, max(leaf.scale, 0), earliest)


def _check_stored(footer: Footer, index: int, name: str) -> None:
    """Refuse columns that Arrow reads but Spark, or one of its versions, does not: Spark then raises its own error."""
    if (footer.values.encodings[:, index] & _BYTE_STREAM_SPLIT).any():
        raise FileSchemaProblem(footer.path, f"column {name} is in the encoding BYTE_STREAM_SPLIT")
    if np.isin(footer.values.codecs[:, index], _CODECS_WITHOUT_READER).any():
        raise FileSchemaProblem(footer.path, f"column {name} is compressed by a codec that Spark does not bring")


def _find(footer: Footer, name: str, case_sensitive: bool) -> int | None:
    groups = footer.group_columns()
    if case_sensitive:
        found = footer.flat_columns().get(name, [])
        nested = name in groups
    else:
        found = footer.folded_columns().get(name.lower(), [])
        nested = any(other.lower() == name.lower() for other in groups)
    if nested:
        raise FileSchemaProblem(footer.path, f"column {name} is not a primitive column")
    if len(found) > 1:
        raise FileSchemaProblem(footer.path, f"column {name} is found more than once")
    return found[0] if found else None


def _find_by_id(footer: Footer, name: str, field_id: int) -> int | None:
    """The leaf with that id. None, which reads as NULLs, only if the file has an id for each of its columns."""
    ids = [footer.values.field_id(leaf) for leaf in range(len(footer.values.leaves))]
    found = [leaf for leaf, own in enumerate(ids) if own == field_id]
    if len(found) > 1:
        raise FileSchemaProblem(footer.path, f"the id of column {name}, {field_id}, is found more than once")
    if found and not footer.values.leaves[found[0]].is_flat:
        raise FileSchemaProblem(footer.path, f"column {name} is not a primitive column")
    if not found and (None in ids or footer.group_columns()):
        raise FileSchemaProblem(footer.path, f"column {name} is found by its id, and not all columns have one")
    return found[0] if found else None


def _reading(leaf: LeafColumn, dtype: pa.DataType) -> Reading | None:
    match leaf.physical_type:
        case "BOOLEAN":
            return Reading.AS_IS if pa.types.is_boolean(dtype) else None
        case "INT32" | "INT64":
            return _integer_reading(leaf, dtype)
        case "FLOAT":
            return Reading.AS_IS if pa.types.is_float32(dtype) or pa.types.is_float64(dtype) else None
        case "DOUBLE":
            return Reading.AS_IS if pa.types.is_float64(dtype) else None
        case "INT96":
            return Reading.INT96 if dtype.equals(TIMESTAMP) else None
        case "BYTE_ARRAY" | "FIXED_LEN_BYTE_ARRAY":
            return _bytes_reading(leaf, dtype)
    return None


def _reading_as_stored(leaf: LeafColumn, dtype: pa.DataType) -> Reading | None:
    """The same for a Spark that does not widen types, before 4.0: 32-bit integers are ints and narrower, decimals are
    equal."""
    reading = _reading(leaf, dtype)
    if reading is Reading.DAYS_TO_MICROSECONDS or (leaf.physical_type == "FLOAT" and not pa.types.is_float32(dtype)):
        return None
    if reading is Reading.DECIMAL and (leaf.precision, leaf.scale) != (dtype.precision, dtype.scale):
        return None
    is_uint32 = leaf.logical_type == "INT" and not leaf.signed and leaf.bit_width == 32
    is_widened = pa.types.is_int64(dtype) or pa.types.is_floating(dtype)
    return None if leaf.physical_type == "INT32" and is_widened and not is_uint32 else reading


def _integer_reading(leaf: LeafColumn, dtype: pa.DataType) -> Reading | None:
    bits = 32 if leaf.physical_type == "INT32" else 64
    match leaf.logical_type:
        case "DECIMAL":
            return Reading.DECIMAL if _decimal_fits(leaf, dtype) else None
        case "DATE":
            if pa.types.is_date32(dtype):
                return Reading.AS_IS
            return Reading.DAYS_TO_MICROSECONDS if dtype.equals(TIMESTAMP_NTZ) else None
        case "TIMESTAMP":
            if leaf.time_unit == "nano" or not dtype.equals(TIMESTAMP if leaf.adjusted_to_utc else TIMESTAMP_NTZ):
                return None
            return Reading.AS_IS if leaf.time_unit == "micro" else Reading.MILLISECONDS
        case "INT" if not leaf.signed:
            return _unsigned_reading(leaf.bit_width, dtype)
        case "INT" | "NONE":
            return _signed_reading(leaf.bit_width or bits, bits, dtype)
    return None


def _signed_reading(width: int, stored_bits: int, dtype: pa.DataType) -> Reading | None:
    if pa.types.is_signed_integer(dtype):
        return Reading.AS_IS if dtype.bit_width >= width else None
    if pa.types.is_float64(dtype):
        return Reading.AS_IS if stored_bits == 32 else None
    if pa.types.is_decimal128(dtype):
        return Reading.DECIMAL if dtype.precision - dtype.scale >= (10 if stored_bits == 32 else 20) else None
    if dtype.equals(DAY_TIME_INTERVAL):
        return Reading.AS_IS if stored_bits == 64 and width == 64 else None
    return None


def _unsigned_reading(width: int, dtype: pa.DataType) -> Reading | None:
    if width == 64:
        return Reading.UNSIGNED if dtype.equals(pa.decimal128(20, 0)) else None
    return Reading.UNSIGNED if pa.types.is_signed_integer(dtype) and dtype.bit_width > width else None


def _bytes_reading(leaf: LeafColumn, dtype: pa.DataType) -> Reading | None:
    if leaf.logical_type == "DECIMAL":
        return Reading.DECIMAL if _decimal_fits(leaf, dtype) else None
    if leaf.logical_type not in ("NONE", "STRING", "ENUM", "JSON", "BSON"):
        return None
    if pa.types.is_binary(dtype):
        return Reading.AS_IS
    return Reading.AS_IS if pa.types.is_string(dtype) and leaf.physical_type == "BYTE_ARRAY" else None


def _decimal_fits(leaf: LeafColumn, dtype: pa.DataType) -> bool:
    if not pa.types.is_decimal128(dtype):
        return False
    more_scale = dtype.scale - leaf.scale
    return bool(more_scale >= 0 and dtype.precision - leaf.precision >= more_scale)


def _earliest_safe(footer: Footer, leaf: LeafColumn, dtype: pa.DataType, options: ReadOptions) -> int | None:
    """The first value that needs no rebase, in the query's unit; None if no rebase mode applies."""
    if leaf.physical_type == "INT96":
        mode = _rebase_mode(footer, options.int96_rebase_mode, b"3.1.0", _LEGACY_INT96)
    elif leaf.logical_type == "DATE" or (leaf.logical_type == "TIMESTAMP" and leaf.adjusted_to_utc):
        mode = _rebase_mode(footer, options.datetime_rebase_mode, b"3.0.0", _LEGACY_DATETIME)
    else:
        return None
    if mode == "CORRECTED":
        return None
    if mode == "EXCEPTION":
        _refuse_ancient(footer, leaf)
        return None
    if leaf.logical_type != "DATE":
        return FIRST_COMMON_MICROSECOND
    return FIRST_GREGORIAN_DAY * (1 if pa.types.is_date32(dtype) else _MICROS_PER_DAY)


def _refuse_ancient(footer: Footer, leaf: LeafColumn) -> None:
    """Decline unless statistics prove that there is no ancient value: Spark raises for one in any row it decodes."""
    first = {"DATE": FIRST_GREGORIAN_DAY, "TIMESTAMP": FIRST_COMMON_MICROSECOND}.get(leaf.logical_type, 0)
    if leaf.time_unit == "milli":
        first //= 1000
    known = footer.raw_statistics(leaf.index)
    for low, nulls, rows in zip(known.lows, known.null_counts, footer.row_counts, strict=True):
        if rows and nulls != rows and (low is None or low < first):
            raise FileSchemaProblem(footer.path, f"column {leaf.name} may hold dates that Spark refuses to read")


def _rebase_mode(footer: Footer, by_session: str, first_good_version: bytes, legacy_key: bytes) -> str:
    version = footer.key_values.get(_SPARK_VERSION)
    if version is None:
        return by_session
    legacy = version < first_good_version or legacy_key in footer.key_values
    return "LEGACY" if legacy else "CORRECTED"


def to_query_type(stored: pa.ChunkedArray, source: ColumnSource, path: str, keep_dictionary: bool = False) -> pa.Array:
    """The decoded array in the query's type (or, with `keep_dictionary`, as a dictionary of that type).

    Raises FileSchemaProblem for values that only Spark knows how to read, or too many bytes for one array.
    """
    array = _one_array(stored, source, path)
    if keep_dictionary and pa.types.is_dictionary(array.type) and array.type.value_type.equals(source.dtype):
        return array
    return converted(array, source, path)


def converted(array: pa.Array, source: ColumnSource, path: str) -> pa.Array:
    """An array of the query's type. Raises FileSchemaProblem for values that only Spark knows how to read."""
    if not array.type.equals(source.dtype):
        array = _cast(array, source, path)
    if source.earliest is not None:
        _check_no_rebase(array, source, path)
    return array


def _one_array(stored: pa.ChunkedArray, source: ColumnSource, path: str) -> pa.Array:
    if stored.num_chunks == 1:
        return stored.chunk(0)
    if pa.types.is_dictionary(stored.type):
        stored = stored.unify_dictionaries()
    combined = _fitting(stored.combine_chunks, source, path)
    if isinstance(combined, pa.ChunkedArray):  # strings beyond 32-bit offsets may stay in chunks
        raise TooLargeForOneArray(path, f"column {source.name} has too many bytes for one array")
    return combined


def _fitting(make: Callable[[], pa.Array], source: ColumnSource, path: str) -> pa.Array:
    """An array; TooLargeForOneArray if its strings exceed 32-bit offsets."""
    try:
        return make()
    except (pa.ArrowInvalid, pa.ArrowCapacityError) as problem:
        raise TooLargeForOneArray(path, f"column {source.name} has too many bytes for one array") from problem


def _cast(array: pa.Array, source: ColumnSource, path: str) -> pa.Array:
    """A cast. Arrow's type differs by the file's embedded Arrow schema (large_string, a time zone), or by widening."""
    if pa.types.is_dictionary(array.type):
        array = _fitting(array.dictionary_decode, source, path)
    if source.reading is Reading.INT96 or pa.types.is_duration(array.type) or pa.types.is_duration(source.dtype):
        return array.view(source.dtype)
    if source.reading is Reading.UNSIGNED and pa.types.is_decimal(source.dtype):
        return array.cast(pa.decimal128(20, 0))
    try:
        return pc.cast(array, source.dtype)
    except pa.ArrowInvalid as problem:
        raise FileSchemaProblem(path, f"column {source.name} does not read as {source.dtype}: {problem}") from problem


def _check_no_rebase(array: pa.Array, source: ColumnSource, path: str) -> None:
    low = pc.min(array.view(pa.int32() if pa.types.is_date32(array.type) else pa.int64())).as_py()
    if low is not None and low < (source.earliest or 0):
        raise FileSchemaProblem(path, f"column {source.name} holds dates or times of the hybrid Julian calendar")
