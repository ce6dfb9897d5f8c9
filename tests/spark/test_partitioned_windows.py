"""Windows with PARTITION BY: which are taken at which place, the plan's text, and the accounting of rows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sundog
from tests.costs import costs
from tests.oracle.compare import assert_same
from tests.oracle.needs import HAS_FILTERED_FRAMES
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
            "text": pa.array(["hot" if x < 0.7 else None if x < 0.8 else f"t{x:.2f}" for x in random.random(ROWS)]),
            "x": pa.array(
                [float("nan") if x < 3 else None if x < 5 else x / 8 for x in random.integers(0, 4000, ROWS)]
            ),
            "day": pa.array(random.integers(0, 9000, ROWS).astype(np.int32), pa.date32()),
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


def test_a_hot_key_that_fits_no_task_is_cut_by_range(session: Any) -> None:
    query = f"SELECT id, {RUNNING.format('hot')} AS w FROM rows"
    found = run(session, query, "executors")
    assert found.accelerated, found.fallback_reasons
    assert found.metrics["ranges"] > 10
    assert found.metrics["window_input_rows"] == found.metrics["window_rows"] == ROWS
    assert "keys cut by range" in found.plan
    assert run(session, query, "driver").accelerated


PLACES = "row_number() W), rank() W), dense_rank() W), ntile(7) W), percent_rank() W), cume_dist() W)"
ROWS_CALLS = (
    f"{PLACES}, lag(v, 3) W), lead(v, 2, -1) W), lag(nullif(v % 3, 0), 2) IGNORE NULLS W), nth_value(v, 3) W), "
    "sum(v) W ROWS BETWEEN 100 PRECEDING AND 3 FOLLOWING), min(v) W ROWS 50 PRECEDING), first(v) W), last(v) W), "
    "avg(v) W ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)"
)
FILTERED = "count(v) FILTER (WHERE v > 0) W), " if HAS_FILTERED_FRAMES else ""
PEER_CALLS = (
    f"rank() W), dense_rank() W), percent_rank() W), cume_dist() W), sum(v) W), {FILTERED}"
    "max(v) W RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)"
)
# Frames that are open behind are compared in tests/operators: Spark takes time by the square of the rows.
WINDOWS = {
    "rows": ("hot", "id", ROWS_CALLS),
    "rows of text keys, descending": ("text", "v % 7 DESC, id DESC", ROWS_CALLS),
    "ties, NaN and NULL": ("text", "x", f"{PEER_CALLS}, sum(v) W RANGE BETWEEN 0.5D PRECEDING AND 0.25D FOLLOWING)"),
    "ties, NaN and NULL, descending": ("hot < 5, text", "x DESC NULLS FIRST", PEER_CALLS),
    "frames behind the row": ("hot", "id DESC", "min(v) W RANGE BETWEEN 5 FOLLOWING AND 300 FOLLOWING)"),
    "open frames": ("hot", "id", "sum(v) W RANGE BETWEEN UNBOUNDED PRECEDING AND 100 FOLLOWING)"),
    "months": ("hot", "day", "max(v) W RANGE BETWEEN INTERVAL 2 MONTHS PRECEDING AND CURRENT ROW)"),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_windows_inside_a_hot_key(session: Any, name: str) -> None:
    keys, order, calls = WINDOWS[name]
    session.conf.set("spark.sundog.task.memoryBytes", "250m")
    calls = re.sub(r"\bW\b", f"OVER (PARTITION BY {keys} ORDER BY {order}", calls)
    found = run(session, f"SELECT id, {calls} FROM rows", "executors")
    assert found.accelerated, found.fallback_reasons
    assert "keys cut by range" in found.plan
    assert found.metrics["ranges"] >= 4


@pytest.mark.parametrize(
    "call",
    [
        "sum(v) OVER (PARTITION BY hot)",
        "sum(v) OVER (PARTITION BY hot ORDER BY hot)",
        "sum(v) OVER (PARTITION BY hot ORDER BY id RANGE BETWEEN 90000 PRECEDING AND 90000 FOLLOWING)",
        "sum(v) OVER (PARTITION BY hot ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND 5 PRECEDING)",
    ],
    ids=["no order", "all rows are peers", "a halo of all rows", "a state inside another range"],
)
def test_a_hot_key_that_cannot_be_cut_stays_on_spark(session: Any, call: str) -> None:
    query = f"SELECT id, {call} AS w FROM rows"
    found = run(session, query, "executors")
    assert not found.accelerated
    assert "may not fit a task's memory" in " ".join(found.fallback_reasons)


def test_a_window_over_a_window_is_looked_through(session: Any) -> None:
    inner = f"SELECT id, many, hot, {RUNNING.format('many')} AS w FROM rows"
    over = "SELECT id, max(w) OVER (PARTITION BY {} ORDER BY id) AS m FROM ({})"
    assert "keys cut by range" not in run(session, over.format("many + 1", inner), "executors").plan
    assert "keys cut by range" in run(session, over.format("hot", inner), "executors").plan
    assert (
        "keys cut by range" in run(session, over.format("w", inner), "executors").plan
    )  # unknown before it is computed


def test_rows_whose_keys_cannot_be_probed_are_cut_by_range(session: Any) -> None:
    query = f"SELECT id, {RUNNING.format('many')} AS w FROM (SELECT id, many, sum(v) AS v FROM rows GROUP BY id, many)"
    assert "keys cut by range" in run(session, query, "executors").plan
    assert run(session, query, "driver").accelerated
