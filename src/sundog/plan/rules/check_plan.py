"""The last rule: changes nothing, checks that every column that a node reads exists, and names one that does not."""

from __future__ import annotations

from sundog.errors import InternalError
from sundog.expr.nodes import columns_of
from sundog.plan.logical import Join, LogicalPlan, Scan, Union, expressions_of
from sundog.tree import walk


def check_plan(plan: LogicalPlan) -> LogicalPlan:
    for node in walk(plan):
        offered = _offered(node)
        if isinstance(node, Join):
            _check_keys(node)
        missing = sorted(set().union(*(columns_of(expr) for expr in expressions_of(node))) - offered)
        if missing:
            raise InternalError(f"{type(node).__name__} reads {', '.join(missing)}, which its input does not have")
        if isinstance(node, Union) and any(child.schema != node.schema for child in node.inputs):
            raise InternalError("the children of a Union do not have the same columns")
        names = node.schema.names
        if len(set(names)) != len(names):
            raise InternalError(f"{type(node).__name__} puts out two columns of one name: {names}")
    return plan


def _check_keys(node: Join) -> None:
    """Each key reads its own side only, and both have one type."""
    for side, exprs in ((node.left, [k.left for k in node.keys]), (node.right, [k.right for k in node.keys])):
        stray = set().union(*(columns_of(expr) for expr in exprs)) - set(side.schema.names)
        if stray:
            raise InternalError(f"a join key reads {', '.join(sorted(stray))} of the other side")
    if any(key.left.dtype != key.right.dtype for key in node.keys):
        raise InternalError("the two sides of a join key have different types")


def _offered(node: LogicalPlan) -> set[str]:
    if isinstance(node, Scan):
        table = node.table
        return {c.name for c in table.file_columns} | {c.name for c in table.partition_columns}
    return set().union(*(child.schema.names for child in node.children))
