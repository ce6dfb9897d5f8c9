"""Reference window functions in plain Python: each frame is found by comparing all rows, each aggregate by iterating
over the frame.

Written from Spark's rules, not from the operators: rows are Python values, sorted by Python's stable sort, and a
frame's bound is key + offset in the key's own arithmetic. Quadratic on purpose.
"""

from __future__ import annotations

import calendar
import datetime
import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from sundog.expr.calls import Bound, BoundKind, Frame, WindowCall
from sundog.expr.nodes import Column, Expr, Literal
from sundog.expr.ordering import SortKey

EPOCH = datetime.date(1970, 1, 1)
DAY = 86_400_000_000
WIDE = Context(prec=150)


class Overflow(Exception):
    """Spark would have raised."""


def plain(array: pa.Array) -> list[Any]:
    """Python values; dates, timestamps and intervals as integers."""
    if pa.types.is_temporal(array.type):
        array = array.view(pa.int32() if pa.types.is_date32(array.type) else pa.int64())
    return array.to_pylist()


def column_values(table: pa.Table, expr: Expr) -> list[Any]:
    if isinstance(expr, Literal):
        return [expr.value] * table.num_rows
    assert isinstance(expr, Column)
    return plain(table.column(expr.name).combine_chunks())


def rank(value: Any) -> Any:
    """Spark's order among values that are not NULL."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value.encode() if isinstance(value, str) else value


def compare(left: Any, right: Any, key: SortKey) -> int:
    if left is None or right is None:
        if left is None and right is None:
            return 0
        return -1 if (left is None) == key.nulls_first else 1
    one, other = rank(left), rank(right)
    if one == other:
        return 0
    return -1 if (one < other) != key.descending else 1


class _Comparable:
    def __init__(self, values: Sequence[Any], keys: Sequence[SortKey]) -> None:
        self.values, self.keys = values, keys

    def __lt__(self, other: _Comparable) -> bool:
        for one, two, key in zip(self.values, other.values, self.keys, strict=True):
            if result := compare(one, two, key):
                return result < 0
        return False


def sort_rows(table: pa.Table, partition_by: Sequence[Expr], order_by: Sequence[SortKey]) -> pa.Table:
    keys = [*(SortKey(expr) for expr in partition_by), *order_by]
    if not keys:
        return table
    rows = list(zip(*(column_values(table, key.expr) for key in keys), strict=True))
    order = sorted(range(table.num_rows), key=lambda row: _Comparable(rows[row], keys))
    return table.take(pa.array(order, pa.int64()))


def moved(value: Any, bound: Bound, dtype: pa.DataType, descending: bool) -> Any:
    if value is None:
        return None
    offset = -bound.offset if descending else bound.offset
    if bound.unit == "months":
        days, rest = (value, 0) if pa.types.is_date32(dtype) else divmod(value, DAY)
        date = EPOCH + datetime.timedelta(days=days)
        month = date.year * 12 + date.month - 1 + offset
        year, month = month // 12, month % 12 + 1
        date = date.replace(year=year, month=month, day=min(date.day, calendar.monthrange(year, month)[1]))
        days = (date - EPOCH).days
        return days if pa.types.is_date32(dtype) else days * DAY + rest
    if pa.types.is_float32(dtype):
        with np.errstate(all="ignore"):
            return float(np.float32(value) + np.float32(offset))
    if pa.types.is_decimal(dtype):
        return WIDE.add(value, offset)
    return value + offset


@dataclass
class Segment:
    """Rows first .. last of the sorted table share their partition keys."""

    first: int
    last: int


class Reference:
    def __init__(self, table: pa.Table, partition_by: Sequence[Expr], order_by: Sequence[SortKey]) -> None:
        self.table = sort_rows(table, partition_by, order_by)
        self.order_by = order_by
        self.keys = [column_values(self.table, key.expr) for key in order_by]
        partitions = [column_values(self.table, expr) for expr in partition_by]
        self.segments: list[Segment] = []
        for row in range(self.table.num_rows):
            same = row > 0 and all(compare(v[row], v[row - 1], SortKey(None)) == 0 for v in partitions)
            if same:
                self.segments[-1].last = row + 1
            else:
                self.segments.append(Segment(row, row + 1))

    def peers(self, one: int, other: int) -> bool:
        return self._compare(one, other) == 0

    def _compare(self, one: int, other: int) -> int:
        for values, key in zip(self.keys, self.order_by, strict=True):
            if result := compare(values[one], values[other], key):
                return result
        return 0

    def bounds(self, frame: Frame) -> list[tuple[int, int]]:
        """Spark's two pointers, moved by comparing every candidate row with the bound of the current one."""
        found = []
        for segment in self.segments:
            low = high = segment.first
            for row in range(segment.first, segment.last):
                while low < segment.last and self._side(low, row, frame.units, frame.start, is_start=True):
                    low += 1
                while high < segment.last and self._side(high, row, frame.units, frame.end, is_start=False):
                    high += 1
                found.append((low, max(high, low)))
        return found

    def _side(self, candidate: int, row: int, units: str, bound: Bound, *, is_start: bool) -> bool:
        """Whether the pointer moves past the candidate."""
        if bound.kind is BoundKind.UNBOUNDED_PRECEDING:
            return False
        if bound.kind is BoundKind.UNBOUNDED_FOLLOWING:
            return True
        if units == "rows":
            place = row + (0 if bound.kind is BoundKind.CURRENT_ROW else bound.offset)
            return candidate < place if is_start else candidate <= place
        if bound.kind is BoundKind.CURRENT_ROW:
            result = self._compare(candidate, row)
        else:
            key = self.order_by[0]
            limit = moved(self.keys[0][row], bound, key.expr.dtype, key.descending)
            result = compare(self.keys[0][candidate], limit, key)
        return result < 0 if is_start else result <= 0

    def column(self, call: WindowCall) -> list[Any]:
        args = [column_values(self.table, arg) for arg in call.args]
        kept = [True] * self.table.num_rows
        if call.filter is not None:
            kept = [value is True for value in column_values(self.table, call.filter)]
        if call.function in ("lag", "lead"):
            return self._shift(call, args)
        if call.function in ("row_number", "rank", "dense_rank", "ntile", "percent_rank", "cume_dist"):
            return self._places(call)
        result = []
        for low, high in self.bounds(call.frame):
            rows = [row for row in range(low, high) if kept[row]]
            result.append(aggregate(call, [[arg[row] for arg in args] for row in rows]))
        return result

    def _shift(self, call: WindowCall, args: list[list[Any]]) -> list[Any]:
        offset = call.args[1].value
        offset = -offset if call.function == "lag" else offset
        result = []
        for segment in self.segments:
            for row in range(segment.first, segment.last):
                places = range(row + 1, segment.last) if offset > 0 else range(row - 1, segment.first - 1, -1)
                places = [p for p in places if not call.ignore_nulls or args[0][p] is not None]
                wanted = abs(offset)
                if wanted == 0:
                    result.append(args[0][row])
                elif wanted <= len(places):
                    result.append(args[0][places[wanted - 1]])
                else:
                    result.append(args[2][row] if len(args) > 2 else None)
        return result

    def _places(self, call: WindowCall) -> list[Any]:
        result: list[Any] = []
        for segment in self.segments:
            size = segment.last - segment.first
            rows = range(segment.first, segment.last)
            for row in rows:
                before = sum(self._compare(other, row) < 0 for other in rows)
                same = sum(self.peers(other, row) for other in rows)
                groups = {
                    first
                    for first in range(segment.first, row + 1)
                    if first == segment.first or not self.peers(first, first - 1)
                }
                match call.function:
                    case "row_number":
                        result.append(row - segment.first + 1)
                    case "rank":
                        result.append(before + 1)
                    case "dense_rank":
                        result.append(len(groups))
                    case "percent_rank":
                        result.append(before / (size - 1) if size > 1 else 0.0)
                    case "cume_dist":
                        result.append((before + same) / size)
                    case "ntile":
                        result.append(_tile(row - segment.first, size, call.args[0].value))
        return result


