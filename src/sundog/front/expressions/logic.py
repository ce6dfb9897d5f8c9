"""Logic and comparisons."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from sundog.expr.nodes import And, Compare, CompareOp, Expr, In, IsNaN, IsNull, Literal, Not, Or
from sundog.front.catalyst_json import Node
from sundog.front.expressions.literals import internal_value
from sundog.front.expressions.reading import Entry, Reader, Scope, all_read, children_of, require, same_type
from sundog.support import Code


def _and(node: Node, scope: Scope) -> Expr:
    left, right = children_of(node, scope, 2)
    return And(left, right)


def _or(node: Node, scope: Scope) -> Expr:
    left, right = children_of(node, scope, 2)
    return Or(left, right)


def _not(node: Node, scope: Scope) -> Expr:
    return Not(*children_of(node, scope, 1))


def _is_null(node: Node, scope: Scope) -> Expr:
    return IsNull(*children_of(node, scope, 1))


def _is_not_null(node: Node, scope: Scope) -> Expr:
    return Not(IsNull(*children_of(node, scope, 1)))


def _is_nan(node: Node, scope: Scope) -> Expr:
    return IsNaN(*children_of(node, scope, 1))


def _comparison(op: CompareOp) -> Reader:
    def read(node: Node, scope: Scope) -> Expr:
        left, right = children_of(node, scope, 2)
        same_type(node, (left, right))
        return Compare(op, left, right)

    return read


def _in(node: Node, scope: Scope) -> Expr:
    exprs = all_read(node.children, scope)
    dtype = same_type(node, exprs)
    require(not pa.types.is_null(dtype), Code.UNSUPPORTED_TYPE, "IN over untyped NULLs", node)
    values = []
    for expr in exprs[1:]:
        require(isinstance(expr, Literal), Code.UNKNOWN_EXPRESSION, "IN with a value that is not a constant", node)
        values.append(expr.value)  # type: ignore[attr-defined]
    return In(exprs[0], tuple(values))


def _in_set(node: Node, scope: Scope) -> Expr:
    (child,) = children_of(node, scope, 1)
    members = node["hset"]
    require(isinstance(members, list), Code.PLAN_VERSION, "the members of an IN list are not in the plan", node)
    values = [internal_value(member, child.dtype) for member in members]
    return In(child, tuple(sorted(values, key=_for_display)))


def _for_display(value: Any) -> Any:
    """The values in a stable order for explain, as a set has none. NULL and NaN come last."""
    unordered = value is None or value != value
    return unordered, "" if unordered else value


ENTRIES = {
    "And": Entry(_and, "`a AND b`"),
    "Or": Entry(_or, "`a OR b`"),
    "Not": Entry(_not, "`NOT a`"),
    "IsNull": Entry(_is_null, "`a IS NULL`"),
    "IsNotNull": Entry(_is_not_null, "`a IS NOT NULL`"),
    "IsNaN": Entry(_is_nan, "`isnan(a)`"),
    "EqualTo": Entry(_comparison(CompareOp.EQ), "`a = b`"),
    "EqualNullSafe": Entry(_comparison(CompareOp.NULL_SAFE_EQ), "`a <=> b`"),
    "LessThan": Entry(_comparison(CompareOp.LT), "`a < b`"),
    "LessThanOrEqual": Entry(_comparison(CompareOp.LE), "`a <= b`"),
    "GreaterThan": Entry(_comparison(CompareOp.GT), "`a > b`"),
    "GreaterThanOrEqual": Entry(_comparison(CompareOp.GE), "`a >= b`"),
    "In": Entry(_in, "`a IN (constants)`"),
    "InSet": Entry(_in_set, "`a IN (many constants)`"),
}
