"""Sail: its Spark Connect server inside this process, asked through Spark's own client.

Sail checks the version of the PySpark beside it. Where the newest Sail refuses ours, give this engine a Python of its
own (`--python sail=PATH`) with `pysail` and the `pyspark-client` that it accepts.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from pysail.spark import SparkConnectServer
from pyspark.sql import SparkSession

from sundog.benchmarks.cases.model import Case, Result
from sundog.benchmarks.engines.model import Answer


def make(cores: int, confs: Mapping[str, str]) -> SailEngine:
    return SailEngine()


class SailEngine:
    def __init__(self) -> None:
        self._server = SparkConnectServer()
        self._server.start(background=True)
        _, port = self._server.listening_address
        self._spark = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").getOrCreate()
        self._spark.conf.set("spark.sql.session.timeZone", "UTC")

    def versions(self) -> dict[str, str]:
        return {"pysail": version("pysail")}

    def use(self, tables: Mapping[str, Path]) -> None:
        for name, folder in tables.items():
            self._spark.read.parquet(str(folder)).createOrReplaceTempView(name)

    def run(self, case: Case) -> Answer:
        frame = self._spark.sql(case.sql_for("sail"))
        if case.result is Result.DISCARDED:
            frame.write.format("noop").mode("overwrite").save()
            return Answer()
        table = frame.toArrow()
        return Answer(table, table.num_rows)

    def close(self) -> None:
        self._spark.stop()
        self._server.stop()
