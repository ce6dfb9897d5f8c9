"""Named expressions, aggregate and window calls, join keys: the parts of a plan that operators read.

They are below both the plan (which arranges them) and the operators (which run them).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import pyarrow as pa

from sundog.expr.nodes import Column, Expr


@dataclass(frozen=True)
class NamedExpr:
    """An expression under the internal name of its column."""

    name: str
    expr: Expr

    @property
    def is_passthrough(self) -> bool:
        """Whether it is a column under its own name."""
        return isinstance(self.expr, Column) and self.expr.name == self.name


@dataclass(frozen=True)
class AggregateCall:
    """One aggregate. `function` is Spark's name in lower case (sum, count, avg, min, ..., try_sum)."""

    name: str
    function: str
    args: tuple[Expr, ...]
    dtype: pa.DataType
    filter: Expr | None = None
    distinct: bool = False
    ignore_nulls: bool = False
    ansi: bool = True


class BoundKind(Enum):
    """Where a frame starts or ends. OFFSET: a distance from the current row, in `Bound.offset`."""

    UNBOUNDED_PRECEDING = "UNBOUNDED PRECEDING"
    OFFSET = "OFFSET"
    CURRENT_ROW = "CURRENT ROW"
    UNBOUNDED_FOLLOWING = "UNBOUNDED FOLLOWING"


@dataclass(frozen=True)
class Bound:
    """A frame boundary. `offset` is signed as in Spark: -3 is 3 PRECEDING, 1 is 1 FOLLOWING.

    ROWS: an int. RANGE: int, float or Decimal for numeric keys; int days for date keys; int microseconds for timestamp
    keys (`unit` "us"), or int months (`unit` "months").
    """

    kind: BoundKind
    offset: Any = None
    unit: str | None = None


@dataclass(frozen=True)
class Frame:
    """`ROWS` or `RANGE BETWEEN start AND end`."""

    units: str  # "rows" or "range"
    start: Bound
    end: Bound


@dataclass(frozen=True)
class WindowCall:
    """One window function. `args` of lag/lead: (input, offset literal, default); of ntile/nth_value: as in Spark.

    `in_order`: doubles are added from the first row of a frame to its last, like in Spark.
    """

    name: str
    function: str
    args: tuple[Expr, ...]
    dtype: pa.DataType
    frame: Frame
    filter: Expr | None = None
    ignore_nulls: bool = False
    ansi: bool = True
    in_order: bool = False


class JoinKind(Enum):
    """Which rows a join puts out. Catalyst's RIGHT join is a LEFT join with its sides exchanged."""

    INNER = "inner"
    LEFT = "left outer"
    FULL = "full outer"
    SEMI = "left semi"  # rows of the left side that have a partner
    ANTI = "left anti"  # rows of the left side that have none
    NULL_AWARE_ANTI = "null-aware anti"  # NOT IN: no partner, and no NULL on either side that could be one
    EXISTENCE = "existence"  # rows of the left side, and whether each has a partner

    @property
    def shows_right(self) -> bool:
        """Whether the columns of the right side are put out."""
        return self in (JoinKind.INNER, JoinKind.LEFT, JoinKind.FULL)

    @property
    def drops_left(self) -> bool:
        """Whether rows of the left side without a partner are dropped."""
        return self in (JoinKind.INNER, JoinKind.SEMI)


@dataclass(frozen=True)
class JoinKey:
    """`left = right`, over columns of the left and of the right side; both have one type.

    `null_safe`: `left <=> right`, where NULL equals NULL.
    """

    left: Expr
    right: Expr
    null_safe: bool = False
