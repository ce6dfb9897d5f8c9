"""Comparison of two engines' answers: exact where SQL is exact, within rounding where doubles are added up.

Engines name columns, choose integer widths and hold strings differently, so columns are compared by position in a
common form: numbers as int64 or double, strings as strings, instants as microseconds, dates as days. Decimals of one
scale are compared exactly, except that quotients and averages of engines other than Spark may differ in their last
digit, which some round and some truncate. If one side has a double or another scale, one unit in the last place of the
coarser side is allowed, or a hundred-thousandth. The latter allows for sums of quotients that were rounded to six
digits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sundog.benchmarks.cases.model import Check, SameCount, SameKeys, SameOrder, SameRows, SameTop

RELATIVE_TOLERANCE = 1e-9
_DIVIDED_TOLERANCE = 1e-5
_MONEY_SCALE = 2
_EXAMPLE_ROWS = 3


def difference(expected: pa.Table, actual: pa.Table, check: Check, *, exact_decimals: bool = True) -> str | None:
    """The difference in one sentence; None if the answers are the same as far as the check can tell.

    Without `exact_decimals`, decimals of more than two places may be off by the last one.
    """
    if expected.num_rows != actual.num_rows:
        return f"{actual.num_rows:,} rows, not {expected.num_rows:,}"
    if expected.num_columns != actual.num_columns:
        return f"{actual.num_columns} columns, not {expected.num_columns}"
    if isinstance(check, SameCount) or expected.num_rows == 0:
        return None
    left, right, tolerances = _common_form(expected, actual, exact_decimals)

    def compare(want: pa.Table, got: pa.Table) -> str | None:
        return _compare(want, got, tolerances)

    match check:
        case SameRows(ordered=True):
            return compare(left, right)
        case SameRows():
            return compare(_sorted(left), _sorted(right))
        case SameKeys(keys):
            return compare(_columns(left, keys), _columns(right, keys))
        case SameOrder(keys):
            return compare(_columns(left, keys), _columns(right, keys)) or compare(_sorted(left), _sorted(right))
        case SameTop(keys, limit) if limit is not None and expected.num_rows < limit:
            return difference(expected, actual, SameOrder(keys), exact_decimals=exact_decimals)
        case SameTop(()):
            return None
        case SameTop(keys):
            return compare(_columns(left, keys), _columns(right, keys)) or compare(
                _sorted(_above_the_cut(left, keys)), _sorted(_above_the_cut(right, keys))
            )


@dataclass(frozen=True)
class _Tolerance:
    relative: float = RELATIVE_TOLERANCE
    absolute: float = RELATIVE_TOLERANCE


def _common_form(
    left: pa.Table, right: pa.Table, exact_decimals: bool
) -> tuple[pa.Table, pa.Table, dict[str, _Tolerance]]:
    """Both tables with columns `0`, `1`, … of the same types, and the tolerance of each column of doubles."""
    names = [str(place) for place in range(left.num_columns)]
    columns = [
        _common_column(_array(a), _array(b), exact_decimals) for a, b in zip(left.columns, right.columns, strict=True)
    ]
    tolerances = {name: tolerance for name, (_, _, tolerance) in zip(names, columns, strict=True)}
    return pa.table([a for a, _, _ in columns], names), pa.table([b for _, b, _ in columns], names), tolerances


def _common_column(left: pa.Array, right: pa.Array, exact_decimals: bool) -> tuple[pa.Array, pa.Array, _Tolerance]:
    scales = [side.type.scale for side in (left, right) if pa.types.is_decimal(side.type)]
    if len(scales) == 2 and scales[0] == scales[1] and (exact_decimals or scales[0] <= _MONEY_SCALE):
        dtype = pa.decimal128(38, scales[0])
        return left.cast(dtype), right.cast(dtype), _Tolerance()
    left, right = _plain(left), _plain(right)
    tolerance = _Tolerance()
    if scales and min(scales) > 0:
        same = len(scales) == 2 and scales[0] == scales[1]
        tolerance = _Tolerance(RELATIVE_TOLERANCE if same else _DIVIDED_TOLERANCE, 10.0 ** -min(scales))
    if left.type.equals(right.type):
        return left, right, tolerance
    if _is_number(left.type) and _is_number(right.type):
        return left.cast(pa.float64()), right.cast(pa.float64()), tolerance
    return left.cast(pa.string()), right.cast(pa.string()), tolerance


def _is_number(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_integer(dtype) or pa.types.is_floating(dtype))


def _array(column: pa.ChunkedArray) -> pa.Array:
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks else pa.array([], array.type)
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _plain(array: pa.Array) -> pa.Array:
    dtype = array.type
    if pa.types.is_timestamp(dtype):
        return array.cast(pa.timestamp("us", dtype.tz)).cast(pa.int64())
    if pa.types.is_date(dtype):
        return array.cast(pa.date32()).cast(pa.int32()).cast(pa.int64())
    if pa.types.is_decimal(dtype):
        return _plain_decimal(array)
    if pa.types.is_integer(dtype) or pa.types.is_boolean(dtype):
        return array.cast(pa.int64())
    if pa.types.is_floating(dtype):
        return array.cast(pa.float64())
    if pa.types.is_large_string(dtype) or pa.types.is_string_view(dtype):
        return array.cast(pa.string())
    return array


def _plain_decimal(array: pa.Array) -> pa.Array:
    """Decimals without fraction as integers: some engines have them as sums of integers."""
    if array.type.scale == 0:
        try:
            return array.cast(pa.int64())
        except pa.ArrowInvalid:
            return array.cast(pa.float64())
    return array.cast(pa.float64())


def _columns(table: pa.Table, places: tuple[int, ...]) -> pa.Table:
    return table.select([str(place) for place in places])


def _above_the_cut(table: pa.Table, keys: tuple[int, ...]) -> pa.Table:
    """The rows that are not tied with the last one."""
    tied = None
    for key in _columns(table, keys).columns:
        last = key[len(key) - 1]
        same = pc.is_null(key) if not last.is_valid else pc.fill_null(pc.equal(key, last), False)
        tied = same if tied is None else pc.and_(tied, same)
    return table.filter(pc.invert(tied))


def _sorted(table: pa.Table) -> pa.Table:
    """Sorted by the exact columns first: rounding in a double must not reorder rows."""
    exact = [field.name for field in table.schema if not pa.types.is_floating(field.type)]
    names = exact + [name for name in table.column_names if name not in exact]
    return table.sort_by([(name, "ascending") for name in names])


def _compare(left: pa.Table, right: pa.Table, tolerances: Mapping[str, _Tolerance]) -> str | None:
    if left.num_rows != right.num_rows:
        return f"{right.num_rows:,} rows above the last one's ties, not {left.num_rows:,}"
    for name in left.column_names:
        wrong = _differing_rows(left[name].combine_chunks(), right[name].combine_chunks(), tolerances[name])
        if wrong.size:
            rows = wrong[:_EXAMPLE_ROWS]
            got, want = (table[name].take(rows).to_pylist() for table in (right, left))
            return f"column {name}: {wrong.size:,} values differ, e.g. {got} instead of {want}"
    return None


def _differing_rows(
    left: pa.Array, right: pa.Array, tolerance: _Tolerance
) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    null_left, null_right = (np.asarray(pc.is_null(side)) for side in (left, right))
    if pa.types.is_floating(left.type):
        want, got = (np.asarray(pc.fill_null(side, 0.0)) for side in (left, right))
        same = np.isclose(got, want, rtol=tolerance.relative, atol=tolerance.absolute, equal_nan=True)
    else:
        same = np.asarray(pc.fill_null(pc.equal(left, right), True))
    return np.flatnonzero((null_left != null_right) | ~(same | null_left))
