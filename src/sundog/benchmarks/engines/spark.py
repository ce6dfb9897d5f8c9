"""Spark, with sundog and without. The session is set up for a small machine in favour of plain Spark.

The default of 200 shuffle partitions is for clusters; a few per core is what a user of one machine would set.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from statistics import median
from time import monotonic, perf_counter, sleep
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

import sundog
from sundog.benchmarks.cases.model import Case, Overhead, Result
from sundog.benchmarks.engines.cluster import START_SECONDS, Layout, standalone_cluster
from sundog.benchmarks.engines.model import Answer, Cluster, EngineUnavailable
from sundog.benchmarks.results import Taken
from sundog.environment.java import ensure_java
from sundog.environment.worker_daemon import MODULE as DAEMON
from sundog.versions import spark_version

PARTITIONS_PER_CORE = 4
_PROBE_ACTIONS = 20
_CLUSTER_CORE_MEMORY_MB = 512
_CLUSTER_DRIVER_MEMORY = "1g"


def plain(cores: int, confs: Mapping[str, str], cluster: Cluster | None = None) -> SparkEngine:
    if cluster is None:
        return SparkEngine(plain_session(cores, confs))
    return SparkEngine(*cluster_session(confs, cluster))


def accelerated(cores: int, confs: Mapping[str, str], cluster: Cluster | None = None) -> SundogEngine:
    if cluster is not None:
        return FreshSundogEngine(*cluster_session(confs, cluster))
    spark = plain_session(cores, confs)
    sundog.enable(spark)
    return SundogEngine(spark)


def cluster_session(confs: Mapping[str, str], cluster: Cluster) -> tuple[Any, ExitStack]:
    """A session on a cluster of its own with all executors registered, and a function that stops the cluster.

    Its processes are children of this one, so that their processor seconds and memory count as the engine's.
    """
    if not Path("/proc/self").exists():
        raise EngineUnavailable("a cluster is ended by what /proc says of its processes, which this system has not")
    layout = Layout.parse(cluster.layout)
    memory = f"{_CLUSTER_CORE_MEMORY_MB * layout.cores}m"
    ensure_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable  # what the driver tells executors; a conf is too late for it
    with ExitStack() as started:
        python_path = str(Path(sundog.__file__).parent.parent)
        master = started.enter_context(standalone_cluster(cluster.folder, layout, memory, python_path))
        spark = _session(
            master,
            layout.slots,
            {
                "spark.driver.memory": _CLUSTER_DRIVER_MEMORY,
                "spark.driver.host": "127.0.0.1",
                "spark.driver.bindAddress": "127.0.0.1",
                "spark.executor.memory": memory,
                "spark.python.daemon.module": DAEMON,  # as docs/cluster.md says for where sundog is installed
                **confs,
            },
        )
        started.callback(spark.stop)
        _wait_for_executors(spark, layout.executors)
        return spark, started.pop_all()


def _wait_for_executors(spark: Any, executors: int) -> None:
    deadline = monotonic() + START_SECONDS
    while (there := len(spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()) - 1) < executors:
        if monotonic() > deadline:
            raise EngineUnavailable(f"only {there} of {executors} executors came")
        sleep(0.1)


def plain_session(cores: int, confs: Mapping[str, str]) -> Any:
    """A local session on `cores` cores; `confs` override the common settings."""
    return _session(f"local[{cores}]", cores, confs)


def _session(master: str, slots: int, confs: Mapping[str, str]) -> Any:
    spark = sundog.session(
        "sundog-bench",
        master=master,
        confs={
            "spark.sql.shuffle.partitions": PARTITIONS_PER_CORE * slots,
            "spark.sql.session.timeZone": "UTC",
            "spark.driver.maxResultSize": "0",
            **confs,
        },
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


class SparkEngine:
    def __init__(self, spark: Any, cluster: ExitStack | None = None) -> None:
        self._spark = spark
        self._cluster = cluster

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
        if self._cluster is not None:
            self._cluster.close()


class SundogEngine(SparkEngine):
    def versions(self) -> dict[str, str]:
        return {**super().versions(), **{name: version(name) for name in ("sundog", "numba", "numpy", "pyarrow")}}

    def run(self, case: Case) -> Answer:
        match case.overhead:
            case Overhead.INELIGIBLE:
                return self._extra_seconds(case.sql)
            case Overhead.PLANNING:
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


class FreshSundogEngine(SundogEngine):
    """Enabled by its first query, whose time so includes checking the executors' packages."""

    _is_enabled = False

    def run(self, case: Case) -> Answer:
        if not self._is_enabled:
            sundog.enable(self._spark)
            self._is_enabled = True
        return super().run(case)


def as_arrow(frame: DataFrame) -> pa.Table:
    """The rows as Arrow. Spark 3.5 has no `toArrow`."""
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
