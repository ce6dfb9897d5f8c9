"""The executors as a site of the planner: one Python process for each slot, or one for each executor.

Spark's stage-level scheduling gives a task as many cores as its resource profile wants. With all cores of an executor
there is one task, and so one Python worker, at a time. Spark supports a profile of nothing but task resources with
static allocation on standalone clusters, YARN and Kubernetes (`ResourceProfileManager.isSupported`, Spark 3.4 and 3.5);
`mapInArrow` takes one since 4.0. With dynamic allocation a profile gets executors of its own, beside those that are
there: not asked for.

`runtime/processes/profiles.py` finds out what there is; what follows from it is judged here, without Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from sundog.config import parse_bytes
from sundog.plan.costs import Costs
from sundog.plan.stages import Place, Site

ProcessWish = Literal["auto", "slot", "executor"]
_MASTERS_WITH_PROFILES = ("spark://", "local-cluster", "yarn", "k8s://")
_MIN_OVERHEAD_BYTES = 384 << 20
_OVERHEAD_FACTOR, _OVERHEAD_FACTOR_ON_KUBERNETES = 0.1, 0.4  # of the heap; Spark's defaults for Python applications


class Conf(Protocol):
    """Settings of an application, as SparkConf and a dict have them."""

    def get(self, key: str, default: str, /) -> str: ...


@dataclass(frozen=True)
class Cluster:
    """A Spark application, without its executors: its settings, and what its version can do."""

    master: str
    conf: Conf
    has_profiles: bool  # of task resources alone, for mapInArrow
    shares_pyspark_memory: bool  # a task of several cores is given their shares of spark.executor.pyspark.memory


@dataclass(frozen=True)
class Executors:
    """The executors there are, all of `cores` cores."""

    count: int
    cores: int


def may_have_one_process(cluster: Cluster, wish: ProcessWish) -> bool:
    """Whether a task may have an executor to itself, if all executors are alike."""
    return (
        wish == "executor"
        and cluster.has_profiles
        and cluster.master.startswith(_MASTERS_WITH_PROFILES)
        and cluster.conf.get("spark.dynamicAllocation.enabled", "false").lower() != "true"
        and (cluster.shares_pyspark_memory or not _pyspark_memory_bytes(cluster.conf))
    )


def executors_site(cluster: Cluster, executors: Executors | None, slots: int, memory_bytes: int, costs: Costs) -> Site:
    """The site of all slots; with one process for each of `executors`, if they are given and have several cores.

    `memory_bytes` is the budget of a task, lowered where the tasks of a process would take more than Python may.
    """
    if executors is None or executors.count == 0 or executors.cores < 2:
        return Site(Place.EXECUTORS, slots, memory_bytes, costs)
    limit = python_memory_bytes(cluster.master, cluster.conf)
    memory = memory_bytes if limit is None else min(memory_bytes, limit // executors.cores)
    return Site(Place.EXECUTORS, executors.count * executors.cores, memory, costs, executors.count)


def python_memory_bytes(master: str, conf: Conf) -> int | None:
    """Memory of Python in an executor's container, beside the JVM; None on a cluster that has no containers."""
    python = _pyspark_memory_bytes(conf)
    if python:
        return python
    if not master.startswith(("yarn", "k8s://")):
        return None
    overhead = _mebibytes(conf.get("spark.executor.memoryOverhead", "0"))
    if overhead:
        return overhead
    factor = _OVERHEAD_FACTOR_ON_KUBERNETES if master.startswith("k8s://") else _OVERHEAD_FACTOR
    factor = float(conf.get("spark.executor.memoryOverheadFactor", str(factor)))
    return max(_MIN_OVERHEAD_BYTES, int(factor * _mebibytes(conf.get("spark.executor.memory", "1g"))))


def _pyspark_memory_bytes(conf: Conf) -> int:
    return _mebibytes(conf.get("spark.executor.pyspark.memory", "0"))


def _mebibytes(text: str) -> int:
    """A size in Spark's notation, where no unit means MiB; in bytes."""
    return int(text) << 20 if text.strip().isdigit() else parse_bytes(text)
