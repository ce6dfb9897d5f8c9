"""The Parquet tables that the end-to-end tests query: every type, nulls, NaN, ties, skew, several files and row
groups."""

from __future__ import annotations

import datetime as dt
import decimal
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 2000


def events(rows: int = ROWS, seed: int = 7) -> pa.Table:
    """`id` is unique; everything else has nulls and ties, floats have NaN, both zeros and infinities."""
    rng = np.random.default_rng(seed)

    def with_nulls(values: object, dtype: pa.DataType, share: float = 0.08) -> pa.Array:
        array = pa.array(values, dtype)
        mask = pa.array(rng.random(len(array)) < share)
        return pa.compute.if_else(mask, pa.scalar(None, dtype), array)

    odd = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0])
    doubles = np.where(rng.random(rows) < 0.1, rng.choice(odd, rows), rng.normal(0, 1000, rows).round(2))
    words = np.array(["", "a", "ab", "b", "Zürich", "zebra", "日本", "a" * 80, "%_x", "straße"])
    start = dt.datetime(2024, 3, 30, tzinfo=dt.timezone.utc)
    instants = [start + dt.timedelta(seconds=int(s)) for s in np.sort(rng.integers(0, 200_000, rows))]
    return pa.table(
        {
            "id": pa.array(rng.permutation(rows), pa.int64()),
            "tiny": with_nulls(rng.integers(-128, 128, rows), pa.int8()),
            "small": with_nulls(rng.integers(-9, 9, rows), pa.int16()),
            "num": with_nulls(rng.integers(-1000, 1000, rows), pa.int32()),
            "big": with_nulls(rng.integers(-(10**12), 10**12, rows), pa.int64()),
            "f": with_nulls(doubles.astype(np.float32), pa.float32()),
            "d": with_nulls(doubles, pa.float64()),
            "dec": with_nulls(
                [decimal.Decimal(int(v)).scaleb(-2) for v in rng.integers(-(10**6), 10**6, rows)], pa.decimal128(12, 2)
            ),
            "wide": with_nulls(
                [decimal.Decimal(int(v)) * decimal.Decimal(10**16) for v in rng.integers(-(10**9), 10**9, rows)],
                pa.decimal128(38, 3),
            ),
            "s": with_nulls(words[rng.integers(0, len(words), rows)], pa.string()),
            "bin": with_nulls(
                [bytes(rng.integers(0, 256, int(n), dtype=np.uint8)) for n in rng.integers(0, 4, rows)], pa.binary()
            ),
            "flag": with_nulls(rng.random(rows) < 0.5, pa.bool_()),
            "day": with_nulls(
                [dt.date(2024, 1, 1) + dt.timedelta(days=int(n)) for n in rng.integers(0, 60, rows)], pa.date32()
            ),
            "ts": with_nulls(instants, pa.timestamp("us", tz="UTC")),
            "ntz": with_nulls([i.replace(tzinfo=None) for i in instants], pa.timestamp("us")),
            "grp": pa.array((rng.zipf(1.6, rows) % 50).astype(np.int32)),
            "seq": pa.array(np.arange(rows), pa.int64()),
        }
    )


def write_files(table: pa.Table, folder: Path, files: int = 3, row_group_size: int = 150) -> Path:
    """The table in several files of several row groups each."""
    folder.mkdir(parents=True, exist_ok=True)
    cuts = np.linspace(0, table.num_rows, files + 1).astype(int)
    for number, (low, high) in enumerate(pairwise(cuts)):
        pq.write_table(table.slice(low, high - low), folder / f"part-{number}.parquet", row_group_size=row_group_size)
    return folder
