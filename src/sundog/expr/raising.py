"""Whether evaluating an expression may raise for some row.

Spark raises DIVIDE_BY_ZERO for any row of the table, not only for the rows of a top-k. So rows for which an expression
may raise must not be skipped: it prevents pruning, and inside `a AND b` its rows must be selected. The answer is "no"
only if types and constants prove it, e.g. `year(d) * 100 + month(d)` can never leave an int.
"""

from __future__ import annotations

import pyarrow as pa

from sundog.expr.evaluation.casts import type_kind
from sundog.expr.nodes import (
    Abs,
    AddInterval,
    Arith,
    ArithOp,
    Case,
    Cast,
    Coalesce,
    DatePart,
    DateTrunc,
    DecimalFromUnscaled,
    EvalMode,
    Expr,
    Literal,
    Negate,
    Round,
    StringCall,
    StringFunction,
)
from sundog.tree import children_first

Range = tuple[int, int]
_CAN_RAISE, _RANGE = "_can_raise", "_range"  # attributes that cache the answer on the node


def can_raise(expr: Expr) -> bool:
    """False only if no row at all can make it raise."""
    for node in children_first(expr, lambda node: _CAN_RAISE in node.__dict__):
        below = any(child.__dict__[_CAN_RAISE] for child in node.children)
        node.__dict__[_CAN_RAISE] = below or node_can_raise(node)
    known: bool = expr.__dict__[_CAN_RAISE]
    return known


def node_can_raise(node: Expr) -> bool:
    """Whether the node itself can raise, even if its operands do not."""
    match node:
        case AddInterval():
            return True
        case Arith(mode=EvalMode.ANSI):
            return _arith_can_raise(node)
        case Negate(mode=EvalMode.ANSI) | Abs(mode=EvalMode.ANSI):
            return pa.types.is_integer(node.dtype) and _range(node.child)[0] == _type_range(node.dtype)[0]
        case Round(mode=EvalMode.ANSI):
            return pa.types.is_integer(node.dtype) and node.places < 0
        case Cast():
            return _cast_can_raise(node)
        case DateTrunc():
            # The start of a unit may be before the first timestamp; of dates, Spark checks the start of a quarter only.
            return node.unit == "quarter" or not pa.types.is_date32(node.dtype)
        case DecimalFromUnscaled(mode=EvalMode.ANSI):
            return True
        case _:
            return False


def _arith_can_raise(node: Arith) -> bool:
    if pa.types.is_date32(node.left.dtype):
        return False
    if node.op in (ArithOp.DIV, ArithOp.INT_DIV, ArithOp.MOD):
        divisor = node.right.value if isinstance(node.right, Literal) else None
        if not divisor or (node.op is ArithOp.INT_DIV and divisor == -1):
            return True
        return pa.types.is_decimal(node.dtype) and not _decimal_always_fits(node)
    if pa.types.is_floating(node.dtype):
        return False
    if pa.types.is_decimal(node.dtype):
        return not _decimal_always_fits(node)
    low, high = _exact_range(node)
    lowest, highest = _type_range(node.dtype)
    return low < lowest or high > highest


def _decimal_always_fits(node: Arith) -> bool:
    """Whether the result type has all the integer digits that the operands' types can produce."""
    left, right, result = node.left.dtype, node.right.dtype, node.dtype
    if not (pa.types.is_decimal(left) and pa.types.is_decimal(right)):
        return False
    whole_left, whole_right = left.precision - left.scale, right.precision - right.scale
    digits = result.precision - result.scale
    match node.op:
        case ArithOp.ADD | ArithOp.SUB:
            return bool(digits > max(whole_left, whole_right))
        case ArithOp.MUL:
            rounds = result.scale < left.scale + right.scale
            return bool(digits >= whole_left + whole_right + rounds)
        case ArithOp.MOD:
            rounds = result.scale < max(left.scale, right.scale)
            return bool(digits >= min(whole_left, whole_right) + rounds)
        case _:
            return bool(digits > whole_left + right.scale)


