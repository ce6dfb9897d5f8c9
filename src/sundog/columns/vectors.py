"""Vectors: columns as numpy arrays that kernels can process. Operators work on these between Arrow arrays.

    bool                          uint8, 0 or 1
    integers, dates, instants     as in Arrow
    floats                        as in Arrow
    decimal128                    two int64 words: low, high; of short ones the low words alone (`Short`)
    string, binary                two int64 words, as in string_view; `blocks` hold the bytes (`kernels/strings.py`)
    void                          no values

`valid` is one uint8 a row, or None if all rows have a value. A vector of NULLs only has no `values` at all: moving it
costs nothing. Dictionary arrays stay codes until their values are read.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.errors import InternalError
from sundog.expr.buffers import pooled
from sundog.kernels.strings import total_length
from sundog.types import is_text

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Blocks = tuple[pa.Buffer, ...]
NO_MASK: Bytes = np.zeros(0, np.uint8)  # tells kernels that all rows count
_MEASURED_STRINGS = 1 << 10


@dataclass(frozen=True, eq=False)
class Coded:
    """Values as numbers of dictionary entries. The number under a NULL is undefined."""

    codes: npt.NDArray[Any]
    entries: Vector


@dataclass(frozen=True, eq=False)
class Short:
    """Unscaled decimals of one word each. No magnitude exceeds `bound`, not even of a number under a NULL."""

    numbers: Ints
    bound: int


class Vector:
    """`length` rows of type `dtype`. Immutable, except that values of a dictionary are decoded at the first request,
    and short decimals widened."""

    __slots__ = ("_values", "blocks", "coded", "dtype", "length", "short", "valid")

    def __init__(
        self,
        dtype: pa.DataType,
        length: int,
        values: npt.NDArray[Any] | None,
        valid: Bytes | None = None,
        blocks: Blocks = (),
        coded: Coded | None = None,
        short: Short | None = None,
    ) -> None:
        self.dtype = dtype
        self.length = length
        self.valid = valid
        self.blocks = blocks
        self.coded = coded
        self.short = short
        self._values = values

    @property
    def all_null(self) -> bool:
        return self._values is None and self.coded is None and self.short is None

    @property
    def mask(self) -> Bytes:
        """Validity in the form that kernels take."""
        if self.all_null:
            return np.zeros(self.length, np.uint8)
        return NO_MASK if self.valid is None else self.valid

    @property
    def values(self) -> npt.NDArray[Any]:
        """One value for each row; undefined under a NULL."""
        if self._values is None:
            if self.short is not None:
                self._values = _widened(self.short.numbers)
                return self._values
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
        if self.short is not None:
            short = Short(self.short.numbers.take(rows), self.short.bound)
            return Vector(self.dtype, len(rows), None, valid, short=short)
        return Vector(self.dtype, len(rows), self.values.take(rows, axis=0), valid, self.blocks)

    def slice(self, start: int, end: int) -> Vector:
        if self.all_null:
            return nulls(self.dtype, end - start)
        valid = None if self.valid is None else self.valid[start:end]
        if self.coded is not None:
            coded = Coded(self.coded.codes[start:end], self.coded.entries)
            return Vector(self.dtype, end - start, None, valid, self.blocks, coded)
        if self.short is not None:
            short = Short(self.short.numbers[start:end], self.short.bound)
            return Vector(self.dtype, end - start, None, valid, short=short)
        return Vector(self.dtype, end - start, self.values[start:end], valid, self.blocks)

    def where(self, rows: Bytes | None) -> Vector:
        """The vector with NULL in the rows that `rows` masks out."""
        if rows is None or self.all_null:
            return self
        valid = both(self.valid, rows)
        return Vector(self.dtype, self.length, self._values, valid, self.blocks, self.coded, self.short)

    @property
    def nbytes(self) -> int:
        """The bytes it holds; for strings, which may share their bytes with others, the bytes that a copy would take.

        Estimated if there are many strings: adding up all lengths took a tenth of the time of grouping by them.
        """
        if self.all_null:
            return 0
        mask = 0 if self.valid is None else int(self.valid.nbytes)
        if self.short is not None:
            return 2 * int(self.short.numbers.nbytes) + mask
        own = int(self.values.nbytes) + mask
        if not is_text(self.dtype):
            return own
        step = max(1, self.length // _MEASURED_STRINGS)
        return own + step * int(total_length(self.values, step))


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
    return pooled(length if words == 1 else (length, words), numpy_type)


def _zeros(dtype: pa.DataType, length: int) -> npt.NDArray[Any]:
    numpy_type, words = storage(dtype)
    return np.zeros(length if words == 1 else (length, words), numpy_type)


def _widened(numbers: Ints) -> Ints:
    """Unscaled decimals of one word as two words each."""
    words = pooled((len(numbers), 2), np.int64)
    words[:, 0] = numbers
    np.right_shift(numbers, 63, out=words[:, 1])
    return words


def nulls(dtype: pa.DataType, length: int) -> Vector:
    return Vector(dtype, length, None)


def full_mask(vector: Vector) -> Bytes:
    return np.ones(vector.length, np.uint8) if not vector.all_null and vector.valid is None else vector.mask
