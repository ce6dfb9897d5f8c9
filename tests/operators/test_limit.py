from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sundog.operators.context import TaskContext
from sundog.operators.limit import LimitOperator

SCHEMA = pa.schema([("x", pa.int64())])


def batches(sizes):
    start = 0
    for size in sizes:
        yield pa.record_batch([pa.array(range(start, start + size), pa.int64())], schema=SCHEMA)
        start += size


@given(st.lists(st.integers(0, 5), max_size=6), st.integers(0, 12), st.integers(0, 12))
def test_takes_rows_offset_to_offset_plus_limit(sizes, limit, offset):
    operator = LimitOperator(SCHEMA, limit, offset)
    found = [x for b in operator.run(batches(sizes), TaskContext()) for x in b.column(0).to_pylist()]
    assert found == list(range(sum(sizes)))[offset : offset + limit]


@pytest.mark.parametrize(("limit", "offset", "asked"), [(0, 0, 0), (3, 0, 1), (4, 0, 2), (1, 3, 2), (9, 0, 3)])
def test_stops_asking_when_it_has_enough(limit, offset, asked):
    seen = []

    def source():
        for b in batches([3, 3, 3]):
            seen.append(b)
            yield b

    list(LimitOperator(SCHEMA, limit, offset).run(source(), TaskContext()))
    assert len(seen) == asked


def test_describe():
    assert LimitOperator(SCHEMA, 5).describe() == "Limit: fetch=5"
    assert LimitOperator(SCHEMA, 5, 2).describe() == "Limit: fetch=5, skip=2"
