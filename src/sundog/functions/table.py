"""Which accumulator computes an aggregate call: the one table of functions and types."""

from __future__ import annotations

import pyarrow as pa

from sundog.errors import InternalError
from sundog.expr.calls import AggregateCall
from sundog.functions.extremes import Bits, Extreme
from sundog.functions.grouped import Accumulator
from sundog.functions.moments import Covariance, Variance
from sundog.functions.picks import ExtremeBy, ExtremePick, FirstLast
from sundog.functions.sums.decimals import AverageDecimals, SumDecimals
from sundog.functions.sums.integers import AverageFloats, AverageIntervals, Count, SumFloats, SumInts
from sundog.types import is_text


def accumulator_for(call: AggregateCall) -> Accumulator:
    """A fresh accumulator, without groups. `distinct` is not its concern: see `phases.py`."""
    function = call.function
    match function:
        case "count":
            return Count(call)
        case "sum" | "try_sum":
            return _sum(call)
        case "avg" | "try_avg":
            return _average(call)
        case "min" | "max":
            return ExtremePick(call) if _is_wide(call.args[0].dtype) else Extreme(call)
        case "bit_and" | "bit_or" | "bit_xor":
            return Bits(call)
        case "first" | "last" | "any_value":
            return FirstLast(call)
        case "min_by" | "max_by":
            return ExtremeBy(call)
        case "var_pop" | "var_samp" | "stddev_pop" | "stddev_samp":
            return Variance(call)
        case "covar_pop" | "covar_samp" | "corr":
            return Covariance(call)
        case _:
            raise InternalError(f"no accumulator for the aggregate function {function}")


_PICKS = frozenset({"first", "last", "any_value", "min_by", "max_by"})


def is_order_sensitive(call: AggregateCall) -> bool:
    """Whether the order of rows decides between equals: the first zero of a minimum of -0.0 and 0.0 stays, as in Spark.

    Sums of doubles depend on it too, in their last bits; but there Spark's own order of merging is not one of rows.
    """
    if call.function in ("min", "max"):
        return bool(pa.types.is_floating(call.args[0].dtype))
    return call.function in _PICKS


def _is_wide(dtype: pa.DataType) -> bool:
    return is_text(dtype) or bool(pa.types.is_decimal(dtype))


def _sum(call: AggregateCall) -> Accumulator:
    dtype = call.args[0].dtype
    if pa.types.is_decimal(dtype):
        return SumDecimals(call)
    return SumFloats(call) if pa.types.is_floating(dtype) else SumInts(call)


def _average(call: AggregateCall) -> Accumulator:
    dtype = call.args[0].dtype
    if pa.types.is_decimal(dtype):
        return AverageDecimals(call)
    return AverageIntervals(call) if pa.types.is_duration(dtype) else AverageFloats(call)
