"""`Filter` over `Scan` moves into the scan, where statistics can evaluate it before anything is decoded.

Catalyst has already pushed filters down to the relation, so this one step is enough.
"""

from __future__ import annotations

from dataclasses import replace

from sundog.expr.nodes import conjunction, conjuncts
from sundog.plan.logical import Filter, LogicalPlan, Scan
from sundog.tree import transform_up


def push_predicate(plan: LogicalPlan) -> LogicalPlan:
    return transform_up(plan, _merge)


def _merge(plan: LogicalPlan) -> LogicalPlan:
    if isinstance(plan, Filter) and isinstance(plan.child, Scan):
        scan = plan.child
        parts = conjuncts(scan.predicate) + conjuncts(plan.predicate)
        return replace(scan, predicate=conjunction(parts))
    return plan
