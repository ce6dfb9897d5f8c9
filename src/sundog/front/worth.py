"""Which plans are worth taking: those that hold something that sundog does better than Spark."""

from __future__ import annotations

from collections.abc import Mapping

from sundog.plan.logical import (
    Aggregate,
    Filter,
    Join,
    Limit,
    LocalRows,
    LogicalPlan,
    Scan,
    TopK,
    Window,
    subqueries_in,
)
from sundog.tree import walk


def _filters_rows(plan: LogicalPlan) -> bool:
    """Whether a limit has to search for rows that pass a WHERE. Not above a join: there Spark runs only as many tasks
    as it needs for the rows."""
    below = list(walk(plan))
    return any(isinstance(node, Filter) for node in below) and not any(isinstance(node, Join) for node in below)


def reads_more_in_subqueries(plan: LogicalPlan, subqueries: Mapping[int, LogicalPlan]) -> bool:
    """Whether most of a plan's work is in subqueries with a shape: their tables are larger than those that it reads
    itself."""
    inner = [subqueries[number] for number in subqueries_in(plan)]
    return any(map(has_shape, inner)) and _file_bytes(plan) <= sum(map(_file_bytes, inner))


def _file_bytes(plan: LogicalPlan) -> int:
    return sum(file.size for node in walk(plan) if isinstance(node, Scan) for file in node.table.files)


def reads_a_table(plan: LogicalPlan) -> bool:
    """Whether anything but rows of the query's own text is read: with those alone Spark takes no time."""
    leaves = [node for node in walk(plan) if not node.children]
    return not all(isinstance(leaf, LocalRows) for leaf in leaves) or bool(subqueries_in(plan))


def has_shape(plan: LogicalPlan) -> bool:
    """Whether the plan holds something that sundog does better than Spark."""
    for node in walk(plan):
        if isinstance(node, TopK | Aggregate | Window):
            return True
        if isinstance(node, Limit) and _filters_rows(node.child):
            return True
    return False
