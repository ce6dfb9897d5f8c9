"""`spark.sundog.floatingPoint = spark`: doubles are added in Spark's order, bit for bit, or Spark runs the query.

The last bits of a sum of doubles depend on the order of addition. Over a frame with a unique order key Spark has one
order: from the first row of the frame to the last, starting again for each row unless the frame only grows. The calls
concerned are marked (`WindowCall.in_order`), and the operators then add up as Spark does. Left to Spark are:

- frames up to UNBOUNDED FOLLOWING that do not begin at the first row: Spark adds up the rest for each row;
- windows without ORDER BY, where rows are added in the order in which they arrive;
- windows under `spark.sql.window.segmentTree.enabled`, which merges partial sums of blocks;
- GROUP BY: Spark merges in the order of its tasks. `avg` of integers of up to 32 bits is exact in any order.
"""

from __future__ import annotations

from dataclasses import replace

from sundog.expr.calls import BoundKind, WindowCall
from sundog.functions.table import adds_doubles
from sundog.plan.logical import Aggregate, LogicalPlan, Project, Window
from sundog.support import Code, Declined


def added_as_spark_does(plan: LogicalPlan, segment_trees: bool) -> LogicalPlan:
    """A matched shape with its sums of doubles marked; declines if Spark's order cannot be kept."""
    match plan:
        case Project():
            return replace(plan, child=added_as_spark_does(plan.child, segment_trees))
        case Aggregate():
            for call in plan.aggregates:
                if adds_doubles(call):
                    raise Declined.because(Code.FLOATING_POINT, f"{call.function} by group", "Aggregate")
            return plan
        case Window():
            calls = tuple(_in_order(call, plan, segment_trees) if adds_doubles(call) else call for call in plan.calls)
            return replace(plan, calls=calls)
        case _:
            return plan


def _in_order(call: WindowCall, window: Window, segment_trees: bool) -> WindowCall:
    start, end = call.frame.start.kind, call.frame.end.kind
    if segment_trees:
        raise Declined.because(Code.FLOATING_POINT, f"{call.function} over segment trees", "Window")
    if not window.order_by:
        raise Declined.because(Code.FLOATING_POINT, f"{call.function} over rows without an order", "Window")
    if end is BoundKind.UNBOUNDED_FOLLOWING and start is not BoundKind.UNBOUNDED_PRECEDING:
        raise Declined.because(Code.FLOATING_POINT, f"{call.function} over frames up to the last row", "Window")
    return replace(call, in_order=True)
