"""Vectors from Arrow arrays and back, without copies where Arrow's layout allows it.

Arrays over Arrow's memory are marked writable, since numba would compile a second machine code for read-only ones; no
kernel writes to its inputs.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sundog.columns import text
from sundog.columns.blocks import addresses
from sundog.columns.text import text_bytes
from sundog.columns.vectors import NO_MASK, Bytes, Coded, Ints, Short, Vector, both, nulls, storage
from sundog.expr.buffers import kernel_view, unpacked_bits
from sundog.kernels.groups.direct_groups import range_of
from sundog.kernels.strings import WRITE_SLACK, views_from_offsets, write_strings
from sundog.support import Code, Declined
from sundog.types import is_text, is_view

# Bounds of memory: what may be held in addition to the rows, however few these are.
_MAX_SPARE_BYTES = 1 << 16  # of the blocks of strings, beside twice their own bytes
_MIN_SHARED_NULLS, _MAX_SHARED_NULLS = 1 << 10, 1 << 20


def from_arrow(array: pa.Array) -> Vector:
    """An array of any type that sundog handles, also dictionary-encoded or as string_view."""
    length = len(array)
    if pa.types.is_dictionary(array.type):
        return _from_dictionary(array)
    if pa.types.is_run_end_encoded(array.type):
        return _from_runs(array)
    if length == 0 or array.null_count == length:
        return nulls(plain_type(array.type), length)
    buffers = array.buffers()
    valid = unpacked_bits(buffers[0], array.offset, length) if array.null_count else None
    if pa.types.is_boolean(array.type):
        return Vector(array.type, length, unpacked_bits(buffers[1], array.offset, length), valid)
    if is_text(array.type):
        return _from_text(array, buffers, valid)
    if pa.types.is_decimal64(array.type):
        numbers = kernel_view(buffers[1], np.dtype(np.int64), length, array.offset)
        short = Short(numbers, largest_magnitude(numbers))
        return Vector(plain_type(array.type), length, None, valid, short=short)
    numpy_type, words = storage(array.type)
    values = kernel_view(buffers[1], numpy_type, length * words, array.offset * words)
    return Vector(array.type, length, values if words == 1 else values.reshape(length, words), valid)


def plain_type(dtype: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(dtype):
        return pa.string()
    if pa.types.is_decimal64(dtype):
        return pa.decimal128(dtype.precision, dtype.scale)
    return pa.binary() if pa.types.is_binary_view(dtype) else dtype


def largest_magnitude(numbers: Ints) -> int:
    """Of all rows, also under NULLs."""
    low, high = range_of(numbers, NO_MASK)
    return max(abs(int(low)), abs(int(high))) if len(numbers) else 0


def _from_text(array: pa.Array, buffers: list[pa.Buffer | None], valid: Bytes | None) -> Vector:
    length = len(array)
    if is_view(array.type):
        views = kernel_view(buffers[1], np.dtype(np.int64), 2 * length, 2 * array.offset).reshape(length, 2)
        return Vector(plain_type(array.type), length, views, valid, tuple(b for b in buffers[2:] if b is not None))
    views = np.empty((length, 2), np.int64)
    offsets = kernel_view(buffers[1], np.dtype(np.int32), length + 1, array.offset)
    data = buffers[2]
    address, size = (0, 0) if data is None else (data.address, data.size)
    views_from_offsets(offsets, address, size, NO_MASK if valid is None else valid, views)
    return Vector(array.type, length, views, valid, () if data is None else (data,))


def _from_dictionary(array: pa.DictionaryArray) -> Vector:
    entries, length = from_arrow(array.dictionary), len(array)
    if entries.all_null or array.indices.null_count == length:
        return nulls(entries.dtype, length)
    indices = from_arrow(array.indices)
    codes = indices.values if indices.valid is None else indices.values * indices.valid
    valid = indices.valid if entries.valid is None else both(indices.valid, entries.valid.take(codes))
    return Vector(entries.dtype, length, None, valid, entries.blocks, Coded(codes, entries))


def _from_runs(array: pa.RunEndEncodedArray) -> Vector:
    if array.values.null_count == len(array.values):
        return nulls(array.type.value_type, len(array))
    return from_arrow(pc.run_end_decode(array))


def to_arrow(vector: Vector, dtype: pa.DataType | None = None) -> pa.Array:
    """The array, with the bytes of strings copied; or as string_view that shares them, if `dtype` says so."""
    dtype = dtype or vector.dtype
    length = vector.length
    if pa.types.is_run_end_encoded(dtype):
        return _to_runs(vector, dtype)
    if vector.all_null:
        return _null_array(dtype, length)
    validity = None
    if vector.valid is not None and not vector.valid.all():
        validity = pa.py_buffer(np.packbits(vector.valid, bitorder="little"))
    if pa.types.is_boolean(dtype):
        return pa.Array.from_buffers(
            dtype, length, [validity, pa.py_buffer(np.packbits(vector.values, bitorder="little"))]
        )
    if is_view(dtype):
        return pa.Array.from_buffers(dtype, length, [validity, pa.py_buffer(vector.values), *vector.blocks])
    if is_text(dtype):
        return pa.Array.from_buffers(dtype, length, [validity, *_written(vector)])
    return pa.Array.from_buffers(dtype, length, [validity, pa.py_buffer(vector.values)])


def in_plain_form(array: pa.Array) -> pa.Array:
    """Strings and decimals as stored (`ScanTask.as_stored`) in plain form; any other array unchanged."""
    return to_arrow(from_arrow(array)) if is_as_stored(array.type) else array


def batch_in_plain_form(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with all columns in plain form; one without columns keeps its rows."""
    arrays = [in_plain_form(column) for column in batch.columns]
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names) if arrays else batch


