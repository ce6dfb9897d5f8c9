"""Pushing key filters: the keys of a join's build side go down to the scans of the probe side.

    HashJoin: l_orderkey = o_orderkey          build side: 57,000 orders
      HashJoin: l_partkey = p_partkey
        ParquetScan: lineitem, join_filters=[l_orderkey: 57,000 keys, …]

A filter goes only where dropping a row changes nothing else. It does not go below a limit, or below an aggregate that
does not group by the column. Nor does it go to the preserved side of an outer join, or past an expression that may
raise for a dropped row. Where an equality in a join links two columns, the filter goes to both.
"""

from __future__ import annotations

from dataclasses import replace

from sundog.expr.calls import JoinKind
from sundog.expr.dynamic_filters.key_set import KeyFilter
from sundog.expr.nodes import Column
from sundog.expr.raising import can_raise
from sundog.functions.table import may_raise
from sundog.operators.window.frames.frame_need import needs_of
from sundog.plan.logical import Aggregate, Filter, Join, LogicalPlan, Project, Scan, Sort, Union, Window


def push_filter(plan: LogicalPlan, wanted: KeyFilter) -> LogicalPlan:
    """The plan with the filter in every scan that it can reach; the same plan if that is none."""
    match plan:
        case Scan():
            if wanted.column not in _readable(plan) or (plan.predicate is not None and can_raise(plan.predicate)):
                return plan
            return replace(plan, filters=(*plan.filters, wanted))
        case Filter():
            return plan if can_raise(plan.predicate) else replace(plan, child=push_filter(plan.child, wanted))
        case Project():
            return _into_project(plan, wanted)
        case Sort():
            return replace(plan, child=push_filter(plan.child, wanted))
        case Union():
            return _into_union(plan, wanted)
        case Aggregate():
            return _into_aggregate(plan, wanted)
        case Window():
            return _into_window(plan, wanted)
        case Join():
            return _into_join(plan, wanted)
        case _:
            return plan


def _readable(scan: Scan) -> set[str]:
    table = scan.table
    return {column.name for column in table.file_columns} | {column.name for column in table.partition_columns}


def _into_project(plan: Project, wanted: KeyFilter) -> LogicalPlan:
    source = next((named.expr for named in plan.exprs if named.name == wanted.column), None)
    if not isinstance(source, Column) or any(can_raise(named.expr) for named in plan.exprs):
        return plan
    return replace(plan, child=push_filter(plan.child, replace(wanted, column=source.name)))


def _into_union(plan: Union, wanted: KeyFilter) -> LogicalPlan:
    at = plan.schema.names.index(wanted.column) if wanted.column in plan.schema.names else -1
    if at < 0:
        return plan
    inputs = (push_filter(child, replace(wanted, column=child.schema.names[at])) for child in plan.inputs)
    return Union(tuple(inputs))


def _into_aggregate(plan: Aggregate, wanted: KeyFilter) -> LogicalPlan:
    """Push below an aggregate: whole groups are dropped, if the column is a key and nothing of a group can raise."""
    source = next((key.expr for key in plan.keys if key.name == wanted.column), None)
    exprs = [*(key.expr for key in plan.keys), *(arg for call in plan.aggregates for arg in call.args)]
    exprs += [call.filter for call in plan.aggregates if call.filter is not None]
    if not isinstance(source, Column) or any(map(can_raise, exprs)) or any(map(may_raise, plan.aggregates)):
        return plan
    return replace(plan, child=push_filter(plan.child, replace(wanted, column=source.name)))


def _into_window(plan: Window, wanted: KeyFilter) -> LogicalPlan:
    """Push below a window: whole partitions are dropped, if nothing that is computed for one can raise. That includes
    key and offset of a RANGE frame leaving the key's type, and overflow of an expression or a sum."""
    keys = {key.name for key in plan.partition_by if isinstance(key, Column)}
    exprs = [*plan.partition_by, *(key.expr for key in plan.order_by), *(a for call in plan.calls for a in call.args)]
    exprs += [call.filter for call in plan.calls if call.filter is not None]
    if wanted.column not in keys or any(map(can_raise, exprs)) or any(map(may_raise, plan.calls)):
        return plan
    if needs_of(plan.calls).reach:
        return plan
    return replace(plan, child=push_filter(plan.child, wanted))


def _into_join(plan: Join, wanted: KeyFilter) -> LogicalPlan:
    compared = [side for key in plan.keys for side in (key.left, key.right)]
    if any(map(can_raise, compared)) or (plan.condition is not None and can_raise(plan.condition)):
        return plan
    left = right = None
    if wanted.column in plan.left.schema.names:
        left = wanted.column
    elif wanted.column in plan.right.schema.names:
        right = wanted.column
    for key in plan.keys:  # a column that equals the filtered one is filtered as well
        if isinstance(key.left, Column) and isinstance(key.right, Column) and not key.null_safe:
            if key.left.name == left:
                right = key.right.name
            elif key.right.name == right:
                left = key.left.name
    if plan.kind is JoinKind.FULL or (right == wanted.column and not plan.kind.drops_left):
        return plan
    if plan.kind is JoinKind.NULL_AWARE_ANTI:  # a NULL of the right side decides for all rows
        right = None
    return replace(
        plan,
        left=plan.left if left is None else push_filter(plan.left, replace(wanted, column=left)),
        right=plan.right if right is None else push_filter(plan.right, replace(wanted, column=right)),
    )
