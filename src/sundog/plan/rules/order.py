"""The rules that a logical plan goes through, in order. Running the list twice is the same as running it once."""

from __future__ import annotations

from collections.abc import Callable

from sundog.plan.logical import LogicalPlan
from sundog.plan.rules.check_plan import check_plan
from sundog.plan.rules.merge_projects import merge_projects
from sundog.plan.rules.prune_columns import prune_columns
from sundog.plan.rules.pull_projection import pull_projection
from sundog.plan.rules.push_predicate import push_predicate

RULES: tuple[Callable[[LogicalPlan], LogicalPlan], ...] = (
    push_predicate,  # before pruning, so that columns read only by the WHERE leave the scan's output
    pull_projection,  # before merging, since the projections above and below a top-k are then neighbours
    merge_projects,  # before pruning too, which drops columns that a merged projection no longer reads
    prune_columns,
    check_plan,  # last: checks the result of the others
)


def optimize(plan: LogicalPlan) -> LogicalPlan:
    for rule in RULES:
        plan = rule(plan)
    return plan
