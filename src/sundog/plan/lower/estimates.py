"""Estimates of the rows of a plan before anything is read: good enough to choose the build side of a join.

Footers tell the rows of a table, but not how many pass a WHERE, nor how many keys there are. So a predicate is assumed
to keep a fixed share by its kind, and a join of a table with its dimension to keep the share of the dimension's rows
that are left. A wrong estimate costs time, never an answer: the rest of the plan follows from what was really built.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa

from sundog.expr.calls import JoinKind
from sundog.expr.dynamic_filters.key_set import KeyFilter
from sundog.expr.nodes import (
    And,
    Column,
    Compare,
    CompareOp,
    Expr,
    In,
    IsNull,
    Like,
    Not,
    Or,
    RegexMatch,
    StringMatch,
    operands_of,
)
from sundog.plan.costs import Costs
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
from sundog.plan.lower.facts import Facts
from sundog.plan.lower.push_filter import push_filter
from sundog.plan.spark_rows import expected_rows
from sundog.tree import walk
from sundog.types import is_text

_FOREIGN_ROWS = 1e9  # assumed rows of a Spark subtree of unknown size: enough that it is never the build side


def estimated_rows(plan: LogicalPlan, facts: Facts, costs: Costs) -> float:
    """Estimated rows of `plan`'s result."""
    match plan:
        case Scan():
            return facts.access(plan).rows() * kept_share(plan.predicate, costs)
        case Foreign():
            return _rows_of_spark(plan, costs)
        case LocalRows():
            return float(plan.batch.num_rows)
        case Filter():
            return estimated_rows(plan.child, facts, costs) * kept_share(plan.predicate, costs)
        case Join():
            return _joined_rows(plan, facts, costs)
        case Union():
            return sum(estimated_rows(child, facts, costs) for child in plan.inputs)
        case Aggregate():
            return max(1.0, estimated_rows(plan.child, facts, costs) * costs.groups_per_row) if plan.keys else 1.0
        case TopK() | Limit():
            return min(float(plan.limit), estimated_rows(plan.child, facts, costs))
        case Expand():
            return estimated_rows(plan.child, facts, costs) * len(plan.projections)
        case _:
            return max(estimated_rows(child, facts, costs) for child in plan.children)


def _joined_rows(plan: Join, facts: Facts, costs: Costs) -> float:
    left, right = estimated_rows(plan.left, facts, costs), estimated_rows(plan.right, facts, costs)
    if not plan.kind.shows_right:
        return left * (costs.kept_by_other if plan.kind.drops_left else 1.0)
    if not plan.keys:
        return left * right
    most, left_base, right_base = max(left, right), _base_rows(plan.left, facts), _base_rows(plan.right, facts)
    if not plan.kind.drops_left:
        return most
    dimension, base = (right, right_base) if left_base >= right_base else (left, left_base)
    fact = left if left_base >= right_base else right
    return fact * min(1.0, dimension / max(base, 1.0))


def _rows_of_spark(plan: Foreign, costs: Costs | None = None) -> float:
    """Estimated foreign rows; collected ones are known to be few. `costs`: after the conditions of the subtree."""
    if not plan.collected or plan.estimate is None:
        return _FOREIGN_ROWS
    known = plan.estimate.rows if costs is None else expected_rows(plan, costs)
    return _FOREIGN_ROWS if known is None else known


def _base_rows(plan: LogicalPlan, facts: Facts) -> float:
    """The rows of the largest table below, before any WHERE."""
    if isinstance(plan, Scan):
        return float(facts.access(plan).total_rows())
    if isinstance(plan, LocalRows):
        return float(plan.batch.num_rows)
    if isinstance(plan, Foreign):
        return _rows_of_spark(plan)
    return max((_base_rows(child, facts) for child in plan.children), default=_FOREIGN_ROWS)


