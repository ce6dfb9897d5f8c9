"""Comparison and IN in Spark's order: NaN equals NaN and is above everything, -0.0 equals 0.0.

Arrow's comparisons follow IEEE, where every comparison with NaN is false. For columns without floats they equal
Spark's. For floats each operator is rewritten to need Arrow's comparison once: `a > b` is `not (a <= b)` unless b is
NaN; for a constant that is not NaN, by far the most common case, nothing more is needed.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from sundog.expr.nodes import CompareOp

Datum: TypeAlias = "pa.Array | pa.Scalar"

_MIRRORED = {
    CompareOp.EQ: CompareOp.EQ,
    CompareOp.LT: CompareOp.GT,
    CompareOp.LE: CompareOp.GE,
    CompareOp.GT: CompareOp.LT,
    CompareOp.GE: CompareOp.LE,
}
_ARROW = {
    CompareOp.EQ: pc.equal,
    CompareOp.LT: pc.less,
    CompareOp.LE: pc.less_equal,
    CompareOp.GT: pc.greater,
    CompareOp.GE: pc.greater_equal,
}


def compare(op: CompareOp, left: Datum, right: Datum) -> pa.Array:
    """At least one side is a column; the other may be a constant."""
    if op is CompareOp.NULL_SAFE_EQ:
        equal = pc.fill_null(compare(CompareOp.EQ, left, right), False)
        return pc.or_(equal, pc.and_(pc.is_null(left), pc.is_null(right)))
    if pa.types.is_null(left.type):
        return pa.nulls(max(len(side) for side in (left, right) if isinstance(side, pa.Array)), pa.bool_())
    if not pa.types.is_floating(left.type):
        return _ARROW[op](left, right)
    if isinstance(left, pa.Scalar):
        left, right, op = right, left, _MIRRORED[op]
    if isinstance(right, pa.Scalar) and right.is_valid and not math.isnan(right.as_py()):
        return _against_number(op, left, right)
    return _floats(op, left, right)


def _against_number(op: CompareOp, column: pa.Array, number: pa.Scalar) -> pa.Array:
    match op:
        case CompareOp.GT:
            return pc.invert(pc.less_equal(column, number))
        case CompareOp.GE:
            return pc.invert(pc.less(column, number))
        case _:
            return _ARROW[op](column, number)


def _floats(op: CompareOp, left: Datum, right: Datum) -> pa.Array:
    match op:
        case CompareOp.EQ:
            return pc.or_(pc.equal(left, right), pc.and_(pc.is_nan(left), pc.is_nan(right)))
        case CompareOp.LT:
            return pc.and_(pc.invert(pc.is_nan(left)), pc.invert(pc.greater_equal(left, right)))
        case CompareOp.GT:
            return _floats(CompareOp.LT, right, left)
        case CompareOp.LE:
            return pc.invert(_floats(CompareOp.LT, right, left))
        case _:
            return pc.invert(_floats(CompareOp.LT, left, right))


def is_in(column: pa.Array, values: tuple[Any, ...]) -> pa.Array:
    """True if a value equals; else NULL if the column's value or one of the list is NULL; else false."""
    known = [value for value in values if value is not None]
    if pa.types.is_floating(column.type):
        found = _float_is_in(column, known)
    else:
        found = pc.is_in(column, value_set=pa.array(known, column.type))
    unknown = pc.is_null(column) if len(known) == len(values) else pc.invert(found)
    return pc.if_else(pc.or_(unknown, pc.is_null(column)), pa.scalar(None, pa.bool_()), found)


def _float_is_in(column: pa.Array, known: list[float]) -> pa.Array:
    numbers = [value for value in known if not math.isnan(value)]
    if 0.0 in numbers:
        numbers += [0.0, -0.0]  # one value in Spark, two in a hash table
    found = pc.is_in(column, value_set=pa.array(numbers, column.type))
    if any(math.isnan(value) for value in known):
        found = pc.or_(found, pc.fill_null(pc.is_nan(column), False))
    return found
