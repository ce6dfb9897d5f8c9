"""Tables whose columns have the same names and few values, so that their keys meet, repeat and are NULL.

The type of a column differs from table to table where Spark compares the types (`INT` with `BIGINT`, `DECIMAL(9,2)`
with `DECIMAL(20,4)`), and so does the order of the rows, so that the row groups of one can be pruned by the keys of
another.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

TABLES = ("t0", "t1", "t2", "t3")
ROWS = (0, 1, 7, 30, 90, 400)
NULLS = (0.0, 0.0, 0.1, 0.5)
FILES = (1, 1, 2, 3)
ROW_GROUPS = (3, 20, 1000)


@dataclass(frozen=True)
class Column:
    name: str
    family: str


_EPOCH = dt.datetime(2024, 3, 30, 22, 0)
_TYPES: dict[str, tuple[pa.DataType, ...]] = {
    "k": (pa.int32(), pa.int32(), pa.int64(), pa.int16()),
    "b": (pa.int64(), pa.int64(), pa.int32()),
    "sm": (pa.int16(), pa.int8(), pa.int32()),
    "dec": (pa.decimal128(9, 2), pa.decimal128(20, 4), pa.decimal128(38, 6), pa.decimal128(5, 0)),
    "wide": (pa.decimal128(38, 2), pa.decimal128(38, 10)),
    "d": (pa.float64(), pa.float64(), pa.float32()),
    "s": (pa.string(),),
    "bin": (pa.binary(),),
    "dt": (pa.date32(),),
    "ts": (pa.timestamp("us", "UTC"),),
    "tn": (pa.timestamp("us"),),
    "fl": (pa.bool_(),),
}
_FAMILIES = {
    "id": "int", "k": "int", "b": "int", "sm": "int", "dec": "decimal", "wide": "decimal", "d": "double", "s": "string",
    "bin": "binary", "dt": "date", "ts": "timestamp", "tn": "timestamp_ntz", "fl": "boolean",
}  # fmt: skip
_VALUES: dict[str, tuple[Any, ...]] = {
    "k": tuple(range(9)),
    "b": (*range(-3, 12), 0, 1, 2),
    "sm": (0, 1, 2, 3, -1, 100),
    "dec": tuple(Decimal(number) for number in (0, 1, 2, 3, -1, 7)),
    "wide": (Decimal(0), Decimal(1), Decimal("-2.50"), Decimal(10) ** 26, -(Decimal(10) ** 26)),
    "d": (0.0, -0.0, 1.0, 2.0, 3.0, -2.5, float("nan"), float("inf")),
    "s": ("", "a", "A", "a ", "ab", "é", "日本", "1", "2"),
    "bin": (b"", b"a", b"\x00", b"\xff\xfe", b"1"),
    "dt": tuple(_EPOCH.date() + dt.timedelta(days) for days in range(5)),
    "ts": tuple(_EPOCH + dt.timedelta(hours=hours) for hours in (0, 1, 2, 3, 4, 26, 50)),
    "tn": tuple(_EPOCH + dt.timedelta(hours=hours) for hours in (0, 1, 2, 3, 4, 26, 50)),
    "fl": (True, False),
}  # fmt: skip


def draw_tables(rng: Random, folder: Path) -> dict[str, tuple[Column, ...]]:
    """Write them as Parquet, each in a folder of its name; their columns."""
    found = {}
    for name in TABLES:
        rows = _draw_rows(rng)
        (folder / name).mkdir(parents=True)
        cuts = sorted(rng.randint(0, rows.num_rows) for _ in range(rng.choice(FILES) - 1))
        options = {"row_group_size": rng.choice(ROW_GROUPS), "use_dictionary": rng.random() < 0.6}
        for number, (low, high) in enumerate(zip([0, *cuts], [*cuts, rows.num_rows], strict=True)):
            path = folder / name / f"part-{number}.parquet"
            pq.write_table(rows.slice(low, high - low), path, **options)
        found[name] = tuple(Column(column, _FAMILIES[column]) for column in rows.column_names)
    return found


def _draw_rows(rng: Random) -> pa.Table:
    count = rng.choice(ROWS)
    names = ["k", *rng.sample([name for name in _TYPES if name != "k"], rng.randint(3, 8))]
    columns: dict[str, pa.Array] = {"id": pa.array(range(count), pa.int64())}
    for name in names:
        values = list(_VALUES[name][: rng.choice((1, 4, 100))])
        nulls = rng.choice(NULLS)
        cells = [None if rng.random() < nulls else rng.choice(values) for _ in range(count)]
        columns[name] = pa.array(cells, rng.choice(_TYPES[name]))
    rows = pa.table(columns)
    return rows.sort_by(rng.choice(names)) if rng.random() < 0.4 else rows
