"""sum, avg, try_sum, try_avg: the implementation for each argument type."""

from __future__ import annotations

from functools import partial

import pyarrow as pa

from sundog.expr.calls import AggregateCall, WindowCall
from sundog.functions.declaration import Function, Overflow
from sundog.functions.framed import MergeableFunction
from sundog.functions.grouped import Accumulator
from sundog.functions.sums.decimals import FramedDecimalSum, GroupedDecimalAverage, GroupedDecimalSum
from sundog.functions.sums.doubles import FramedDoubleSum, GroupedDoubleAverage, GroupedDoubleSum
from sundog.functions.sums.integers import FramedIntegerSum, GroupedIntegerSum, GroupedIntervalAverage
from sundog.functions.sums.rules import average_type, sum_type


def grouped_sum(call: AggregateCall, *, forgiving: bool) -> Accumulator:
    dtype = call.args[0].dtype
    if pa.types.is_decimal(dtype):
        return GroupedDecimalSum(call, forgiving=forgiving)
    return GroupedDoubleSum(call) if pa.types.is_floating(dtype) else GroupedIntegerSum(call, forgiving=forgiving)


def grouped_average(call: AggregateCall, *, forgiving: bool) -> Accumulator:
    dtype = call.args[0].dtype
    if pa.types.is_decimal(dtype):
        return GroupedDecimalAverage(call, forgiving=forgiving)
    return (
        GroupedIntervalAverage(call, forgiving=forgiving) if pa.types.is_duration(dtype) else GroupedDoubleAverage(call)
    )


def framed_sum(call: WindowCall, *, average: bool, forgiving: bool) -> MergeableFunction:
    dtype = call.args[0].dtype
    if pa.types.is_decimal(dtype):
        return FramedDecimalSum(call, average=average, forgiving=forgiving)
    if pa.types.is_floating(dtype) or (average and pa.types.is_integer(dtype)):
        return FramedDoubleSum(call, average=average)
    return FramedIntegerSum(call, average=average, forgiving=forgiving)


def _sum_rounds(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_floating(dtype))


def _average_rounds(dtype: pa.DataType) -> bool:
    """Whether the average rounds. Sums of integers of up to 32 bits are exact in a double."""
    return bool(pa.types.is_floating(dtype) or (pa.types.is_integer(dtype) and dtype.bit_width == 64))


def _always_rounds(dtype: pa.DataType) -> bool:
    return True


def _sum(name: str, *, catalyst: str = "", tried_as: str | None = None) -> Function:
    forgiving = tried_as is None
    return Function(
        name=name,
        catalyst=catalyst,
        result=sum_type,
        grouped=partial(grouped_sum, forgiving=forgiving),
        framed=partial(framed_sum, average=False, forgiving=forgiving),
        overflow=Overflow.GIVES_NULL if forgiving else Overflow.OF_SUM,
        tried_as=tried_as,
        adds_doubles=_sum_rounds,
        adds_short_decimals=True,
        reads_argument_once=not forgiving,
    )


def _average(name: str, *, catalyst: str = "", tried_as: str | None = None) -> Function:
    forgiving = tried_as is None
    return Function(
        name=name,
        catalyst=catalyst,
        result=average_type,
        grouped=partial(grouped_average, forgiving=forgiving),
        framed=partial(framed_sum, average=True, forgiving=forgiving),
        overflow=Overflow.GIVES_NULL if forgiving else Overflow.OF_AVERAGE,
        tried_as=tried_as,
        adds_doubles=_average_rounds,
        adds_short_decimals=True,
    )


SUM = _sum("sum", catalyst="Sum", tried_as="try_sum")
AVERAGE = _average("avg", catalyst="Average", tried_as="try_avg")
# Catalyst computes the average of a decimal(p,s) over a frame through a double if p + 4 <= 15.
AVERAGE_OF_UNSCALED = Function(
    name="avg_unscaled",
    result=average_type,
    framed=partial(FramedDoubleSum, average=True),
    adds_doubles=_always_rounds,
    internal=True,
)
FUNCTIONS = (
    SUM,
    _sum("try_sum"),
    AVERAGE,
    _average("try_avg"),
    AVERAGE_OF_UNSCALED,
)
