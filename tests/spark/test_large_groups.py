"""Twenty million groups with 256 MB a task: the query finishes with Spark's answer, and no file is left."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sundog
from tests.costs import costs
from tests.oracle.compare import assert_same
from tests.oracle.plain_spark import plain_spark

pytestmark = [pytest.mark.spark, pytest.mark.matrix]

KEYS = 20_000_000
QUERY = """
    SELECT count(*) AS groups, sum(c) AS rows, sum(s) AS total, bit_xor(xxhash64(k, c, s, low, high)) AS of_all
    FROM (SELECT k, count(*) AS c, sum(v) AS s, min(v) AS low, max(v) AS high FROM many GROUP BY k)
"""


def scratch_folders(session: Any) -> set[Path]:
    """Of this process, and of the Python workers of this session: other tests may spill at the same time."""
    found = set(Path(tempfile.gettempdir()).glob(f"sundog-scratch-{os.getpid()}-*"))
    task = session.sparkContext.parallelize([0], 1).map(lambda _: os.environ["SPARK_LOCAL_DIRS"])
    for folder in task.first().split(","):
        found |= set(Path(folder).glob("sundog-scratch-*"))
    return found


@pytest.fixture(scope="module")
def answer(enabled: Any, tmp_path_factory: pytest.TempPathFactory) -> pa.Table:
    """Plain Spark's, over the table `many`."""
    folder = tmp_path_factory.mktemp("many")
    keys = np.random.default_rng(9).permutation(KEYS)
    for part, share in enumerate(np.array_split(keys, 4)):
        table = pa.table({"k": share, "v": share % 1000})
        pq.write_table(table, folder / f"{part}.parquet", row_group_size=500_000)
    enabled.read.parquet(str(folder)).createOrReplaceTempView("many")
    with plain_spark(enabled):
        return enabled.sql(QUERY).toArrow()


@pytest.mark.parametrize(
    ("placement", "max_shares", "max_partitions"),
    [("driver", 1, None), ("executors", 8, None), ("executors", 1, None), ("executors", 1, 4)],
    ids=str,
)
def test_more_groups_than_memory(
    enabled: Any,
    answer: pa.Table,
    placement: str,
    max_shares: int,
    max_partitions: int | None,
) -> None:
    """In shares or partitions that are small enough; or, where there may be four of them only, through the disk."""
    enabled.conf.set("spark.sundog.placement", placement)
    enabled.conf.set("spark.sundog.task.memoryBytes", "256m")
    before = scratch_folders(enabled)
    with costs(enabled, max_shares=max_shares, max_exchange_partitions=max_partitions or 1000):
        ours = enabled.sql(QUERY).toArrow()
    run = sundog.last_run()
    assert run.accelerated, run.fallback_reasons
    assert ("read by each of" in run.plan) == (max_shares > 1)
    assert (run.metrics.get("spill_count", 0) > 0) == (max_partitions is not None)
    assert run.metrics["peak_memory_bytes"] <= 256 << 20
    assert scratch_folders(enabled) == before
    assert_same(ours, answer, ordered=True)
    assert ours.column("groups").to_pylist() == [KEYS]
