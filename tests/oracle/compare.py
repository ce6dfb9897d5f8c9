"""Whether two results are equal: same types, same rows, NaN equal to NaN; the sign of zero counts."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa


def canonical(value: Any) -> Any:
    """A value that compares and sorts: nulls first, NaN last, floats with their sign."""
    if value is None:
        return (0, "")
    if isinstance(value, float):
        return (2, "") if math.isnan(value) else (1, value, math.copysign(1, value))
    if isinstance(value, Decimal):
        return (1, value, str(value))
    return (1, value)


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    columns = (_python_values(column) for column in table.columns)
    return [tuple(canonical(v) for v in row) for row in zip(*columns, strict=True)]


def _python_values(column: pa.ChunkedArray) -> list[Any]:
    """Text that is no UTF-8, as some versions of Spark put it out, is compared as bytes."""
    try:
        values: list[Any] = column.to_pylist()
    except UnicodeDecodeError:
        values = column.cast(pa.binary()).to_pylist()
    return values


def assert_same(ours: pa.Table, theirs: pa.Table, ordered: bool, tolerance: float = 0.0) -> None:
    assert ours.schema.equals(theirs.schema), f"types differ:\n{ours.schema}\n--- Spark\n{theirs.schema}"
    assert ours.num_rows == theirs.num_rows, f"{ours.num_rows} rows, Spark has {theirs.num_rows}"
    mine, other = rows_of(ours), rows_of(theirs)
    if not ordered:
        mine, other = sorted(mine, key=repr_key), sorted(other, key=repr_key)
    for number, (a, b) in enumerate(zip(mine, other, strict=True)):
        assert all(same_value(x, y, tolerance) for x, y in zip(a, b, strict=True)), f"row {number}: {a}\n--- Spark: {b}"


def repr_key(row: tuple[Any, ...]) -> list[Any]:
    """Sort key that does not let a last-bit difference of a float change the order of rows."""
    return [(v[0], f"{v[1]:.9g}") if len(v) == 3 and isinstance(v[1], float) else (v[0], repr(v[1])) for v in row]


def same_value(x: Any, y: Any, tolerance: float) -> bool:
    if x == y:
        return True
    both_floats = len(x) == 3 and len(y) == 3 and isinstance(x[1], float) and isinstance(y[1], float)
    return both_floats and tolerance > 0 and math.isclose(x[1], y[1], rel_tol=tolerance, abs_tol=tolerance)
