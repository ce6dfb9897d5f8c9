"""How many rows a plan may give, before anything is read: enough to choose the build side of a join.

Footers know the rows of a table, not how many pass a WHERE, nor how many keys there are. So a predicate is taken to
keep a fixed share by its kind, and a join of a table with its dimension to keep the share of the dimension's rows that
are left. A wrong guess costs time, never an answer: what was really built decides the rest of the plan.
"""

from __future__ import annotations

from sundog.expr.nodes import And, Compare, CompareOp, Expr, In, IsNull, Like, Not, Or, StringMatch, operands_of
from sundog.plan.logical import (
    Aggregate,
    Expand,
    Filter,
    Foreign,
    Join,
    Limit,
    LogicalPlan,
    Scan,
    TopK,
    Union,
)
from sundog.plan.lower.facts import Facts
from sundog.types import is_text

_KEPT_BY_EQUALITY, _KEPT_BY_RANGE, _KEPT_BY_MATCH, _KEPT_BY_OTHER = 0.05, 0.3, 0.2, 0.5
_GROUPS_PER_ROW = 0.2
_NUMBER_BYTES, _TEXT_BYTES = 8, 32
_FOREIGN_ROWS = 1e9  # rows of Spark's: nobody knows, and they are not gathered to find out


def estimated_rows(plan: LogicalPlan, facts: Facts) -> float:
    """A guess of the rows that leave `plan`."""
    match plan:
        case Scan():
            return facts.access(plan).rows() * kept_share(plan.predicate)
        case Foreign():
            return _FOREIGN_ROWS
        case Filter():
            return estimated_rows(plan.child, facts) * kept_share(plan.predicate)
        case Join():
            return _joined_rows(plan, facts)
        case Union():
            return sum(estimated_rows(child, facts) for child in plan.inputs)
        case Aggregate():
            return max(1.0, estimated_rows(plan.child, facts) * _GROUPS_PER_ROW) if plan.keys else 1.0
        case TopK() | Limit():
            return min(float(plan.limit), estimated_rows(plan.child, facts))
        case Expand():
            return estimated_rows(plan.child, facts) * len(plan.projections)
        case _:
            return max(estimated_rows(child, facts) for child in plan.children)


def _joined_rows(plan: Join, facts: Facts) -> float:
    left, right = estimated_rows(plan.left, facts), estimated_rows(plan.right, facts)
    if not plan.kind.shows_right:
        return left * (_KEPT_BY_OTHER if plan.kind.drops_left else 1.0)
    if not plan.keys:
        return left * right
    most, left_base, right_base = max(left, right), _base_rows(plan.left, facts), _base_rows(plan.right, facts)
    if not plan.kind.drops_left:
        return most
    dimension, base = (right, right_base) if left_base >= right_base else (left, left_base)
    fact = left if left_base >= right_base else right
    return fact * min(1.0, dimension / max(base, 1.0))


def _base_rows(plan: LogicalPlan, facts: Facts) -> float:
    """The rows of the largest table below, before any WHERE."""
    if isinstance(plan, Scan):
        return float(facts.access(plan).total_rows())
    return max((_base_rows(child, facts) for child in plan.children), default=_FOREIGN_ROWS)


def kept_share(predicate: Expr | None) -> float:
    """A guess of the share of rows for which a predicate holds."""
    match predicate:
        case None:
            return 1.0
        case And():
            share = 1.0
            for part in operands_of(And, predicate):
                share *= kept_share(part)
            return share
        case Or():
            return min(1.0, sum(kept_share(part) for part in operands_of(Or, predicate)))
        case Not(child=IsNull()):
            return 1.0
        case Not():
            return 1.0 - kept_share(predicate.child)
        case Compare(op=CompareOp.EQ | CompareOp.NULL_SAFE_EQ):
            return _KEPT_BY_EQUALITY
        case Compare():
            return _KEPT_BY_RANGE
        case In():
            return min(0.5, _KEPT_BY_EQUALITY * len(predicate.values))
        case Like() | StringMatch():
            return _KEPT_BY_MATCH
        case IsNull():
            return _KEPT_BY_EQUALITY
        case _:
            return _KEPT_BY_OTHER


def estimated_bytes(plan: LogicalPlan, rows: float) -> float:
    """What so many rows of a plan take in memory."""
    return rows * sum(_TEXT_BYTES if is_text(field.type) else _NUMBER_BYTES for field in plan.schema)
