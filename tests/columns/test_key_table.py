"""Numbers of keys, also in a table that grows past the cache, where slots are prefetched."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from sundog.columns.arrow import from_arrow
from sundog.columns.key_layout import KeyLayout
from sundog.columns.key_table import KeyTable


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([1, 7, 1000, 40_000]), st.integers(1, 3), st.booleans())
def test_numbers_are_those_of_a_dictionary(seed: int, distinct: int, batches: int, with_nulls: bool) -> None:
    random = np.random.default_rng(seed)
    table = KeyTable(KeyLayout.of([pa.int64(), pa.int32()]))
    numbers: dict[tuple[int | None, int | None], int] = {}
    for _ in range(batches):
        rows = int(random.integers(0, 60_000))
        firsts, seconds = random.integers(0, distinct, rows) << 33, random.integers(-2, 2, rows)
        nulls = random.random(rows) < 0.1 if with_nulls else None
        columns = [pa.array(firsts, pa.int64(), mask=nulls), pa.array(seconds, pa.int32())]
        keys = list(zip(*(column.to_pylist() for column in columns), strict=True))
        expected = [numbers.setdefault(key, len(numbers)) for key in keys]
        vectors = [from_arrow(column) for column in columns]
        assert table.look_up(vectors, rows).tolist() == expected
        assert table.find(vectors, rows).tolist() == expected
    assert table.count == len(numbers)
    unknown = [from_arrow(pa.array([-1], pa.int64())), from_arrow(pa.array([0], pa.int32()))]
    assert table.find(unknown, 1).tolist() == [-1]
