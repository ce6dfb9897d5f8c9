"""Decimal arithmetic and conversions, exact to the last digit.

Spark computes with java.math.BigDecimal and rounds HALF_UP (away from zero) to the result type that Catalyst wrote on
the expression; a result with too many digits is an error or NULL. Here one compiled loop processes the 128-bit integers
of Arrow (`kernels/decimals.py`). Rows that it leaves undone are computed by `unscaled.py`, which raises Spark's error
or gives NULL: a million quotients of wide decimals take some 54 ms, with Python's integers 28 s.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.expr.buffers import (
    Bools,
    array_from,
    both_valid,
    decimal_array,
    decimal_words,
    pooled,
    validity_buffer,
    validity_of,
    values_of,
    without_rows,
)
from sundog.expr.errors import SparkQueryError
from sundog.expr.evaluation.unscaled import Unscaled, exact_arithmetic
from sundog.expr.nodes import ArithOp, EvalMode
from sundog.kernels import decimals as loops

Pairs = npt.NDArray[np.int64]
_MAX_DIGITS = 38
_WORD_DIGITS = 19  # 10^19 is the greatest power of ten in 64 bits
_EXACT_DOUBLE_POWER = 22  # 10^22 is the greatest power of ten that is a double
_ALL_VALID = np.zeros(0, np.uint8)


def decimal_arithmetic(op: ArithOp, left: pa.Array, right: pa.Array, dtype: pa.DataType, mode: EvalMode) -> pa.Array:
    """`left op right`; either side may have length one. The type of `div` is int64."""
    loop = _loop(op, left, right, dtype)
    if loop is None:
        return exact_arithmetic(op, left, right, dtype, mode)
    length = max(len(left), len(right))
    valid = both_valid(validity_of(left), validity_of(right))
    if valid is not None and len(valid) != length:
        valid = np.broadcast_to(valid, length)
    if op in (ArithOp.DIV, ArithOp.MOD):
        valid = _without_zeros(op, right, valid, length, mode)

    def exactly(rows: pa.Array) -> pa.Array:
        return exact_arithmetic(op, _chosen(left, rows), _chosen(right, rows), dtype, mode)

    return _looped(loop, length, valid, dtype, exactly)


def to_decimal(array: pa.Array, dtype: pa.DataType, mode: EvalMode) -> pa.Array:
    """A decimal, integer or boolean column as decimals of the type; values that do not fit: NULL, or Spark's error."""
    scale = array.type.scale if pa.types.is_decimal(array.type) else 0
    if pa.types.is_decimal(array.type) and _holds(dtype, array.type):
        return pa.Array.from_buffers(dtype, len(array), array.buffers(), array.null_count, array.offset)
    return _fitted(array, scale, dtype, mode)


def decimal_negate(array: pa.Array) -> pa.Array:
    low, high = decimal_words(array)
    return decimal_array(-low, ~high + (low == 0), validity_of(array), array.type)


def decimal_absolute(array: pa.Array) -> pa.Array:
    low, high = decimal_words(array)
    negative = high < 0
    magnitude = np.where(negative, ~high + (low == 0), high)
    return decimal_array(np.where(negative, -low, low), magnitude, validity_of(array), array.type)


def decimal_round(array: pa.Array, places: int, dtype: pa.DataType) -> pa.Array:
    """HALF_UP to the type, which has the same number of places, or none if that is negative; NULL if it does not
    fit."""
    if places < 0:
        if array.type.scale - places > _MAX_DIGITS:  # less than half a unit, whatever the value
            return _array(np.zeros((len(array), 2), np.int64), validity_of(array), dtype)
        array = to_decimal(array, pa.decimal128(dtype.precision, places), EvalMode.TRY)
    return to_decimal(array, dtype, EvalMode.TRY)


def unscaled_value(array: pa.Array) -> pa.Array:
    """Catalyst's UnscaledValue: a short decimal's digits as bigint."""
    low, _ = decimal_words(array)
    return array_from(low.view(np.int64), validity_of(array), pa.int64())


def make_decimal(array: pa.Array, dtype: pa.DataType, mode: EvalMode) -> pa.Array:
    """Catalyst's MakeDecimal, the inverse of `unscaled_value`."""
    return _fitted(array, dtype.scale, dtype, mode)


def to_double(array: pa.Array) -> tuple[npt.NDArray[np.float64], Bools | None]:
    """Correctly rounded doubles, like java.math.BigDecimal.doubleValue."""
    valid = validity_of(array)
    doubles = np.zeros(len(array), np.float64)
    scale = array.type.scale
    power = 10.0**scale if scale <= _EXACT_DOUBLE_POWER else 0.0
    loops.to_doubles(_pairs(array), _flags(valid), _power(scale), power, doubles)
    return doubles, valid


Loop = Callable[[npt.NDArray[np.uint8], npt.NDArray[np.uint64], Pairs, npt.NDArray[np.uint8]], None]
"""Fills the results and the marks of undone rows, from the flags of valid rows and the limit of the result type."""


