"""Windows with PARTITION BY: which are taken where, what the plan says, and that rows are accounted for."""

from __future__ import annotations

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

pytestmark = pytest.mark.spark

ROWS = 40_000
RUNNING = "sum(v) OVER (PARTITION BY {} ORDER BY id)"


@pytest.fixture(scope="module")
def session(enabled: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    random = np.random.default_rng(11)
    table = pa.table(
        {
            "id": random.permutation(ROWS),
            "many": random.integers(0, ROWS // 4, ROWS),
            "hot": np.where(random.random(ROWS) < 0.7, 0, random.integers(0, ROWS, ROWS)),
            "v": random.integers(-1000, 1000, ROWS),
        }
    )
    folder: Path = tmp_path_factory.mktemp("rows")
    for part in range(2):
        share = table.slice(part * ROWS // 2, ROWS // 2)
        pq.write_table(share, folder / f"part-{part}.parquet", row_group_size=5000, use_dictionary=False)
    enabled.read.parquet(str(folder)).createOrReplaceTempView("rows")
    return enabled


@pytest.fixture(autouse=True)
def little_memory(session: Any) -> Any:
    """All rows are taken to need more than ten times the memory of a task."""
    session.conf.set("spark.sundog.task.memoryBytes", "64m")
    with costs(session, task_bytes=4096, sort_memory_factor=1000):
        yield
    session.conf.unset("spark.sundog.task.memoryBytes")


def run(session: Any, query: str, placement: str) -> sundog.Run:
    session.conf.set("spark.sundog.placement", placement)
    ours = session.sql(query).toArrow()
    found = sundog.last_run()
    with plain_spark(session):
        assert_same(ours, session.sql(query).toArrow(), ordered=False)
    return found


@pytest.mark.parametrize("placement", ["driver", "executors"])
def test_keys_of_few_rows_are_taken_everywhere(session: Any, placement: str) -> None:
    found = run(session, f"SELECT id, {RUNNING.format('many')} AS w FROM rows", placement)
    assert found.accelerated, found.fallback_reasons
    assert "HashExchange: keys=[many" in found.plan
    assert found.metrics["window_input_rows"] == found.metrics["window_rows"] == ROWS


def test_a_hot_key_that_fits_no_task_stays_on_spark(session: Any) -> None:
    query = f"SELECT id, {RUNNING.format('hot')} AS w FROM rows"
    found = run(session, query, "executors")
    assert not found.accelerated
    assert "may not fit a task's memory" in " ".join(found.fallback_reasons)
    assert run(session, query, "driver").accelerated


def test_a_window_over_a_window_is_looked_through(session: Any) -> None:
    inner = f"SELECT id, many, hot, {RUNNING.format('many')} AS w FROM rows"
    over = "SELECT id, max(w) OVER (PARTITION BY {} ORDER BY id) AS m FROM ({})"
    assert run(session, over.format("many + 1", inner), "executors").accelerated
    assert not run(session, over.format("hot", inner), "executors").accelerated
    assert not run(session, over.format("w", inner), "executors").accelerated  # unknown before it is computed


def test_rows_of_unknown_number_are_not_taken_on_executors(session: Any) -> None:
    query = f"SELECT id, {RUNNING.format('many')} AS w FROM (SELECT id, many, sum(v) AS v FROM rows GROUP BY id, many)"
    found = run(session, query, "executors")
    assert "may not fit a task's memory" in " ".join(found.fallback_reasons)
    assert run(session, query, "driver").accelerated
