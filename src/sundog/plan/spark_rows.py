"""Whether to take a GROUP BY or window over foreign rows: cost of handing them over, against Spark's time.

    Spark's subtree --> ArrowWriter, row by row --> a Python worker --> sundog's operators --> rows for Spark again

A UDF, a CSV file, a cached DataFrame or an operator that sundog declines stays Spark's; sundog may still take the shape
above it. Each row then costs several hundred nanoseconds before sundog computes anything: more than Spark takes for a
whole GROUP BY of few groups, less than it takes for many groups or a sliding frame. So both costs are estimated, from
Spark's own statistics and the keys of the first rows; where something is unknown, Spark keeps the shape.
`docs/decisions/rows-of-spark.md` has the measurements.

A window without PARTITION BY is always taken: Spark would compute it on one core.

One side of a join may be foreign rows as well. They are collected on the driver, so they must be few, and are its build
side; sundog reads the other side from a table, filtered by their keys.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pyarrow as pa

from sundog.config import Settings
from sundog.expr.calls import BoundKind, WindowCall
from sundog.expr.nodes import Column, Literal
from sundog.plan.costs import Costs, read_costs
from sundog.plan.logical import Aggregate, Filter, Foreign, Join, LogicalPlan, Project, Window
from sundog.support import Code, Reason
from sundog.tree import walk
from sundog.types import is_text


@dataclass(frozen=True)
class HandOverVerdict:
    """Processor time of a shape over rows of Spark's: on Spark, and with sundog after they were handed over."""

    rows: float
    hand_over_ns: float
    sundog_ns: float
    spark_ns: float
    least_seconds: float

    @property
    def pays(self) -> bool:
        return self.won_seconds > self.least_seconds

    @property
    def won_seconds(self) -> float:
        return self.rows * (self.spark_ns - self.hand_over_ns - self.sundog_ns) / 1e9

    def __str__(self) -> str:
        won = self.won_seconds
        return (
            f"about {self.rows:,.0f} rows of Spark's, each {self.hand_over_ns:.0f} ns to hand over and "
            f"{self.sundog_ns:.0f} to compute, against {self.spark_ns:.0f} ns on Spark: "
            + (f"{won:.1f} s won, {self.least_seconds:g} needed" if won > 0 else f"{-won:.1f} s lost")
        )


def spark_input(plan: LogicalPlan) -> Foreign | None:
    """The foreign rows that a plan reads, and nothing else; None if it reads tables, or several inputs."""
    while isinstance(plan, Project | Filter):
        plan = plan.child
    return plan if isinstance(plan, Foreign) else None


def is_collected(plan: LogicalPlan) -> bool:
    """Whether a side of a join is foreign rows that the driver collects, below any nodes that rules have added."""
    while isinstance(plan, Project | Filter):
        plan = plan.child
    return isinstance(plan, Foreign) and plan.collected


def expected_rows(foreign: Foreign, costs: Costs) -> float | None:
    """Estimated rows; None if nothing is known."""
    found = foreign.estimate
    return None if found is None else found.rows * costs.kept_by_other**found.conditions


def most_bytes(foreign: Foreign, costs: Costs) -> float | None:
    """The bytes of the columns, too many rather than too few; None if nothing is known."""
    found = foreign.estimate
    if found is None:
        return None
    return found.rows * row_bytes(foreign.schema, costs) * (1 if found.counted else costs.max_misjudged_rows)


def row_bytes(schema: pa.Schema, costs: Costs) -> float:
    return float(sum(costs.string_bytes if is_text(field.type) else costs.number_bytes for field in schema))


def judge_of(settings: Settings, refused: Reason | None) -> Callable[[LogicalPlan], Reason | None]:
    """Tells why a shape over foreign rows is left to Spark. `refused`: the reason for shapes that may be left."""
    costs = read_costs(settings.costs).executors
    return lambda shape: why_left_to_spark(shape, costs) or (refused if may_be_left(shape) else None)


