"""Sums of one column plus different constants, computed from one sum and one count.

    sum(w), sum(w + 1), sum(w + 2)      is      sum(w), sum(w) + 1 * count(w), sum(w) + 2 * count(w)

ClickBench has ninety of them, and each would be a pass over the rows. Done for columns of 8 and 16 bits and constants
of up to 20 bits: then neither `w + 1` nor a sum of 2^42 rows can overflow, and the results are the same. It is done
here and not by a rule of the plan, since it decides whether the query is worth taking.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from sundog.expr.calls import AggregateCall
from sundog.expr.nodes import Arith, ArithOp, Cast, Column, Expr, Literal
from sundog.functions.counts import COUNT_ROWS
from sundog.functions.sums.functions import SUM
from sundog.functions.table import function_of

_LONG = pa.int64()
_MAX_COLUMN_BITS = 16
_MAX_CONSTANT = 1 << 20


def share_sums(calls: Sequence[AggregateCall], tag: str) -> tuple[list[AggregateCall], dict[str, Expr]]:
    """The remaining calls, and expressions over them for the others."""
    summands = {call.name: _summand(call) for call in calls}
    columns = [replace(call, name="", args=found[:1]) for call in calls if (found := summands[call.name]) is not None]
    left: list[AggregateCall] = []
    meaning: dict[str, Expr] = {}

    def known(wanted: AggregateCall) -> Column:
        for call in (*left, *calls):
            if replace(call, name="") == wanted and call.name not in meaning:
                return Column(call.name, call.dtype)
        left.append(replace(wanted, name=f"shared{len(left)}#{tag}"))
        return Column(left[-1].name, wanted.dtype)

    for call in calls:
        summand = summands[call.name]
        if summand is None or columns.count(total := replace(call, name="", args=summand[:1])) < 2:
            left.append(call)
            continue
        column, constant = summand
        count = known(AggregateCall("", COUNT_ROWS.name, (column,), _LONG, call.filter))
        more = Arith(ArithOp.MUL, Literal(constant, _LONG), count, _LONG)
        meaning[call.name] = Arith(ArithOp.ADD, known(total), more, _LONG)
    return left, meaning


def _summand(call: AggregateCall) -> tuple[Column, int] | None:
    """The column and the constant of `sum(column + constant)`; None for anything else, or if it might overflow."""
    arg = call.args[0] if function_of(call) is SUM and not call.distinct else None
    if not isinstance(arg, Arith) or arg.op not in (ArithOp.ADD, ArithOp.SUB) or not pa.types.is_integer(arg.dtype):
        return None
    if isinstance(arg.left, Literal) and arg.op is ArithOp.ADD:
        arg = replace(arg, left=arg.right, right=arg.left)
    column, constant = arg.left, arg.right
    if isinstance(column, Cast) and pa.types.is_integer(column.dtype):
        column = column.child
    if not isinstance(column, Column) or not isinstance(constant, Literal) or constant.value is None:
        return None
    bits = column.dtype.bit_width if pa.types.is_signed_integer(column.dtype) else _MAX_COLUMN_BITS + 1
    if (
        bits > _MAX_COLUMN_BITS
        or arg.left.dtype.bit_width < bits
        or arg.dtype.bit_width < 32
        or abs(constant.value) > _MAX_CONSTANT
    ):
        return None
    return column, constant.value if arg.op is ArithOp.ADD else -constant.value
