"""Memory of Python workers and of the driver: bounded for inputs of ten times a budget, flat over 200 queries."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sundog.environment.java import ensure_java
from sundog.operators.context import bytes_of_process
from tests.oracle.needs import needs_profiles
from tests.oracle.tables import write_files
from tests.spark.cluster import PYTHON_PATH, ROOT, standalone_cluster
from tests.spark.cluster_cases import SHAPES, write_tables

pytestmark = [pytest.mark.spark, pytest.mark.matrix, pytest.mark.timeout(2400)]
ROWS, BUDGET = 11_000_000, 32 << 20
CORES = 2
# Beside the budget: a decoded row group, blocks in transit, scratch of kernels. It does not grow with the input:
# 31 to 55 MB were measured.
FIXED_BYTES = 64 << 20
QUERIES = {
    "aggregate": "SELECT count(*) n, sum(c) c, max(s) s FROM (SELECT k, count(*) c, sum(v) s FROM {table} GROUP BY k)",
    "distinct": "SELECT count(DISTINCT k) n, max(v) s FROM {table}",
    "topk": "SELECT k, v, g FROM {table} ORDER BY v, k LIMIT 1000",
    "range": (
        "SELECT count(*) n, min(s) s, max(s) m FROM (SELECT sum(v) OVER (ORDER BY k RANGE BETWEEN 5 PRECEDING "
        "AND CURRENT ROW) s FROM {table})"
    ),
    "running": (
        "SELECT count(*) n, sum(r) r, max(s) m FROM (SELECT row_number() OVER (ORDER BY v, k) r, sum(g) OVER "
        "(ORDER BY v, k) s FROM {table})"
    ),
    "partitioned": (
        "SELECT count(*) n, sum(r) r, max(s) m FROM (SELECT rank() OVER (PARTITION BY g ORDER BY v) r, sum(v) "
        "OVER (PARTITION BY g ORDER BY v) s FROM {table})"
    ),
    "full join": "SELECT count(*) n, max(a.v) a, max(b.g) b FROM {table} a FULL JOIN {table} b ON a.k = b.g",
}


def program(name: str, *arguments: str) -> list[dict[str, Any]]:
    ensure_java()
    done = subprocess.run(
        [sys.executable, "-m", f"tests.spark.{name}", *arguments], cwd=ROOT,
        env=dict(os.environ, PYTHONPATH=PYTHON_PATH), capture_output=True, text=True, timeout=2300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line[7:]) for line in done.stdout.splitlines() if line.startswith("ANSWER ")]


def table(rows: int) -> pa.Table:
    """Unique `k`, any `v`, `g` of 50 rows each."""
    rng = np.random.default_rng(1)
    keys = rng.permutation(rows)
    return pa.table({"k": keys, "v": rng.integers(0, 1 << 30, rows), "g": keys % (rows // 50 + 1)})


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("memory")
    write_files(table(20_000), folder / "small", 1, 5000)
    write_files(table(ROWS), folder / "large", 4, 250_000)
    return folder


SMALL_BUDGET = {"spark.sundog.task.memoryBytes": f"{BUDGET}b"}


def test_ten_times_the_budget_finishes_within_it_but_for_a_fixed_part(tables: Path) -> None:
    found = program("memory_job", "local[1]", str(tables), json.dumps(QUERIES), json.dumps(SMALL_BUDGET))
    assert {answer["name"] for answer in found} == set(QUERIES)
    for answer in found:
        assert answer["equal"], answer
        assert answer["accelerated"], answer
        assert answer["peak"] <= 1.2 * BUDGET + FIXED_BYTES, answer


@needs_profiles
def test_tasks_of_one_process_stay_within_their_budgets_together(tables: Path, tmp_path: Path) -> None:
    """Of an executor of two cores, with all that the planner allows such a process beside its code."""
    ensure_java()
    confs = {**SMALL_BUDGET, "spark.sundog.executor.process": "executor", "spark.executor.memory": "1g"}
    with standalone_cluster(tmp_path, CORES, memory="1g") as master:
        found = program("memory_job", master, str(tables), json.dumps(QUERIES), json.dumps(confs))
    assert {answer["name"] for answer in found} == set(QUERIES)
    for answer in found:
        assert answer["equal"], answer
        assert answer["accelerated"], answer
        assert answer["shared"], answer
        assert answer["peak"] <= bytes_of_process(int(1.2 * BUDGET), CORES, code_bytes=0), answer


@pytest.mark.parametrize("budgets", ["capped", "uncapped"])
def test_a_worker_whose_memory_is_limited_has_budgets_that_fit(tables: Path, budgets: str) -> None:
    """Without that it ends for want of memory: the budget of the setting is more than the limit."""
    limited = {"spark.executor.pyspark.memory": "900m", "spark.sundog.onInternalError": "fallback"}
    queries = {"aggregate": QUERIES["aggregate"]}
    (answer,) = program("memory_job", "local[1]", str(tables), json.dumps(queries), json.dumps(limited), budgets)
    assert answer["equal"], answer
    assert answer["limits"] == [900 << 20]
    if budgets == "capped":
        assert answer["accelerated"], answer
        assert answer["address"] <= 900 << 20
    else:
        assert not answer["accelerated"]
        assert "MemoryError" in answer["reasons"][0]


def test_two_hundred_queries_leave_driver_and_worker_as_they_were(tmp_path: Path) -> None:
    write_tables(tmp_path)
    rounds = -(-200 // (2 * len(SHAPES)))
    found = program("flat_job", str(tmp_path), str(rounds))
    assert len(found) == rounds
    settled, last = found[rounds // 3], found[-1]
    for process in ("driver", "worker"):
        assert last[process] <= settled[process] * 1.02, found
