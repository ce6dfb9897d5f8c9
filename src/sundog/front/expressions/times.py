"""Parts of dates and times, truncation and shifts."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from sundog.expr.nodes import AddInterval, Arith, ArithOp, DatePart, DateTrunc, EvalMode, Expr
from sundog.front.catalyst_json import Node
from sundog.front.expressions.reading import Entry, Reader, Scope, children_of, constant, refuse_type, require, zone_of
from sundog.support import Code
from sundog.types import DAY_TIME_INTERVAL, TIMESTAMP, TIMESTAMP_NTZ


def _day_part(part: str) -> Reader:
    def read(node: Node, scope: Scope) -> Expr:
        (child,) = children_of(node, scope, 1)
        if not pa.types.is_date32(child.dtype):
            raise refuse_type(node, child.dtype)
        return DatePart(part, child, pa.int32())

    return read


def _time_part(part: str, dtype: pa.DataType) -> Reader:
    def read(node: Node, scope: Scope) -> Expr:
        (child,) = children_of(node, scope, 1)
        if child.dtype not in (TIMESTAMP, TIMESTAMP_NTZ):
            raise refuse_type(node, child.dtype)
        return DatePart(part, child, dtype, zone_of(node, scope) if child.dtype == TIMESTAMP else None)

    return read


_DATE_UNITS = {
    "year": "year",
    "yyyy": "year",
    "yy": "year",
    "quarter": "quarter",
    "month": "month",
    "mm": "month",
    "mon": "month",
    "week": "week",
}
_TIME_UNITS = _DATE_UNITS | {
    "day": "day",
    "dd": "day",
    "hour": "hour",
    "minute": "minute",
    "second": "second",
    "millisecond": "millisecond",
    "microsecond": "microsecond",
}


def _unit(expr: Expr, node: Node, units: Mapping[str, str]) -> str:
    name = constant(expr, node, "a unit")
    require(
        isinstance(name, str) and name.isascii() and name.lower() in units,
        Code.UNKNOWN_EXPRESSION,
        f"{node.name} with the unit {name!r}",
        node,
    )
    return units[name.lower()]


def _trunc_timestamp(node: Node, scope: Scope) -> Expr:
    unit, child = children_of(node, scope, 2)
    if child.dtype != TIMESTAMP:
        raise refuse_type(node, child.dtype)
    return DateTrunc(_unit(unit, node, _TIME_UNITS), child, child.dtype, zone_of(node, scope))


def _trunc_date(node: Node, scope: Scope) -> Expr:
    child, unit = children_of(node, scope, 2)
    if not pa.types.is_date32(child.dtype):
        raise refuse_type(node, child.dtype)
    return DateTrunc(_unit(unit, node, _DATE_UNITS), child, child.dtype)


def _date_shift(op: ArithOp) -> Reader:
    def read(node: Node, scope: Scope) -> Expr:
        date, days = children_of(node, scope, 2)
        if not (pa.types.is_date32(date.dtype) and pa.types.is_integer(days.dtype) and days.dtype.bit_width <= 32):
            raise refuse_type(node, date.dtype, days.dtype)
        return Arith(op, date, days, date.dtype, EvalMode.LEGACY)

    return read


def _date_diff(node: Node, scope: Scope) -> Expr:
    end, start = children_of(node, scope, 2)
    if not (pa.types.is_date32(end.dtype) and pa.types.is_date32(start.dtype)):
        raise refuse_type(node, end.dtype, start.dtype)
    return Arith(ArithOp.SUB, end, start, pa.int32(), EvalMode.LEGACY)


def _add_interval(node: Node, scope: Scope) -> Expr:
    start, interval = children_of(node, scope, 2)
    if start.dtype not in (TIMESTAMP, TIMESTAMP_NTZ) or interval.dtype != DAY_TIME_INTERVAL:
        raise refuse_type(node, start.dtype, interval.dtype)
    return AddInterval(start, interval, start.dtype, zone_of(node, scope) if start.dtype == TIMESTAMP else None)


ENTRIES = {
    "Year": Entry(_day_part("year"), "`year(d)`"),
    "Quarter": Entry(_day_part("quarter"), "`quarter(d)`"),
    "Month": Entry(_day_part("month"), "`month(d)`"),
    "DayOfMonth": Entry(_day_part("day"), "`day(d)`"),
    "DayOfWeek": Entry(_day_part("dayofweek"), "`dayofweek(d)`"),
    "WeekDay": Entry(_day_part("weekday"), "`weekday(d)`"),
    "DayOfYear": Entry(_day_part("dayofyear"), "`dayofyear(d)`"),
    "WeekOfYear": Entry(_day_part("weekofyear"), "`weekofyear(d)`"),
    "YearOfWeek": Entry(_day_part("yearofweek"), "`extract(yearofweek from d)`"),
    "Hour": Entry(_time_part("hour", pa.int32()), "`hour(t)`"),
    "Minute": Entry(_time_part("minute", pa.int32()), "`minute(t)`"),
    "Second": Entry(_time_part("second", pa.int32()), "`second(t)`"),
    "SecondWithFraction": Entry(_time_part("second_fraction", pa.decimal128(8, 6)), "`extract(second from t)`"),
    "TruncTimestamp": Entry(_trunc_timestamp, "`date_trunc(constant, t)`"),
    "TruncDate": Entry(_trunc_date, "`trunc(d, constant)`"),
    "DateAdd": Entry(_date_shift(ArithOp.ADD), "`date_add(d, n)`, `d + n`"),
    "DateSub": Entry(_date_shift(ArithOp.SUB), "`date_sub(d, n)`, `d - n`"),
    "DateDiff": Entry(_date_diff, "`datediff(d, e)`"),
    "TimestampAddInterval": Entry(_add_interval, "`t + INTERVAL` of days to seconds"),
}
