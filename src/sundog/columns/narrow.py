"""Narrowing: the columns of a block in as few bytes as their values need, and back.

    int64       1_700_000_000 .. 1_700_000_200                  uint8, offset 1_700_000_000
    timestamp   whole seconds of a month, in microseconds       uint32, offset and factor 1_000_000
    double      1.0, 7.0, -3.0                                  int8
    decimal     sums of a few digits, in 16 bytes               int16
    int64       numbers of rows, 3, 4, 9, 11                    steps of a byte (`deltas.py`)
    string      few values, often repeated                      a dictionary, and numbers of one or two bytes

A byte costs some 10 ns through two Python workers and Spark's shuffle; examining and casting it, 1 ns. Sums and counts
of ungrouped rows, the doubles that AVG makes of integers, the instants of a range and the row numbers of a task are
mostly small, or close to each other.

Invariant: widening gives exactly the narrowed values, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sundog.columns.deltas import STEP_TYPE, is_of_steps, steps_of, values_of_steps
from sundog.expr.buffers import array_from, decimal_array, decimal_words, validity_of, values_of

_WIDE_SCHEMA, _OFFSET, _FACTOR = b"wide", b"offset", b"factor"
_SIGNED = [(pa.int8(), 1 << 7), (pa.int16(), 1 << 15), (pa.int32(), 1 << 31), (pa.int64(), 1 << 63)]
_UNSIGNED = [(pa.uint8(), 1 << 8), (pa.uint16(), 1 << 16), (pa.uint32(), 1 << 32)]
_SECOND, _MILLISECOND = 1_000_000, 1_000  # in microseconds, Spark's unit of instants
_IDS = b"ids"
_MAX_JOINED_BYTES = 1 << 30  # an Arrow array holds 2 GiB of strings


@dataclass(frozen=True)
class NarrowCosts:
    """Which columns of a block are tried, and when strings are sent as numbers. The values are in `plan/costs.py`."""

    min_coded_rows: int  # of a block, for its strings to be sent as numbers of a dictionary
    coded_sample_strings: int  # of a column, among which the distinct ones are counted first
    max_coded_sample_share: float  # of distinct strings in that sample: above it, the column is sent as it is
    max_coded_bytes_share: float  # of the strings' bytes: if numbers and dictionary take more, they are not sent
    narrow_sample_values: int  # first numbers of a column, tested before all are; fewer are not sent as steps


def narrow_table(table: pa.Table, costs: NarrowCosts) -> pa.Table:
    """The table with each column as narrow as its values allow. Its schema has what widening needs."""
    found = [_narrowed(column, costs) for column in table.columns]
    if all(packed is None for packed in found):
        return table
    wide = pa.schema([pa.field(field.name, field.type) for field in table.schema])
    columns = [column if packed is None else packed[0] for column, packed in zip(table.columns, found, strict=True)]
    fields = [
        pa.field(name, column.type, metadata=None if packed is None else packed[1])
        for name, column, packed in zip(wide.names, columns, found, strict=True)
    ]
    return pa.table(columns, schema=pa.schema(fields, metadata={_WIDE_SCHEMA: wide.serialize().to_pybytes()}))


def wide_batches(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> list[pa.RecordBatch]:
    """Batches of a narrow table of this schema, widened."""
    serialized = (schema.metadata or {}).get(_WIDE_SCHEMA)
    if serialized is None:
        return list(batches)
    wide = pa.ipc.read_schema(pa.py_buffer(serialized))
    metadata = [field.metadata or {} for field in schema]
    batches = list(batches)
    columns = [
        _all_widened([batch.column(place) for batch in batches], *how)
        for place, how in enumerate(zip(metadata, wide.types, strict=True))
    ]
    return [pa.RecordBatch.from_arrays(list(arrays), schema=wide) for arrays in zip(*columns, strict=True)]


def _narrowed(column: pa.ChunkedArray, costs: NarrowCosts) -> tuple[pa.ChunkedArray, dict[bytes, bytes]] | None:
    """The same numbers in fewer bytes, and the metadata to widen them; None if they need all their bytes."""
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        return _coded(column, costs)
    sample = costs.narrow_sample_values
    whole = _integers(column, sample)
    if whole is None:
        return None
    low, high = _bounds(whole)
    factor = _common_factor(column.type, whole, sample) if high - low >= _UNSIGNED[-1][1] else 1
    if factor > 1:
        whole = pc.divide(whole, pa.scalar(factor, pa.int64()))
        low, high = _bounds(whole)
    offset, narrow = 0, next((dtype for dtype, limit in _SIGNED if -limit <= low and high < limit), None)
    near = next((dtype for dtype, limit in _UNSIGNED if high - low < limit), None)
    if near is not None and (narrow is None or near.bit_width < narrow.bit_width):
        offset, narrow = low, near
    is_byte = narrow is not None and narrow.bit_width == STEP_TYPE.bit_width
    if not is_byte and (steps := steps_of(whole.chunks, sample)) is not None:
        return pa.chunked_array([steps.column]), {**steps.metadata, _OFFSET: b"0", _FACTOR: str(factor).encode()}
    if narrow is None or narrow.bit_width >= column.type.bit_width:
        return None
    if offset:
        whole = pc.subtract(whole.cast(pa.int64()), pa.scalar(offset, pa.int64()))
    return whole.cast(narrow), {_OFFSET: str(offset).encode(), _FACTOR: str(factor).encode()}


def _coded(column: pa.ChunkedArray, costs: NarrowCosts) -> tuple[pa.ChunkedArray, dict[bytes, bytes]] | None:
    """The strings as numbers of a dictionary; None if a sample, or the result, shows that it saves little."""
    if len(column) < costs.min_coded_rows or column.nbytes > _MAX_JOINED_BYTES:
        return None
    whole = pa.concat_arrays(column.chunks)
    places = np.arange(0, len(whole), max(1, len(whole) // costs.coded_sample_strings))
    if pc.count_distinct(whole.take(pa.array(places))).as_py() > costs.max_coded_sample_share * len(places):
        return None
    encoded = whole.dictionary_encode()
    width = next(dtype for dtype, limit in _SIGNED if len(encoded.dictionary) <= limit)
    ids = encoded.indices.cast(width)
    if ids.nbytes + encoded.dictionary.nbytes > costs.max_coded_bytes_share * whole.nbytes:
        return None
    return pa.chunked_array([pa.DictionaryArray.from_arrays(ids, encoded.dictionary)]), {_IDS: b""}


def _bounds(whole: pa.ChunkedArray) -> tuple[int, int]:
    bounds = pc.min_max(whole)
    return bounds["min"].as_py() or 0, bounds["max"].as_py() or 0


def _all_widened(chunks: list[pa.Array], how: Mapping[bytes, bytes], dtype: pa.DataType) -> list[pa.Array]:
    if is_of_steps(how):
        chunks = values_of_steps(chunks, how)
    return [_widened(chunk, how, dtype) for chunk in chunks]


def _widened(column: pa.Array, how: Mapping[bytes, bytes], dtype: pa.DataType) -> pa.Array:
    if _IDS in how:
        return column.dictionary_decode()
    if not how or (column.type.equals(dtype) and how[_FACTOR] == b"1"):
        return column
    offset, factor = int(how[_OFFSET]), int(how[_FACTOR])
    if offset or factor > 1 or pa.types.is_decimal(dtype):
        column = column.cast(pa.int64())
    if offset:
        column = pc.add(column, pa.scalar(offset, pa.int64()))
    if factor > 1:
        column = pc.multiply(column, pa.scalar(factor, pa.int64()))
    if pa.types.is_decimal(dtype):
        words = column.fill_null(0).to_numpy()
        return decimal_array(words.view(np.uint64), words >> 63, validity_of(column), dtype)
    return (column.cast(_integer_type(dtype)) if _is_counted(dtype) else column).cast(dtype)


def _integers(column: pa.ChunkedArray, sample: int) -> pa.ChunkedArray | None:
    """The column's values as integers, one for each; None if it has values of another kind. `sample`: first values to
    test before all are."""
    dtype = column.type
    if pa.types.is_signed_integer(dtype):
        return column
    if pa.types.is_float64(dtype):
        return _in_chunks(column, partial(_whole_numbers, sample=sample))
    if pa.types.is_decimal128(dtype):
        return _in_chunks(column, _low_words)
    return column.cast(_integer_type(dtype)) if _is_counted(dtype) else None


def _is_counted(dtype: pa.DataType) -> bool:
    """Whether Arrow holds the type as one integer: dates, instants and such. Calendar intervals are three in one."""
    return bool(pa.types.is_temporal(dtype) and not pa.types.is_interval(dtype))


def _integer_type(dtype: pa.DataType) -> pa.DataType:
    return pa.int32() if dtype.bit_width == 32 else pa.int64()


def _in_chunks(column: pa.ChunkedArray, convert: Callable[[pa.Array], pa.Array | None]) -> pa.ChunkedArray | None:
    chunks = []
    for chunk in column.chunks:
        converted = convert(chunk)
        if converted is None:
            return None
        chunks.append(converted)
    return pa.chunked_array(chunks, pa.int64())


def _whole_numbers(chunk: pa.Array, sample: int) -> pa.Array | None:
    """Doubles as integers, if all of them are integers bit for bit (-0.0 is not) and none is NULL."""
    if chunk.null_count or not _are_whole(chunk.slice(0, sample).to_numpy()):
        return None
    values = chunk.to_numpy()
    return pa.array(values.astype(np.int64)) if _are_whole(values) else None


def _are_whole(values: npt.NDArray[np.float64]) -> bool:
    with np.errstate(invalid="ignore"):
        back = values.astype(np.int32).astype(np.float64)
    return bool((back.view(np.int64) == values.view(np.int64)).all())


def _low_words(chunk: pa.Array) -> pa.Array | None:
    """Unscaled values of decimals, if all of them fit 64 bits."""
    low, high = decimal_words(chunk)
    valid = validity_of(chunk)
    words = np.ascontiguousarray(low).view(np.int64)
    fits = words >> 63 == high
    if not (fits if valid is None else fits | ~valid).all():
        return None
    return array_from(words, valid, pa.int64())


def _common_factor(dtype: pa.DataType, whole: pa.ChunkedArray, sample: int) -> int:
    """A unit of which all values are multiples: most instants are whole seconds."""
    if not pa.types.is_timestamp(dtype) or dtype.unit != "us":
        return 1
    return next((factor for factor in (_SECOND, _MILLISECOND) if _are_multiples(whole, factor, sample)), 1)


def _are_multiples(whole: pa.ChunkedArray, factor: int, sample: int) -> bool:
    def all_of(values: npt.NDArray[np.int64]) -> bool:
        return bool((values // factor * factor == values).all())

    values = [values_of(chunk) for chunk in whole.chunks]  # includes values under NULLs, which does no harm
    return all(all_of(each[:sample]) for each in values) and all(map(all_of, values))
