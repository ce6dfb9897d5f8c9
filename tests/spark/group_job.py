"""Runs as a program of its own: `group_job.py MASTER FOLDER GROUP QUERIES BUDGET`, each query within a limit of memory.

The only executor and its Python worker are in the control group GROUP. A query is asked of `medium` and of `small`
first. What the group then holds, with the whole heap of the executor, is the baseline. The same query of `large` has to
do with 1.2 times the budget more, or the system kills one of the processes.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import sundog
from sundog.operators.context import ProcessShare
from sundog.plan.costs import Costs
from sundog.runtime import execute
from tests.spark.memory_group import MemoryGroup
from tests.spark.memory_job import CONFS, UncappedLimits, answer_of, run_measured

LIMIT_FACTOR = 1.2
_WATCH_SECONDS = 0.1


HEAP = {"spark.executor.memory": "1g", "spark.executor.extraJavaOptions": "-Xms1g -XX:+AlwaysPreTouch -XX:+UseSerialGC"}


def main(master: str, folder: str, group: str, queries: str, budget: str) -> None:
    memory, found = int(budget), MemoryGroup(Path(group))
    spark = sundog.session(master=master, confs={**CONFS, **HEAP, "spark.sundog.task.memoryBytes": f"{memory}b"})
    for table in ("small", "medium", "large"):
        spark.read.parquet(f"{folder}/{table}").createOrReplaceTempView(table)
    sundog.enable(spark)

    def limits(_: int, block_bytes: int, costs: Costs, process: ProcessShare) -> UncappedLimits:
        return UncappedLimits(memory, block_bytes, costs.waiting_share, costs.machine_share, costs, process)

    with patch.object(execute, "task_limits", limits):
        for name, query in json.loads(queries).items():
            print("ANSWER " + json.dumps({"name": name, **_limited(spark, found, query, memory)}), flush=True)
    spark.stop()


def _limited(spark: Any, group: MemoryGroup, query: str, budget: int) -> dict[str, Any]:
    for table in ("medium", "small"):  # a task begins by giving memory back that an earlier one has left
        run_measured(spark, query.format(table=table))
    before, baseline, kills = group.resident_bytes(), group.used_bytes(), group.kills
    group.limit(baseline + int(LIMIT_FACTOR * budget))
    try:
        with _watched(group) as peaks:
            rows = answer_of(spark.sql(query.format(table="large")))
    finally:
        group.limit(None)
    run = sundog.last_run()
    return {
        "rows": rows,
        "accelerated": run.accelerated,
        "reasons": run.fallback_reasons,
        "bytes": run.metrics.get("bytes_decoded", 0),
        "spilled": run.metrics.get("spilled_bytes", 0),
        "baseline": baseline,
        "grown": {name: peak - before.get(name, 0) for name, peak in peaks.items()},
        "kills": group.kills - kills,
    }


@contextmanager
def _watched(group: MemoryGroup) -> Iterator[dict[str, int]]:
    """The peak of each process of the group, of what is seen now and then."""
    peaks, done = group.resident_bytes(), threading.Event()

    def watch() -> None:
        while not done.wait(_WATCH_SECONDS):
            for name, size in group.resident_bytes().items():
                peaks[name] = max(size, peaks.get(name, 0))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield peaks
    finally:
        done.set()
        watcher.join()


if __name__ == "__main__":
    from tests.spark import group_job  # so that workers find its classes by name

    group_job.main(*sys.argv[1:])
