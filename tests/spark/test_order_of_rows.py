"""Functions whose answer shows in which order rows are taken: there Spark has one order, and so have we.

A task of Spark's takes its rows as they lie in the files, and tasks are merged in their order; files go to tasks by size, the
largest first. So `first`, the ties of `max_by` and the sign of a smallest zero come out the same run after run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spark.against_spark import check

pytestmark = pytest.mark.spark

NAN = float("nan")


def rows(random: np.random.Generator, count: int, first: int) -> pa.Table:
    numbers = np.arange(first, first + count)
    return pa.table(
        {
            "k": random.integers(0, 5, count),
            "text": pa.array([f"k{i}" for i in random.integers(0, 5, count)]),
            "o": pa.array(random.integers(0, 4, count), mask=random.random(count) < 0.2),
            "d": pa.array(random.choice([0.0, -0.0, 1.0, NAN], count), mask=random.random(count) < 0.2),
            "zero": random.choice([0.0, -0.0], count),
            "f": pa.array(random.choice([0.0, -0.0, NAN], count).astype(np.float32)),
            "v": numbers,
            "s": pa.array([f"a long string that does not fit a view {i}" for i in numbers]),
        }
    )


@pytest.fixture(scope="module", params=["one file of many row groups", "files of several sizes"])
def picks(request: pytest.FixtureRequest, enabled: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    random, folder = np.random.default_rng(7), Path(tmp_path_factory.mktemp("picks"))
    sizes = [3000] if "one" in request.param else [300, 900, 100, 901, 50, 700, 20]
    for number, size in enumerate(sizes):
        pq.write_table(rows(random, size, number * 10_000), folder / f"part-{number}.parquet", row_group_size=64)
    enabled.read.parquet(str(folder)).createOrReplaceTempView("picks")
    return enabled


BY = "max_by(v, o), min_by(v, o), max_by(v, d), min_by(v, d), max_by(s, text), min_by(v, cast(o AS decimal(25, 1)))"
OTHERS = "first(v), last(v), first(o), first(o) IGNORE NULLS, last(d, true), any_value(s)"
ZEROS = "min(zero), max(zero), min(d), max(d), min(f), max(f)"


@pytest.mark.parametrize("calls", [BY, OTHERS, ZEROS], ids=["by", "first and last", "zeros and NaN"])
@pytest.mark.parametrize("key", ["", "k", "text"])
def test_of_equals_the_same_one_is_picked(picks: Any, calls: str, key: str) -> None:
    query = f"SELECT {key}, {calls} FROM picks GROUP BY {key}" if key else f"SELECT {calls} FROM picks"
    check(picks, query)
