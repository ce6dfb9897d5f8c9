"""Arithmetic, decimals included."""

from __future__ import annotations

import pyarrow as pa

from sundog.expr.floats import MAX_EXACT_PLACES
from sundog.expr.nodes import (
    Abs,
    Arith,
    ArithOp,
    Cast,
    DecimalFromUnscaled,
    DecimalToUnscaled,
    Expr,
    Literal,
    Negate,
    Round,
)
from sundog.front.catalyst_json import Node
from sundog.front.expressions.reading import (
    Entry,
    Reader,
    Scope,
    children_of,
    constant,
    mode_by_flag,
    mode_of,
    refuse_type,
    same_type,
    type_of,
)
from sundog.support import Code, Declined


def _is_number(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_integer(dtype) or pa.types.is_floating(dtype) or pa.types.is_decimal(dtype))


def _arithmetic(op: ArithOp) -> Reader:
    def read(node: Node, scope: Scope) -> Expr:
        left, right = children_of(node, scope, 2)
        mode = mode_of(node, "evalContext")
        if not (_is_number(left.dtype) and _is_number(right.dtype)):
            raise refuse_type(node, left.dtype, right.dtype)
        if pa.types.is_decimal(left.dtype) and pa.types.is_decimal(right.dtype):
            _check_decimal_quotient(op, left.dtype, right.dtype, node)
            return Arith(op, left, right, type_of(node["dataType"], node.name), mode)
        dtype = same_type(node, (left, right))
        if op is ArithOp.DIV and not pa.types.is_floating(dtype):
            raise refuse_type(node, dtype)
        if op is ArithOp.INT_DIV and dtype != pa.int64():
            raise refuse_type(node, dtype)
        return Arith(op, left, right, dtype, mode)

    return read


def _check_decimal_quotient(op: ArithOp, left: pa.DataType, right: pa.DataType, node: Node) -> None:
    """Decline integer quotients with possibly more digits than Java's context: BigDecimal raises for those."""
    if op in (ArithOp.INT_DIV, ArithOp.MOD) and left.precision - left.scale + right.scale > 38:
        raise refuse_type(node, left, right)


def _can_negate(dtype: pa.DataType) -> bool:
    """Whether Spark negates exactly. Decimals are negated in a context of 34 digits, which rounds or overflows longer
    ones."""
    return _is_number(dtype) and not (pa.types.is_decimal(dtype) and dtype.precision > 34)


def _negate(node: Node, scope: Scope) -> Expr:
    (child,) = children_of(node, scope, 1)
    if not _can_negate(child.dtype):
        raise refuse_type(node, child.dtype)
    return Negate(child, child.dtype, mode_by_flag(node, "failOnError", True))


def _abs(node: Node, scope: Scope) -> Expr:
    (child,) = children_of(node, scope, 1)
    if not _can_negate(child.dtype):
        raise refuse_type(node, child.dtype)
    return Abs(child, child.dtype, mode_by_flag(node, "failOnError", True))


def _round(node: Node, scope: Scope) -> Expr:
    child, places_expr = children_of(node, scope, 2)
    places = constant(places_expr, node, "a number of places")
    mode = mode_by_flag(node, "ansiEnabled", True)
    if pa.types.is_decimal(child.dtype):
        return Round(child, places, _rounded_decimal(node, child.dtype, places), mode)
    is_known = pa.types.is_float64(child.dtype) and -MAX_EXACT_PLACES <= places <= MAX_EXACT_PLACES
    if not (is_known or pa.types.is_integer(child.dtype)):
        raise refuse_type(node, child.dtype)
    return Round(child, places, child.dtype, mode)


def _rounded_decimal(node: Node, dtype: pa.DataType, places: int) -> pa.DataType:
    """Spark's type: one digit more before the point. With negative places, Spark raises if 38 digits are not enough."""
    whole = dtype.precision - dtype.scale + 1
    if places >= 0:
        scale = min(dtype.scale, places)
        return pa.decimal128(min(whole + scale, 38), scale)
    digits = max(whole, 1 - places)
    if digits > 38:
        raise refuse_type(node, dtype)
    return pa.decimal128(digits, 0)


def _power(node: Node, scope: Scope) -> Expr:
    """Squares, which Java multiplies. The last bit of other powers depends on the mathematical library."""
    base, exponent = children_of(node, scope, 2)
    if not (pa.types.is_float64(base.dtype) and isinstance(exponent, Literal) and exponent.value == 2.0):
        raise Declined.because(Code.UNKNOWN_EXPRESSION, "powers other than squares depend on the library", node.name)
    return Arith(ArithOp.MUL, base, base, base.dtype)


def _check_overflow(node: Node, scope: Scope) -> Expr:
    (child,) = children_of(node, scope, 1)
    dtype = type_of(node["dataType"], node.name)
    mode = mode_by_flag(node, "nullOnOverflow", False)
    if not (pa.types.is_decimal(child.dtype) and pa.types.is_decimal(dtype)):
        raise refuse_type(node, child.dtype)
    return Cast(child, dtype, mode)


def _unscaled_value(node: Node, scope: Scope) -> Expr:
    (child,) = children_of(node, scope, 1)
    if not (pa.types.is_decimal(child.dtype) and child.dtype.precision <= 18):
        raise refuse_type(node, child.dtype)
    return DecimalToUnscaled(child)


def _make_decimal(node: Node, scope: Scope) -> Expr:
    (child,) = children_of(node, scope, 1)
    if child.dtype != pa.int64():
        raise refuse_type(node, child.dtype)
    dtype = pa.decimal128(int(node["precision"]), int(node["scale"]))
    return DecimalFromUnscaled(child, dtype, mode_by_flag(node, "nullOnOverflow", False))


ENTRIES = {
    "Add": Entry(_arithmetic(ArithOp.ADD), "`a + b`, `try_add` of numbers"),
    "Subtract": Entry(_arithmetic(ArithOp.SUB), "`a - b`, `try_subtract` of numbers"),
    "Multiply": Entry(_arithmetic(ArithOp.MUL), "`a * b`, `try_multiply` of numbers"),
    "Divide": Entry(_arithmetic(ArithOp.DIV), "`a / b`, `try_divide` of numbers"),
    "IntegralDivide": Entry(_arithmetic(ArithOp.INT_DIV), "`a div b` of numbers"),
    "Remainder": Entry(_arithmetic(ArithOp.MOD), "`a % b`, `try_mod` of numbers"),
    "Pow": Entry(_power, "`power(a, 2)`"),
    "Round": Entry(_round, "`round(a, constant)` of an integer, a decimal or a double"),
    "UnaryMinus": Entry(_negate, "`-a` of a number"),
    "Abs": Entry(_abs, "`abs(a)` of a number"),
    "CheckOverflow": Entry(_check_overflow, "Catalyst's check on a decimal result"),
    "UnscaledValue": Entry(_unscaled_value, "Catalyst's way to sum short decimals"),
    "MakeDecimal": Entry(_make_decimal, "Catalyst's way to sum short decimals"),
}
