"""Do two engines give the same answer? Exact where SQL is exact, within rounding where doubles are added up.

Engines name columns, choose integer widths and carry strings differently, so columns are compared by position after
bringing them to a common form: numbers as int64 or double, strings as strings, instants as microseconds, dates as days.
Decimals of one type on both sides are compared exactly. Where one engine has a double or another scale, as for averages
and quotients, one unit in the last place of the coarser side is allowed.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sundog.benchmarks.cases.model import Check, SameCount, SameKeys, SameOrder, SameRows, SameTop

RELATIVE_TOLERANCE = 1e-9
_EXAMPLE_ROWS = 3


def difference(expected: pa.Table, actual: pa.Table, check: Check) -> str | None:
    """What differs, in one sentence; None if the answers are the same as far as the check can ask."""
    if expected.num_rows != actual.num_rows:
        return f"{actual.num_rows:,} rows, not {expected.num_rows:,}"
    if expected.num_columns != actual.num_columns:
        return f"{actual.num_columns} columns, not {expected.num_columns}"
    if isinstance(check, SameCount) or expected.num_rows == 0:
        return None
    left, right, tolerances = _common_form(expected, actual)

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
            return difference(expected, actual, SameOrder(keys))
        case SameTop(()):
            return None
        case SameTop(keys):
            return compare(_columns(left, keys), _columns(right, keys)) or compare(
                _sorted(_above_the_cut(left, keys)), _sorted(_above_the_cut(right, keys))
            )


def _common_form(left: pa.Table, right: pa.Table) -> tuple[pa.Table, pa.Table, dict[str, float]]:
    """Both tables with columns `0`, `1`, … of the same types, and how far numbers of a column may be apart."""
    names = [str(place) for place in range(left.num_columns)]
    arrays = [(_array(a), _array(b)) for a, b in zip(left.columns, right.columns, strict=True)]
    pairs = [_common_column(a, b) for a, b in arrays]
    tolerances = {name: _tolerance(a.type, b.type) for name, (a, b) in zip(names, arrays, strict=True)}
    return pa.table([a for a, _ in pairs], names), pa.table([b for _, b in pairs], names), tolerances


def _tolerance(left: pa.DataType, right: pa.DataType) -> float:
    scales = [dtype.scale for dtype in (left, right) if pa.types.is_decimal(dtype) and dtype.scale > 0]
    return float(10.0 ** -min(scales)) if scales and not left.equals(right) else RELATIVE_TOLERANCE


def _common_column(left: pa.Array, right: pa.Array) -> tuple[pa.Array, pa.Array]:
    if pa.types.is_decimal(left.type) and left.type.equals(right.type):
        return left, right
    left, right = _plain(left), _plain(right)
    if left.type.equals(right.type):
        return left, right
    if _is_number(left.type) and _is_number(right.type):
        return left.cast(pa.float64()), right.cast(pa.float64())
    return left.cast(pa.string()), right.cast(pa.string())


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
    """Whole decimals are how some engines carry a sum of integers."""
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
    """By the exact columns first: rounding in a double must not reorder rows."""
    exact = [field.name for field in table.schema if not pa.types.is_floating(field.type)]
    names = exact + [name for name in table.column_names if name not in exact]
    return table.sort_by([(name, "ascending") for name in names])


def _compare(left: pa.Table, right: pa.Table, tolerances: Mapping[str, float]) -> str | None:
    if left.num_rows != right.num_rows:
        return f"{right.num_rows:,} rows above the last one's ties, not {left.num_rows:,}"
    for name in left.column_names:
        wrong = _differing_rows(left[name].combine_chunks(), right[name].combine_chunks(), tolerances[name])
        if wrong.size:
            rows = wrong[:_EXAMPLE_ROWS]
            got, want = (table[name].take(rows).to_pylist() for table in (right, left))
            return f"column {name}: {wrong.size:,} values differ, e.g. {got} instead of {want}"
    return None


def _differing_rows(left: pa.Array, right: pa.Array, tolerance: float) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    null_left, null_right = (np.asarray(pc.is_null(side)) for side in (left, right))
    if pa.types.is_floating(left.type):
        want, got = (np.asarray(pc.fill_null(side, 0.0)) for side in (left, right))
        same = np.isclose(got, want, rtol=RELATIVE_TOLERANCE, atol=tolerance, equal_nan=True)
    else:
        same = np.asarray(pc.fill_null(pc.equal(left, right), True))
    return np.flatnonzero((null_left != null_right) | ~(same | null_left))
