"""Expressions evaluated one row at a time in plain Python: slow, lazy like Spark, and written without the real
evaluator.

`interpret(expr, row)` returns the value or raises `RowError` with Spark's condition. Temporal values are datetime's.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from sundog.expr.nodes import (
    Abs,
    And,
    Arith,
    ArithOp,
    Case,
    Cast,
    Coalesce,
    Column,
    Compare,
    CompareOp,
    DatePart,
    DateTrunc,
    EvalMode,
    Expr,
    In,
    IsNaN,
    IsNull,
    Literal,
    Negate,
    Not,
    Or,
    Round,
    StringCall,
    StringFunction,
)

WIDE = Context(prec=200)


class RowError(Exception):
    """What Spark raises for this row; the argument is the condition."""


def interpret(expr: Expr, row: Mapping[str, Any]) -> Any:
    match expr:
        case Column():
            return row[expr.name]
        case Literal():
            return expr.value
        case And():
            left = interpret(expr.left, row)
            right = False if left is False else interpret(expr.right, row)
            return False if left is False or right is False else None if left is None or right is None else True
        case Or():
            left = interpret(expr.left, row)
            right = True if left is True else interpret(expr.right, row)
            return True if left is True or right is True else None if left is None or right is None else False
        case Not():
            child = interpret(expr.child, row)
            return None if child is None else not child
        case IsNull():
            return interpret(expr.child, row) is None
        case IsNaN():
            child = interpret(expr.child, row)
            return child is not None and math.isnan(child)
        case Compare():
            return _compare(expr, row)
        case In():
            child = interpret(expr.child, row)
            if child is None:
                return None
            found = any(value is not None and order(child, value) == 0 for value in expr.values)
            return True if found else None if None in expr.values else False
        case Case():
            for condition, value in expr.branches:
                if interpret(condition, row) is True:
                    return interpret(value, row)
            return None if expr.otherwise is None else interpret(expr.otherwise, row)
        case Coalesce():
            return next((value for arg in expr.args if (value := interpret(arg, row)) is not None), None)
        case Arith():
            return _arith(expr, row)
        case Negate() | Abs():
            child = interpret(expr.child, row)
            if child is None or (isinstance(expr, Abs) and not math.copysign(1, child) < 0):
                return child
            return _fit(child.copy_negate() if isinstance(child, Decimal) else -child, expr.dtype, expr.mode)
        case Round():
            return _round(interpret(expr.child, row), expr)
        case Cast():
            return _cast(interpret(expr.child, row), expr)
        case DatePart():
            return _date_part(expr.part, interpret(expr.child, row))
        case DateTrunc():
            return _date_trunc(expr.unit, interpret(expr.child, row))
        case StringCall():
            return _string_call(expr, row)
        case _:
            raise NotImplementedError(type(expr).__name__)


def interpret_column(expr: Expr, batch: pa.RecordBatch) -> list[Any]:
    """The expression's value in each row of a batch."""
    if isinstance(expr, Column):
        values: list[Any] = batch.column(expr.name).to_pylist()
        return values
    return [interpret(expr, row) for row in batch.to_pylist()]


def order(left: Any, right: Any) -> int:
    """Spark's order of two values."""
    if isinstance(left, float):
        if math.isnan(left) or math.isnan(right):
            return math.isnan(left) - math.isnan(right)
    elif isinstance(left, str):
        left, right = left.encode(), right.encode()
    return (left > right) - (left < right)


def _compare(expr: Compare, row: Mapping[str, Any]) -> Any:
    left = interpret(expr.left, row)
    if expr.op is CompareOp.NULL_SAFE_EQ:
        right = interpret(expr.right, row)
        return left is right if left is None or right is None else order(left, right) == 0
    right = None if left is None else interpret(expr.right, row)
    if left is None or right is None:
        return None
    sign = order(left, right)
    return {
        CompareOp.EQ: sign == 0,
        CompareOp.LT: sign < 0,
        CompareOp.LE: sign <= 0,
        CompareOp.GT: sign > 0,
        CompareOp.GE: sign >= 0,
    }[expr.op]


def _arith(expr: Arith, row: Mapping[str, Any]) -> Any:
    divides = expr.op in (ArithOp.DIV, ArithOp.INT_DIV, ArithOp.MOD)
    first, second = (expr.right, expr.left) if divides else (expr.left, expr.right)
    one = interpret(first, row)
    other = None if one is None else interpret(second, row)
    if one is None or other is None:
        return None
    left, right = (other, one) if divides else (one, other)
    if divides and right == 0:
        if expr.mode is EvalMode.ANSI:
            raise RowError("REMAINDER_BY_ZERO" if expr.op is ArithOp.MOD else "DIVIDE_BY_ZERO")
        return None
    if isinstance(left, float):
        return _float_arith(expr, left, right)
    if isinstance(left, Decimal):
        left, right = WIDE.plus(left), WIDE.plus(right)
        match expr.op:
            case ArithOp.ADD:
                result: Any = WIDE.add(left, right)
            case ArithOp.SUB:
                result = WIDE.subtract(left, right)
            case ArithOp.MUL:
                result = WIDE.multiply(left, right)
            case ArithOp.DIV:
                result = WIDE.divide(left, right)
            case ArithOp.MOD:
                result = WIDE.remainder(left, right)
            case ArithOp.INT_DIV:
                return int(WIDE.divide_int(left, right))
        return _fit(result, expr.dtype, expr.mode)
    quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1) if divides else 0
    exact = {
        ArithOp.ADD: left + right,
        ArithOp.SUB: left - right,
        ArithOp.MUL: left * right,
        ArithOp.INT_DIV: quotient,
        ArithOp.MOD: left - quotient * right,
    }[expr.op]
    small = expr.dtype.bit_width < 32 and not divides
    return _fit(exact, expr.dtype, expr.mode, "BINARY_ARITHMETIC_OVERFLOW" if small else "ARITHMETIC_OVERFLOW")


