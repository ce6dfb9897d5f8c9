"""Queries of every shape for a standalone cluster, and the program that runs them there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tests.oracle.tables import events, write_files
from tests.spark.cluster import PYTHON_PATH, ROOT

QUERIES = {
    "aggregate": "SELECT num, s, count(*) c, sum(big) s2, min(dec) m FROM events GROUP BY num, s",
    "topk": "SELECT id, num, s FROM events ORDER BY num DESC, id LIMIT 20",
    "distinct": "SELECT grp, count(DISTINCT num) c, sum(big) s2 FROM events GROUP BY grp",
    "window": "SELECT id, sum(num) OVER (ORDER BY big RANGE BETWEEN 1000000000 PRECEDING AND CURRENT ROW) FROM events",
    "running": "SELECT id, row_number() OVER (ORDER BY id) r, sum(big) OVER (ORDER BY id) s FROM events",
    "partitioned": "SELECT id, rank() OVER (PARTITION BY grp ORDER BY big, id) r FROM events",
    "join": "SELECT size, count(*) c, sum(num) n FROM events JOIN sizes ON num = of GROUP BY size",
    "large join": "SELECT a.s, count(*) c, sum(b.big) n FROM events a FULL JOIN events b ON a.id = b.seq GROUP BY a.s",
    "held": "SELECT id, num - avg(num) OVER () d, count(*) OVER () n FROM events",
    "sort": "SELECT id, big, s FROM events ORDER BY big, id",
    "inside keys": "SELECT id, rank() OVER (PARTITION BY num > 0 ORDER BY big, id) r FROM events",
    "shares": "SELECT id, s, count(*) c, sum(big) b FROM events GROUP BY id, s",
    "union": (
        "SELECT num, count(*) c, sum(v) v FROM (SELECT num, big v FROM events UNION ALL SELECT of num, size v "
        "FROM sizes) GROUP BY num"
    ),
    "footers": "SELECT id, num FROM events WHERE num > -900 ORDER BY num, id LIMIT 20",
    # The rows of a file with equal keys come one behind the other, as they lie in it; which file comes first is open.
    "ties": (
        "SELECT count(*) n, sum(CASE WHEN g = grp AND l div 5000 = seq div 5000 AND l > seq THEN 1 ELSE 0 END) back, "
        "sum(CASE WHEN g = grp AND l div 5000 <> seq div 5000 THEN 1 ELSE 0 END) files FROM "
        "(SELECT seq, grp, lag(seq) OVER (ORDER BY grp) l, lag(grp) OVER (ORDER BY grp) g FROM events)"
    ),
    "spilling aggregate": (
        "SELECT count(*) n, sum(c) c, sum(s) s, min(k) k FROM (SELECT k, count(*) c, sum(v) s FROM many GROUP BY k)"
    ),
    "spilling join": "SELECT count(*) n, sum(a.v) a, sum(b.v) b FROM many a FULL JOIN many b ON a.k = b.v",
}
MANY = 400_000
# Its rows are kept for a second reader, as Spark holds them.
KEPT = ["held"]
# What decides that a query runs as its name says: costs, and settings.
PLANNED: dict[str, tuple[dict[str, float], dict[str, str]]] = {
    "inside keys": ({"sort_memory_factor": 1000}, {"task_memoryBytes": "64m"}),
    "shares": ({"few_slots": 4}, {}),
    "footers": ({"footer_job_files": 1}, {}),
}
SHAPES = [name for name in QUERIES if not name.startswith("spilling") and name not in ("ties", *KEPT, *PLANNED)]
# Of so little data each task reads some, and groups and rows move although they are few.
SMALL_TASKS = {"task_bytes": 1000, "gather_groups": 0, "small_step_bytes": 0, "broadcast_bytes": 1 << 20}
# And no task reads everything, as where there are few slots.
MANY_SLOTS = {**SMALL_TASKS, "few_slots": 1}


def write_tables(folder: Path) -> None:
    """The tables `events` and `sizes`, and `many`, whose keys are more than the smallest memory budget."""
    write_files(events(20_000), folder / "events.table", files=4, row_group_size=1000)
    write_files(pa.table({"of": range(-300, 300), "size": [n % 7 for n in range(600)]}), folder / "sizes.table", 1, 600)
    keys = np.random.default_rng(3).permutation(MANY)
    write_files(pa.table({"k": keys, "v": keys[::-1] * 7 % (2 * MANY)}), folder / "many.table", 2, MANY // 8)


def case(
    name: str,
    query: str,
    fault: str | None = None,
    at: int | str | None = None,
    frame: bool = False,
    profile: bool = False,
    costs: Mapping[str, float] = SMALL_TASKS,
    **confs: str,
) -> dict[str, Any]:
    """`confs`: of sundog's settings, `_` for a dot."""
    own_costs, own_confs = PLANNED.get(query, ({}, {}))
    settings = {f"spark.sundog.{key.replace('_', '.')}": value for key, value in {**confs, **own_confs}.items()}
    settings["spark.sundog.costs"] = json.dumps({**costs, **own_costs})
    made = {"frame": frame, "profile": profile}
    return {"name": name, "sql": QUERIES[query], "confs": settings, "fault": fault, "at": at, **made}


def answers(
    master: str, folder: Path, cases: list[dict[str, Any]], confs: Mapping[str, str] | None = None, seconds: int = 540
) -> dict[str, dict[str, Any]]:
    """What a program of its own, with a session of this master, answers to each of the cases."""
    environment = dict(os.environ, PYSPARK_PYTHON=sys.executable, PYTHONPATH=PYTHON_PATH)  # of executors, of the driver
    done = subprocess.run(
        [
            sys.executable, "-m", "tests.spark.cluster_job", master, str(folder),
            json.dumps(cases), json.dumps(confs or {}),
        ],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=seconds, check=False,
    )  # fmt: skip
    lines = [line.removeprefix("ANSWER ") for line in done.stdout.splitlines() if line.startswith("ANSWER ")]
    assert done.returncode == 0, done.stderr[-3000:]
    found = [
        json.loads(line.removeprefix("SOURCE ")) for line in done.stdout.splitlines() if line.startswith("SOURCE ")
    ]
    assert {Path(each).parents[1] for each in found[0]} == {ROOT / "src"}, "not the sundog of this checkout"
    return {answer["name"]: answer for answer in map(json.loads, lines)}


def check(answer: dict[str, Any]) -> None:
    """It is Spark's answer, computed by sundog on executors."""
    assert answer["equal"], answer
    assert answer["accelerated"], answer
    assert answer["placement"] == "executors"
    assert answer["rows"] > 0
    assert answer["metrics"]["input_rows"] > 0
