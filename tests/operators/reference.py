"""Reference answers in plain Python: one comparison at a time, and a stable sort of all rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cmp_to_key
from typing import Any

import pyarrow as pa

from sundog.expr.ordering import SortKey
from tests.oracle.row_interpreter import interpret_column


def compare_values(one: Any, other: Any, key: SortKey) -> int:
    """-1, 0 or 1 under Spark's order of one key."""
    if one is None or other is None:
        if one is None and other is None:
            return 0
        return -1 if (one is None) == key.nulls_first else 1
    result = _compare(one, other)
    return -result if key.descending else result


def _compare(one: Any, other: Any) -> int:
    if isinstance(one, float):
        if one != one or other != other:
            return (one != one) - (other != other)
    elif isinstance(one, str):
        one, other = one.encode(), other.encode()
    return (one > other) - (one < other)


def sorted_rows(batch: pa.RecordBatch, order: Sequence[SortKey]) -> list[int]:
    """The row numbers in order; ties stay as they are."""
    keys = [interpret_column(key.expr, batch) for key in order]

    def compare(left: int, right: int) -> int:
        for values, key in zip(keys, order, strict=True):
            result = compare_values(values[left], values[right], key)
            if result:
                return result
        return 0

    return sorted(range(batch.num_rows), key=cmp_to_key(compare))


def first_rows(batch: pa.RecordBatch, order: Sequence[SortKey], limit: int, offset: int = 0) -> pa.RecordBatch:
    chosen = sorted_rows(batch, order)[offset : offset + limit]
    return batch.take(pa.array(chosen, pa.int64()))


def same_rows(one: pa.RecordBatch, other: pa.RecordBatch) -> bool:
    """Equal to the bit: NaN equals NaN, and 0.0 is not -0.0."""
    return one.schema.equals(other.schema) and all(
        _bits(left).equals(_bits(right)) for left, right in zip(one.columns, other.columns, strict=True)
    )


def _bits(array: pa.Array) -> pa.Array:
    if not pa.types.is_floating(array.type):
        return array
    return array.view(pa.int32() if pa.types.is_float32(array.type) else pa.int64())