def read_share(
    tree: LogicalPlan, path: Sequence[int], same: Collection[LogicalPlan], facts: Facts, costs: Costs
) -> float:
    """Estimated share of rows that a subplan at `path` must read, given the key filters of the joins above it.

    `same`: the subplans that give the same rows, whose keys keep all of them.
    """
    share, known = 1.0, {id(node) for node in same}
    node = tree
    for depth, index in enumerate(path):
        side = node.children[index]
        if isinstance(node, Join) and _is_filtered(node, index, facts, costs):
            keys = [key.right if index else key.left for key in node.keys if not key.null_safe]
            pushed = (push_filter(side, KeyFilter(key.name, None)) for key in keys if isinstance(key, Column))
            below = path[depth + 1 :]
            if any(_filters(_at(plan, below)) > _filters(_at(side, below)) for plan in pushed):
                share = min(share, kept_by_keys(node.children[1 - index], facts, costs, known))
        node = side
    return share


def _is_filtered(join: Join, side: int, facts: Facts, costs: Costs) -> bool:
    """Whether the keys of the other side will be known before this side is read."""
    if join.kind is not JoinKind.INNER:
        return join.kind.drops_left and side == 0
    return estimated_rows(join.children[side], facts, costs) >= estimated_rows(join.children[1 - side], facts, costs)


def _at(plan: LogicalPlan, path: Sequence[int]) -> LogicalPlan:
    for index in path:
        plan = plan.children[index]
    return plan


def _filters(plan: LogicalPlan) -> int:
    return sum(len(node.filters) for node in walk(plan) if isinstance(node, Scan))


def kept_share(predicate: Expr | None, costs: Costs) -> float:
    """Estimated share of rows for which a predicate holds."""
    match predicate:
        case None:
            return 1.0
        case And():
            share = 1.0
            for part in operands_of(And, predicate):
                share *= kept_share(part, costs)
            return share
        case Or():
            return min(1.0, sum(kept_share(part, costs) for part in operands_of(Or, predicate)))
        case Not(child=IsNull()):
            return 1.0
        case Not():
            return max(0.0, 1.0 - kept_share(predicate.child, costs))
        case Compare(op=CompareOp.EQ | CompareOp.NULL_SAFE_EQ):
            return costs.kept_by_equality
        case Compare():
            return costs.kept_by_range
        case In():
            return min(costs.kept_by_other, costs.kept_by_equality * len(predicate.values))
        case Like() | StringMatch() | RegexMatch():
            return costs.kept_by_match
        case IsNull():
            return costs.kept_by_equality
        case _:
            return costs.kept_by_other


def estimated_bytes(plan: LogicalPlan, facts: Facts, costs: Costs) -> float:
    """Estimated bytes in memory of the rows of `plan`'s result."""
    return estimated_rows(plan, facts, costs) * estimated_row_bytes(plan, costs)


def estimated_row_bytes(plan: LogicalPlan, costs: Costs) -> float:
    return sum(estimated_value_bytes(field.type, costs) for field in plan.schema)


def estimated_value_bytes(dtype: pa.DataType, costs: Costs) -> float:
    return costs.string_bytes if is_text(dtype) else costs.number_bytes


def kept_by_keys(plan: LogicalPlan, facts: Facts, costs: Costs, all_kept: Collection[int] = ()) -> float:
    """Estimated share of another table's rows with a key in `plan`, taken as the share of rows that the conditions of
    `plan` keep. Grouping keeps all keys, so it does not change the share.

    `all_kept`: the ids of plans whose keys keep all rows.
    """

    def kept(child: LogicalPlan) -> float:
        return kept_by_keys(child, facts, costs, all_kept)

    if id(plan) in all_kept:
        return 1.0
    match plan:
        case Scan():
            access = facts.access(plan)
            return float(min(kept_share(plan.predicate, costs), access.rows() / max(access.total_rows(), 1)))
        case LocalRows():
            return float(min(1.0, costs.kept_by_equality * plan.batch.num_rows))
        case Filter():
            return kept(plan.child) * kept_share(plan.predicate, costs)
        case Join(kind=JoinKind.INNER):
            return kept(plan.left) * kept(plan.right)
        case Join(kind=JoinKind.SEMI | JoinKind.LEFT | JoinKind.EXISTENCE):
            return kept(plan.left)
        case Project() | Aggregate() | Window() | Sort():
            return kept(plan.child)
        case _:
            return 1.0
