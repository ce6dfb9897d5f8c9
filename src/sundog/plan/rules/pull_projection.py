"""A projection below a top-k moves above it, so that it is computed for the winners and the top-k meets its scan.

Spark evaluates a projection below the sort for every row of the table. Where it cannot raise, nobody sees the difference
if only the winners' values are computed. Where it can (`a / b` under ANSI), it has to see every row: it stays below, the
top-k is then no longer tied to the scan, and nothing is pruned.
"""

from __future__ import annotations

from sundog.expr.ordering import SortKey
from sundog.expr.raising import can_raise
from sundog.plan.logical import LogicalPlan, Project, TopK
from sundog.plan.rules.merge_projects import substitute
from sundog.tree import transform_up


def pull_projection(plan: LogicalPlan) -> LogicalPlan:
    return transform_up(plan, _pull)


def _pull(plan: LogicalPlan) -> LogicalPlan:
    if not isinstance(plan, TopK) or not isinstance(plan.child, Project):
        return plan
    projection = plan.child
    if any(can_raise(named.expr) for named in projection.exprs):
        return plan
    meaning = {named.name: named.expr for named in projection.exprs}
    order = tuple(SortKey(substitute(k.expr, meaning), k.descending, k.nulls_first) for k in plan.order)
    return Project(TopK(projection.child, order, plan.limit, plan.offset), projection.exprs)
