"""Which plans are worth taking: those with a part that sundog runs faster than Spark."""

from __future__ import annotations

from collections.abc import Mapping

from sundog.front.catalyst_json import Node
from sundog.plan.logical import (
    Aggregate,
    Filter,
    Join,
    Limit,
    LocalRows,
    LogicalPlan,
    Scan,
    Sort,
    TopK,
    Window,
    subqueries_in,
)
from sundog.tree import walk

SHAPE_NODES = {"GlobalLimit", "Aggregate", "Window"}  # in Spark's plan


def _filters_rows(plan: LogicalPlan) -> bool:
    """Whether a limit has to search for rows that pass a WHERE. Not above a join: there Spark runs only as many tasks
    as it needs for the rows."""
    below = list(walk(plan))
    return any(isinstance(node, Filter) for node in below) and not any(isinstance(node, Join) for node in below)


def reads_more_in_subqueries(plan: LogicalPlan, subqueries: Mapping[int, LogicalPlan]) -> bool:
    """Whether most of a plan's work is in subqueries with a shape: their tables are larger than the plan's own."""
    inner = [subqueries[number] for number in subqueries_in(plan)]
    return any(map(has_shape, inner)) and _file_bytes(plan) <= sum(map(_file_bytes, inner))


def _file_bytes(plan: LogicalPlan) -> int:
    return sum(file.size for node in walk(plan) if isinstance(node, Scan) for file in node.table.files)


def reads_a_table(plan: LogicalPlan) -> bool:
    """Whether more is read than rows of the query's own text: with those alone Spark takes no time."""
    leaves = [node for node in walk(plan) if not node.children]
    return not all(isinstance(leaf, LocalRows) for leaf in leaves) or bool(subqueries_in(plan))


def is_plain_sort(node: Node) -> bool:
    """Whether a Spark node is an ORDER BY with no other shape below."""
    return node.name == "Sort" and not any(below.name in SHAPE_NODES for below in node.walk())


def has_shape(plan: LogicalPlan, sort: bool = False) -> bool:
    """Whether the plan has a part that sundog runs faster than Spark. `sort`: an ORDER BY of a table's rows counts."""
    for node in walk(plan):
        if isinstance(node, TopK | Aggregate | Window):
            return True
        if sort and isinstance(node, Sort) and not any(isinstance(below, Join) for below in walk(node)):
            return True
        if isinstance(node, Limit) and _filters_rows(node.child):
            return True
    return False
