"""Columns, constants, values of subqueries, and the wrappers that Catalyst puts around expressions."""

from __future__ import annotations

import pyarrow as pa

from sundog.expr.nodes import Expr, Literal, NormalizeFloat, SubqueryValue
from sundog.front.catalyst_json import Node
from sundog.front.expressions.literals import literal_value
from sundog.front.expressions.reading import (
    Entry,
    Scope,
    Subquery,
    children_of,
    read_already,
    refuse_type,
    require,
    type_of,
)
from sundog.support import Code


def _attribute(node: Node, scope: Scope) -> Expr:
    return scope.column(node)


def _literal(node: Node, scope: Scope) -> Expr:
    dtype = type_of(node["dataType"], "Literal")
    return Literal(literal_value(node, dtype), dtype)


def _scalar_subquery(node: Node, scope: Scope) -> Expr:
    subquery = _uncorrelated(node, scope)
    require(not subquery.is_struct, Code.UNSUPPORTED_TYPE, "a subquery that gives a struct", node)
    return SubqueryValue(subquery.number, 0, subquery.dtypes[0])


def _struct_field(node: Node, scope: Scope) -> Expr:
    """A field of a merged subquery: Catalyst merges several subqueries over the same rows into one that gives a
    struct."""
    require(
        node.child.name == "ScalarSubquery", Code.UNKNOWN_EXPRESSION, "a field of a struct that is no subquery", node
    )
    subquery, at = _uncorrelated(node.child, scope), node["ordinal"]
    known = subquery.is_struct and type(at) is int and 0 <= at < len(subquery.dtypes)
    require(known, Code.PLAN_VERSION, f"field {at} of a subquery's struct", node)
    return SubqueryValue(subquery.number, at, subquery.dtypes[at])


def _uncorrelated(node: Node, scope: Scope) -> Subquery:
    require(not node.children, Code.UNKNOWN_EXPRESSION, "a correlated subquery", node)
    return scope.subquery(node)


def _wrapper(node: Node, scope: Scope) -> Expr:
    return read_already(node.child, scope)


def _normalize(node: Node, scope: Scope) -> Expr:
    (child,) = children_of(node, scope, 1)
    if not pa.types.is_floating(child.dtype):
        raise refuse_type(node, child.dtype)
    return NormalizeFloat(child, child.dtype)


ENTRIES = {
    "AttributeReference": Entry(_attribute, "a column"),
    "Literal": Entry(_literal, "a constant"),
    "ScalarSubquery": Entry(_scalar_subquery, "`(SELECT …)`, one value, uncorrelated: computed first, then a constant"),
    "GetStructField": Entry(_struct_field, "one of several subqueries that Catalyst has merged"),
    "Alias": Entry(_wrapper, "a name for an expression"),
    "KnownFloatingPointNormalized": Entry(_wrapper, "Catalyst's mark on a normalised key"),
    "KnownNotNull": Entry(_wrapper, "Catalyst's mark on what cannot be NULL"),
    "KnownNullable": Entry(_wrapper, "Catalyst's mark on what may be NULL"),
    "PromotePrecision": Entry(_wrapper, "Catalyst's mark on a widened decimal"),
    "NormalizeNaNAndZero": Entry(_normalize, "one NaN and one zero in keys of GROUP BY"),
}
