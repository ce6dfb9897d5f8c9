"""Decimal expressions in one word a value, where the rows at hand show that no result needs more.

    sum(l_extendedprice * (1 - l_discount)), sum(l_extendedprice * (1 - l_discount) * (1 + l_tax))

By its type, the product needs 38 digits; a price and a discount need four bytes. So the least and the greatest value of
each column are looked up, which takes 0.2 ns a row, and bound every result. If no bound exceeds a word or the digits of
its type, nothing can overflow, nothing is rounded, and integers of 64 bits give Spark's answer. A shared subexpression
is computed once. Everything else is left to `evaluate`.

6 million rows of TPC-H query 1: 41 ms of processor time for its decimal expressions, 166 ms in 128 bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sundog.columns.arrow import from_arrow, largest_magnitude
from sundog.columns.vectors import Bytes, Ints, Short, Vector, both
from sundog.expr.buffers import decimal_words, pooled
from sundog.expr.nodes import Arith, ArithOp, Cast, Column, Expr, Literal
from sundog.kernels.decimals import low_words

_LARGEST_WORD = 2**63 - 1
_MAX_DEPTH = 32  # of an expression: deeper ones are not worth recursion


@dataclass(frozen=True, eq=False)
class _Numbers:
    """Unscaled values: an array, or one number for all rows."""

    values: Ints | int
    bound: int
    valid: Bytes | None
    wide: Ints | None = None  # the same in two words, if they are at hand


class ShortDecimals:
    """The decimal expressions over one batch. None for an expression that does not fit one word a value."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        self._known: dict[Expr, _Numbers | None] = {}

    def vector(self, expr: Expr) -> Vector | None:
        if not pa.types.is_decimal(expr.dtype):
            return None
        found = self._of(expr, _MAX_DEPTH)
        if found is None or isinstance(found.values, int):
            return None
        short = Short(found.values, found.bound)
        return Vector(expr.dtype, len(found.values), found.wide, found.valid, short=short)

    def _of(self, expr: Expr, depth: int) -> _Numbers | None:
        if depth == 0:
            return None
        if expr not in self._known:
            self._known[expr] = self._computed(expr, depth - 1)
        return self._known[expr]

    def _computed(self, expr: Expr, depth: int) -> _Numbers | None:
        match expr:
            case Column():
                return _column(self._batch.column(expr.name))
            case Literal() if expr.value is not None:
                return _literal(expr)
            case Cast() if pa.types.is_decimal(expr.dtype):
                child = self._of(expr.child, depth)
                found = None if child is None else _scaled(child, _scale(expr.dtype) - _scale(expr.child.dtype))
            case Arith() if pa.types.is_decimal(expr.dtype):
                left = self._of(expr.left, depth)
                right = None if left is None else self._of(expr.right, depth)
                found = None if left is None or right is None else _arithmetic(expr, left, right)
            case _:
                return None
        return found if found is not None and found.bound < 10**expr.dtype.precision else None


def _arithmetic(expr: Arith, left: _Numbers, right: _Numbers) -> _Numbers | None:
    """The exact result; None if it might need more than a word, or if Spark rounds it."""
    a, b = _scale(expr.left.dtype), _scale(expr.right.dtype)
    valid = both(left.valid, right.valid)
    if expr.op is ArithOp.MUL:
        bound = left.bound * right.bound
        if a + b != expr.dtype.scale or bound > _LARGEST_WORD:
            return None
        return _Numbers(_result(np.multiply, left.values, right.values), bound, valid)
    if expr.op not in (ArithOp.ADD, ArithOp.SUB) or max(a, b) != expr.dtype.scale:
        return None
    one, other = _scaled(left, max(b - a, 0)), _scaled(right, max(a - b, 0))
    if one is None or other is None or one.bound + other.bound > _LARGEST_WORD:
        return None
    operation = np.add if expr.op is ArithOp.ADD else np.subtract
    return _Numbers(_result(operation, one.values, other.values), one.bound + other.bound, valid)


def _scaled(numbers: _Numbers, places: int) -> _Numbers | None:
    """With more decimal places; None if that needs more than a word, or for fewer places."""
    if places == 0:
        return numbers
    bound = numbers.bound * 10**places if places > 0 else _LARGEST_WORD + 1
    if bound > _LARGEST_WORD:
        return None
    return _Numbers(_result(np.multiply, numbers.values, 10**places), bound, numbers.valid)


def _result(operation: np.ufunc, left: Ints | int, right: Ints | int) -> Ints | int:
    """Of arrays or single numbers, of which the result is known to fit a word."""
    if isinstance(left, np.ndarray):
        return operation(left, right, out=pooled(len(left), np.int64))  # type: ignore[no-any-return]
    if isinstance(right, np.ndarray):
        return operation(left, right, out=pooled(len(right), np.int64))  # type: ignore[no-any-return]
    return int(operation(left, right))


def _column(array: pa.Array) -> _Numbers | None:
    if not (pa.types.is_decimal(array.type) or pa.types.is_signed_integer(array.type)):
        return None
    vector = from_arrow(array)
    if vector.all_null:
        return None
    if vector.short is not None:
        return _Numbers(vector.short.numbers, vector.short.bound, vector.valid)
    if pa.types.is_integer(array.type):
        numbers = vector.values.astype(np.int64, copy=False)
        return _Numbers(numbers, largest_magnitude(numbers), vector.valid)
    numbers = pooled(len(array), np.int64)
    if not low_words(vector.values, numbers):
        return None
    return _Numbers(numbers, largest_magnitude(numbers), vector.valid, vector.values)


def _literal(literal: Literal) -> _Numbers | None:
    if not pa.types.is_decimal(literal.dtype):
        return None
    low, high = decimal_words(pa.array([literal.value], literal.dtype))
    number = (int(high[0]) << 64) | int(low[0])
    return _Numbers(number, abs(number), None) if abs(number) <= _LARGEST_WORD else None


def _scale(dtype: pa.DataType) -> int:
    return int(dtype.scale) if pa.types.is_decimal(dtype) else 0