def _cast_can_raise(node: Cast) -> bool:
    source, target = type_kind(node.child.dtype), type_kind(node.dtype)
    if node.child.dtype == node.dtype:
        return False
    if (source, target) in {("date", "timestamp"), ("date", "timestamp_ntz")}:
        return True  # a date may be outside of the timestamps, and Spark raises in every mode
    if {source, target} == {"timestamp", "timestamp_ntz"}:
        return node.zone is not None and node.zone.name != "UTC"
    if node.mode is not EvalMode.ANSI:
        return False
    match source, target:
        case "integer", "integer":
            low, high = _range(node.child)
            lowest, highest = _type_range(node.dtype)
            return low < lowest or high > highest
        case "integer" | "boolean", "decimal":
            low, high = (0, 1) if source == "boolean" else _range(node.child)
            limit = 10 ** (node.dtype.precision - node.dtype.scale)
            return bool(max(-low, high) >= limit)
        case "decimal", "decimal":
            child = node.child.dtype
            rounds = node.dtype.scale < child.scale
            return bool(node.dtype.precision - node.dtype.scale < child.precision - child.scale + rounds)
        case "decimal", "integer":
            child = node.child.dtype
            return bool(10 ** (child.precision - child.scale) > _type_range(node.dtype)[1])
        case "timestamp", "integer":
            return bool(node.dtype.bit_width < 64)
        case ("float" | "double", "integer" | "decimal") | ("string", "integer" | "boolean"):
            return True
        case _:
            return False


def _type_range(dtype: pa.DataType) -> Range:
    return -(2 ** (dtype.bit_width - 1)), 2 ** (dtype.bit_width - 1) - 1


_PART_RANGES: dict[str, Range] = {
    "year": (-6_000_000, 6_000_000),
    "yearofweek": (-6_000_000, 6_000_000),
    "quarter": (1, 4),
    "month": (1, 12),
    "day": (1, 31),
    "dayofweek": (1, 7),
    "weekday": (0, 6),
    "dayofyear": (1, 366),
    "weekofyear": (1, 53),
    "hour": (0, 23),
    "minute": (0, 59),
    "second": (0, 59),
}


def _range(expr: Expr) -> Range:
    """The possible values of an integer expression, as far as types and constants show."""
    for node in children_first(expr, lambda node: _RANGE in node.__dict__):
        node.__dict__[_RANGE] = _range_of_known(node) if pa.types.is_integer(node.dtype) else None
    known: Range = expr.__dict__[_RANGE]
    return known


def _range_of_known(expr: Expr) -> Range:
    """`_range` of a node whose integer operands have cached theirs."""
    whole = _type_range(expr.dtype)
    match expr:
        case Literal(value=int(value)):
            return value, value
        case Cast() if pa.types.is_integer(expr.child.dtype):
            low, high = _range(expr.child)
            return (low, high) if whole[0] <= low and high <= whole[1] else whole
        case Cast() if pa.types.is_boolean(expr.child.dtype):
            return 0, 1
        case Arith():
            low, high = _exact_range(expr)
            return (low, high) if whole[0] <= low and high <= whole[1] else whole
        case DatePart() if expr.part in _PART_RANGES:
            return _PART_RANGES[expr.part]
        case StringCall(function=StringFunction.LENGTH):
            return 0, 2**31 - 1
        case Case():
            values = [value for _, value in expr.branches] + ([expr.otherwise] if expr.otherwise else [])
            return _union([_range(value) for value in values])
        case Coalesce():
            return _union([_range(value) for value in expr.args])
        case _:
            return whole


def _union(ranges: list[Range]) -> Range:
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def _exact_range(node: Arith) -> Range:
    """The mathematical results of integer arithmetic, whether or not the type can hold them."""
    if not (pa.types.is_integer(node.left.dtype) and pa.types.is_integer(node.right.dtype)):
        return _type_range(node.dtype)
    (a, b), (c, d) = _range(node.left), _range(node.right)
    match node.op:
        case ArithOp.ADD:
            return a + c, b + d
        case ArithOp.SUB:
            return a - d, b - c
        case ArithOp.MUL:
            products = (a * c, a * d, b * c, b * d)
            return min(products), max(products)
        case ArithOp.MOD:
            bound = max(abs(c), abs(d)) - 1
            return max(min(a, 0), -bound), min(max(b, 0), bound)
        case _:
            return _type_range(node.dtype)
