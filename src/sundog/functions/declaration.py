"""The declaration of a function: everything that matchers, planner, operators, documentation and tests ask about it.

A family (`extremes.py`, `moments.py`, ...) has the code of its functions and, at its end, one `Function` for each of
them. `table.py` collects these. Nothing else in sundog knows a function by its name.
Two places know how Catalyst writes the evaluation mode of one of its classes: `front/jvm/expression_details.py` of
Average, `versions/spark_4_0.py` of Sum.

    Function(
        name="bit_and",                                     the name in calls, explain and documentation
        catalyst="BitAndAgg",                               the class in Catalyst's plans
        result=same_integer,                                argument types that are taken -> the type of the result
        grouped=partial(GroupedBits, operation=BIT_AND),    GROUP BY: an accumulator (`grouped.py`)
        framed=partial(FramedBits, operation=BIT_AND),      OVER a frame: a frame function (`framed.py`)
    )
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import pyarrow as pa

from sundog.expr.calls import AggregateCall, WindowCall

if TYPE_CHECKING:
    from sundog.functions.framed import FrameFunction
    from sundog.functions.grouped import Accumulator
    from sundog.functions.ranks import RankFunction

ANY_NUMBER = -1  # of arguments: any

ResultType = Callable[[pa.DataType], pa.DataType | None]
"""The first argument's type -> the result's type; None for a type that sundog does not take."""


class Nulls(Enum):
    """How a function treats NULL arguments."""

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
    """Whether the order of rows decides the result. Rounding of doubles is declared apart: `Function.adds_doubles`."""

    IGNORED = "ignored"  # sum, rank
    DECIDES = "decides"  # first, lag, row_number
    DECIDES_ZEROS = "decides between -0.0 and 0.0"  # max: keeps the first of equal values


class Reach(Enum):
    """Which rows a function reads as a window function; with the frame it determines how a window can be cut."""

    FRAME = "rows of the frame"  # sum, max, first, nth_value
    NEIGHBOUR = "one row, some rows away"  # lag, lead
    BEFORE = "number of rows and keys before the row"  # row_number, rank, dense_rank
    ALL = "number of rows before the row and of all rows"  # ntile, percent_rank, cume_dist


@dataclass(frozen=True, kw_only=True)
class Function:
    """One function. A face that it does not have is None; that shape of query then stays on Spark."""

    name: str
    result: ResultType
    catalyst: str = ""  # empty: no class of its own (try_sum is a Sum with another evaluation mode)
    arguments: int = 1
    grouped: Callable[[AggregateCall], Accumulator] | None = None
    framed: Callable[[WindowCall], FrameFunction] | None = None
    ranked: RankFunction | None = None  # instead of `framed`, for functions of a row's position
    nulls: Nulls = Nulls.SKIPPED
    overflow: Overflow = Overflow.CANNOT
    tried_as: str | None = None  # the function that Catalyst's evaluation mode TRY stands for
    order: Order = Order.IGNORED
    reach: Reach = Reach.FRAME
    counts_keys: bool = False  # as a window function, needs the number of distinct order keys before the row
    constant: int | None = None  # index of the argument that is a constant number: of rows, or of tiles
    adds_doubles: Callable[[pa.DataType], bool] | None = None  # for which argument types the order of addition matters
    adds_short_decimals: bool = False  # by group, decimals of one word a value as well (`columns/short_decimals.py`)
    ignores_duplicates: bool = False  # DISTINCT makes no difference
    internal: bool = False  # made by a matcher; has no name in SQL
    divides_unguarded: bool = False  # under ANSI its division by zero raises, in Spark versions that do not guard it
    reads_argument_once: bool = False  # in Spark's update; for others, an argument that raises may be evaluated twice

    @property
    def over_windows(self) -> bool:
        return self.framed is not None or self.ranked is not None

    def result_of(self, arguments: Sequence[pa.DataType], over_window: bool) -> pa.DataType | None:
        """The type of the result for arguments of these types; None if sundog does not take them.

        An untyped NULL is taken by count and over windows; grouped, by no other function as its last argument.
        """
        is_read = over_window or self.nulls is Nulls.SKIPPED_ZERO
        if arguments and pa.types.is_null(arguments[-1]) and not is_read:
            return None
        return self.result(arguments[0] if arguments else pa.null())

    def order_decides(self, dtype: pa.DataType | None) -> bool:
        """Whether the order of rows decides, if the first argument has this type."""
        if self.order is Order.DECIDES_ZEROS:
            return dtype is not None and bool(pa.types.is_floating(dtype))
        return self.order is Order.DECIDES


def same(dtype: pa.DataType) -> pa.DataType | None:
    return None if pa.types.is_null(dtype) else dtype


def same_or_untyped(dtype: pa.DataType) -> pa.DataType | None:
    """The argument's type, even that of an untyped NULL."""
    return dtype


def same_integer(dtype: pa.DataType) -> pa.DataType | None:
    return dtype if pa.types.is_integer(dtype) else None


def double_of_double(dtype: pa.DataType) -> pa.DataType | None:
    """double for double: Catalyst has cast the argument."""
    return dtype if pa.types.is_float64(dtype) else None


def always(result: pa.DataType) -> ResultType:
    return lambda dtype: result
