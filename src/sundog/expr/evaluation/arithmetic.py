"""`+ - * / div %`, minus and abs over integers and floats, with Java's results and Spark's errors.

Integers are computed as in Java, wrapping around. If the mode checks overflow, rows whose exact result does not fit
become an error (ANSI) or NULL (TRY). Floats follow IEEE and never overflow, but division by zero is an error or NULL
for them too. An operand is a column or a constant (an array of one element that numpy broadcasts).

Only rows in which both sides have a value count: values under NULLs can neither raise nor overflow.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.errors import InternalError
from sundog.expr.buffers import Bools, array_from, both_valid, validity_of, values_of, without_rows
from sundog.expr.errors import SparkQueryError
from sundog.expr.evaluation.unscaled import Unscaled, low_bits
from sundog.expr.floats import rounded_units
from sundog.expr.nodes import ArithOp, EvalMode
from sundog.support import Code, Declined

Numbers = npt.NDArray[Any]

TRY_FUNCTION = {ArithOp.ADD: "try_add", ArithOp.SUB: "try_subtract", ArithOp.MUL: "try_multiply"}


def arithmetic(op: ArithOp, left: pa.Array, right: pa.Array, dtype: pa.DataType, mode: EvalMode) -> pa.Array:
    """`left op right`; either side may have length one and stand for every row of the other."""
    valid = _spread(both_valid(validity_of(left), validity_of(right)), max(len(left), len(right)))
    one, other = values_of(left), values_of(right)
    with np.errstate(all="ignore"):
        if op in (ArithOp.DIV, ArithOp.INT_DIV, ArithOp.MOD):
            return _division(op, one, other, valid, dtype, mode)
        result = _wrapping(op, one, other)
        if pa.types.is_floating(dtype) or mode is EvalMode.LEGACY:
            return array_from(result, valid, dtype)
        overflow = _overflow(op, one, other, result)
        if valid is not None:
            overflow &= valid
        if not bool(overflow.any()):
            return array_from(result, valid, dtype)
        if mode is EvalMode.ANSI:
            raise _overflow_error(op, one, other, overflow)
        return array_from(result, without_rows(valid, overflow), dtype)


def negate(array: pa.Array, mode: EvalMode) -> pa.Array:
    values, valid = values_of(array), validity_of(array)
    _check_lowest(array, mode)
    with np.errstate(all="ignore"):
        return array_from(-values, valid, array.type)


def rounded(array: pa.Array, places: int, mode: EvalMode) -> pa.Array:
    """Integers or doubles rounded HALF_UP to `places` decimal places."""
    valid = validity_of(array)
    if pa.types.is_float64(array.type):
        return array_from(_rounded_doubles(values_of(array), valid, places), valid, array.type)
    if places >= 0:
        return array
    numbers = Unscaled.of(array).rounded(places).rounded(0).values
    result = low_bits(numbers, array.type)
    if mode is EvalMode.ANSI and bool((result != numbers).any()):
        raise SparkQueryError.rounding_overflow()
    return array_from(result, valid, array.type)


def _rounded_doubles(values: Numbers, valid: Bools | None, places: int) -> Numbers:
    """Doubles rounded HALF_UP. Whole numbers, NaN and infinities stay as they are."""
    units, decided = rounded_units(values, places)
    power = 10.0 ** abs(places)
    kept = ~np.isfinite(values) | ((places >= 0) & (np.trunc(values) == values))
    undecided = ~(decided | kept)
    if bool((undecided if valid is None else undecided & valid).any()):
        sentence = f"round(x, {places}) of a double with more digits than every Java prints alike"
        raise Declined.because(Code.INEXACT_CAST, sentence, "Round")
    whole = units.astype(np.float64)
    return np.where(decided, whole / power if places >= 0 else whole * power, values)


def absolute(array: pa.Array, mode: EvalMode) -> pa.Array:
    values, valid = values_of(array), validity_of(array)
    _check_lowest(array, mode)
    with np.errstate(all="ignore"):
        return array_from(np.abs(values), valid, array.type)


def add_days(dates: pa.Array, days: pa.Array, sign: int) -> pa.Array:
    """`date_add` and `date_sub`, which wrap around in Spark in every mode."""
    valid = _spread(both_valid(validity_of(dates), validity_of(days)), max(len(dates), len(days)))
    with np.errstate(all="ignore"):
        result = values_of(dates) + np.int32(sign) * values_of(days).astype(np.int32)
    return array_from(result, valid, pa.date32())


def days_between(end: pa.Array, start: pa.Array) -> pa.Array:
    """`datediff`: wraps around as Spark's does."""
    valid = _spread(both_valid(validity_of(end), validity_of(start)), max(len(end), len(start)))
    with np.errstate(all="ignore"):
        return array_from(values_of(end) - values_of(start), valid, pa.int32())