def _float_arith(expr: Arith, left: float, right: float) -> float:
    number = np.float32 if pa.types.is_float32(expr.dtype) else np.float64
    a, b = number(left), number(right)
    with np.errstate(all="ignore"):
        match expr.op:
            case ArithOp.ADD:
                return float(a + b)
            case ArithOp.SUB:
                return float(a - b)
            case ArithOp.MUL:
                return float(a * b)
            case ArithOp.DIV:
                return float(a / b)
            case _:
                return math.nan if math.isnan(a) or math.isnan(b) or math.isinf(a) else math.fmod(a, b)


def _fit(value: Any, dtype: pa.DataType, mode: EvalMode, condition: str = "ARITHMETIC_OVERFLOW") -> Any:
    """A result into its type: rounded, wrapped, NULL or an error."""
    if isinstance(value, Decimal):
        rounded = value.quantize(Decimal(1).scaleb(-dtype.scale), rounding=ROUND_HALF_UP, context=WIDE)
        if abs(rounded) < Decimal(10) ** (dtype.precision - dtype.scale):
            return rounded
        if mode is EvalMode.ANSI:
            raise RowError("NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION")
        return None
    if isinstance(value, float):
        return value
    half = 2 ** (dtype.bit_width - 1)
    if -half <= value < half:
        return value
    if mode is EvalMode.ANSI:
        raise RowError(condition)
    return None if mode is EvalMode.TRY else (value + half) % (2 * half) - half


def _round(value: Any, expr: Round) -> Any:
    """Of a decimal or an integer."""
    if value is None:
        return None
    units = Decimal(value).scaleb(expr.places, WIDE).quantize(Decimal(1), ROUND_HALF_UP, WIDE)
    if pa.types.is_decimal(expr.dtype):
        return _fit(units.scaleb(-expr.places, WIDE), expr.dtype, EvalMode.TRY)
    return value if expr.places >= 0 else _fit(int(units.scaleb(-expr.places, WIDE)), expr.dtype, expr.mode)


def _cast(value: Any, expr: Cast) -> Any:
    target = expr.dtype
    if value is None or expr.child.dtype == target:
        return value
    if pa.types.is_boolean(target):
        return value != 0
    if pa.types.is_integer(target):
        return _cast_to_integer(value, expr)
    if pa.types.is_decimal(target):
        if isinstance(value, float):
            return _fit(Decimal(repr(value)), target, expr.mode) if math.isfinite(value) else None
        return _fit(Decimal(int(value) if isinstance(value, bool) else value), target, expr.mode)
    if pa.types.is_floating(target):
        with np.errstate(all="ignore"):
            return float(np.float32(float(value))) if pa.types.is_float32(target) else float(value)
    raise NotImplementedError(str(target))


def _cast_to_integer(value: Any, expr: Cast) -> Any:
    target, half = expr.dtype, 2 ** (expr.dtype.bit_width - 1)
    if isinstance(value, float):
        if expr.mode is EvalMode.LEGACY:
            limit = 2**63 if target.bit_width == 64 else 2**31
            whole = 0 if math.isnan(value) else max(-limit, min(limit - 1, int(max(-1e30, min(1e30, value)))))
            return (whole + half) % (2 * half) - half
        fits = not math.isnan(value) and (
            math.isfinite(value) and math.floor(value) <= float(half - 1) and math.ceil(value) >= -half
        )
        if not fits:
            value = math.inf
        return _fit(min(int(value), half - 1) if fits else half, target, expr.mode, "CAST_OVERFLOW")
    return _fit(int(value), target, expr.mode, "CAST_OVERFLOW")


def _date_part(part: str, value: Any) -> Any:
    if value is None:
        return None
    if part in ("year", "month", "day", "hour", "minute", "second"):
        return getattr(value, part)
    return {
        "quarter": (value.month + 2) // 3,
        "dayofweek": value.isoweekday() % 7 + 1,
        "weekday": value.weekday(),
        "dayofyear": value.timetuple().tm_yday,
        "weekofyear": value.isocalendar()[1],
        "yearofweek": value.isocalendar()[0],
    }[part]


def _date_trunc(unit: str, value: Any) -> Any:
    if value is None:
        return None
    units = ["year", "month", "day", "hour", "minute", "second", "microsecond"]
    if unit == "quarter":
        value = value.replace(month=(value.month - 1) // 3 * 3 + 1, day=1)
        unit = "month"
    if unit == "week":
        value = value - dt.timedelta(days=value.weekday())
        unit = "day"
    if unit == "millisecond":
        return value.replace(microsecond=value.microsecond // 1000 * 1000)
    smaller = units[units.index(unit) + 1 :]
    fields = smaller if isinstance(value, dt.datetime) else [name for name in smaller if name in ("month", "day")]
    return value.replace(**{name: 1 if name in ("month", "day") else 0 for name in fields})


def _string_call(expr: StringCall, row: Mapping[str, Any]) -> Any:
    values = [interpret(arg, row) for arg in expr.args]
    if None in values:
        return None
    match expr.function:
        case StringFunction.LENGTH:
            return len(values[0])
        case StringFunction.UPPER:
            return values[0].upper()
        case StringFunction.LOWER:
            return values[0].lower()
        case StringFunction.CONCAT:
            return values[0][:0].join(values)
        case StringFunction.SUBSTRING:
            text, position, count = values
            start = position - 1 if position > 0 else len(text) + position if position < 0 else 0
            return text[max(start, 0) : max(start + count, 0)]
