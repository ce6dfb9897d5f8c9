"""Expressions whose result is one of their arguments."""

from __future__ import annotations

from sundog.expr.nodes import BOOL, Case, Coalesce, Expr
from sundog.front.catalyst_json import Node
from sundog.front.expressions.reading import Entry, Scope, all_read, require, same_type
from sundog.support import Code


def _case_when(node: Node, scope: Scope) -> Expr:
    exprs = all_read(node.children, scope)
    otherwise = exprs.pop() if len(exprs) % 2 else None
    require(len(exprs) >= 2, Code.PLAN_VERSION, f"{node.name} has {len(node.children)} children", node)
    conditions, values = exprs[0::2], exprs[1::2]
    dtype = same_type(node, values if otherwise is None else [*values, otherwise])
    require(all(c.dtype == BOOL for c in conditions), Code.PLAN_VERSION, "a condition is not a boolean", node)
    return Case(tuple(zip(conditions, values, strict=True)), otherwise, dtype)


def _coalesce(node: Node, scope: Scope) -> Expr:
    args = all_read(node.children, scope)
    require(bool(args), Code.PLAN_VERSION, "coalesce of nothing", node)
    return Coalesce(tuple(args), same_type(node, args))


ENTRIES = {
    "If": Entry(_case_when, "`if(c, a, b)`, `nullif`"),
    "CaseWhen": Entry(_case_when, "`CASE WHEN`"),
    "Coalesce": Entry(_coalesce, "`coalesce(a, b, ...)`, `nvl`, `ifnull`"),
}