def _check_lowest(array: pa.Array, mode: EvalMode) -> None:
    """Raise under ANSI for the lowest integer, whose negative does not exist. Spark has no try_negative."""
    if mode is EvalMode.LEGACY or not pa.types.is_integer(array.type):
        return
    values, valid = values_of(array), validity_of(array)
    lowest = values == np.iinfo(values.dtype).min
    if bool((lowest if valid is None else lowest & valid).any()):
        raise SparkQueryError.overflow(bits=8 * values.dtype.itemsize)


def _spread(valid: Bools | None, length: int) -> Bools | None:
    return valid if valid is None or len(valid) == length else np.broadcast_to(valid, length)


def _wrapping(op: ArithOp, left: Numbers, right: Numbers) -> Numbers:
    match op:
        case ArithOp.ADD:
            result: Numbers = left + right
        case ArithOp.SUB:
            result = left - right
        case ArithOp.MUL:
            result = left * right
        case _:
            raise InternalError(f"{op} does not wrap around")
    return result


def _overflow(op: ArithOp, left: Numbers, right: Numbers, result: Numbers) -> Bools:
    """The rows whose exact result is not `result`."""
    if result.dtype.itemsize < 8:
        wide = _wrapping(op, left.astype(np.int64), right.astype(np.int64))
        lost: Bools = wide != result
        return lost
    if op is ArithOp.ADD:
        lost = ((left ^ result) & (right ^ result)) < 0
    elif op is ArithOp.SUB:
        lost = ((left ^ right) & (left ^ result)) < 0
    else:
        # The product of the doubles is within 2^-51 of the exact one; only near the limits Python's integers are
        # multiplied.
        estimate = np.abs(left.astype(np.float64) * right.astype(np.float64))
        lost = np.broadcast_to(estimate > 2.0**62, result.shape).copy()
        near = np.flatnonzero(lost)
        lefts, rights = np.broadcast_to(left, result.shape)[near], np.broadcast_to(right, result.shape)[near]
        exact = [int(a) * int(b) for a, b in zip(lefts, rights, strict=True)]
        lost[near] = [not -(2**63) <= product < 2**63 for product in exact]
    return lost


def _overflow_error(op: ArithOp, left: Numbers, right: Numbers, overflow: Bools) -> SparkQueryError:
    if left.dtype.itemsize >= 4:
        return SparkQueryError.overflow(TRY_FUNCTION[op], 8 * left.dtype.itemsize)
    row = int(np.argmax(overflow))
    one, other = np.broadcast_to(left, overflow.shape)[row], np.broadcast_to(right, overflow.shape)[row]
    return SparkQueryError.small_integer_overflow(int(one), op.value, int(other), TRY_FUNCTION[op])


def _division(
    op: ArithOp, left: Numbers, right: Numbers, valid: Bools | None, dtype: pa.DataType, mode: EvalMode
) -> pa.Array:
    length = max(len(left), len(right))
    zero: Bools = np.broadcast_to(right == 0, length)
    if bool(zero.any()):
        if mode is EvalMode.ANSI and bool((zero if valid is None else zero & valid).any()):
            raise SparkQueryError.remainder_by_zero() if op is ArithOp.MOD else SparkQueryError.divide_by_zero()
        valid = without_rows(valid, zero)
        right = np.where(right == 0, right.dtype.type(1), right)
    if op is ArithOp.DIV:
        return array_from(left / right, valid, dtype)
    if op is ArithOp.MOD:
        return array_from(np.fmod(left, right), valid, dtype)
    overflow = np.broadcast_to((right == -1) & (left == np.iinfo(np.int64).min), length)
    if mode is EvalMode.ANSI and bool((overflow if valid is None else overflow & valid).any()):
        raise SparkQueryError.integral_divide_overflow()
    return array_from(_truncated_quotient(left, right), valid, dtype)


def _truncated_quotient(left: Numbers, right: Numbers) -> Numbers:
    """Java's `/`: towards zero. The lowest number divided by -1 is itself, as in Java."""
    floor = left // right
    quotient: Numbers = floor + ((floor < 0) & (floor * right != left))
    return quotient
