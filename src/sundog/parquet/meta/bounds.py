"""Bounds of expressions: from the statistics of `x`, bounds of `x + 1` and `date_trunc('day', x)`.

Monotonic functions preserve bounds: if low <= x <= high, then f(low) <= f(x) <= f(high). The monotonic functions are
listed here once. f itself is not re-implemented but evaluated at both bounds, so that its rounding, calendar and
overflow are those of the query.

| expression of one column | direction | where not |
|---|---|---|
| cast that widens a number, or date -> timestamp | up | a time zone whose clocks are changed |
| x + c, x - c, c + x, timestamp + interval | up | overflow at a bound: unknown, and not safe to skip |
| c - x, -x | down | floats, whose NaN stays the greatest |
| date_trunc, trunc, year | up | a time zone whose clocks are changed |

If f raises at neither bound it raises nowhere between them, so such a row group may be skipped even under ANSI. All
other expressions have unknown bounds, and are safe only if they can never raise.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from sundog.expr.errors import SparkQueryError
from sundog.expr.evaluate import evaluate
from sundog.expr.evaluation.zones import Zone
from sundog.expr.nodes import (
    AddInterval,
    Arith,
    ArithOp,
    Cast,
    Column,
    DatePart,
    DateTrunc,
    Expr,
    Literal,
    Negate,
    NormalizeFloat,
)
from sundog.expr.raising import can_raise
from sundog.expr.rank_columns import RankColumn
from sundog.expr.ranks import ranks_of_values
from sundog.parquet.meta.statistics import Bounds, Statistics
from sundog.tree import height, map_children
from sundog.types import TIMESTAMP, TIMESTAMP_NTZ

_INPUT = "input"
MAX_LEVELS = 100  # far below the depth of Python's stack


def expression_bounds(expr: Expr, statistics: Statistics) -> Bounds:
    """The bounds of the expression's values, one slot per row group."""
    if isinstance(expr, Column):
        return statistics.column(expr.name)
    if isinstance(expr, Literal):
        return Bounds.constant(expr.dtype, ranks_of_values([expr.value], expr.dtype)[0], statistics.rows)
    step = _monotonic_step(expr) if height(expr) <= MAX_LEVELS else None
    if step is None:
        return Bounds.unknown(expr.dtype, len(statistics), safe=not can_raise(expr))
    argument, falling = step
    return _carry_over(expr, argument, falling, expression_bounds(argument, statistics))


def _monotonic_step(expr: Expr) -> tuple[Expr, bool] | None:
    """The argument in which the expression is monotonic, and whether it falls; None if it is not known to be
    monotonic."""
    match expr:
        case Cast() if _widens(expr.child.dtype, expr.dtype, expr.zone):
            return expr.child, False
        case Arith(op=ArithOp.ADD, left=argument, right=Literal(value=value)) if _is_number(expr, value):
            return argument, False
        case Arith(op=ArithOp.ADD, left=Literal(value=value), right=argument) if _is_number(expr, value):
            return argument, False
        case Arith(op=ArithOp.SUB, left=argument, right=Literal(value=value)) if _is_number(expr, value):
            return argument, False
        case Arith(op=ArithOp.SUB, left=Literal(value=value), right=argument) if _is_number(expr, value):
            return None if pa.types.is_floating(expr.dtype) else (argument, True)
        case Negate() if pa.types.is_integer(expr.dtype) or pa.types.is_decimal(expr.dtype):
            return expr.child, True
        case DateTrunc() if _keeps_order(expr.zone):
            return expr.child, False
        case AddInterval(child=argument, interval=Literal(value=value)) if value is not None and _keeps_order(
            expr.zone
        ):
            return argument, False
        case NormalizeFloat(child=argument):
            return argument, False
        case DatePart(part="year") if pa.types.is_date32(expr.child.dtype):
            return expr.child, False
    return None


def _is_number(expr: Arith, constant: object) -> bool:
    """Whether it adds a finite constant to an integer, decimal or double."""
    if constant is None or not (expr.left.dtype.equals(expr.right.dtype) or pa.types.is_decimal(expr.dtype)):
        return False
    if pa.types.is_float64(expr.dtype):
        return bool(np.isfinite(constant))  # type: ignore[call-overload]
    return bool(pa.types.is_integer(expr.dtype) or pa.types.is_decimal(expr.dtype))


def _keeps_order(zone: Zone | None) -> bool:
    """Whether clocks are never set back: then a local time never goes down as the instant goes up."""
    return zone is None or zone.is_fixed


def _widens(source: pa.DataType, target: pa.DataType, zone: Zone | None) -> bool:
    if pa.types.is_signed_integer(source):
        if pa.types.is_signed_integer(target):
            return bool(target.bit_width >= source.bit_width)
        return bool(pa.types.is_decimal(target) or pa.types.is_floating(target))
    if pa.types.is_float32(source):
        return bool(pa.types.is_float64(target))
    if pa.types.is_decimal(source) and pa.types.is_decimal(target):
        more_scale = target.scale - source.scale
        return bool(more_scale >= 0 and target.precision - source.precision >= more_scale)
    if pa.types.is_date32(source):
        return bool(target.equals(TIMESTAMP_NTZ) or (target.equals(TIMESTAMP) and _keeps_order(zone)))
    return False


def _carry_over(expr: Expr, argument: Expr, falling: bool, bounds: Bounds) -> Bounds:
    """Evaluate the expression at the bounds of its argument."""
    ends = (bounds.high, bounds.low) if falling else (bounds.low, bounds.high)
    low, high = (_evaluate_at(expr, argument, end) for end in ends)
    lost = (ends[0].known & ~low.known) | (ends[1].known & ~high.known)
    if _is_total(expr, argument) and not lost.any():
        return replace(bounds, dtype=expr.dtype, low=low, high=high)
    # It may overflow: to an error, to NULL or by wrapping. It did not if both ends have values, in order.
    known = low.less_equal(high) | ~bounds.values
    return Bounds(
        dtype=expr.dtype,
        low=low.only(known),
        high=high.only(known),
        nulls=bounds.nulls | ~known,
        values=bounds.values,
        null_counts=np.where(known, bounds.null_counts, -1),
        safe=bounds.safe & (known | (not can_raise(expr))),
    )


def _is_total(expr: Expr, argument: Expr) -> bool:
    """Whether it has a value for every argument, without error: each bound is then valid by itself."""
    if isinstance(expr, Cast):
        return not (pa.types.is_integer(argument.dtype) and pa.types.is_decimal(expr.dtype))
    if isinstance(expr, DateTrunc):
        return not can_raise(expr)
    return isinstance(expr, DatePart) or pa.types.is_floating(expr.dtype)


def _evaluate_at(expr: Expr, argument: Expr, bounds: RankColumn) -> RankColumn:
    """The expression's ranks at the given ranks of its argument; unknown if there is none or evaluating raises."""
    probe = map_children(expr, lambda child: Column(_INPUT, argument.dtype) if child is argument else child)
    return RankColumn.of_array(_values_at(probe, bounds.to_array(argument.dtype), expr.dtype))


def _values_at(probe: Expr, inputs: pa.Array, dtype: pa.DataType) -> pa.Array:
    """The values, NULL where evaluating raises. Such bounds are found by halving: they are few."""
    try:
        return evaluate(probe, pa.record_batch([inputs], names=[_INPUT]))
    except SparkQueryError:
        if len(inputs) == 1:
            return pa.nulls(1, dtype)
    half = len(inputs) // 2
    return pa.concat_arrays([_values_at(probe, part, dtype) for part in (inputs.slice(0, half), inputs.slice(half))])
