"""Queries over ten times their budget, in a control group that would kill them for more than 1.2 times of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from sundog.benchmarks.engines.cluster import processes_in
from sundog.environment.java import ensure_java
from tests.spark.cluster import standalone_cluster
from tests.spark.memory_group import memory_group, why_no_group
from tests.spark.test_memory import program

pytestmark = [pytest.mark.spark, pytest.mark.matrix, pytest.mark.timeout(7200)]
BUDGET = 256 << 20
TEXT_BYTES = 180
ROWS = 13_600_000
STEP = 400_000
# Others take more, together with the JVM beside them: docs/cluster.md has the figures.
QUERIES = {
    "aggregate": (
        "SELECT count(*) n, sum(c) c, max(m) m, max(s) s FROM (SELECT k, count(*) c, max(p) m, sum(v) s FROM {table} "
        "GROUP BY k)"
    ),
    "topk": "SELECT k, v, p FROM {table} ORDER BY v, k LIMIT 1000",
}
_NO_GROUP = why_no_group()
needs_groups = pytest.mark.skipif(_NO_GROUP is not None, reason=_NO_GROUP or "")


def write(folder: Path, rows: int) -> None:
    """Unique `k`, any `v`, `g` of 50 rows each, and a text of `k`."""
    folder.mkdir()
    rng = np.random.default_rng(1)
    keys = rng.permutation(rows)
    for start in range(0, rows, STEP):
        own = keys[start : start + STEP]
        text = pc.utf8_lpad(pa.array(own).cast(pa.string()), TEXT_BYTES, "0")
        columns = {"k": own, "v": rng.integers(0, 1 << 30, len(own)), "g": own % (rows // 50 + 1), "p": text}
        pq.write_table(pa.table(columns), folder / f"{start}.parquet", row_group_size=50_000, use_dictionary=False)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("limits")
    for name, rows in (("small", 20_000), ("medium", 600_000), ("large", ROWS)):
        write(folder / name, rows)
    return folder


def limited(tables: Path, folder: Path, queries: str) -> dict[str, Any]:
    """Of a cluster of one executor of one core, whose processes are in a group."""
    ensure_java()
    with memory_group("sundog-limited") as group, standalone_cluster(folder, 1, memory="1g") as master:
        for process in processes_in(folder):
            group.add(process)  # before there is an executor, which a worker of the cluster starts
        (answer,) = program("group_job", master, str(tables), str(group.folder), queries, str(BUDGET))
        return answer


@needs_groups
def test_a_process_that_takes_more_than_its_group_may_is_killed() -> None:
    """Without it the test below would prove nothing."""
    takes = "import sys; held = b'a' * (int(sys.argv[1]) << 20); print(len(held))"
    for mebibytes, is_killed in ((40, False), (200, True)):
        with memory_group("sundog-control") as group:
            group.limit(100 << 20)
            done = subprocess.run(
                [sys.executable, "-c", takes, str(mebibytes)],
                preexec_fn=lambda: group.add(os.getpid()),
                capture_output=True,
                check=False,
            )
            assert (done.returncode, group.kills) == ((-9, 1) if is_killed else (0, 0))


@needs_groups
@pytest.mark.parametrize("name", QUERIES)
def test_ten_times_the_budget_finishes_where_more_than_it_would_be_killed(
    tables: Path, tmp_path: Path, name: str
) -> None:
    queries = json.dumps({name: QUERIES[name]})
    (plain,) = program("plain_job", str(tables), queries)
    answer = limited(tables, tmp_path, queries)
    assert answer["accelerated"], answer
    assert answer["kills"] == 0, answer
    assert answer["rows"] == plain["rows"]
    assert name == "topk" or answer["bytes"] >= 10 * BUDGET, answer
