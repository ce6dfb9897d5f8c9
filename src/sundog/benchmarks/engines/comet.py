"""Comet: Spark with Comet's plugin, which hands operators to DataFusion inside Spark's executors.

Comet is a jar built for one Spark version, here 3.5, so the engine needs a Python of its own with that pyspark:
`make .venvs/3.5/stamp`, then `--python comet=.venvs/3.5/bin/python`. The jar is taken from the file that
`SUNDOG_COMET_JAR` names, else Spark fetches it from Maven. `comet-off` is the same Spark without the plugin: Comet's
gain is against that one, and not against another version of Spark.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pyspark

from sundog.benchmarks.engines.model import EngineUnavailable
from sundog.benchmarks.engines.spark import SparkEngine, plain_session
from sundog.machine import usable_memory_bytes

SPARK_VERSION = "3.5"
COMET_VERSION = "0.12.0"
PACKAGE = f"org.apache.datafusion:comet-spark-spark{SPARK_VERSION}_2.12:{COMET_VERSION}"
JAR_VARIABLE = "SUNDOG_COMET_JAR"
_OFF_HEAP_SHARE = 4
_FALLBACK_MEMORY_BYTES = 8 << 30


def make(cores: int, confs: Mapping[str, str]) -> CometEngine:
    _check_version()
    return CometEngine(plain_session(cores, {**comet_confs(os.environ), **confs}))


def make_without(cores: int, confs: Mapping[str, str]) -> SparkEngine:
    _check_version()
    return SparkEngine(plain_session(cores, confs))


def comet_confs(environment: Mapping[str, str]) -> dict[str, str]:
    """What Comet's guide says to set. Its memory is off-heap, as much as the JVM's heap has in `sundog.session`."""
    jar = environment.get(JAR_VARIABLE)
    if jar is not None and not Path(jar).is_file():
        raise EngineUnavailable(f"{JAR_VARIABLE}={jar} is not a file")
    memory = (usable_memory_bytes() or _FALLBACK_MEMORY_BYTES) // _OFF_HEAP_SHARE
    return {
        **(
            {"spark.jars.packages": PACKAGE} if jar is None else {"spark.jars": jar, "spark.driver.extraClassPath": jar}
        ),
        "spark.plugins": "org.apache.spark.CometPlugin",
        "spark.shuffle.manager": "org.apache.spark.sql.comet.execution.shuffle.CometShuffleManager",
        "spark.memory.offHeap.enabled": "true",
        "spark.memory.offHeap.size": str(memory),
    }


def _check_version() -> None:
    if not pyspark.__version__.startswith(f"{SPARK_VERSION}."):
        raise EngineUnavailable(
            f"Comet {COMET_VERSION} runs in Spark {SPARK_VERSION}, not {pyspark.__version__}: give --python comet=PATH"
        )


class CometEngine(SparkEngine):
    def versions(self) -> dict[str, str]:
        return {**super().versions(), "comet": COMET_VERSION}