def is_as_stored(dtype: pa.DataType) -> bool:
    """Whether an array of the type must be brought to plain form before expressions can be evaluated."""
    return bool(pa.types.is_dictionary(dtype) or is_view(dtype) or pa.types.is_decimal64(dtype))


def _to_runs(vector: Vector, dtype: pa.DataType) -> pa.Array:
    if vector.all_null and vector.length:
        one = pa.array([None], dtype.value_type)
        return pa.RunEndEncodedArray.from_arrays(pa.array([vector.length], dtype.run_end_type), one)
    return pc.run_end_encode(to_arrow(vector), run_end_type=dtype.run_end_type)


_null_arrays: dict[pa.DataType, pa.Array] = {}


def _null_array(dtype: pa.DataType, length: int) -> pa.Array:
    """NULLs, as a slice of an array that is made once: counts of ungrouped rows are NULLs, and should cost nothing."""
    known = _null_arrays.get(dtype)
    if known is None or len(known) < length:
        if length > _MAX_SHARED_NULLS:
            return pa.nulls(length, dtype)
        known = pa.nulls(max(_MIN_SHARED_NULLS, 1 << length.bit_length()), dtype)
        _null_arrays[dtype] = known
    return known.slice(0, length)


def _written(vector: Vector) -> tuple[pa.Buffer, pa.Buffer]:
    views = vector.values
    size = text_bytes(vector)
    if size > text.LARGEST_STRING_BYTES:
        raise Declined.because(Code.TOO_LARGE, f"{size} bytes of strings in one batch")
    data = np.empty(size + WRITE_SLACK, np.uint8)
    offsets = np.empty(vector.length + 1, np.int32)
    write_strings(views, addresses(vector.blocks), offsets, data.ctypes.data)
    return pa.py_buffer(offsets), pa.py_buffer(data[:size])


def compact(vector: Vector) -> Vector:
    """The vector with strings in a block of their own, if the blocks they point into hold much else.

    Entries of a dictionary stay: they are few, and many rows share them.
    """
    if vector.all_null or not vector.blocks or vector.coded is not None:
        return vector
    size = text_bytes(vector)
    if sum(block.size for block in vector.blocks) <= 2 * size + _MAX_SPARE_BYTES or size > text.LARGEST_STRING_BYTES:
        return vector
    return from_arrow(to_arrow(vector))