def _tile(place: int, size: int, buckets: int) -> int:
    sizes = [size // buckets + (1 if number < size % buckets else 0) for number in range(buckets)]
    for number, width in enumerate(sizes):
        if place < width:
            return number + 1
        place -= width
    raise AssertionError


def aggregate(call: WindowCall, rows: list[list[Any]]) -> Any:
    name = call.function
    if name == "count":
        return sum(all(value is not None for value in row) for row in rows)
    if name in ("first", "any_value", "last", "nth_value"):
        values = [row[0] for row in rows if row[0] is not None or not call.ignore_nulls]
        place = call.args[1].value - 1 if name == "nth_value" else len(values) - 1 if name == "last" else 0
        return values[place] if 0 <= place < len(values) else None
    values = [row[0] for row in rows if row[0] is not None]
    if not values:
        return None
    if name in ("min", "max"):
        return (min if name == "min" else max)(values, key=rank)
    if name.startswith(("var", "stddev")):
        return _variance(name, values)
    return _sum(call, values)


def _variance(name: str, values: list[float]) -> float | None:
    divisor = len(values) - (1 if name.endswith("samp") else 0)
    if divisor == 0:
        return None
    if not all(map(math.isfinite, values)):
        return math.nan
    exact = [Decimal(value) for value in values]
    context = Context(prec=700)
    mean = context.divide(sum_exact(exact, context), Decimal(len(exact)))
    squares = sum_exact([context.power(context.subtract(value, mean), 2) for value in exact], context)
    result = float(context.divide(squares, Decimal(divisor)))
    return math.sqrt(result) if name.startswith("stddev") else result


def sum_exact(values: list[Decimal], context: Context) -> Decimal:
    total = Decimal(0)
    for value in values:
        total = context.add(total, value)
    return total


def _sum(call: WindowCall, values: list[Any]) -> Any:
    dtype = call.args[0].dtype
    is_average = call.function.endswith("avg")
    tolerant = call.function.startswith("try_")
    if pa.types.is_decimal(dtype):
        total = sum_exact(values, WIDE)
        if is_average:
            total = WIDE.divide(total, Decimal(len(values)))
        total = total.quantize(Decimal(1).scaleb(-call.dtype.scale), ROUND_HALF_UP, WIDE)
        if total.scaleb(call.dtype.scale, WIDE).copy_abs() >= 10**call.dtype.precision:
            if call.ansi and not tolerant:
                raise Overflow
            return None
        return total
    if pa.types.is_floating(dtype) or (is_average and pa.types.is_integer(dtype)):
        total = 0.0
        for value in values:
            total += float(value)
        return total / len(values) if is_average else total
    total = 0
    for value in values:
        total += value
        if not -(2**63) <= total < 2**63:
            if tolerant:
                return None
            if call.ansi or pa.types.is_duration(dtype):
                raise Overflow
            total = (total + 2**63) % 2**64 - 2**63
    if is_average:
        size = (2 * abs(total) + len(values)) // (2 * len(values))
        return -size if total < 0 else size
    return total


def same(left: Any, right: Any, tolerance: float = 1e-12, scale: float = 0.0) -> bool:
    """Equal as results are: NaN equals NaN, zeros have signs, floats to within rounding."""
    if isinstance(left, float) and isinstance(right, float):
        if math.isnan(left) or math.isnan(right):
            return math.isnan(left) and math.isnan(right)
        if left == right:
            return left != 0 or math.copysign(1, left) == math.copysign(1, right)
        return math.isclose(left, right, rel_tol=tolerance, abs_tol=tolerance * scale)
    return type(left) is type(right) and left == right
