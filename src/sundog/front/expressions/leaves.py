"""Columns, constants, and the marks that Catalyst puts around expressions."""

from __future__ import annotations

import pyarrow as pa

from sundog.expr.nodes import Expr, Literal, NormalizeFloat
from sundog.front.catalyst_json import Node
from sundog.front.expressions.literals import literal_value
from sundog.front.expressions.reading import Entry, Scope, children_of, found, refuse_type, type_of


def _attribute(node: Node, scope: Scope) -> Expr:
    return scope.column(node)


def _literal(node: Node, scope: Scope) -> Expr:
    dtype = type_of(node["dataType"], "Literal")
    return Literal(literal_value(node, dtype), dtype)


def _wrapper(node: Node, scope: Scope) -> Expr:
    return found(node.child, scope)


def _normalize(node: Node, scope: Scope) -> Expr:
    (child,) = children_of(node, scope, 1)
    if not pa.types.is_floating(child.dtype):
        raise refuse_type(node, child.dtype)
    return NormalizeFloat(child, child.dtype)


ENTRIES = {
    "AttributeReference": Entry(_attribute, "a column"),
    "Literal": Entry(_literal, "a constant"),
    "Alias": Entry(_wrapper, "a name for an expression"),
    "KnownFloatingPointNormalized": Entry(_wrapper, "Catalyst's mark on a normalised key"),
    "KnownNotNull": Entry(_wrapper, "Catalyst's mark on what cannot be NULL"),
    "KnownNullable": Entry(_wrapper, "Catalyst's mark on what may be NULL"),
    "PromotePrecision": Entry(_wrapper, "Catalyst's mark on a widened decimal"),
    "NormalizeNaNAndZero": Entry(_normalize, "one NaN and one zero in keys of GROUP BY"),
}
