"""Runs as a program of its own against a standalone cluster: `sharing_job.py MASTER FOLDER`. A join whose build side is
mapped; prints the local folders of the executors that answered, and sundog's files below FOLDER, in JSON."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import sundog
from tests.spark.cluster_cases import QUERIES, SMALL_TASKS
from tests.spark.cluster_job import CONFS

EXECUTORS, WAIT_SECONDS = 2, 60


def main(master: str, folder: str) -> None:
    costs = {**SMALL_TASKS, "min_mapped_bytes": 0, "min_broadcast_bytes": 0}
    own = {"spark.executor.cores": "2", "spark.sundog.executor.process": "slot", "spark.eventLog.enabled": "false"}
    spark = sundog.session(master=master, confs={**CONFS, **own, "spark.sundog.costs": json.dumps(costs)})
    for table in Path(folder).glob("*.table"):
        spark.read.parquet(str(table)).createOrReplaceTempView(table.stem)

    def local_folders(_: int) -> str:
        time.sleep(0.2)  # so that no executor takes all tasks
        return os.environ["SPARK_LOCAL_DIRS"]

    folders: list[str] = []
    deadline = time.monotonic() + WAIT_SECONDS
    while len(folders) < EXECUTORS and time.monotonic() < deadline:
        folders = spark.sparkContext.range(0, 8, 1, 8).map(local_folders).distinct().collect()
    sundog.disable(spark)
    plain = sorted(map(str, spark.sql(QUERIES["join"]).collect()))
    sundog.enable(spark)
    rows = sorted(map(str, spark.sql(QUERIES["join"]).collect()))
    run = sundog.last_run()
    files = [str(path) for path in Path(folder).rglob("sundog-shared-*") if not path.name.endswith("lock")]
    answer = {"equal": rows == plain, "placement": run.placement, "reasons": run.fallback_reasons}
    print("ANSWER " + json.dumps({**answer, "folders": folders, "files": files}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
