"""Decimals as integers of any size: exact to the last digit, but slow beyond 64 bits.

`decimals.py` computes with 128 bits. This module computes the rows whose result does not fit its type or whose
intermediate results exceed 256 bits, and the few operations without a kernel. A column is held as unscaled integers:
int64 if the next step cannot overflow it, by the largest value present, else Python's integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.errors import InternalError
from sundog.expr.buffers import (
    Bools,
    array_from,
    both_valid,
    decimal_array,
    decimal_words,
    numpy_type,
    validity_of,
    values_of,
    without_rows,
)
from sundog.expr.errors import SparkQueryError
from sundog.expr.nodes import ArithOp, EvalMode

_LIMIT = 2**62  # smaller magnitudes are computed in int64: the sum of two still fits


@dataclass(frozen=True)
class Unscaled:
    """Integers that stand for `value * 10^-scale`; int64 or Python's. A NULL slot holds a zero."""

    values: npt.NDArray[Any]
    scale: int
    valid: Bools | None

    @classmethod
    def of(cls, array: pa.Array) -> Unscaled:
        """A decimal or integer column."""
        valid = validity_of(array)
        if pa.types.is_integer(array.type) or pa.types.is_boolean(array.type):
            values = values_of(array).astype(np.int64)
            return cls(_cleared(values, valid), 0, valid)
        low, high = decimal_words(array)
        small = low.view(np.int64)
        if bool(((high == small >> 63) | (False if valid is None else ~valid)).all()):
            return cls(_cleared(small, valid), array.type.scale, valid)
        big = high.astype(object) * 2**64 + low.astype(object)
        return cls(_cleared(big, valid), array.type.scale, valid)

    @property
    def largest(self) -> int:
        """The greatest magnitude."""
        if not len(self.values):
            return 0
        return max(abs(int(self.values.max())), abs(int(self.values.min())))

    def wide_enough_for(self, magnitude: int) -> npt.NDArray[Any]:
        """The values in a type that holds results up to `magnitude`."""
        return self.values if magnitude < _LIMIT else self.values.astype(object)

    def at_scale(self, scale: int) -> npt.NDArray[Any]:
        """The values with more decimal places; exact."""
        factor = 10 ** (scale - self.scale)
        scaled: npt.NDArray[Any] = self.wide_enough_for(max(self.largest, 1) * factor) * factor
        return scaled

    def rounded(self, scale: int) -> Unscaled:
        """HALF_UP to fewer places; exact to more."""
        if scale >= self.scale:
            return Unscaled(self.at_scale(scale), scale, self.valid)
        divisor = 10 ** (self.scale - scale)
        return Unscaled(_half_up(self.wide_enough_for(max(divisor, self.largest)), divisor), scale, self.valid)

    def to_arrow(self, dtype: pa.DataType, mode: EvalMode) -> pa.Array:
        """Rounded to the type; values that do not fit: NULL, or Spark's error."""
        fitting = self.rounded(dtype.scale)
        valid = fitting.valid
        limit = 10**dtype.precision
        if fitting.largest >= limit:
            outside = np.abs(fitting.values) >= limit
            if mode is EvalMode.ANSI:
                row = int(np.argmax(outside))
                raise SparkQueryError.decimal_out_of_range(as_decimal(int(self.values[row]), self.scale), dtype)
            outside = outside.astype(np.bool_)
            valid = without_rows(valid, outside)
        return _to_array(fitting.values, valid, dtype)


def as_decimal(unscaled: int, scale: int) -> Decimal:
    """Built from digits: Decimal's arithmetic would round to its context's precision."""
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))


def exact_arithmetic(op: ArithOp, left: pa.Array, right: pa.Array, dtype: pa.DataType, mode: EvalMode) -> pa.Array:
    """`left op right`; either side may have length one. The type of `div` is int64."""
    one, other = Unscaled.of(left), Unscaled.of(right)
    length = max(len(left), len(right))
    valid = both_valid(one.valid, other.valid)
    if valid is not None and len(valid) != length:
        valid = np.broadcast_to(valid, length)
    if op in (ArithOp.DIV, ArithOp.INT_DIV, ArithOp.MOD):
        return _decimal_division(op, one, other, valid, dtype, mode)
    scale = max(one.scale, other.scale)
    if op is ArithOp.MUL:
        magnitude = one.largest * other.largest
        result = one.wide_enough_for(magnitude) * other.wide_enough_for(magnitude)
        scale = one.scale + other.scale
    else:
        a, b = one.at_scale(scale), other.at_scale(scale)
        if _magnitude(a) + _magnitude(b) >= _LIMIT:
            a, b = a.astype(object), b.astype(object)
        result = a + b if op is ArithOp.ADD else a - b
    return Unscaled(_cleared(result, valid), scale, valid).to_arrow(dtype, mode)