def why_left_to_spark(shape: LogicalPlan, costs: Costs) -> Reason | None:
    """Why a shape right above foreign rows is not taken, whatever its keys are; None if the keys decide."""
    if isinstance(shape, Join):
        return why_not_collected(shape, costs)
    node, foreign = _shape_node(shape), spark_input(_shape_node(shape).child)
    if foreign is None or not may_be_left(shape):
        return None
    if expected_rows(foreign, costs) is None:
        return _cost(
            "Spark does not know how many rows there are, and to hand them over may cost more than is won", node
        )
    verdict = verdict_of(node, foreign, None, costs)
    if not verdict.pays:
        return _cost(str(verdict), node)
    if probed_columns(node) is None or foreign.moves_rows:
        return _cost("how many keys rows of Spark's have is not known without computing all of them", node)
    return None


def may_be_left(shape: LogicalPlan) -> bool:
    """Whether costs decide. Not for a window without PARTITION BY, which Spark would compute on one core."""
    if isinstance(shape, Join):
        return True
    node = _shape_node(shape)
    return isinstance(node, Aggregate) or bool(node.partition_by)


def why_not_collected(join: Join, costs: Costs) -> Reason | None:
    """Why one side of a join is not collected from Spark as the build side; None if its rows are few."""
    side = next(each for each in join.children if isinstance(each, Foreign))
    size = most_bytes(side, costs)
    if size is None:
        return _cost("Spark does not know how many rows one side has, and only few are collected", join)
    if size <= costs.broadcast_bytes:
        return None
    return _cost(
        f"one side has about {expected_rows(side, costs):,.0f} rows of Spark's, {size:,.0f} bytes at most; "
        f"{costs.broadcast_bytes:,} are collected",
        join,
    )


def why_collecting_loses(side: Foreign, probed_rows: float, costs: Costs) -> Reason | None:
    """Why one side of a join is not collected from Spark, given the rows of the other side; None if that is faster.

    Spark computes the side in any case, and saves a stage. What sundog loses is the cost of handing the rows over.
    """
    rows = expected_rows(side, costs) or 0.0
    lost = rows * hand_over_ns(side, costs) / 1e9
    won = probed_rows * costs.spark_join_ns_per_row / 1e9 + costs.spark_join_seconds
    if lost <= won:
        return None
    sentence = (
        f"about {rows:,.0f} rows of Spark's for one side of a join would take {lost:.2f} s to hand over, and "
        f"{won:.2f} s would be won with the {probed_rows:,.0f} rows of the other"
    )
    return Reason(Code.COST, sentence, "Join")


def _shape_node(shape: LogicalPlan) -> Aggregate | Window:
    """A matched shape without the projection above it."""
    return next(each for each in walk(shape) if isinstance(each, Aggregate | Window))


def why_left_with(node: Aggregate | Window, foreign: Foreign, keys: FirstKeys, costs: Costs) -> Reason | None:
    """Like `why_left_to_spark`, when the first rows have shown the keys."""
    verdict = verdict_of(node, foreign, keys, costs)
    return None if verdict.pays else _cost(f"some {keys.distinct:,.0f} keys, {verdict}", node)


def probed_columns(node: Aggregate | Window) -> tuple[str, ...] | None:
    """The columns whose first values show the number of keys; None if a key expression may make fewer of them."""
    keys = [key.expr for key in node.keys] if isinstance(node, Aggregate) else list(node.partition_by)
    named = tuple(key.name for key in keys if isinstance(key, Column))
    others = [key for key in keys if not isinstance(key, Column | Literal)]
    return named if named and not others and isinstance(node.child, Foreign) else None


def verdict_of(node: Aggregate | Window, foreign: Foreign, keys: FirstKeys | None, costs: Costs) -> HandOverVerdict:
    """`keys`: None for the keys with which sundog would gain most."""
    rows = expected_rows(foreign, costs) or 0.0
    spark_ns, sundog_ns = (
        _of_groups(node, foreign, rows, keys, costs)
        if isinstance(node, Aggregate)
        else _of_window(node, foreign, rows, keys, costs)
    )
    return HandOverVerdict(rows, hand_over_ns(foreign, costs), sundog_ns, spark_ns, costs.min_spark_rows_seconds)


