"""Declines a part if Spark might raise an error that sundog would not: Spark evaluates some expressions for rows that
do not need their value.

Beyond the expression itself, two things decide for which rows Spark evaluates it: subexpressions that occur twice
(`expr/evaluation/sharing.py`), and the order of tests in a WHERE (`expr/evaluation/where.py`), which differs without
whole-stage code generation. Both matter only for expressions that can raise.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from sundog.expr.calls import AggregateCall
from sundog.expr.evaluation.sharing import Root, evaluated_early, shared_in_tests
from sundog.expr.nodes import conjuncts
from sundog.expr.raising import can_raise
from sundog.functions.table import function_of
from sundog.plan.logical import Aggregate, Expand, Filter, Join, LogicalPlan, Project, Window
from sundog.support import Code, Reason
from sundog.tree import walk

_MAX_GENERATED_COLUMNS = 100  # spark.sql.codegen.maxFields


def early_errors(plan: LogicalPlan, whole_stage: bool) -> Reason | None:
    """Why Spark may raise where sundog would not; None if it does not. `whole_stage`: spark.sql.codegen.wholeStage."""
    for node in walk(plan):
        match node:
            case Filter(predicate=predicate) if can_raise(predicate):
                tests = conjuncts(predicate)
                if len(tests) > 1 and not (whole_stage and len(node.schema) <= _MAX_GENERATED_COLUMNS):
                    return Reason(
                        Code.CAN_RAISE, "without generated code, Spark tests a WHERE in another order", "Filter"
                    )
                if shared_in_tests(tests):
                    return _shared("Filter")
            case Project(exprs=exprs) if evaluated_early((named.expr, False) for named in exprs):
                return _shared("Project")
            case Expand(projections=projections) if any(
                evaluated_early((expr, False) for expr in projection) for projection in projections
            ):
                return _shared("Expand")
            case Aggregate(keys=keys, aggregates=calls):
                roots = [*((key.expr, False) for key in keys), *(root for call in calls for root in _roots(call))]
                if evaluated_early(roots):
                    return _shared("Aggregate")
            case Join():
                problem = _join_errors(node)
                if problem is not None:
                    return problem
            case Window(calls=windowed) if evaluated_early((arg, False) for call in windowed for arg in call.args):
                return _shared("Window")
    return None


def _join_errors(join: Join) -> Reason | None:
    """Keys are evaluated for all rows of their side; the condition for pairs with equal keys, part by part in order.
    A join that only asks for a partner stops at the first one, so the tested pairs depend on their order.
    """
    sides = [[(key.left, False) for key in join.keys], [(key.right, False) for key in join.keys]]
    if any(map(evaluated_early, sides)):
        return _shared("Join")
    if join.condition is None or not can_raise(join.condition):
        return None
    if evaluated_early([(join.condition, False)]):
        return _shared("Join")
    if not join.kind.shows_right:
        return Reason(Code.CAN_RAISE, "a condition that may raise is tested up to the first partner of a row", "Join")
    return None


def _roots(call: AggregateCall) -> Iterator[Root]:
    """The arguments of a call, each as often as Spark's update expressions contain it. With a FILTER, only the rows
    that pass it should evaluate them."""
    guarded = call.filter is not None
    if call.filter is not None:
        yield call.filter, False
    for arg in call.args:
        yield arg, guarded
        if pa.types.is_decimal(arg.dtype) or not function_of(call).reads_argument_once:
            yield arg, guarded


def _shared(node: str) -> Reason:
    return Reason(
        Code.CAN_RAISE, "an expression that may raise occurs twice, and Spark evaluates it before it is asked for", node
    )
