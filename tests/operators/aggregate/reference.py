"""Reference GROUP BY in plain Python, row by row and exact; the operators are compared with it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import pyarrow as pa

from sundog.expr.calls import AggregateCall, NamedExpr
from sundog.expr.nodes import Column, Expr
from tests.oracle.row_interpreter import interpret_column

Row = tuple[Any, ...]
OVERFLOW = "overflow"


def python_values(array: pa.Array) -> list[Any]:
    """Comparable values: instants, dates and durations as integers, decimals exactly."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_temporal(array.type):
        array = array.view(pa.int32() if pa.types.is_date32(array.type) else pa.int64())
    values: list[Any] = array.to_pylist()
    return values


def same_key(value: Any) -> Any:
    """One NaN, one zero: what makes keys equal in Spark."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def _values(expr: Expr, batch: pa.RecordBatch) -> list[Any]:
    """A column as it is stored, and everything else by an evaluator that is not the one under test."""
    return python_values(batch.column(expr.name)) if isinstance(expr, Column) else interpret_column(expr, batch)


def reference_groups(
    keys: Sequence[NamedExpr], calls: Sequence[AggregateCall], batches: Iterable[pa.RecordBatch]
) -> dict[Row, Row]:
    """Key -> results."""
    groups: dict[Row, list[list[Row]]] = {}
    if not keys:
        groups[()] = [[] for _ in calls]
    for batch in batches:
        if batch.num_rows == 0:
            continue
        key_columns = [_values(key.expr, batch) for key in keys]
        columns = [[_values(arg, batch) for arg in call.args] for call in calls]
        masks = [None if call.filter is None else interpret_column(call.filter, batch) for call in calls]
        for row in range(batch.num_rows):
            key = tuple(same_key(column[row]) for column in key_columns)
            taken = groups.setdefault(key, [[] for _ in calls])
            for at, call_columns in enumerate(columns):
                mask = masks[at]
                if mask is None or mask[row]:
                    taken[at].append(tuple(column[row] for column in call_columns))
    return {
        key: tuple(reference_aggregate(call, rows) for call, rows in zip(calls, taken, strict=True))
        for key, taken in groups.items()
    }


def reference_aggregate(call: AggregateCall, rows: list[Row]) -> Any:
    full = [row for row in rows if all(value is not None for value in row)]
    if call.distinct:
        unique = {tuple(same_key(value) for value in row): row for row in full}
        full = list(unique.values())
    function: Callable[[AggregateCall, list[Row], list[Row]], Any] = _FUNCTIONS[call.function]
    return function(call, full, rows)


def _sum(call: AggregateCall, full: list[Row], rows: list[Row]) -> Any:
    if not full:
        return None
    values = [row[0] for row in full]
    if pa.types.is_floating(call.dtype):
        return float_sum(values)
    if pa.types.is_decimal(call.dtype):
        return decimal_sum(values, call.dtype.precision)
    total = 0
    for value in values:
        total += value
        if not -(2**63) <= total < 2**63:
            if call.function == "try_sum" or call.ansi:
                return None if call.function == "try_sum" else OVERFLOW
            total = (total + 2**63) % 2**64 - 2**63
    return total


def float_sum(values: list[float]) -> float:
    if any(math.isnan(value) for value in values) or {math.inf, -math.inf} <= set(values):
        return math.nan
    return math.fsum(values) if all(map(math.isfinite, values)) else next(v for v in values if math.isinf(v))


def decimal_sum(values: list[Decimal], digits: int) -> Decimal | None:
    """None where a partial sum has more digits than there may be."""
    with localcontext() as context:
        context.prec = 100
        total = Decimal(0)
        for value in values:
            total += value
            if len(total.as_tuple().digits) > digits:
                return None
        return total


def _avg(call: AggregateCall, full: list[Row], rows: list[Row]) -> Any:
    if not full:
        return None
    values = [row[0] for row in full]
    if pa.types.is_decimal(call.dtype):
        total = decimal_sum(values, min(call.args[0].dtype.precision + 10, 38))
        return None if total is None else decimal_quotient(total, len(values), call.dtype)
    if pa.types.is_duration(call.dtype):
        return _half_up(sum(values), len(values))
    return float_sum([float(value) for value in values]) / len(values)


def _half_up(dividend: int, divisor: int) -> int:
    size = (2 * abs(dividend) + divisor) // (2 * divisor)
    return size if dividend >= 0 else -size


def decimal_quotient(total: Decimal, count: int, dtype: pa.DataType) -> Decimal | None:
    scaled = Fraction(total) * 10**dtype.scale
    unscaled = _half_up(scaled.numerator, scaled.denominator * count)
    if abs(unscaled) >= 10**dtype.precision:
        return None
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -dtype.scale))


def order(value: Any) -> Any:
    """Spark's order: NaN is the greatest, strings by bytes."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value.encode() if isinstance(value, str) else value


