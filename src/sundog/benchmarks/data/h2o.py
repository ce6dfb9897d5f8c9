"""The tables of the db-benchmark (H2O): `x` of its group-by questions and `large` of its window questions.

Group-by (`G1`, K = 100): three string keys and three integer keys of 100, 100 and N/100 values, two small integers and
a double. Window (`J1`): `id3` is unique and in random order, `id1` and `id2` have N / 1,000,000 and N / 1,000 values,
`v2` is a random double below 100. A RANGE of 3 over `v2` therefore covers three per cent of all rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sundog.benchmarks.data import text
from sundog.benchmarks.data.draws import Draws, key_of, permute
from sundog.benchmarks.data.layout import Layout

ROWS_PER_GROUP = 250_000
GROUPS_PER_FILE = 8
K = 100

GROUPBY_SCHEMA = pa.schema(
    [
        ("id1", pa.string()),
        ("id2", pa.string()),
        ("id3", pa.string()),
        ("id4", pa.int32()),
        ("id5", pa.int32()),
        ("id6", pa.int32()),
        ("v1", pa.int32()),
        ("v2", pa.int32()),
        ("v3", pa.float64()),
    ]
)
WINDOW_SCHEMA = pa.schema(
    [
        ("id1", pa.int32()),
        ("id2", pa.int32()),
        ("id3", pa.int32()),
        ("id4", pa.string()),
        ("id5", pa.string()),
        ("id6", pa.string()),
        ("v2", pa.float64()),
    ]
)


@dataclass(frozen=True)
class GroupByTable:
    rows: int
    seed: int = 0

    @property
    def layout(self) -> Layout:
        return Layout(self.rows, ROWS_PER_GROUP, GROUPS_PER_FILE)

    @property
    def schema(self) -> pa.Schema:
        return GROUPBY_SCHEMA

    def row_group(self, group: int) -> pa.RecordBatch:
        rows = np.arange(*self.layout.bounds(group), dtype=np.int64)
        draws = Draws(self.seed, "h2o group-by")
        many = max(1, self.rows // K)
        small = {name: draws.integers(name, rows, 1, K) for name in ("id1", "id2", "id4", "id5")}
        large = {name: draws.integers(name, rows, 1, many) for name in ("id3", "id6")}
        columns = [
            text.padded_number("id", small["id1"], 3),
            text.padded_number("id", small["id2"], 3),
            text.padded_number("id", large["id3"], 10),
            pa.array(small["id4"].astype(np.int32)),
            pa.array(small["id5"].astype(np.int32)),
            pa.array(large["id6"].astype(np.int32)),
            pa.array(draws.integers("v1", rows, 1, 5).astype(np.int32)),
            pa.array(draws.integers("v2", rows, 1, 15).astype(np.int32)),
            pa.array(np.round(draws.uniform("v3", rows) * 100, 6)),
        ]
        return pa.record_batch(columns, schema=GROUPBY_SCHEMA)


@dataclass(frozen=True)
class WindowTable:
    rows: int
    seed: int = 0

    @property
    def layout(self) -> Layout:
        return Layout(self.rows, ROWS_PER_GROUP, GROUPS_PER_FILE)

    @property
    def schema(self) -> pa.Schema:
        return WINDOW_SCHEMA

    def row_group(self, group: int) -> pa.RecordBatch:
        rows = np.arange(*self.layout.bounds(group), dtype=np.int64)
        draws = Draws(self.seed, "h2o window")
        ids = [
            draws.integers("id1", rows, 1, self._keys(1_000_000)),
            draws.integers("id2", rows, 1, self._keys(1_000)),
            permute(rows, self._keys(1), key_of(self.seed, "id3")) + 1,
        ]
        columns = [
            *(pa.array(values.astype(np.int32)) for values in ids),
            *(text.join("id", text.number_text(values)) for values in ids),
            pa.array(np.round(draws.uniform("v2", rows) * 100, 6)),
        ]
        return pa.record_batch(columns, schema=WINDOW_SCHEMA)

    def _keys(self, rows_per_key: int) -> int:
        """A tenth more keys than are used, as in the original, where a join must miss some."""
        return max(1, self.rows // rows_per_key * 11 // 10, -(-self.rows // rows_per_key))
