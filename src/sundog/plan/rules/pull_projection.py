"""A projection below a top-k moves above it: it is computed for the winners only, and the top-k is next to its scan.

Spark evaluates a projection below the sort for every row of the table. If it cannot raise, computing only the winners'
values makes no visible difference. If it can (`a / b` under ANSI), its errors must be raised for every row. Over a scan
it then leaves a *check* behind: a row group is skipped only if its statistics prove that nothing in it can raise. Over
anything else the projection stays where it is.
"""

from __future__ import annotations

from sundog.expr.nodes import substitute
from sundog.expr.ordering import SortKey
from sundog.expr.raising import can_raise
from sundog.plan.logical import LogicalPlan, Project, Scan, TopK
from sundog.tree import transform_up


def pull_projection(plan: LogicalPlan) -> LogicalPlan:
    return transform_up(plan, _pull)


def _pull(plan: LogicalPlan) -> LogicalPlan:
    if not isinstance(plan, TopK) or not isinstance(plan.child, Project):
        return plan
    projection = plan.child
    raising = tuple(named.expr for named in projection.exprs if can_raise(named.expr))
    if raising and not isinstance(projection.child, Scan):
        return plan
    meaning = {named.name: named.expr for named in projection.exprs}
    order = tuple(SortKey(substitute(k.expr, meaning), k.descending, k.nulls_first) for k in plan.order)
    top = TopK(projection.child, order, plan.limit, plan.offset, (*plan.checks, *raising))
    return Project(top, projection.exprs)
