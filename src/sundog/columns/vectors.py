"""Columns as numpy arrays that kernels can move: what an aggregation works on between Arrow and Arrow.

    bool                          uint8, 0 or 1
    integers, dates, instants     as they lie in Arrow
    floats                        as they lie in Arrow
    decimal128                    two int64 words: low, high
    string, binary                two int64 words, as in string_view; `blocks` hold the bytes (`kernels/strings.py`)
    void                          no values

`valid` is one uint8 a row, or None where all rows have a value. A vector of NULLs only has no `values` at all: it costs
nothing to move. Dictionary arrays stay numbers of entries until somebody wants the values.

Arrays over Arrow's memory are made writable on paper, since numba compiles a second machine code for read-only ones;
no kernel writes to its inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sundog.errors import InternalError
from sundog.kernels.strings import WRITE_SLACK, renumber_blocks, total_length, views_from_offsets, write_strings
from sundog.support import Code, Declined

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Blocks = tuple[pa.Buffer, ...]
NO_MASK: Bytes = np.zeros(0, np.uint8)  # how kernels are told that all rows count
LARGEST_STRING_BYTES = 2**31 - 1
_WORTH_COMPACTING = 1 << 16
_MOST_SHARED_NULLS = 1 << 20
_MEASURED_STRINGS = 1 << 10
_ESTIMATE_ERROR = 64  # times that the strings that are not measured may be longer than those that are


@dataclass(frozen=True, eq=False)
class Coded:
    """Values as numbers of the entries of a dictionary. Where there is NULL the number may be any."""

    codes: npt.NDArray[Any]
    entries: Vector


class Vector:
    """`length` rows of type `dtype`. Immutable, but for values that are decoded from a dictionary when asked for."""

    __slots__ = ("_values", "blocks", "coded", "dtype", "length", "valid")

    def __init__(
        self,
        dtype: pa.DataType,
        length: int,
        values: npt.NDArray[Any] | None,
        valid: Bytes | None = None,
        blocks: Blocks = (),
        coded: Coded | None = None,
    ) -> None:
        self.dtype = dtype
        self.length = length
        self.valid = valid
        self.blocks = blocks
        self.coded = coded
        self._values = values

    @property
    def all_null(self) -> bool:
        return self._values is None and self.coded is None

    @property
    def mask(self) -> Bytes:
        """Validity in the form that kernels take."""
        if self.all_null:
            return np.zeros(self.length, np.uint8)
        return NO_MASK if self.valid is None else self.valid

    @property
    def values(self) -> npt.NDArray[Any]:
        """One value for each row; zero, or anything, where it is NULL."""
        if self._values is None:
            if self.coded is None:
                return _zeros(self.dtype, self.length)
            self._values = self.coded.entries.values.take(self.coded.codes, axis=0)
        return self._values

    def take(self, rows: npt.NDArray[Any]) -> Vector:
        if self.all_null:
            return nulls(self.dtype, len(rows))
        valid = None if self.valid is None else self.valid.take(rows)
        if self.coded is not None:
            coded = Coded(self.coded.codes.take(rows), self.coded.entries)
            return Vector(self.dtype, len(rows), None, valid, self.blocks, coded)
        return Vector(self.dtype, len(rows), self.values.take(rows, axis=0), valid, self.blocks)

    def slice(self, start: int, end: int) -> Vector:
        if self.all_null:
            return nulls(self.dtype, end - start)
        valid = None if self.valid is None else self.valid[start:end]
        if self.coded is not None:
            coded = Coded(self.coded.codes[start:end], self.coded.entries)
            return Vector(self.dtype, end - start, None, valid, self.blocks, coded)
        return Vector(self.dtype, end - start, self.values[start:end], valid, self.blocks)

    def where(self, rows: Bytes | None) -> Vector:
        """NULL in the rows that `rows` does not let through."""
        if rows is None or self.all_null:
            return self
        return Vector(self.dtype, self.length, self._values, both(self.valid, rows), self.blocks, self.coded)

    def compact(self) -> Vector:
        """The same with strings in a block of their own, where the blocks it points into hold much else.

        Entries of a dictionary stay: they are few, and many rows share them.
        """
        if self.all_null or not self.blocks or self.coded is not None:
            return self
        size = text_bytes(self)
        if sum(block.size for block in self.blocks) <= 2 * size + _WORTH_COMPACTING or size > LARGEST_STRING_BYTES:
            return self
        return from_arrow(to_arrow(self))

    @property
    def nbytes(self) -> int:
        """What it holds; of a string, which may share its bytes with others, what it would take to write it.

        Of many strings that is an estimate: to add up the lengths of all took a tenth of the time of grouping by them.
        """
        if self.all_null:
            return 0
        own = int(self.values.nbytes) + (0 if self.valid is None else int(self.valid.nbytes))
        if not is_text(self.dtype):
            return own
        step = max(1, self.length // _MEASURED_STRINGS)
        return own + step * int(total_length(self.values, step))


def text_bytes(vector: Vector) -> int:
    """What its strings take."""
    return int(total_length(vector.values, 1)) if is_text(vector.dtype) and not vector.all_null else 0


def is_writable(vectors: Sequence[Vector]) -> bool:
    """Whether the strings of each fit an Arrow array, whose offsets have 32 bits. Added up only if there may be too many."""
    return all(
        vector.nbytes <= LARGEST_STRING_BYTES // _ESTIMATE_ERROR or text_bytes(vector) <= LARGEST_STRING_BYTES
        for vector in vectors
        if is_text(vector.dtype)
    )


def writable_pieces(vectors: Sequence[Vector], start: int, end: int) -> Iterator[tuple[int, int]]:
    """The rows in pieces that fit Arrow arrays: one, unless long strings lie next to each other."""
    if end - start <= 1 or is_writable([vector.slice(start, end) for vector in vectors]):
        yield start, end
        return
    half = (start + end) // 2
    yield from writable_pieces(vectors, start, half)
    yield from writable_pieces(vectors, half, end)


@cache
def is_text(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_string(dtype) or pa.types.is_binary(dtype) or is_view(dtype))


@cache
def is_view(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_string_view(dtype) or pa.types.is_binary_view(dtype))


def both(left: Bytes | None, right: Bytes | None) -> Bytes | None:
    if left is None or right is None:
        return right if left is None else left
    return left & right


@cache
def storage(dtype: pa.DataType) -> tuple[np.dtype[Any], int]:
    """Numpy type and number of words of a value."""
    if pa.types.is_boolean(dtype) or pa.types.is_null(dtype):
        return np.dtype(np.uint8), 1
    if is_text(dtype) or pa.types.is_decimal128(dtype):
        return np.dtype(np.int64), 2
    if pa.types.is_temporal(dtype):
        return np.dtype(np.int32 if pa.types.is_date32(dtype) else np.int64), 1
    if pa.types.is_integer(dtype) or pa.types.is_floating(dtype):
        return np.dtype(dtype.to_pandas_dtype()), 1
    raise InternalError(f"no vector for values of type {dtype}")


def empty_values(dtype: pa.DataType, length: int) -> npt.NDArray[Any]:
    numpy_type, words = storage(dtype)
    return np.empty(length if words == 1 else (length, words), numpy_type)


def _zeros(dtype: pa.DataType, length: int) -> npt.NDArray[Any]:
    numpy_type, words = storage(dtype)
    return np.zeros(length if words == 1 else (length, words), numpy_type)


def nulls(dtype: pa.DataType, length: int) -> Vector:
    return Vector(dtype, length, None)


def concat(parts: Sequence[Vector]) -> Vector:
    """One vector after the other; `parts` is not empty."""
    if len(parts) == 1:
        return parts[0]
    dtype, length = parts[0].dtype, sum(part.length for part in parts)
    if all(part.all_null for part in parts):
        return nulls(dtype, length)
    parts, blocks = on_shared_blocks(parts)
    values = np.concatenate([part.values for part in parts])
    valid = None
    if any(part.valid is not None or part.all_null for part in parts):
        valid = np.concatenate([full_mask(part) for part in parts])
    return Vector(dtype, length, values, valid, blocks)


def full_mask(vector: Vector) -> Bytes:
    return np.ones(vector.length, np.uint8) if not vector.all_null and vector.valid is None else vector.mask


def shared_blocks(parts: Sequence[Vector]) -> tuple[Blocks, list[int]]:
    """The blocks of all parts, and behind how many others those of each part come."""
    places: dict[tuple[int, ...], int] = {}
    blocks: list[pa.Buffer] = []
    firsts = []
    for part in parts:
        addresses = tuple(block.address for block in part.blocks)
        if addresses not in places:
            places[addresses] = len(blocks)
            blocks += part.blocks
        firsts.append(places[addresses])
    return tuple(blocks), firsts


def on_shared_blocks(parts: Sequence[Vector]) -> tuple[Sequence[Vector], Blocks]:
    """Strings that point into blocks that all parts share, so that they can be mixed."""
    blocks, firsts = shared_blocks(parts)
    moved = []
    for part, first in zip(parts, firsts, strict=True):
        if first > 0 and not part.all_null:
            part = Vector(part.dtype, part.length, on_blocks_behind(first, part.values), part.valid, blocks)
        moved.append(part)
    return moved, blocks


def on_blocks_behind(first: int, views: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Strings whose blocks come behind `first` others from now on."""
    if first == 0:
        return views
    moved = np.empty_like(views)
    renumber_blocks(views, first, moved)
    return moved


