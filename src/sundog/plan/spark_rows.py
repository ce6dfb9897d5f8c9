"""Whether a GROUP BY or a window over rows that only Spark can read pays: what handing them over costs and wins.

    Spark's subtree --> ArrowWriter, row by row --> a Python worker --> sundog's operators --> rows for Spark again

A UDF, a CSV file, a cached DataFrame or an operator that sundog declines stays Spark's; the shape above it may still be
sundog's. Each row then costs several hundred nanoseconds before sundog has done anything: more than Spark takes for a
whole GROUP BY of few groups, less than it takes for many groups or a sliding frame. So it is reckoned, from Spark's
own statistics and the keys of the first rows; what is not known is left to Spark. `docs/decisions/rows-of-spark.md`
has the measurements.

A window without PARTITION BY is always taken: Spark would compute it on one core.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from sundog.expr.calls import BoundKind, WindowCall
from sundog.expr.nodes import Column, Literal
from sundog.plan.costs import Costs
from sundog.plan.logical import Aggregate, Filter, Foreign, LogicalPlan, Project, Window
from sundog.support import Code, Reason
from sundog.tree import walk
from sundog.types import is_text


@dataclass(frozen=True)
class Verdict:
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
    """The rows of Spark's that a plan reads, and nothing else; None if it reads tables, or several inputs."""
    while isinstance(plan, Project | Filter):
        plan = plan.child
    return plan if isinstance(plan, Foreign) else None


def expected_rows(foreign: Foreign, costs: Costs) -> float | None:
    """A guess of the rows; None where nothing is known."""
    found = foreign.estimate
    return None if found is None else found.rows * costs.kept_by_other**found.conditions


def most_bytes(foreign: Foreign, costs: Costs) -> float | None:
    """The bytes of the columns, rather too many than too few; None where nothing is known."""
    found = foreign.estimate
    if found is None:
        return None
    return found.rows * row_bytes(foreign.schema, costs) * (1 if found.counted else costs.max_misjudged_rows)


def row_bytes(schema: pa.Schema, costs: Costs) -> float:
    return float(sum(costs.string_bytes if is_text(field.type) else costs.number_bytes for field in schema))


def why_left_to_spark(shape: LogicalPlan, costs: Costs) -> Reason | None:
    """Why a shape right above rows of Spark's is not taken, whatever its keys are; None if these may decide."""
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
    """Whether costs decide: not about a window without PARTITION BY, which Spark would compute on one core."""
    node = _shape_node(shape)
    return isinstance(node, Aggregate) or bool(node.partition_by)


def _shape_node(shape: LogicalPlan) -> Aggregate | Window:
    """What a matched shape is but for the projection above it."""
    return next(each for each in walk(shape) if isinstance(each, Aggregate | Window))


def why_left_with(node: Aggregate | Window, foreign: Foreign, keys: FirstKeys, costs: Costs) -> Reason | None:
    """The same when the first rows have shown what the keys are."""
    verdict = verdict_of(node, foreign, keys, costs)
    return None if verdict.pays else _cost(f"some {keys.distinct:,.0f} keys, {verdict}", node)


def probed_columns(node: Aggregate | Window) -> tuple[str, ...] | None:
    """The columns whose first values tell how many keys there are; None if an expression may make fewer of them."""
    keys = [key.expr for key in node.keys] if isinstance(node, Aggregate) else list(node.partition_by)
    named = tuple(key.name for key in keys if isinstance(key, Column))
    others = [key for key in keys if not isinstance(key, Column | Literal)]
    return named if named and not others and isinstance(node.child, Foreign) else None


def verdict_of(node: Aggregate | Window, foreign: Foreign, keys: FirstKeys | None, costs: Costs) -> Verdict:
    """`keys`: None for those by which most could be won."""
    rows = expected_rows(foreign, costs) or 0.0
    spark_ns, sundog_ns = (
        _of_groups(node, foreign, rows, keys, costs)
        if isinstance(node, Aggregate)
        else _of_window(node, foreign, rows, keys, costs)
    )
    return Verdict(rows, hand_over_ns(foreign, costs), sundog_ns, spark_ns, costs.min_spark_rows_seconds)


def hand_over_ns(foreign: Foreign, costs: Costs) -> float:
    """Of a row, from Spark to a Python worker."""
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
    """The values that Spark reads anew for each row: all of a frame that slides, but only those that are new to it
    where its start stays. Of a frame by values, whose width nobody knows, none."""
    start, end = call.frame.start, call.frame.end
    if start.kind is BoundKind.UNBOUNDED_PRECEDING:
        return 0.0
    if end.kind is BoundKind.UNBOUNDED_FOLLOWING:
        return rows_per_key / 2
    if call.frame.units != "rows":
        return 0.0
    return max(0.0, min(rows_per_key / 2, (end.offset or 0) - (start.offset or 0) + 1))


def _cost(sentence: str, node: Aggregate | Window) -> Reason:
    return Reason(Code.COST, sentence, type(node).__name__)


@dataclass(frozen=True)
class FirstKeys:
    """What the first rows say of the keys of all: how many there may be, and the share of rows of the commonest."""

    distinct: float
    largest_share: float

    @classmethod
    def of(cls, hashes: Iterable[int]) -> FirstKeys | None:
        """`hashes` of the keys of the first rows; None if there are none.

        By Chao: a sample that meets f1 keys once and f2 twice has missed about f1 * f1 / (2 * f2), rather more than
        less. So keys that come in clusters, or that the first rows do not show, are taken to be few.
        """
        times = Counter(hashes)
        if not times:
            return None
        often = Counter(times.values())
        missed = often[1] * (often[1] - 1) / (2 * (often[2] + 1))
        return cls(len(times) + missed, max(times.values()) / times.total())