def _loop(op: ArithOp, left: pa.Array, right: pa.Array, dtype: pa.DataType) -> Loop | None:
    """The kernel with its operands; None if it would need a power of ten of more than 38 digits."""
    if op is ArithOp.INT_DIV:
        return None
    one, other = _pairs(left), _pairs(right)
    steps = int(len(left) > 1 or len(right) == 1), int(len(right) > 1 or len(left) == 1)
    a, b = left.type.scale, right.type.scale
    if op is ArithOp.DIV:
        shift = dtype.scale + b - a
        if not 0 <= shift <= _MAX_DIGITS:
            return None
        return lambda valid, limit, out, undone: loops.divide_columns(
            one, steps[0], _power(shift), other, steps[1], valid, limit, out, undone
        )
    cut = (a + b if op is ArithOp.MUL else max(a, b)) - dtype.scale
    if not 0 <= cut <= (0 if op is ArithOp.MOD else _MAX_DIGITS):
        return None
    half, parts = _power(cut, 2), _parts(cut)
    if op is ArithOp.MUL:
        return lambda valid, limit, out, undone: loops.multiply(
            one, steps[0], other, steps[1], valid, half, parts, limit, out, undone
        )
    up, other_up = _power(max(b - a, 0)), _power(max(a - b, 0))
    if op is ArithOp.MOD:
        return lambda valid, limit, out, undone: loops.remainder(
            one, steps[0], up, other, steps[1], other_up, valid, limit, out, undone
        )
    is_minus = op is ArithOp.SUB
    return lambda valid, limit, out, undone: loops.add(
        one, steps[0], up, other, steps[1], other_up, is_minus, valid, half, parts, limit, out, undone
    )


def _fitted(array: pa.Array, scale: int, dtype: pa.DataType, mode: EvalMode) -> pa.Array:
    """Integers that stand for `value * 10^-scale`, rounded to the type."""
    pairs = _pairs(array)
    cut = scale - dtype.scale
    if cut == 0 and pa.types.is_integer(array.type) and 2 ** (array.type.bit_width - 1) < 10**dtype.precision:
        return _array(pairs, validity_of(array), dtype)

    def loop(valid: Any, limit: Any, out: Any, undone: Any) -> None:
        if cut > 0:
            loops.narrow(pairs, valid, _power(cut, 2), _parts(cut), limit, out, undone)
        else:
            loops.widen(pairs, valid, _power(-cut), limit, out, undone)

    def exactly(rows: pa.Array) -> pa.Array:
        numbers = Unscaled.of(array.take(rows))
        return Unscaled(numbers.values, scale, numbers.valid).to_arrow(dtype, mode)

    return _looped(loop, len(array), validity_of(array), dtype, exactly)


def _looped(
    loop: Loop, length: int, valid: Bools | None, dtype: pa.DataType, exactly: Callable[[pa.Array], pa.Array]
) -> pa.Array:
    """The loop's results; rows that it leaves undone are computed by `exactly`."""
    out, undone = pooled((length, 2), np.int64), pooled(length, np.uint8)
    out.fill(0)
    undone.fill(0)
    loop(_flags(valid), _power(dtype.precision), out, undone)
    if bool(undone.any()):
        rows = np.flatnonzero(undone)
        found = exactly(pa.array(rows))
        out[rows] = _pairs(found)
        valid = np.ones(length, np.bool_) if valid is None else valid.copy()
        valid[rows] = found.is_valid().to_numpy(zero_copy_only=False)
    return _array(out, valid, dtype)


def _array(pairs: Pairs, valid: Bools | None, dtype: pa.DataType) -> pa.Array:
    """The inverse of `_pairs`; shares their memory."""
    return pa.Array.from_buffers(dtype, len(pairs), [validity_buffer(valid), pa.py_buffer(pairs)])


def _without_zeros(op: ArithOp, divisor: pa.Array, valid: Bools | None, length: int, mode: EvalMode) -> Bools | None:
    """Validity without the rows that divide by zero; raises for these under ANSI."""
    low, high = decimal_words(divisor)
    zero = np.broadcast_to((low == 0) & (high == 0), length)
    if valid is not None:
        zero = zero & valid
    if not bool(zero.any()):
        return valid
    if mode is EvalMode.ANSI:
        raise SparkQueryError.remainder_by_zero() if op is ArithOp.MOD else SparkQueryError.divide_by_zero()
    return without_rows(valid, zero)


def _chosen(array: pa.Array, rows: pa.Array) -> pa.Array:
    return array if len(array) == 1 else array.take(rows)


def _holds(dtype: pa.DataType, source: pa.DataType) -> bool:
    """Whether each value of the source has the same digits in the type."""
    return bool(dtype.scale == source.scale and dtype.precision >= source.precision)


def _pairs(array: pa.Array) -> Pairs:
    """The (low, high) words of a decimal, integer or boolean column."""
    if pa.types.is_decimal(array.type):
        buffer = array.buffers()[1]
        if buffer is None:
            return np.zeros((len(array), 2), np.int64)
        pairs = np.frombuffer(buffer, np.int64, count=2 * len(array), offset=16 * array.offset).reshape(-1, 2)
    else:
        pairs = pooled((len(array), 2), np.int64)
        pairs[:, 0] = values_of(array)
        np.right_shift(pairs[:, 0], 63, out=pairs[:, 1])
    pairs.flags.writeable = False  # else the kernel is compiled twice, for read-only and for other arrays
    return pairs


def _flags(valid: Bools | None) -> npt.NDArray[np.uint8]:
    if valid is None:
        return _ALL_VALID
    return np.ascontiguousarray(valid).view(np.uint8)


def _power(places: int, divisor: int = 1) -> npt.NDArray[np.uint64]:
    """10^places / divisor as (low, high) words."""
    number = 10**places // divisor
    return np.array([number & (2**64 - 1), number >> 64], np.uint64)


def _parts(places: int) -> npt.NDArray[np.uint64]:
    """Two factors of 10^places that have one word each."""
    return np.array([10 ** min(places, _WORD_DIGITS), 10 ** max(0, places - _WORD_DIGITS)], np.uint64)
