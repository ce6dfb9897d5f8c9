"""Column pruning: every node carries only columns that a node above it reads, so the scan decodes only those.

Catalyst prunes columns at the relation by inserting projections; here the projections that only drop columns disappear
into the scan itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from sundog.expr.calls import NamedExpr
from sundog.expr.nodes import BOOL, Column, Expr, Literal, columns_of
from sundog.plan.logical import (
    Aggregate,
    Expand,
    Filter,
    Foreign,
    Join,
    Limit,
    LocalRows,
    LogicalPlan,
    Project,
    Scan,
    Sort,
    TopK,
    Union,
    Window,
)


def prune_columns(plan: LogicalPlan) -> LogicalPlan:
    return _prune(plan, set(plan.schema.names))


def _prune(plan: LogicalPlan, wanted: set[str]) -> LogicalPlan:
    match plan:
        case Scan():
            columns = tuple(name for name in plan.columns if name in wanted)
            return plan if columns == plan.columns else replace(plan, columns=columns)
        case Foreign():
            return plan
        case LocalRows():  # one column stays: without any, the number of rows would be lost
            names = plan.schema.names
            return LocalRows(plan.batch.select([name for name in names if name in wanted] or names[:1]))
        case Filter():
            return replace(plan, child=_prune(plan.child, wanted | columns_of(plan.predicate)))
        case Project():
            exprs = tuple(expr for expr in plan.exprs if expr.name in wanted)
            child = _prune(plan.child, _columns(expr.expr for expr in exprs))
            if child.schema.names == [e.name for e in exprs] and all(e.is_passthrough for e in exprs):
                return child
            return Project(child, exprs)
        case Expand():
            kept = [at for at, name in enumerate(plan.names) if name in wanted]
            projections = tuple(tuple(exprs[at] for at in kept) for exprs in plan.projections)
            child = _prune(plan.child, _columns(expr for exprs in projections for expr in exprs))
            return Expand(child, projections, tuple(plan.names[at] for at in kept))
        case Join():
            return _prune_join(plan, wanted)
        case Union():
            names = [name for name in plan.schema.names if name in wanted]
            return Union(tuple(_in_order(_prune(child, set(names)), names) for child in plan.inputs))
        case TopK():
            seen = _columns([*(key.expr for key in plan.order), *plan.checks])
            return replace(plan, child=_prune(plan.child, wanted | seen))
        case Sort():
            return replace(plan, child=_prune(plan.child, wanted | _columns(key.expr for key in plan.order)))
        case Limit():
            return replace(plan, child=_prune(plan.child, wanted))
        case Aggregate():
            used = [key.expr for key in plan.keys]
            for call in plan.aggregates:
                used += [*call.args, *([call.filter] if call.filter is not None else [])]
            return replace(plan, child=_prune(plan.child, _columns(used)), hidden=_hidden(plan, wanted))
        case Window():
            used = [*plan.partition_by, *(key.expr for key in plan.order_by)]
            for window_call in plan.calls:
                used += [*window_call.args, *([window_call.filter] if window_call.filter is not None else [])]
            below = (wanted - {window_call.name for window_call in plan.calls}) | _columns(used)
            return _with_rows(replace(plan, child=_prune(plan.child, below)))
        case _:
            return plan


def _prune_join(plan: Join, wanted: set[str]) -> LogicalPlan:
    read = wanted if plan.condition is None else wanted | columns_of(plan.condition)
    left = _prune(plan.left, (read & set(plan.left.schema.names)) | _columns(key.left for key in plan.keys))
    right = _prune(plan.right, (read & set(plan.right.schema.names)) | _columns(key.right for key in plan.keys))
    unread = {*left.schema.names, *right.schema.names} - wanted
    return replace(plan, left=left, right=right, hidden=frozenset(unread))


def _in_order(plan: LogicalPlan, names: list[str]) -> LogicalPlan:
    """The same rows with these columns, in this order."""
    schema = plan.schema
    if schema.names == names:
        return plan
    return Project(plan, tuple(NamedExpr(name, Column(name, schema.field(name).type)) for name in names))


def _with_rows(plan: Window) -> LogicalPlan:
    """`count(*) OVER ()` reads no column, but rows without columns cannot be sent: they get a constant column."""
    if plan.child.schema.names:
        return plan
    carried = replace(plan, child=Project(plan.child, (NamedExpr("row#carried", Literal(True, BOOL)),)))
    return Project(carried, tuple(NamedExpr(call.name, Column(call.name, call.dtype)) for call in plan.calls))


def _hidden(plan: Aggregate, wanted: set[str]) -> frozenset[str]:
    """Keys that no node above reads. One column remains, since rows without columns lose their number."""
    unread = [key.name for key in plan.keys if key.name not in wanted]
    return frozenset(unread if plan.aggregates or len(unread) < len(plan.keys) else unread[1:])


def _columns(expressions: Iterable[Expr]) -> set[str]:
    return set().union(*(columns_of(expression) for expression in expressions))