def addresses(blocks: Sequence[pa.Buffer]) -> Ints:
    return np.array([block.address for block in blocks], np.int64)


class _Memory:
    """Arrow memory as numpy sees it; the array that is made of it keeps its owner alive."""

    def __init__(self, owner: pa.Buffer, numpy_type: np.dtype[Any], length: int, first: int) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "data": (owner.address + first * numpy_type.itemsize, False),
            "shape": (length,),
            "typestr": numpy_type.str,
            "version": 3,
        }


def _view(buffer: pa.Buffer | None, numpy_type: np.dtype[Any], length: int, first: int) -> npt.NDArray[Any]:
    if buffer is None or buffer.size == 0 or length == 0:
        return np.zeros(length, numpy_type)
    array = np.asarray(_Memory(buffer, numpy_type, length, first))
    return array if array.flags.aligned else array.copy()


def _unpack(buffer: pa.Buffer, first: int, length: int) -> Bytes:
    start = first // 8
    packed = _view(buffer, np.dtype(np.uint8), (first + length + 7) // 8 - start, start)
    shift = first - 8 * start
    return np.unpackbits(packed, bitorder="little", count=shift + length)[shift:]


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
    valid = _unpack(buffers[0], array.offset, length) if array.null_count else None
    if pa.types.is_boolean(array.type):
        return Vector(array.type, length, _unpack(buffers[1], array.offset, length), valid)
    if is_text(array.type):
        return _from_text(array, buffers, valid)
    numpy_type, words = storage(array.type)
    values = _view(buffers[1], numpy_type, length * words, array.offset * words)
    return Vector(array.type, length, values if words == 1 else values.reshape(length, words), valid)


def plain_type(dtype: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(dtype):
        return pa.string()
    return pa.binary() if pa.types.is_binary_view(dtype) else dtype


def _from_text(array: pa.Array, buffers: list[pa.Buffer | None], valid: Bytes | None) -> Vector:
    length = len(array)
    if is_view(array.type):
        views = _view(buffers[1], np.dtype(np.int64), 2 * length, 2 * array.offset).reshape(length, 2)
        return Vector(plain_type(array.type), length, views, valid, tuple(b for b in buffers[2:] if b is not None))
    views = np.empty((length, 2), np.int64)
    offsets = _view(buffers[1], np.dtype(np.int32), length + 1, array.offset)
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
    """The array, with the bytes of strings written out; or as string_view where `dtype` says so, sharing them."""
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


def plain_text(array: pa.Array) -> pa.Array:
    """Strings that come as they are stored (`ScanTask.as_stored`) as plain ones; any other array as it is."""
    return to_arrow(from_arrow(array)) if pa.types.is_dictionary(array.type) or is_view(array.type) else array


def _to_runs(vector: Vector, dtype: pa.DataType) -> pa.Array:
    if vector.all_null and vector.length:
        one = pa.array([None], dtype.value_type)
        return pa.RunEndEncodedArray.from_arrays(pa.array([vector.length], dtype.run_end_type), one)
    return pc.run_end_encode(to_arrow(vector), run_end_type=dtype.run_end_type)


_null_arrays: dict[pa.DataType, pa.Array] = {}


def _null_array(dtype: pa.DataType, length: int) -> pa.Array:
    """NULLs, as a slice of an array that is made once: they are what ungrouped counts are, and should cost nothing."""
    known = _null_arrays.get(dtype)
    if known is None or len(known) < length:
        if length > _MOST_SHARED_NULLS:
            return pa.nulls(length, dtype)
        known = pa.nulls(max(1024, 1 << length.bit_length()), dtype)
        _null_arrays[dtype] = known
    return known.slice(0, length)


def _written(vector: Vector) -> tuple[pa.Buffer, pa.Buffer]:
    views = vector.values
    size = text_bytes(vector)
    if size > LARGEST_STRING_BYTES:
        raise Declined.because(Code.TOO_LARGE, f"{size} bytes of strings in one batch")
    data = np.empty(size + WRITE_SLACK, np.uint8)
    offsets = np.empty(vector.length + 1, np.int32)
    write_strings(views, addresses(vector.blocks), offsets, data.ctypes.data)
    return pa.py_buffer(offsets), pa.py_buffer(data[:size])