def _variance(call: AggregateCall, full: list[Row], rows: list[Row]) -> Any:
    values = [float(row[0]) for row in full]
    missing = 1 if call.function.endswith("samp") else 0
    if len(values) <= missing:
        return None
    if not all(map(math.isfinite, values)):
        return math.nan
    mean = Fraction(sum(map(Fraction, values)), len(values))
    variance = float(sum((Fraction(value) - mean) ** 2 for value in values) / (len(values) - missing))
    return math.sqrt(variance) if call.function.startswith("stddev") else variance


def _covariance(call: AggregateCall, full: list[Row], rows: list[Row]) -> Any:
    pairs = [(float(x), float(y)) for x, y in full]
    missing = 0 if call.function == "covar_pop" else 1
    if len(pairs) <= missing:
        return None
    if not all(math.isfinite(x) and math.isfinite(y) for x, y in pairs):
        return math.nan
    count = len(pairs)
    mean_x = Fraction(sum(Fraction(x) for x, _ in pairs), count)
    mean_y = Fraction(sum(Fraction(y) for _, y in pairs), count)
    joint = sum((Fraction(x) - mean_x) * (Fraction(y) - mean_y) for x, y in pairs)
    if call.function != "corr":
        return float(joint / (count - missing))
    own_x = sum((Fraction(x) - mean_x) ** 2 for x, _ in pairs)
    own_y = sum((Fraction(y) - mean_y) ** 2 for _, y in pairs)
    return None if own_x == 0 or own_y == 0 else float(joint) / math.sqrt(float(own_x) * float(own_y))


def _bits(call: AggregateCall, full: list[Row], rows: list[Row]) -> Any:
    if not full:
        return None
    result = full[0][0]
    for (value,) in full[1:]:
        result = {"bit_and": result & value, "bit_or": result | value, "bit_xor": result ^ value}[call.function]
    return result


def _first_last(call: AggregateCall, full: list[Row], rows: list[Row]) -> Any:
    chosen = full if call.ignore_nulls else rows
    return None if not chosen else chosen[-1 if call.function == "last" else 0][0]


def _by(call: AggregateCall, full: list[Row], rows: list[Row]) -> Any:
    """The value of the last row with the extreme order."""
    ordered = [row for row in rows if row[1] is not None]
    if not ordered:
        return None
    best = (max if call.function == "max_by" else min)(order(row[1]) for row in ordered)
    return [row[0] for row in ordered if order(row[1]) == best][-1]


_FUNCTIONS: dict[str, Callable[[AggregateCall, list[Row], list[Row]], Any]] = {
    "count": lambda call, full, rows: len(full if call.args else rows),
    "sum": _sum,
    "try_sum": _sum,
    "avg": _avg,
    "try_avg": _avg,
    "min": lambda call, full, rows: min((row[0] for row in full), key=order, default=None),
    "max": lambda call, full, rows: max((row[0] for row in full), key=order, default=None),
    "first": _first_last,
    "last": _first_last,
    "any_value": _first_last,
    "min_by": _by,
    "max_by": _by,
    **dict.fromkeys(("bit_and", "bit_or", "bit_xor"), _bits),
    **dict.fromkeys(("var_pop", "var_samp", "stddev_pop", "stddev_samp"), _variance),
    **dict.fromkeys(("covar_pop", "covar_samp", "corr"), _covariance),
}
