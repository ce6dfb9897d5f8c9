"""Joins with far more output than input rows: they stay within their memory, are left to Spark, or are cancelled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sundog
from sundog.environment.java import ensure_java
from sundog.support import Code
from tests.costs import costs
from tests.oracle.compare import assert_same
from tests.oracle.plain_spark import plain_spark
from tests.spark.cluster import PYTHON_PATH, ROOT
from tests.spark.test_cancelling import PLACEMENTS, assert_cancelled, start

pytestmark = pytest.mark.spark

# All pairs of rows of `one_key` are the build side of a join with `facts`: four million.
PAIRS = "SELECT a.id FROM one_key a JOIN one_key b ON a.k = b.k"
JOINED = f"SELECT count(*) n, sum(f.v) s FROM facts f JOIN ({PAIRS}) p ON f.id = p.id"
NOT_IN = f"SELECT count(*) n FROM facts f WHERE f.id NOT IN ({PAIRS})"
GROUPS = "SELECT a.id, b.id other, count(*) n FROM one_key a JOIN one_key b ON a.k = b.k GROUP BY a.id, b.id"
SMALL = {"max_build_share": 1e-3, "broadcast_bytes": 1 << 18}  # some two megabytes on the driver, one on executors


def write(folder: Path, name: str, columns: dict[str, Any]) -> None:
    (folder / name).mkdir()
    pq.write_table(pa.table(columns), folder / name / "0.parquet", row_group_size=50_000)


def write_all(folder: Path, keys: int, facts: int) -> None:
    write(folder, "one_key", {"k": np.ones(keys, np.int64), "id": np.arange(keys)})
    write(folder, "facts", {"id": np.arange(facts), "v": np.arange(facts) % 1000})


@pytest.fixture(scope="module")
def tables(enabled: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("exploding")
    write_all(folder, 2000, 100_000)
    write(folder, "huge", {"k": np.ones(300_000, np.int64), "id": np.arange(300_000)})
    for name in ("one_key", "facts", "huge"):
        enabled.read.parquet(str(folder / name)).createOrReplaceTempView(name)
    yield enabled
    enabled.conf.unset("spark.sundog.placement")


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_an_exploding_build_side_is_exchanged_instead(tables: Any, placement: str) -> None:
    tables.conf.set("spark.sundog.placement", placement)
    with plain_spark(tables):
        expected = tables.sql(JOINED).toArrow()
    with costs(tables, **SMALL):
        found = tables.sql(JOINED).toArrow()
    run = sundog.last_run()
    assert run.accelerated, run.fallback_reasons
    assert "PartitionedJoin" in run.plan
    [reason] = {reason for graph in run.graphs for reason in graph.given_up.values()}
    assert "at least" in reason
    assert_same(found, expected, ordered=False)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_an_exploding_build_side_that_cannot_be_exchanged_is_sparks(tables: Any, placement: str) -> None:
    tables.conf.set("spark.sundog.placement", placement)
    with plain_spark(tables):
        expected = tables.sql(NOT_IN).toArrow()
    with costs(tables, **SMALL):
        found = tables.sql(NOT_IN).toArrow()
    run = sundog.last_run()
    assert not run.accelerated
    assert Code.COST in [reason.code for reason in run.reasons]
    assert any("at least" in reason for reason in run.fallback_reasons)
    assert_same(found, expected, ordered=False)


def test_rows_that_exceed_the_drivers_share_are_sparks(tables: Any) -> None:
    tables.conf.set("spark.sundog.placement", "driver")
    tables.conf.set("spark.sundog.driver.maxBytes", "2m")
    try:
        with costs(tables, max_output_share=1e-9):
            found = tables.sql(GROUPS).toArrow()
    finally:
        tables.conf.unset("spark.sundog.driver.maxBytes")
    assert found.num_rows == 4_000_000
    reason = sundog.last_run().reasons[0]
    assert reason.code is Code.TOO_LARGE
    assert "more than 2,097,152 bytes" in reason.sentence


# Nobody waits for 90 billion pairs. They are counted as they come, or are a build side that is exchanged, or a result.
ENDLESS = {
    "counted": "SELECT count(*) n, max(a.id + b.id) m FROM huge a JOIN huge b ON a.k = b.k",
    "condition": "SELECT count(*) n FROM huge a JOIN huge b ON a.k = b.k AND a.id + b.id < -1",
    "build side": f"SELECT count(*) n FROM facts f JOIN ({PAIRS.replace('one_key', 'huge')}) p ON f.id = p.id",
}


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("kind", ENDLESS)
def test_an_exploding_join_can_be_cancelled(tables: Any, placement: str, kind: str) -> None:
    tables.conf.set("spark.sundog.placement", placement)
    threads = threading.active_count()
    runner, outcome = start(tables, tables.sql(ENDLESS[kind]).collect, f"endless {kind} on {placement}")
    time.sleep(4)
    assert runner.is_alive()
    since = time.monotonic()
    tables.sparkContext.cancelAllJobs()
    runner.join(30)
    assert_cancelled(outcome, since, "as part of cancellation of all")
    until = time.monotonic() + 10
    while time.monotonic() < until and (active_tasks(tables) or busy_seconds() > 0.1):
        time.sleep(0.2)
    assert active_tasks(tables) == 0
    assert busy_seconds() < 0.1, "no thread goes on"
    assert threading.active_count() <= threads + os.cpu_count()  # those of the pool


def active_tasks(session: Any) -> int:
    tracker = session.sparkContext.statusTracker()
    infos = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    return len(tracker.getActiveJobsIds()) + sum(info.numActiveTasks for info in infos if info is not None)


def busy_seconds() -> float:
    """Processor time of this process in half a second."""
    before = time.process_time()
    time.sleep(0.5)
    return time.process_time() - before


def test_an_exploding_build_side_takes_no_more_of_the_driver_than_its_limit(tmp_path: Path) -> None:
    """Of 36 million pairs, 576 MB, a few megabytes are gathered before Spark has the query."""
    write_all(tmp_path, 6000, 100_000)
    ensure_java()
    query = JOINED.replace("SELECT a.id FROM", "SELECT a.id, b.id other FROM").replace("sum(f.v)", "sum(f.v + p.other)")
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.exploding_job", str(tmp_path), query], cwd=ROOT,
        env=dict(os.environ, PYTHONPATH=PYTHON_PATH), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    answer = json.loads(done.stdout.splitlines()[-1])
    assert "TOO_LARGE" in str(answer["reasons"])
    assert answer["equal"]
    assert answer["grown"] < 150 << 20
