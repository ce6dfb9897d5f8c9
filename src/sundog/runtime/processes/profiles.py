"""One Python process per executor: whether Spark can schedule such tasks here, and how they are asked for.

Spark's stage-level scheduling gives a task as many cores as its resource profile wants. With all cores of an executor
there is one task, and so one Python worker, at a time. Spark supports a profile of nothing but task resources with
static allocation on standalone clusters, YARN and Kubernetes (`ResourceProfileManager.isSupported`, Spark 3.4 and 3.5);
`mapInArrow` takes one since 4.0. With dynamic allocation a profile gets executors of its own, beside those that are
there: not asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pyspark.resource import ResourceProfile, ResourceProfileBuilder, TaskResourceRequests
from pyspark.sql import SparkSession

from sundog.config import parse_bytes
from sundog.versions import spark_version

ProcessWish = Literal["auto", "slot", "executor"]
_MIN_OVERHEAD_BYTES = 384 << 20
_OVERHEAD_FACTOR, _OVERHEAD_FACTOR_ON_KUBERNETES = 0.1, 0.4  # of the heap; Spark's defaults for Python applications


@dataclass(frozen=True)
class ExecutorProcesses:
    """The executors there are, all of `cores` cores. `memory_bytes`: what Python may take on one; None: not limited."""

    executors: int
    cores: int
    memory_bytes: int | None


def executor_processes(session: SparkSession, wish: ProcessWish) -> ExecutorProcesses | None:
    """The executors, if a task may have one to itself; None where it may not, or should not."""
    context = session.sparkContext
    if wish != "executor" or not _supports_profiles(str(context.master)):
        return None
    conf = context.getConf()
    if conf.get("spark.dynamicAllocation.enabled", "false").lower() == "true":
        return None
    if conf.contains("spark.executor.pyspark.memory") and not spark_version().shares_pyspark_memory:
        return None
    executors = int(context._jsc.sc().schedulerBackend().getExecutorIds().size())
    cores = _cores(session, executors)
    if executors == 0 or cores < 2:
        return None
    return ExecutorProcesses(executors, cores, python_memory_bytes(str(context.master), conf))


def all_cores(cores: int) -> ResourceProfile:
    """What a task asks for that wants an executor of so many cores to itself."""
    return ResourceProfileBuilder().require(TaskResourceRequests().cpus(cores)).build


_profiles: dict[tuple[str, int], ResourceProfile] = {}


def profile_of(session: SparkSession, cores: int) -> ResourceProfile:
    """The application's profile of a task of so many cores. Spark never forgets one, so each is made once."""
    key = str(session.sparkContext.applicationId), cores
    if key not in _profiles:
        _profiles[key] = all_cores(cores)
    return _profiles[key]


def _supports_profiles(master: str) -> bool:
    return spark_version().has_profiles and master.startswith(("spark://", "local-cluster", "yarn", "k8s://"))


def _cores(session: SparkSession, executors: int) -> int:
    """Cores of each executor; 0 if they have not all the same number."""
    cores = _tasks_at_once(session, 1) // max(executors, 1)
    return cores if cores and _tasks_at_once(session, cores) == executors else 0


def _tasks_at_once(session: SparkSession, cores: int) -> int:
    """How many tasks of so many cores the executors can run."""
    scheduler = session.sparkContext._jsc.sc()
    profile = profile_of(session, cores)._java_resource_profile
    scheduler.resourceProfileManager().addResourceProfile(profile)
    return int(scheduler.schedulerBackend().maxNumConcurrentTasks(profile))


def python_memory_bytes(master: str, conf: Any) -> int | None:
    """Memory of Python in an executor's container, beside the JVM; None on a cluster that has no containers."""
    python = _mebibytes(conf.get("spark.executor.pyspark.memory", "0"))
    if python:
        return python
    if not master.startswith(("yarn", "k8s://")):
        return None
    overhead = _mebibytes(conf.get("spark.executor.memoryOverhead", "0"))
    if overhead:
        return overhead
    factor = _OVERHEAD_FACTOR_ON_KUBERNETES if master.startswith("k8s://") else _OVERHEAD_FACTOR
    factor = float(conf.get("spark.executor.memoryOverheadFactor", factor))
    return max(_MIN_OVERHEAD_BYTES, int(factor * _mebibytes(conf.get("spark.executor.memory", "1g"))))


def _mebibytes(text: str) -> int:
    """A size in Spark's notation, where no unit means MiB; in bytes."""
    return int(text) << 20 if text.strip().isdigit() else parse_bytes(text)
