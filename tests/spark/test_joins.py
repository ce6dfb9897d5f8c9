"""Joins on executors whose sides are exchanged, or whose build side is broadcast, against Spark."""

from __future__ import annotations

import os
from collections.abc import Iterator
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
from tests.spark.against_spark import check
from tests.spark.test_large_groups import scratch_folders

pytestmark = pytest.mark.spark
FACTS, KEYS = 60_000, 20_000

QUERIES = {
    "inner": "SELECT d.part, count(*) n, sum(f.v) s FROM facts f JOIN keys d ON f.k = d.k GROUP BY d.part",
    "left": (
        "SELECT d.part, count(*) n, sum(f.v) s FROM facts f LEFT JOIN keys d ON f.k = d.k AND d.part > 3 GROUP "
        "BY d.part"
    ),
    "full": "SELECT d.part, f.v % 7 m, count(*) n FROM facts f FULL JOIN keys d ON f.k = d.k GROUP BY d.part, f.v % 7",
    "semi": (
        "SELECT f.v % 7 m, count(*) n FROM facts f WHERE EXISTS (SELECT 1 FROM keys d WHERE d.k = f.k) GROUP BY f.v % 7"
    ),
    "anti": (
        "SELECT f.v % 7 m, count(*) n FROM facts f WHERE NOT EXISTS (SELECT 1 FROM keys d WHERE d.k = f.k) "
        "GROUP BY f.v % 7"
    ),
    "exists": "SELECT count(*) n FROM facts f WHERE f.v < 9 OR EXISTS (SELECT 1 FROM keys d WHERE d.k = f.k)",
    "strings": (
        "SELECT d.part, count(*) n, max(f.name) m FROM facts f JOIN (SELECT * FROM keys WHERE k < 40) d ON "
        "f.name <=> d.name AND f.v > d.part GROUP BY d.part"
    ),
    "chain": (
        "SELECT e.part, count(*) n FROM facts f JOIN keys d ON f.k = d.k JOIN keys e ON d.part = e.k GROUP BY e.part"
    ),
}


