"""The one table of functions, looked up by the name or the Catalyst class of a call.

The declarations are at the end of each family's file (`declaration.py` says what they contain).
"""

from __future__ import annotations

import pyarrow as pa

from sundog.errors import InternalError
from sundog.expr.calls import AggregateCall, WindowCall
from sundog.functions import bits, counts, extremes, moments, picks, ranks, shifts
from sundog.functions.declaration import Function, Overflow
from sundog.functions.framed import FrameFunction, Positions, constant_argument
from sundog.functions.grouped import Accumulator
from sundog.functions.ranks import Peers, Standing
from sundog.functions.sums import functions as sums
from sundog.functions.sums.rules import sum_can_leave_its_type

FUNCTIONS: dict[str, Function] = {
    function.name: function
    for family in (counts, sums, extremes, bits, moments, picks, ranks, shifts)
    for function in family.FUNCTIONS
}
_BY_CATALYST = {function.catalyst: function for function in FUNCTIONS.values() if function.catalyst}


def of_catalyst(name: str) -> Function | None:
    """The function that a Catalyst class stands for; None if sundog has none."""
    return _BY_CATALYST.get(name)


def function_of(call: AggregateCall | WindowCall) -> Function:
    found = FUNCTIONS.get(call.function)
    if found is None:
        raise InternalError(f"no function {call.function}")
    return found


def accumulator_for(call: AggregateCall) -> Accumulator:
    """A new accumulator, without groups. It ignores `distinct`: see `operators/aggregate/phases.py`."""
    grouped = function_of(call).grouped
    if grouped is None:
        raise InternalError(f"no accumulator for the function {call.function}")
    return grouped(call)


def frame_function(call: WindowCall) -> FrameFunction:
    """The implementation of a call that is not a function of the row's position alone."""
    framed = function_of(call).framed
    if framed is None:
        raise InternalError(f"{call.function} is not computed over frames")
    return framed(call)


def is_ranked(call: WindowCall) -> bool:
    """Whether it is a function of the row's position alone."""
    return function_of(call).ranked is not None


def counts_keys(call: WindowCall) -> bool:
    """Whether it needs the number of distinct order keys before a row."""
    return function_of(call).counts_keys


def rank_values(call: WindowCall, segments: Positions, peers: Peers, standing: Standing) -> pa.Array:
    """The value of such a function for every row of the segments."""
    ranked = function_of(call).ranked
    if ranked is None:
        raise InternalError(f"{call.function} is not a function of a row's place")
    return ranked(call, segments, peers, standing)


def constant_of(call: WindowCall) -> int:
    """The argument that is a constant number of rows or tiles."""
    index = function_of(call).constant
    if index is None:
        raise InternalError(f"{call.function} has no constant argument")
    return constant_argument(call, index)


def order_decides(call: AggregateCall | WindowCall) -> bool:
    """Whether the order of rows decides between equal values: the minimum of -0.0 and 0.0 is the first of them, as in
    Spark."""
    return function_of(call).order_decides(call.args[0].dtype if call.args else None)


def adds_doubles(call: AggregateCall | WindowCall) -> bool:
    """Whether the order of addition can change the last bits of the result."""
    predicate = function_of(call).adds_doubles
    return predicate is not None and predicate(call.args[0].dtype)


def adds_short_decimals(call: AggregateCall) -> bool:
    """Whether the accumulator takes decimals of one word a value as well. DISTINCT compares them as two words."""
    is_decimal = bool(call.args) and pa.types.is_decimal(call.args[0].dtype)
    return is_decimal and not call.distinct and function_of(call).adds_short_decimals


def is_rounded(call: AggregateCall | WindowCall) -> bool:
    """Whether the result is a computed double, not one of the arguments or a ratio of counts."""
    return function_of(call).adds_doubles is not None and bool(pa.types.is_floating(call.dtype))


def may_raise(call: AggregateCall | WindowCall) -> bool:
    """Whether the function itself may raise for some rows, even if its arguments do not."""
    match function_of(call).overflow:
        case Overflow.OF_SUM:
            return sum_can_leave_its_type(call)
        case Overflow.OF_AVERAGE:
            return not pa.types.is_integer(call.args[0].dtype) and sum_can_leave_its_type(call)
        case _:
            return False