def integer_part(array: pa.Array) -> tuple[npt.NDArray[Any], Bools | None]:
    """Towards zero; int64 or Python's integers."""
    numbers = Unscaled.of(array)
    divisor = 10**numbers.scale
    return _towards_zero(numbers.wide_enough_for(max(divisor, numbers.largest)), divisor), numbers.valid


def _decimal_division(
    op: ArithOp, one: Unscaled, other: Unscaled, valid: Bools | None, dtype: pa.DataType, mode: EvalMode
) -> pa.Array:
    length = max(len(one.values), len(other.values))
    zero = np.broadcast_to(other.values == 0, length).astype(np.bool_)
    if valid is not None:
        zero &= valid
    if bool(zero.any()):
        if mode is EvalMode.ANSI:
            raise SparkQueryError.remainder_by_zero() if op is ArithOp.MOD else SparkQueryError.divide_by_zero()
        valid = without_rows(valid, zero)
    divisor = Unscaled(np.where(other.values == 0, 1, other.values), other.scale, None)
    if op is ArithOp.DIV:
        quotient = _quotient(one, divisor, dtype.scale)
        return Unscaled(_cleared(quotient, valid), dtype.scale, valid).to_arrow(dtype, mode)
    scale = max(one.scale, divisor.scale)
    a, b = one.at_scale(scale), divisor.at_scale(scale)
    quotients = _towards_zero(a, b)
    if op is ArithOp.MOD:
        return Unscaled(_cleared(a - quotients * b, valid), scale, valid).to_arrow(dtype, mode)
    return array_from(low_bits(_cleared(quotients, valid), dtype), valid, dtype)


def _quotient(one: Unscaled, other: Unscaled, scale: int) -> npt.NDArray[Any]:
    """HALF_UP at the result's scale. Spark truncates at 39 places first, which changes none of these digits."""
    shift = scale + other.scale - one.scale
    if shift >= 0:
        numerator, denominator = one.at_scale(one.scale + shift), other.values
    else:
        numerator, denominator = one.values, other.at_scale(other.scale - shift)
    if _magnitude(numerator) >= _LIMIT // 4 or _magnitude(denominator) >= _LIMIT // 4:
        numerator, denominator = numerator.astype(object), denominator.astype(object)
    sign = np.where((numerator < 0) != (denominator < 0), -1, 1)
    n, d = np.abs(numerator), np.abs(denominator)
    rounded: npt.NDArray[Any] = sign * ((2 * n + d) // (2 * d))
    return rounded


def _half_up(values: npt.NDArray[Any], divisor: int) -> npt.NDArray[Any]:
    magnitudes = np.abs(values)
    quotients = magnitudes // divisor
    up = (magnitudes - quotients * divisor) >= divisor - divisor // 2
    rounded: npt.NDArray[Any] = np.where(values < 0, -1, 1) * (quotients + up)
    return rounded


def _towards_zero(values: npt.NDArray[Any], divisor: Any) -> npt.NDArray[Any]:
    sign = np.where((values < 0) != (divisor < 0), -1, 1)
    truncated: npt.NDArray[Any] = sign * (np.abs(values) // np.abs(divisor))
    return truncated


def _cleared(values: npt.NDArray[Any], valid: Bools | None) -> npt.NDArray[Any]:
    if valid is None or len(valid) != len(values):
        return values
    return np.where(valid, values, 0)


def _magnitude(values: npt.NDArray[Any]) -> int:
    return max(abs(int(values.max())), abs(int(values.min()))) if len(values) else 0


def low_bits(values: npt.NDArray[Any], dtype: pa.DataType) -> npt.NDArray[Any]:
    """Java's narrowing of a big integer to an integer type: its lowest bits."""
    if values.dtype == object:
        values = np.array([value & (2**64 - 1) for value in values], np.uint64).view(np.int64)
    narrowed: npt.NDArray[Any] = values.astype(numpy_type(dtype))
    return narrowed


def _to_array(values: npt.NDArray[Any], valid: Bools | None, dtype: pa.DataType) -> pa.Array:
    if dtype.precision > 38:
        raise InternalError(f"{dtype} is not one of Spark's decimals")
    if values.dtype != object:
        small = values.astype(np.int64)
        return decimal_array(small.view(np.uint64), small >> 63, valid, dtype)
    kept = _cleared(values, valid)
    fits = np.array([-(2**127) <= value < 2**127 for value in kept], np.bool_) if len(kept) else np.zeros(0, np.bool_)
    kept = np.where(fits, kept, 0)
    low = np.array([int(value) & (2**64 - 1) for value in kept], np.uint64)
    high = np.array([int(value) >> 64 for value in kept], np.int64)
    return decimal_array(low, high, valid, dtype)
