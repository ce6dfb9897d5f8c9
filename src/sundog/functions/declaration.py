"""What is declared of a function: everything that matchers, planner, operators, documentation and tests ask about it.

A family (`extremes.py`, `moments.py`, ...) holds the code of its functions and, at its end, one `Function` for each of
them. `table.py` collects these. Nothing else in sundog knows a function by its name.

    Function(
        name="bit_and",                                     the name in calls, explain and documentation
        catalyst="BitAndAgg",                               the class in Catalyst's plans
        result=same_integer,                                argument types that are taken -> the type of the result
        grouped=partial(GroupedBits, operation=BIT_AND),    GROUP BY: an accumulator (`grouped.py`)
        framed=partial(FramedBits, operation=BIT_AND),      OVER a frame: a frame function (`framed.py`)
    )
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import pyarrow as pa

from sundog.expr.calls import AggregateCall, WindowCall

if TYPE_CHECKING:
    from sundog.functions.framed import FrameFunction
    from sundog.functions.grouped import Accumulator
    from sundog.functions.ranks import RankFunction

ANY_NUMBER = -1  # of arguments

ResultType = Callable[[pa.DataType], pa.DataType | None]
"""The first argument's type -> the result's type; None for a type that sundog does not take."""


class Nulls(Enum):
    """What a function makes of NULL arguments."""

    SKIPPED = "skipped; NULL if nothing is left"  # sum, max, corr
    SKIPPED_ZERO = "skipped; 0 if nothing is left"  # count
    VALUES = "values, unless IGNORE NULLS"  # first, lag
    OF_ORDER_SKIPPED = "rows with a NULL order are skipped; NULL if nothing is left"  # max_by
    NO_ARGUMENT = "no argument"  # rank


class Overflow(Enum):
    """What happens to a result that its type cannot hold."""

    CANNOT = "cannot overflow"
    OF_SUM = "integers: raises under ANSI, else wraps around; decimals: raises under ANSI, else NULL; intervals: raises"
    OF_AVERAGE = "decimals: raises under ANSI, else NULL; intervals: raises"
    GIVES_NULL = "NULL"  # try_sum


class Order(Enum):
    """Whether the order of rows decides the result. Rounding of doubles is another question:
    `Function.adds_doubles`."""

    IGNORED = "ignored"  # sum, rank
    DECIDES = "decides"  # first, lag, row_number
    DECIDES_ZEROS = "decides between -0.0 and 0.0"  # max: the first of equals stays


class Reach(Enum):
    """Which rows a function reads as a window function; with the frame it decides how a window can be cut."""

    FRAME = "rows of the frame"  # sum, max, first, nth_value
    NEIGHBOUR = "one row, some rows away"  # lag, lead
    BEFORE = "number of rows and keys before the row"  # row_number, rank, dense_rank
    ALL = "number of rows before the row and of all rows"  # ntile, percent_rank, cume_dist


@dataclass(frozen=True, kw_only=True)
class Function:
    """One function. Faces that it does not have are None; then that shape of query stays on Spark."""

    name: str
    result: ResultType
    catalyst: str = ""  # empty: no class of its own (try_sum is a Sum with another evaluation mode)
    arguments: int = 1
    grouped: Callable[[AggregateCall], Accumulator] | None = None
    framed: Callable[[WindowCall], FrameFunction] | None = None
    ranked: RankFunction | None = None  # instead of `framed`, for functions of a row's place
    nulls: Nulls = Nulls.SKIPPED
    overflow: Overflow = Overflow.CANNOT
    tried_as: str | None = None  # the function that Catalyst's evaluation mode TRY means
    order: Order = Order.IGNORED
    reach: Reach = Reach.FRAME
    counts_keys: bool = False  # as a window function, needs the number of distinct order keys before the row
    constant: int | None = None  # the argument that is a constant number: of rows, or of tiles
    adds_doubles: Callable[[pa.DataType], bool] | None = None  # for which argument types the order of addition shows
    ignores_duplicates: bool = False  # DISTINCT makes no difference
    internal: bool = False  # made by a matcher; has no name in SQL
    reads_argument_once: bool = False  # in Spark's update; others may evaluate an argument that raises twice

    @property
    def over_windows(self) -> bool:
        return self.framed is not None or self.ranked is not None

    def order_decides(self, dtype: pa.DataType | None) -> bool:
        """Whether the order of rows decides, for a first argument of the type."""
        if self.order is Order.DECIDES_ZEROS:
            return dtype is not None and bool(pa.types.is_floating(dtype))
        return self.order is Order.DECIDES


def same(dtype: pa.DataType) -> pa.DataType | None:
    return None if pa.types.is_null(dtype) else dtype


def same_or_untyped(dtype: pa.DataType) -> pa.DataType | None:
    """Also of a NULL without type."""
    return dtype


def same_integer(dtype: pa.DataType) -> pa.DataType | None:
    return dtype if pa.types.is_integer(dtype) else None


def double_of_double(dtype: pa.DataType) -> pa.DataType | None:
    """Catalyst has cast the argument."""
    return dtype if pa.types.is_float64(dtype) else None


def always(result: pa.DataType) -> ResultType:
    return lambda dtype: result
