"""Reference joins in plain Python, pair by pair; the operators are compared with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from sundog.expr.calls import JoinKind
from sundog.expr.nodes import Expr
from tests.operators.aggregate.reference import python_values, same_key
from tests.oracle.row_interpreter import interpret_column

Row = tuple[Any, ...]


def reference_join(
    left: pa.RecordBatch,
    right: pa.RecordBatch,
    kind: JoinKind,
    left_keys: Sequence[str],
    right_keys: Sequence[str],
    null_safe: Sequence[bool],
    condition: Expr | None = None,
) -> list[Row]:
    """The rows of the join, sorted, with the columns of the left side, then those of the right, then existence."""
    left_rows, right_rows = _rows(left), _rows(right)
    lefts, rights = _keys(left, left_keys), _keys(right, right_keys)
    pairs = [
        (one, two)
        for one in range(left.num_rows)
        for two in range(right.num_rows)
        if _equal(lefts[one], rights[two], null_safe)
    ]
    if condition is not None and pairs:
        columns = [left.column(n).take(pa.array([one for one, _ in pairs])) for n in left.schema.names]
        columns += [right.column(n).take(pa.array([two for _, two in pairs])) for n in right.schema.names]
        tested = pa.RecordBatch.from_arrays(columns, names=[*left.schema.names, *right.schema.names])
        kept = interpret_column(condition, tested)
        pairs = [pair for pair, keep in zip(pairs, kept, strict=True) if keep is True]
    with_partner = {one for one, _ in pairs}
    match kind:
        case JoinKind.INNER | JoinKind.LEFT | JoinKind.FULL:
            result = [left_rows[one] + right_rows[two] for one, two in pairs]
            if kind is not JoinKind.INNER:
                unmatched = (None,) * right.num_columns
                result += [row + unmatched for at, row in enumerate(left_rows) if at not in with_partner]
            if kind is JoinKind.FULL:
                seen = {two for _, two in pairs}
                result += [(None,) * left.num_columns + row for at, row in enumerate(right_rows) if at not in seen]
        case JoinKind.SEMI:
            result = [row for at, row in enumerate(left_rows) if at in with_partner]
        case JoinKind.ANTI:
            result = [row for at, row in enumerate(left_rows) if at not in with_partner]
        case JoinKind.EXISTENCE:
            result = [(*row, at in with_partner) for at, row in enumerate(left_rows)]
        case JoinKind.NULL_AWARE_ANTI:
            result = _not_in(left_rows, lefts, rights)
    return sorted(result, key=repr)


def _not_in(left_rows: list[Row], lefts: list[Row], rights: list[Row]) -> list[Row]:
    """`x NOT IN (list)` in SQL's three-valued logic."""
    if not rights:
        return left_rows
    if any(key[0] is None for key in rights):
        return []
    return [row for row, key in zip(left_rows, lefts, strict=True) if key[0] is not None and key not in rights]


def _equal(left: Row, right: Row, null_safe: Sequence[bool]) -> bool:
    return all(
        one == two if safe else one is not None and one == two
        for one, two, safe in zip(left, right, null_safe, strict=True)
    )


def _rows(batch: pa.RecordBatch) -> list[Row]:
    columns = [[shown(value) for value in python_values(column)] for column in batch.columns]
    return list(zip(*columns, strict=True)) if columns else [()] * batch.num_rows


def shown(value: Any) -> Any:
    """NaN as text: it is not equal to itself in Python."""
    return "NaN" if isinstance(value, float) and value != value else value


def _keys(batch: pa.RecordBatch, names: Sequence[str]) -> list[Row]:
    columns = [[same_key(value) for value in python_values(batch.column(name))] for name in names]
    return list(zip(*columns, strict=True)) if columns else [()] * batch.num_rows


def sorted_rows(batches: Sequence[pa.RecordBatch], names: Sequence[str]) -> list[Row]:
    """The rows of an operator's batches, sorted."""
    return sorted((row for batch in batches for row in _rows(batch.select(list(names)))), key=repr)
