"""Runs as a program of its own: `plain_job.py FOLDER QUERIES`, what plain Spark answers to each of the queries."""

from __future__ import annotations

import json
import sys

import sundog
from tests.spark.memory_job import CONFS, answer_of


def main(folder: str, queries: str) -> None:
    spark = sundog.session(master="local[2]", confs={**CONFS, "spark.driver.memory": "4g"})
    sundog.disable(spark)
    for table in ("small", "large"):
        spark.read.parquet(f"{folder}/{table}").createOrReplaceTempView(table)
    for name, query in json.loads(queries).items():
        rows = answer_of(spark.sql(query.format(table="large")))
        print("ANSWER " + json.dumps({"name": name, "rows": rows}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
