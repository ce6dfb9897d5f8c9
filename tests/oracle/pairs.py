"""Every function beside its oracles: the SQL that Spark computes, and the same in plain Python.

A new function is one entry here. `tests/functions/test_pairs.py` then compares it by group, over frames, cut into tasks
and ranges of any kind, and with Spark; a test fails for a declared function that has no entry.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa

from sundog.types import DAY_TIME_INTERVAL

Row = tuple[Any, ...]
# Rows of a group or frame in order, NULLs included, and the result's type -> the result.
OfRows = Callable[[Sequence[Row], pa.DataType], Any]
# Rows of a whole window in order, the order key of each, and the place of a row -> its result.
OfPlace = Callable[[Sequence[Row], Sequence[Any], int], Any]

COLUMNS = pa.schema(
    [
        ("i", pa.int32()),
        ("l", pa.int64()),
        ("d", pa.float64()),
        ("e", pa.float64()),
        ("c", pa.decimal128(20, 2)),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("t", pa.date32()),
        ("v", DAY_TIME_INTERVAL),
    ]
)
POOLS: dict[str, list[Any]] = {
    "i": [None, 0, 1, -1, 5, -7, 100, 2**31 - 1],
    "l": [None, 0, 1, -1, 6, 2**40, -(2**41)],
    "d": [None, 0.0, 1.0, -1.5, 0.1, 2.5, 1e6, -12345.678, math.nan],
    "e": [None, 0.0, 1.0, -1.5, 0.3, 7.25, -40.0],
    "c": [None, *map(Decimal, ("0.00", "0.01", "-3.33", "999999.99", "12.50"))],
    "s": [None, "", "a", "b", "ab", "é", "a long string of its own"],
    "b": [None, True, False],
    "t": [None, 0, 1, -1, 18_000],
    "v": [None, 0, 1, -5, 86_400_000_000],
}
_WIDE = Context(prec=100)


@dataclass(frozen=True)
class Pair:
    """`sql` has {0}, {1} where arguments stand; `arguments` are the columns that it is tried on."""

    sql: str
    arguments: tuple[tuple[str, ...], ...]
    of_rows: OfRows | None = None
    of_place: OfPlace | None = None
    constant: int | None = None  # the second argument, or the only one of a function without others


def _full(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if None not in row]


def _values(rows: Sequence[Row]) -> list[Any]:
    return [row[0] for row in _full(rows)]


def _order(value: Any) -> Any:
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value.encode() if isinstance(value, str) else value


def _total(values: list[Any]) -> Any:
    total = values[0]
    for value in values[1:]:
        total = _WIDE.add(total, value) if isinstance(value, Decimal) else total + value
    return total


def _sum(rows: Sequence[Row], dtype: pa.DataType) -> Any:
    values = _values(rows)
    return _total(values) if values else None


def _average(rows: Sequence[Row], dtype: pa.DataType) -> Any:
    values = _values(rows)
    if not values:
        return None
    if pa.types.is_decimal(dtype):
        quotient = _WIDE.divide(_total(values), Decimal(len(values)))
        return quotient.quantize(Decimal(1).scaleb(-dtype.scale), ROUND_HALF_UP, _WIDE)
    if pa.types.is_duration(dtype):
        size = (2 * abs(_total(values)) + len(values)) // (2 * len(values))
        return size if _total(values) >= 0 else -size
    return float(_total(values)) / len(values)


def _moment(values: Sequence[float], power: int) -> float:
    """The sum of that power of the differences from the mean, exact and rounded once; NaN of what is not finite."""
    if not all(map(math.isfinite, values)):
        return math.nan
    mean = Fraction(sum(map(Fraction, values)), len(values))
    return float(sum((Fraction(value) - mean) ** power for value in values))


def _spread(sample: bool, root: bool) -> OfRows:
    def result(rows: Sequence[Row], dtype: pa.DataType) -> Any:
        values = _values(rows)
        if len(values) <= sample:
            return None
        variance = _moment(values, 2) / (len(values) - sample)
        return math.sqrt(variance) if root else variance

    return result


def _pairwise(finish: Callable[[int, float, float, float], float | None], fewest: int) -> OfRows:
    """Of the number of pairs, their co-moment and both moments."""

    def result(rows: Sequence[Row], dtype: pa.DataType) -> Any:
        pairs = _full(rows)
        if len(pairs) < fewest:
            return None
        xs, ys = [x for x, _ in pairs], [y for _, y in pairs]
        comoment = math.nan
        if all(map(math.isfinite, [*xs, *ys])):
            mean_x, mean_y = (Fraction(sum(map(Fraction, values)), len(values)) for values in (xs, ys))
            comoment = float(sum((Fraction(x) - mean_x) * (Fraction(y) - mean_y) for x, y in pairs))
        return finish(len(pairs), comoment, _moment(xs, 2), _moment(ys, 2))

    return result


def _intercept(rows: Sequence[Row], dtype: pa.DataType) -> Any:
    slope = _pairwise(lambda n, xy, xx, yy: xy / yy if yy != 0 else None, 1)(rows, dtype)
    if slope is None or math.isnan(slope):
        return slope
    mean_y, mean_x = (math.fsum(values) / len(values) for values in zip(*_full(rows), strict=True))
    return mean_y - slope * mean_x


def _squares(rows: Sequence[Row], dtype: pa.DataType) -> Any:
    values = _values(rows)
    return _moment(values, 2) if values else None


def _explained(n: int, xy: float, xx: float, yy: float) -> float | None:
    if yy == 0:
        return None
    return 1.0 if xx == 0 else (xy / math.sqrt(xx * yy)) ** 2


def _bits(operation: Callable[[int, int], int]) -> OfRows:
    def result(rows: Sequence[Row], dtype: pa.DataType) -> Any:
        values = _values(rows)
        if not values:
            return None
        combined = values[0]
        for value in values[1:]:
            combined = operation(combined, value)
        return combined

    return result


def _by(best: Callable[..., Any]) -> OfRows:
    def result(rows: Sequence[Row], dtype: pa.DataType) -> Any:
        ordered = [row for row in rows if row[1] is not None]
        if not ordered:
            return None
        extreme = best(_order(row[1]) for row in ordered)
        return [row[0] for row in ordered if _order(row[1]) == extreme][-1]

    return result


def _at(place: int) -> OfRows:
    return lambda rows, dtype: rows[place][0] if -len(rows) <= place < len(rows) else None


def _shift(distance: int) -> OfPlace:
    return lambda rows, keys, place: rows[place + distance][0] if 0 <= place + distance < len(rows) else None


def _before(keys: Sequence[Any], place: int) -> int:
    return keys.index(keys[place])


def _tile(rows: Sequence[Row], keys: Sequence[Any], place: int) -> int:
    tiles = [number for number in range(3) for _ in range(len(rows) // 3 + (number < len(rows) % 3))]
    return tiles[place] + 1


NUMBERS = (("i",), ("l",), ("d",), ("c",), ("v",))
ANY = tuple((field.name,) for field in COLUMNS)
PAIRS: dict[str, Pair] = {
    "count": Pair("count({0})", ANY, lambda rows, dtype: len(_full(rows))),
    "sum": Pair("sum({0})", NUMBERS, _sum),
    "try_sum": Pair("try_sum({0})", NUMBERS, _sum),
    "avg": Pair("avg({0})", NUMBERS, _average),
    "try_avg": Pair("try_avg({0})", NUMBERS, _average),
    "min": Pair("min({0})", ANY, lambda rows, dtype: min(_values(rows), key=_order, default=None)),
    "max": Pair("max({0})", ANY, lambda rows, dtype: max(_values(rows), key=_order, default=None)),
    "bit_and": Pair("bit_and({0})", (("i",), ("l",)), _bits(lambda x, y: x & y)),
    "bit_or": Pair("bit_or({0})", (("i",), ("l",)), _bits(lambda x, y: x | y)),
    "bit_xor": Pair("bit_xor({0})", (("i",), ("l",)), _bits(lambda x, y: x ^ y)),
    "var_pop": Pair("var_pop({0})", (("d",), ("e",)), _spread(sample=False, root=False)),
    "var_samp": Pair("var_samp({0})", (("d",), ("e",)), _spread(sample=True, root=False)),
    "stddev_pop": Pair("stddev_pop({0})", (("d",), ("e",)), _spread(sample=False, root=True)),
    "stddev_samp": Pair("stddev_samp({0})", (("d",), ("e",)), _spread(sample=True, root=True)),
    "covar_pop": Pair("covar_pop({0}, {1})", (("e", "d"),), _pairwise(lambda n, xy, xx, yy: xy / n, 1)),
    "covar_samp": Pair("covar_samp({0}, {1})", (("e", "d"),), _pairwise(lambda n, xy, xx, yy: xy / (n - 1), 2)),
    "corr": Pair(
        "corr({0}, {1})",
        (("e", "d"),),
        _pairwise(lambda n, xy, xx, yy: xy / math.sqrt(xx * yy) if xx != 0 and yy != 0 else None, 2),
    ),
    "regr_slope": Pair(
        "regr_slope({0}, {1})", (("e", "d"),), _pairwise(lambda n, xy, xx, yy: xy / yy if yy != 0 else None, 1)
    ),
    "regr_intercept": Pair("regr_intercept({0}, {1})", (("e", "d"),), _intercept),
    "regr_sxx": Pair("regr_sxx({0}, {0})", (("d",), ("e",)), _squares),
    "regr_r2": Pair("regr_r2({0}, {1})", (("e", "d"),), _pairwise(_explained, 1)),
    "regr_sxy": Pair("regr_sxy({0}, {1})", (("e", "d"),), _pairwise(lambda n, xy, xx, yy: xy, 1)),
    "first": Pair("first({0})", ANY, _at(0)),
    "last": Pair("last({0})", ANY, _at(-1)),
    "any_value": Pair("any_value({0})", ANY, _at(0)),
    "nth_value": Pair("nth_value({0}, 2)", ANY, _at(1), constant=2),
    "max_by": Pair("max_by({0}, {1})", (("s", "l"), ("c", "d"), ("i", "s")), _by(max)),
    "min_by": Pair("min_by({0}, {1})", (("s", "l"), ("c", "d"), ("i", "c")), _by(min)),
    "lag": Pair("lag({0}, 2)", ANY, of_place=_shift(-2), constant=2),
    "lead": Pair("lead({0}, 2)", ANY, of_place=_shift(2), constant=2),
    "row_number": Pair("row_number()", ((),), of_place=lambda rows, keys, place: place + 1),
    "rank": Pair("rank()", ((),), of_place=lambda rows, keys, place: _before(keys, place) + 1),
    "dense_rank": Pair("dense_rank()", ((),), of_place=lambda rows, keys, place: len(set(keys[: place + 1]))),
    "ntile": Pair("ntile(3)", ((),), of_place=_tile, constant=3),
    "percent_rank": Pair(
        "percent_rank()",
        ((),),
        of_place=lambda rows, keys, place: _before(keys, place) / (len(keys) - 1) if len(keys) > 1 else 0.0,
    ),
    "cume_dist": Pair(
        "cume_dist()",
        ((),),
        of_place=lambda rows, keys, place: (_before(keys, place) + keys.count(keys[place])) / len(keys),
    ),
}
