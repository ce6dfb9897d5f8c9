"""Runs as a program of its own: `flat_job.py FOLDER ROUNDS`, the memory of driver and workers after each round as JSON.

A round has every shape, on the driver's threads and on executors, in one session with one worker. Memory is the
resident set after what is unused has gone back to the system.
"""

from __future__ import annotations

import ctypes
import gc
import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

import sundog
from tests.spark.cluster_cases import QUERIES, SHAPES
from tests.spark.memory_job import CONFS


def resident_kilobytes(_: Any = None) -> int:
    gc.collect()
    pa.default_memory_pool().release_unused()
    ctypes.CDLL(None).malloc_trim(0)
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1])


def main(folder: str, rounds: str) -> None:
    spark = sundog.session(master="local[1]", confs=CONFS)
    for table in Path(folder).glob("*.table"):
        spark.read.parquet(str(table)).createOrReplaceTempView(table.stem)
    sundog.enable(spark)
    for _ in range(int(rounds)):
        for placement in ("driver", "executors"):
            spark.conf.set("spark.sundog.placement", placement)
            for name in SHAPES:
                spark.sql(QUERIES[name]).collect()
                run = sundog.last_run()
                assert run.accelerated, (name, run.fallback_reasons)
        worker = spark.sparkContext.range(0, 1, 1, 1).map(resident_kilobytes).collect()[0]
        print("ANSWER " + json.dumps({"driver": resident_kilobytes(), "worker": worker}), flush=True)
    spark.stop()


if __name__ == "__main__":
    from tests.spark import flat_job  # so that workers find its functions by name

    flat_job.main(*sys.argv[1:])
