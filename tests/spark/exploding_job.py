"""Runs as a program of its own: `exploding_job.py FOLDER QUERY`, by how much the driver's process grew at most.

On the driver, with 16 MB for what a stage puts out. The same query over the first rows comes first, so that code and
kernels are loaded.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import sundog
from tests.spark.memory_job import _kilobytes

CONFS = {
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.sundog.learn": "false",
    "spark.sundog.placement": "driver",
    "spark.sundog.driver.maxBytes": "16m",
    "spark.sundog.onInternalError": "raise",
    "spark.sundog.costs": json.dumps({"max_output_share": 1e-9, "max_build_share": 4e-3}),
}


def main(folder: str, query: str) -> None:
    spark = sundog.session(master="local[2]", confs=CONFS)
    for name in ("one_key", "facts"):
        spark.read.parquet(f"{folder}/{name}").createOrReplaceTempView(name)
    expected = spark.sql(query).collect()
    sundog.enable(spark)
    spark.read.parquet(f"{folder}/one_key").where("id < 50").createOrReplaceTempView("one_key")
    spark.sql(query).collect()
    assert sundog.last_run().accelerated, sundog.last_run().fallback_reasons
    spark.read.parquet(f"{folder}/one_key").createOrReplaceTempView("one_key")
    Path("/proc/self/clear_refs").write_text("5")
    start = _kilobytes("VmRSS")
    found = spark.sql(query).collect()
    grown = 1024 * (_kilobytes("VmHWM") - start)
    print(json.dumps({"grown": grown, "reasons": sundog.last_run().fallback_reasons, "equal": found == expected}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
