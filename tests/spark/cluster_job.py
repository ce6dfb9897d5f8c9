"""Runs as a program of its own against a standalone cluster: `cluster_job.py MASTER FOLDER MODE`, answers in JSON.

MODE `run` compares sundog on executors with plain Spark; MODE `kill` also kills an executor while sundog's job runs.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import sundog
from tests.spark.cluster import executor_pids

QUERIES = {
    "topk": "SELECT id, num, s FROM events ORDER BY num DESC, id LIMIT 20",
    "aggregate": "SELECT grp, count(*) c, sum(num) s, min(d) m FROM events GROUP BY grp",
}


def main(master: str, folder: str, mode: str) -> None:
    confs = {"spark.executor.memory": "512m", "spark.sql.shuffle.partitions": "4", "spark.driver.host": "127.0.0.1"}
    spark = sundog.session(master=master, confs=confs)
    spark.read.parquet(f"{folder}/events").createOrReplaceTempView("events")
    plain = {name: sorted(map(str, spark.sql(sql).collect())) for name, sql in QUERIES.items()}
    sundog.enable(spark)
    spark.conf.set("spark.sundog.placement", "executors")
    if mode == "kill":
        threading.Thread(target=_kill_one, args=(Path(folder) / "work",), daemon=True).start()
    answer: dict[str, object] = {}
    for name, sql in QUERIES.items():
        rows = sorted(map(str, spark.sql(sql).collect()))
        run = sundog.last_run()
        answer[name] = {
            "equal": rows == plain[name],
            "rows": len(rows),
            "accelerated": run.accelerated,
            "placement": run.placement,
            "reasons": run.fallback_reasons,
            "input_rows": run.metrics.get("input_rows", 0),
        }
    print("ANSWER " + json.dumps(answer))
    spark.stop()


def _kill_one(work: Path) -> None:
    """As soon as sundog's first job runs."""
    time.sleep(0.3)
    for pid in executor_pids(work)[:1]:
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:4])
