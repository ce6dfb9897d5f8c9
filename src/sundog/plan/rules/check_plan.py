"""Last of the rules: changes nothing, proves every edge of the plan, and names the one that breaks."""

from __future__ import annotations

from collections.abc import Iterable

from sundog.errors import InternalError
from sundog.expr.nodes import Expr, columns_of
from sundog.plan.logical import Aggregate, Expand, Filter, Join, LogicalPlan, Project, Scan, Sort, TopK, Union, Window
from sundog.tree import walk


def check_plan(plan: LogicalPlan) -> LogicalPlan:
    for node in walk(plan):
        offered = _offered(node)
        if isinstance(node, Join):
            _check_keys(node)
        missing = sorted(set().union(*(columns_of(expr) for expr in _expressions(node))) - offered)
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


def _expressions(node: LogicalPlan) -> Iterable[Expr]:
    match node:
        case Scan():
            return [] if node.predicate is None else [node.predicate]
        case Filter():
            return [node.predicate]
        case Project():
            return [named.expr for named in node.exprs]
        case Join():
            return [node.condition] if node.condition is not None else []
        case Expand():
            return [expr for exprs in node.projections for expr in exprs]
        case TopK():
            return [*(key.expr for key in node.order), *node.checks]
        case Sort():
            return [key.expr for key in node.order]
        case Aggregate():
            filters = [call.filter for call in node.aggregates if call.filter is not None]
            return [*(k.expr for k in node.keys), *(arg for call in node.aggregates for arg in call.args), *filters]
        case Window():
            filters = [call.filter for call in node.calls if call.filter is not None]
            args = [arg for call in node.calls for arg in call.args]
            return [*node.partition_by, *(key.expr for key in node.order_by), *args, *filters]
        case _:
            return []
