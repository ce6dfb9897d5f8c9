"""Catalyst's `Expand` -> the same in sundog's algebra. It lies below an aggregate with ROLLUP, CUBE or GROUPING SETS,
or with DISTINCT over several lists of arguments."""

from __future__ import annotations

from sundog.expr.nodes import Expr
from sundog.front.catalyst_json import Node
from sundog.front.expressions.reading import Scope
from sundog.front.expressions.translate import translate
from sundog.front.relation.columns import internal_name
from sundog.plan.logical import Expand, LogicalPlan
from sundog.support import Code, Declined, Reason


def match_expand(node: Node, child: LogicalPlan, scope: Scope) -> LogicalPlan:
    """The expansion of `child`; declines with all reasons."""
    names = tuple(internal_name(attribute) for attribute in node["output"])
    reasons: list[Reason] = []
    projections: list[tuple[Expr, ...]] = []
    for trees in node["projections"]:
        exprs = []
        for tree in trees:
            try:
                exprs.append(translate(tree, scope))
            except Declined as declined:
                reasons += (reason for reason in declined.reasons if reason not in reasons)
        projections.append(tuple(exprs))
    if reasons:
        raise Declined(*reasons)
    types = {tuple(str(expr.dtype) for expr in exprs) for exprs in projections}
    if len(types) != 1 or any(len(exprs) != len(names) for exprs in projections):
        raise Declined.because(Code.PLAN_VERSION, "the projections of an expansion do not match", node.name)
    first = [names.index(name) for name in dict.fromkeys(names)]
    kept = tuple(tuple(exprs[place] for place in first) for exprs in projections)
    return Expand(child, kept, tuple(dict.fromkeys(names)))
