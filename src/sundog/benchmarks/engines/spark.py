"""Spark, with sundog and without. The session is set up for a small machine in favour of plain Spark.

The default of 200 shuffle partitions is for clusters; a few per core is what a user of one machine would set.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

import sundog
from sundog.benchmarks.cases.model import Case, Probe, Result
from sundog.benchmarks.engines.model import Answer
from sundog.benchmarks.results import Taken
from sundog.versions import spark_version

PARTITIONS_PER_CORE = 4
_PROBE_ACTIONS = 20


def plain(cores: int, confs: Mapping[str, str]) -> SparkEngine:
    return SparkEngine(plain_session(cores, confs))


def accelerated(cores: int, confs: Mapping[str, str]) -> SundogEngine:
    spark = plain_session(cores, confs)
    sundog.enable(spark)
    return SundogEngine(spark)


def plain_session(cores: int, confs: Mapping[str, str]) -> Any:
    """A session on so many cores; `confs` over what all of them have."""
    spark = sundog.session(
        "sundog-bench",
        master=f"local[{cores}]",
        confs={
            "spark.sql.shuffle.partitions": PARTITIONS_PER_CORE * cores,
            "spark.sql.session.timeZone": "UTC",
            "spark.driver.maxResultSize": "0",
            **confs,
        },
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


class SparkEngine:
    def __init__(self, spark: Any) -> None:
        self._spark = spark

    def versions(self) -> dict[str, str]:
        java = self._spark.sparkContext._jvm.System.getProperty("java.version")
        return {"pyspark": version("pyspark"), "java": java}

    def use(self, tables: Mapping[str, Path]) -> None:
        for name, folder in tables.items():
            self._spark.read.parquet(str(folder)).createOrReplaceTempView(name)

    def run(self, case: Case) -> Answer:
        frame = self._spark.sql(case.sql)
        if case.result is Result.DISCARDED:
            frame.write.format("noop").mode("overwrite").save()
            return Answer()
        table = as_arrow(frame)
        return Answer(table, table.num_rows)

    def close(self) -> None:
        self._spark.stop()


class SundogEngine(SparkEngine):
    def versions(self) -> dict[str, str]:
        return {**super().versions(), **{name: version(name) for name in ("sundog", "numba", "numpy", "pyarrow")}}

    def run(self, case: Case) -> Answer:
        match case.probe:
            case Probe.INELIGIBLE:
                return self._extra_seconds(case.sql)
            case Probe.PLANNING:
                return self._planning_seconds(case.sql)
        answer = super().run(case)
        return Answer(answer.table, answer.rows, _facts())

    def _extra_seconds(self, sql: str) -> Answer:
        """Enabled and disabled in turn, so that both meet the same JVM in the same state."""
        extra = []
        for _ in range(_PROBE_ACTIONS):
            sundog.disable(self._spark)
            plain = self._action_seconds(sql)
            sundog.enable(self._spark)
            extra.append(self._action_seconds(sql) - plain)
        return Answer(facts=_facts(), measured_seconds=median(extra))

    def _action_seconds(self, sql: str) -> float:
        frame = self._spark.sql(sql)
        start = perf_counter()
        frame.collect()
        return perf_counter() - start

    def _planning_seconds(self, sql: str) -> Answer:
        seconds = []
        for _ in range(_PROBE_ACTIONS):
            as_arrow(self._spark.sql(sql))
            seconds.append(sundog.last_run().planning_seconds)
        return Answer(facts=_facts(), measured_seconds=median(seconds))


def as_arrow(frame: DataFrame) -> pa.Table:
    """`toArrow`, also of Spark 3.5."""
    return spark_version().to_arrow(frame)


def _facts() -> dict[str, Any]:
    run = sundog.last_run()
    return {
        "accelerated": run.accelerated,
        "taken": Taken.of(run.accelerated, run.whole).value,
        "fallback_reason": run.fallback_reason,
        "placement": run.placement,
        "planning_seconds": run.planning_seconds,
        "execution_seconds": run.seconds - run.planning_seconds,
        "metrics": dict(run.metrics),
    }