@pytest.fixture(scope="module")
def tables(enabled: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """`facts.k` has NULLs, keys that are not in `keys`, and one key of many rows."""
    folder: Path = tmp_path_factory.mktemp("joins")
    random = np.random.default_rng(5)
    k = np.where(random.random(FACTS) < 0.2, 17, random.integers(0, 2 * KEYS, FACTS))
    nulls = random.random(FACTS) < 0.05
    names = np.array([f"a name that is long enough {number}" for number in range(50)])
    facts = {"k": pa.array(k, mask=nulls), "v": np.arange(FACTS), "name": pa.array(names[k % 50], mask=nulls)}
    keys = {"k": np.arange(KEYS), "part": np.arange(KEYS) % 11, "name": names[np.arange(KEYS) % 7000 % 50]}
    is_hot = random.random(FACTS) < 0.6
    hot = {"k": pa.array(np.where(is_hot, 17, k), mask=nulls), "v": facts["v"]}
    hot["name"] = pa.array(np.where(is_hot, names[17], names[k % 50]), mask=nulls)
    for name, columns in (("facts", facts), ("keys", keys), ("skewed", hot)):
        pq.write_table(pa.table(columns), folder / f"{name}.parquet", row_group_size=8000)
        enabled.read.parquet(str(folder / f"{name}.parquet")).createOrReplaceTempView(name)
    enabled.conf.set("spark.sundog.placement", "executors")
    yield enabled
    enabled.conf.unset("spark.sundog.placement")


@pytest.mark.parametrize("strategy", ["exchanged", "broadcast"])
@pytest.mark.parametrize("name", QUERIES)
def test_joins_on_executors_are_sparks(tables: Any, name: str, strategy: str) -> None:
    query = QUERIES[name]
    with plain_spark(tables):
        expected = tables.sql(query).toArrow()
    numbers = {"broadcast_bytes": 0} if strategy == "exchanged" else {"small_step_bytes": 0}
    with costs(tables, task_bytes=4096, **numbers):
        found = tables.sql(query).toArrow()
    run = sundog.last_run()
    assert run.accelerated, run.fallback_reasons
    assert run.whole
    assert ("PartitionedJoin" in run.plan) == (strategy == "exchanged" or name == "full")
    assert_same(found, expected, ordered=False)


@pytest.mark.parametrize(
    "condition", ["d.part = 3", "d.part = 3 AND d.k < 2000", "d.part = 77"], ids=["scattered", "clustered", "none"]
)
@pytest.mark.parametrize("key", ["k", "name"])
def test_keys_of_an_exchanged_build_side_filter_the_other(tables: Any, key: str, condition: str) -> None:
    query = f"""
        SELECT count(*) n, sum(f.v) s, max(d.k) m FROM facts f JOIN keys d ON f.{key} = d.{key}
        WHERE {condition} AND d.k < 15000
    """
    with plain_spark(tables):
        expected = tables.sql(query).toArrow()
    with costs(tables, task_bytes=4096, broadcast_bytes=0):
        found = tables.sql(query).toArrow()
    run = sundog.last_run()
    assert run.accelerated, run.fallback_reasons
    assert "PartitionedJoin" in run.plan
    assert f"join_filters=[{key}#" in run.plan
    pruned = ("rows_pruned_join_filter", "row_groups_pruned_join_filter", "files_pruned_join_filter")
    assert key == "name" or sum(run.metrics.get(metric, 0) for metric in pruned) > 0
    assert_same(found, expected, ordered=False)


@pytest.mark.parametrize("name", ["inner", "left", "full", "semi", "anti", "exists", "strings"])
def test_a_key_of_half_the_rows_is_spread(tables: Any, name: str) -> None:
    query = QUERIES[name].replace("facts f", "skewed f")
    with plain_spark(tables):
        expected = tables.sql(query).toArrow()
    with costs(tables, task_bytes=4096, broadcast_bytes=0):
        found = tables.sql(query).toArrow()
    run = sundog.last_run()
    assert run.accelerated, run.fallback_reasons
    assert run.metrics["join_rows_spread"] >= FACTS // 25  # NULLs
    if name != "full":
        assert "1 hot key spread over up to" in run.plan
        assert run.metrics["join_rows_spread"] >= FACTS // 2
        assert run.metrics["join_rows_replicated"] > 0
    assert_same(found, expected, ordered=False)


@pytest.mark.parametrize("name", ["inner", "strings"])
def test_workers_share_a_broadcast_build_side(tables: Any, name: str) -> None:
    with plain_spark(tables):
        expected = tables.sql(QUERIES[name]).toArrow()
    before = shared_files(tables)
    with costs(tables, task_bytes=4096, min_mapped_bytes=0):
        found = tables.sql(QUERIES[name]).toArrow()
    run = sundog.last_run()
    assert run.accelerated, run.fallback_reasons
    assert_same(found, expected, ordered=False)
    if name == "inner":  # the other build side is small enough to go with each task
        assert shared_files(tables) - before


def shared_files(session: Any) -> set[Path]:
    task = session.sparkContext.parallelize([0], 1).map(lambda _: os.environ["SPARK_LOCAL_DIRS"])
    return {path for folder in task.first().split(",") for path in Path(folder).glob("sundog-shared-*[0-9a-f]")}


@pytest.mark.parametrize("name", ["inner", "left", "full", "anti"])
def test_exchanged_joins_in_little_memory_go_through_the_disk(tables: Any, name: str) -> None:
    with plain_spark(tables):
        expected = tables.sql(QUERIES[name]).toArrow()
    before = scratch_folders(tables)
    tables.conf.set("spark.sundog.task.memoryBytes", "1m")
    tables.conf.set("spark.sundog.exchange.blockBytes", "16k")
    try:
        with costs(tables, broadcast_bytes=0, max_exchange_partitions=1):
            found = tables.sql(QUERIES[name]).toArrow()
    finally:
        tables.conf.unset("spark.sundog.task.memoryBytes")
        tables.conf.unset("spark.sundog.exchange.blockBytes")
    run = sundog.last_run()
    assert run.accelerated, run.fallback_reasons
    assert run.metrics["spill_count"] > 0
    assert run.metrics["spilled_bytes"] > 100_000
    assert_same(found, expected, ordered=False)
    assert scratch_folders(tables) == before


def test_a_build_side_that_was_thought_smaller_is_exchanged(tables: Any) -> None:
    with plain_spark(tables):
        expected = tables.sql(QUERIES["chain"]).toArrow()
    with costs(tables, task_bytes=4096, max_build_share=1e-4):
        found = tables.sql(QUERIES["chain"]).toArrow()
    run = sundog.last_run()
    assert run.accelerated, run.fallback_reasons
    assert "PartitionedJoin" in run.plan
    assert_same(found, expected, ordered=False)


def test_a_full_join_of_which_no_column_is_read(tables: Any) -> None:
    """Rows of the two sides, told apart by their columns, were all taken for one side."""
    few, fewer = (f"(SELECT * FROM keys WHERE k < {most})" for most in (40, 9))
    for condition in ("", "ON true", "ON false"):
        check(tables, f"SELECT count(*) FROM {few} a FULL JOIN {fewer} b {condition}")
