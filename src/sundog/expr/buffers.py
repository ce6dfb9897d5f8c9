"""Arrow arrays as numpy arrays and back, without copies where Arrow's layout allows it.

Values under NULLs are undefined: a caller of `values_of` must check `validity_of` before it uses a value. An array
without NULLs has the validity None, so the common case costs nothing.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bools = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]
Indices = npt.NDArray[np.int64]


def _bits(buffer: pa.Buffer, offset: int, length: int) -> Bools:
    first = offset // 8
    packed = np.frombuffer(buffer, np.uint8, count=(offset + length + 7) // 8 - first, offset=first)
    shift = offset - first * 8
    return np.unpackbits(packed, bitorder="little")[shift : shift + length].view(np.bool_)


def validity_of(array: pa.Array) -> Bools | None:
    """True where there is a value, false where there is a NULL; None if there are no NULLs."""
    if array.null_count == 0:
        return None
    buffer = array.buffers()[0]
    if buffer is None:  # the null type has no buffers and no values
        return np.zeros(len(array), np.bool_)
    return _bits(buffer, array.offset, len(array))


def numpy_type(dtype: pa.DataType) -> np.dtype[Any]:
    """The NumPy type in which Arrow stores a fixed-width type: dates, instants and durations are integers."""
    if pa.types.is_temporal(dtype):
        return np.dtype(np.int32 if pa.types.is_date32(dtype) else np.int64)
    storage: np.dtype[Any] = np.dtype(dtype.to_pandas_dtype())
    return storage


def values_of(array: pa.Array) -> npt.NDArray[Any]:
    """The values of a bool, integer, floating, date, timestamp or duration array."""
    buffer = array.buffers()[1]
    if pa.types.is_boolean(array.type):
        return _bits(buffer, array.offset, len(array)) if buffer is not None else np.zeros(len(array), np.bool_)
    storage = numpy_type(array.type)
    if buffer is None:
        return np.zeros(len(array), storage)
    return np.frombuffer(buffer, storage, count=len(array), offset=array.offset * storage.itemsize)


def is_narrow(dtype: pa.DataType) -> bool:
    """Whether a value of the type fits one 64-bit word."""
    if pa.types.is_decimal(dtype):
        return bool(dtype.precision <= 18)
    return bool(
        pa.types.is_integer(dtype)
        or pa.types.is_floating(dtype)
        or pa.types.is_boolean(dtype)
        or pa.types.is_temporal(dtype)
    )


def decimal_words(array: pa.Array) -> tuple[Words, npt.NDArray[np.int64]]:
    """The low and high halves of a decimal128 array's unscaled values, in two's complement."""
    buffer = array.buffers()[1]
    if buffer is None:
        return np.zeros(len(array), np.uint64), np.zeros(len(array), np.int64)
    halves = np.frombuffer(buffer, np.uint64, count=2 * len(array), offset=16 * array.offset).reshape(-1, 2)
    return halves[:, 0], halves[:, 1].view(np.int64)


def string_parts(array: pa.Array) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
    """Offsets (one more than strings) and bytes of a string or binary array."""
    _, offsets, data = array.buffers()
    if offsets is None or offsets.size == 0:
        return np.zeros(len(array) + 1, np.int32), np.zeros(0, np.uint8)
    bounds = np.frombuffer(offsets, np.int32, count=len(array) + 1, offset=4 * array.offset)
    return bounds, np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)


def pooled(shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """An array like `np.empty`, in Arrow's memory pool, which keeps what is freed for the next array.

    For large results that every query makes. NumPy gives large arrays back to the system, which fills each page with
    zeros at its next use: for an array of a megabyte or more that takes ten times as long as to multiply two of them,
    and of 4 MB that are gathered into, 1.1 to 4 of 2 to 5 ns a row.
    """
    storage = np.dtype(dtype)
    count = shape if isinstance(shape, int) else math.prod(shape)
    buffer = pa.allocate_buffer(count * storage.itemsize)
    return np.frombuffer(buffer, storage, count).reshape(shape)


def array_from(values: npt.NDArray[Any], valid: Bools | None, dtype: pa.DataType) -> pa.Array:
    """The inverse of `values_of` and `validity_of`; shares the memory of `values`."""
    if pa.types.is_boolean(dtype):
        data = np.packbits(values, bitorder="little")
    else:
        data = np.ascontiguousarray(values, numpy_type(dtype))
    return pa.Array.from_buffers(dtype, len(values), [validity_buffer(valid), pa.py_buffer(data)])


def decimal_array(low: Words, high: npt.NDArray[np.int64], valid: Bools | None, dtype: pa.DataType) -> pa.Array:
    """The inverse of `decimal_words`."""
    halves = np.empty((len(low), 2), np.uint64)
    halves[:, 0] = low
    halves[:, 1] = high.view(np.uint64)
    return pa.Array.from_buffers(dtype, len(low), [validity_buffer(valid), pa.py_buffer(halves)])


def validity_buffer(valid: Bools | None) -> pa.Buffer | None:
    """The inverse of `validity_of`, as Arrow holds it."""
    if valid is None or bool(valid.all()):
        return None
    return pa.py_buffer(np.packbits(valid, bitorder="little"))


def without_rows(valid: Bools | None, rows: Bools) -> Bools:
    """The validity with NULL at `rows`."""
    kept: Bools = ~rows if valid is None else valid & ~rows
    return kept


def both_valid(left: Bools | None, right: Bools | None) -> Bools | None:
    """The rows in which both sides have a value."""
    if left is None or right is None:
        return right if left is None else left
    both: Bools = left & right
    return both


class _Memory:
    """Arrow memory in numpy's array interface; an array made from it keeps its owner alive."""

    def __init__(self, owner: pa.Buffer, numpy_type: np.dtype[Any], length: int, first: int) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "data": (owner.address + first * numpy_type.itemsize, False),
            "shape": (length,),
            "typestr": numpy_type.str,
            "version": 3,
        }


def kernel_view(buffer: pa.Buffer | None, numpy_type: np.dtype[Any], length: int, first: int) -> npt.NDArray[Any]:
    """Values in Arrow's memory, from number `first` on, in the form that kernels are compiled for."""
    if buffer is None or buffer.size == 0 or length == 0:
        return np.zeros(length, numpy_type)
    array = np.asarray(_Memory(buffer, numpy_type, length, first))
    return array if array.flags.aligned else array.copy()


def unpacked_bits(buffer: pa.Buffer, first: int, length: int) -> npt.NDArray[np.uint8]:
    """A byte, 0 or 1, for each of Arrow's bits."""
    start = first // 8
    packed = kernel_view(buffer, np.dtype(np.uint8), (first + length + 7) // 8 - start, start)
    shift = first - 8 * start
    return np.unpackbits(packed, bitorder="little", count=shift + length)[shift:]