def hand_over_ns(foreign: Foreign, costs: Costs) -> float:
    """Nanoseconds to hand a row over from Spark to a Python worker."""
    return _rows_ns(foreign.schema, costs)


def _rows_ns(schema: pa.Schema, costs: Costs) -> float:
    strings = sum(is_text(field.type) for field in schema)
    values = len(schema) - strings
    return costs.hand_over_ns_per_row + values * costs.hand_over_ns_per_number + strings * costs.hand_over_ns_per_string


def _of_groups(
    node: Aggregate, foreign: Foreign, rows: float, keys: FirstKeys | None, costs: Costs
) -> tuple[float, float]:
    """Nanoseconds of a row on Spark, and with sundog."""
    groups = costs.spark_few_groups if keys is None else keys.distinct
    if not node.keys or groups < costs.spark_few_groups:
        return costs.spark_few_groups_ns_per_row, costs.group_ns_per_row
    given_back = min(1.0, groups / max(rows, 1.0)) * _rows_ns(node.schema, costs)
    own = costs.group_ns_per_row + costs.merge_ns_per_row
    spark_ns = costs.spark_many_groups_ns_per_row + len(foreign.schema) * costs.spark_many_groups_ns_per_column
    return spark_ns, own + _moved_ns(foreign, costs) + given_back


def _of_window(
    node: Window, foreign: Foreign, rows: float, keys: FirstKeys | None, costs: Costs
) -> tuple[float, float]:
    """The same for a window."""
    rows_per_key = rows / max(1.0 if keys is None else keys.distinct, 1.0)
    slid = sum(_values_per_row(call, rows_per_key) for call in node.calls)
    spark_ns = costs.spark_window_ns_per_row + slid * costs.spark_frame_ns_per_value
    own = costs.sort_ns_per_row + costs.window_ns_per_row * len(node.calls)
    return spark_ns, own + _moved_ns(foreign, costs) + _rows_ns(node.schema, costs)


def _moved_ns(foreign: Foreign, costs: Costs) -> float:
    return costs.shuffle_ns_per_row + costs.shuffle_ns_per_byte * row_bytes(foreign.schema, costs)


def _values_per_row(call: WindowCall, rows_per_key: float) -> float:
    """Number of values that Spark reads again for each row: all of a sliding frame. None if the frame begins at
    UNBOUNDED PRECEDING, or is a frame by values, whose width is unknown."""
    start, end = call.frame.start, call.frame.end
    if start.kind is BoundKind.UNBOUNDED_PRECEDING:
        return 0.0
    if end.kind is BoundKind.UNBOUNDED_FOLLOWING:
        return rows_per_key / 2
    if call.frame.units != "rows":
        return 0.0
    return max(0.0, min(rows_per_key / 2, (end.offset or 0) - (start.offset or 0) + 1))


def _cost(sentence: str, node: Aggregate | Window | Join) -> Reason:
    return Reason(Code.COST, sentence, type(node).__name__)


@dataclass(frozen=True)
class FirstKeys:
    """What the first rows show of all keys: how many there may be, and the share of rows of the most frequent."""

    distinct: float
    largest_share: float

    @classmethod
    def of(cls, hashes: Iterable[int]) -> FirstKeys | None:
        """`hashes` of the keys of the first rows; None if there are none.

        Chao's estimate: if a sample has f1 keys once and f2 keys twice, it has missed at least about f1 * f1 / (2 *
        f2). So keys that come in clusters, or that the first rows do not have, count as few.
        """
        times = Counter(hashes)
        if not times:
            return None
        often = Counter(times.values())
        missed = often[1] * (often[1] - 1) / (2 * (often[2] + 1))
        return cls(len(times) + missed, max(times.values()) / times.total())
