"""Two projections in a row become one, if that computes nothing twice.

Catalyst puts a projection below each sort for the columns it needs, and one above to drop them again. A plan that reads
columns by name needs only one.
"""

from __future__ import annotations

from sundog.expr.calls import NamedExpr
from sundog.expr.nodes import Column, Expr, Literal, substitute
from sundog.plan.logical import LogicalPlan, Project
from sundog.tree import transform_up, walk


def merge_projects(plan: LogicalPlan) -> LogicalPlan:
    return transform_up(plan, _merge)


def _merge(plan: LogicalPlan) -> LogicalPlan:
    if not isinstance(plan, Project) or not isinstance(plan.child, Project):
        return plan
    meaning = {named.name: named.expr for named in plan.child.exprs}
    used = [node.name for named in plan.exprs for node in walk(named.expr) if isinstance(node, Column)]
    computed = [name for name in used if not isinstance(meaning[name], Column | Literal)]
    if len(set(computed)) != len(computed) or set(meaning) - set(used) - _free(meaning):
        return plan
    merged = (NamedExpr(named.name, substitute(named.expr, meaning)) for named in plan.exprs)
    return Project(plan.child.child, tuple(merged))


def _free(meaning: dict[str, Expr]) -> set[str]:
    """Columns that cost nothing and cannot raise, and so may be dropped."""
    return {name for name, expr in meaning.items() if isinstance(expr, Column | Literal)}
