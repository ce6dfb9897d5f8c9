"""The executors as a site of the planner: one Python process for each slot, or one for all slots of an executor; and
how large values are sent to them.

Spark's stage-level scheduling gives a task as many cores as its resource profile wants. With all cores of an executor
there is one task, and so one Python worker, at a time. Spark supports a profile of nothing but task resources with
static allocation on standalone clusters, YARN and Kubernetes (`ResourceProfileManager.isSupported`, Spark 3.4 and 3.5);
`mapInArrow` takes one since 4.0. With dynamic allocation a profile would get further executors of its own, so it is not
used then. Nor is it if the application says what its tasks need: several cores, or a GPU.

A task that wants several cores waits until its executor has them free at once, and tasks of one core of other jobs may
take each of them first. So unless a setting asks for such processes, they are used only if the application runs no
other job.

The runtime hands over the facts (`SparkApplication`); the decisions are made here, without Spark.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal, Protocol

from sundog.config import Settings, parse_bytes
from sundog.operators.context import (
    CODE_ADDRESS_BYTES,
    CODE_BYTES,
    DEFAULT_BLOCK_BYTES,
    DEFAULT_MEMORY_BYTES,
    MIN_TASK_BYTES,
    ProcessShare,
    TaskLimits,
    budget_of_task,
    bytes_of_process,
)
from sundog.plan.costs import EXECUTORS, Costs, read_costs
from sundog.plan.stages import Place, Site
from sundog.support import Code, Declined

ProcessWish = Literal["auto", "slot", "executor"]
_MASTERS_WITH_PROFILES = ("spark://", "local-cluster", "yarn", "k8s://")
_MIN_OVERHEAD_BYTES, _OVERHEAD_FACTOR = 384 << 20, 0.1  # beside the heap; Spark's defaults


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
    has_resources: bool = False  # executors or tasks ask for others than cores and memory, such as GPUs

    @property
    def is_local(self) -> bool:
        """Whether the executors are the driver's own process."""
        return is_local(self.master)

    @property
    def has_containers(self) -> bool:
        """Whether an executor is killed that takes more memory than its settings say."""
        return self.master.startswith(("yarn", "k8s://"))


def is_local(master: str) -> bool:
    """`local` and `local[4]`, but not `local-cluster[…]`, whose executors are processes of their own."""
    return re.match(r"local(\[|$)", master) is not None


@dataclass(frozen=True)
class Executors:
    """The executors there are, all of `cores` cores."""

    count: int
    cores: int


@dataclass(frozen=True)
class SparkApplication:
    """What a runtime knows of its Spark application. All but `master` are calls to Spark, made when they are needed.

    `executors`: None if they differ. `slots`: of all executors together. `runs_jobs`: whether a job runs now.
    """

    master: str
    cluster: Callable[[], Cluster]
    executors: Callable[[], Executors | None]
    slots: Callable[[], int]
    runs_jobs: Callable[[], bool]


@dataclass(frozen=True)
class Sites:
    """The available places. `executors` is called only if they are used; `problem`: why they cannot be used.

    `local_memory_bytes`: the machine's memory if the executors are on the driver's machine; else None.
    """

    driver: Site
    executors: Callable[[], Site]
    problem: str | None = None
    local_memory_bytes: int | None = None


def sites_of(
    application: SparkApplication,
    cores: int,
    machine_bytes: int | None,
    settings: Settings,
    executors_unusable: str | None,
) -> Sites:
    """The places of a session. `cores`, `machine_bytes`: of the driver's machine, as far as they may be used.

    In a local session the executors share that memory, and no container limits them.
    """
    costs, memory, wish = read_costs(settings.costs), settings.task_memory_bytes, settings.executor_process

    @cache
    def executors() -> Site:
        cluster = application.cluster()
        found = application.executors() if may_have_one_process(cluster, wish, application.runs_jobs) else None
        return executors_site(cluster, found, application.slots(), memory, costs.executors)

    driver = Site(Place.DRIVER, cores, memory or DEFAULT_MEMORY_BYTES, costs.driver)
    if is_local(application.master):
        return Sites(driver, executors, executors_unusable, machine_bytes)
    problem = executors_unusable or memory_problem(application.cluster(), wish, memory, costs.executors)
    return Sites(driver, executors, problem)


@dataclass(frozen=True)
class TravelRule:
    """How a build side of a join, or its keys, gets to executors, by its bytes.

    With each task; or broadcast, once to each worker; or mapped: the workers of an executor, or of an
    application on one machine, share the memory of one file. Nothing is mapped if Spark encrypts its files
    (`encrypts_files`), since that file is not encrypted.
    """

    costs: Costs = EXECUTORS
    encrypts_files: bool = False

    @classmethod
    def of(cls, cluster: Cluster, costs: Costs) -> TravelRule:
        return cls(costs, cluster.conf.get("spark.io.encryption.enabled", "false").lower() == "true")

    def is_broadcast(self, nbytes: int) -> bool:
        return nbytes >= self.costs.min_broadcast_bytes

    def is_mapped(self, nbytes: int) -> bool:
        """Whether a broadcast value of `nbytes` is mapped from one file per executor."""
        return nbytes >= self.costs.min_mapped_bytes and not self.encrypts_files


def may_have_one_process(cluster: Cluster, wish: ProcessWish, runs_other_jobs: Callable[[], bool]) -> bool:
    """Whether one task may take a whole executor. Needs identical executors. The check for running jobs is a call to
    Spark, so it comes last."""
    return (
        wish != "slot"
        and cluster.has_profiles
        and cluster.master.startswith(_MASTERS_WITH_PROFILES)
        and cluster.conf.get("spark.dynamicAllocation.enabled", "false").lower() != "true"
        and cluster.conf.get("spark.task.cpus", "1") == "1"
        and not cluster.has_resources
        and (cluster.shares_pyspark_memory or not _pyspark_memory_bytes(cluster.conf))
        and (wish == "executor" or (_runs_jobs_in_order(cluster) and not runs_other_jobs()))
    )


def _runs_jobs_in_order(cluster: Cluster) -> bool:
    """Whether jobs run first in, first out. Fair scheduling runs several at once."""
    return cluster.conf.get("spark.scheduler.mode", "FIFO").upper() == "FIFO"


def executors_site(
    cluster: Cluster, executors: Executors | None, slots: int, memory_bytes: int | None, costs: Costs
) -> Site:
    """The site of all slots; with processes of several slots on each of `executors`, if they are given and have them.

    `memory_bytes` is the budget of a task, lowered where the tasks of an executor would take more than its settings
    give Python; None: what these settings allow. Declines where they do not give enough.
    """
    if executors is None or executors.count == 0 or executors.cores < 2:
        site = Site(Place.EXECUTORS, slots, DEFAULT_MEMORY_BYTES, costs)
    else:
        site = site_of_processes(executors, DEFAULT_MEMORY_BYTES, costs)
    problem = _memory_problem(cluster, site.process_slots, memory_bytes)
    if problem is not None:
        raise Declined.because(Code.PLACEMENT, problem)
    return replace(site, task_memory_bytes=task_memory_bytes(cluster, site.process_slots, memory_bytes, costs))


def memory_problem(cluster: Cluster, wish: ProcessWish, memory_bytes: int | None, costs: Costs) -> str | None:
    """Why Python has too little memory on executors, as far as the application's settings tell; None if it has not."""
    cores = _slots_of_executor(cluster)
    has_one = cores >= 2 and may_have_one_process(cluster, wish, lambda: False)
    tasks = site_of_processes(Executors(1, cores), DEFAULT_MEMORY_BYTES, costs).process_slots if has_one else 1
    return _memory_problem(cluster, tasks, memory_bytes)


def site_of_processes(executors: Executors, memory_bytes: int, costs: Costs) -> Site:
    """Executors of several cores with as few processes as `costs.max_process_slots` allows, all of as many slots."""
    each = math.ceil(executors.cores / costs.max_process_slots)
    processes, process_slots = executors.count * each, executors.cores // each
    return Site(Place.EXECUTORS, processes * process_slots, memory_bytes, costs, processes)


def task_limits(
    memory_bytes: int,
    block_bytes: int = DEFAULT_BLOCK_BYTES,
    costs: Costs = EXECUTORS,
    process: ProcessShare | None = None,
) -> TaskLimits:
    """What each task of an executors' site may hold, and how it makes blocks."""
    shares = costs.waiting_share, costs.machine_share
    return TaskLimits(memory_bytes, block_bytes, *shares, costs, process or ProcessShare())


def max_output_bytes(machine_bytes: int | None, driver_max_bytes: int, costs: Costs) -> int | None:
    """Bytes that one stage may put out in the driver's memory; None if the size of the memory is unknown."""
    return None if machine_bytes is None else max(int(machine_bytes * costs.max_output_share), driver_max_bytes)


def process_share(cluster: Cluster, site: Site) -> ProcessShare:
    """What a process of the site may have of its executor's machine."""
    tasks = site.process_slots
    if cluster.is_local:
        heap = _mebibytes(cluster.conf.get("spark.driver.memory", "1g"))
        return ProcessShare(tasks, site.slots, heap + _jvm_overhead_bytes(heap))
    heap = _heap_bytes(cluster.conf)
    jvm = heap + _off_heap_bytes(cluster.conf) + _jvm_overhead_bytes(heap)
    slots = _slots_of_executor(cluster) or (tasks if site.processes else 0)
    return ProcessShare(tasks, slots, jvm, cluster.has_containers)


def task_memory_bytes(cluster: Cluster, tasks: int, wanted: int | None, costs: Costs) -> int:
    """The budget of each of `tasks` in one process: as wanted, or what the application's settings leave for it.

    If the user wants nothing in particular, a share of that where it is more than the default, since others than
    sundog's tasks may use the same memory.
    """
    left = _left_by_settings(cluster, tasks)
    if left is None:
        return DEFAULT_MEMORY_BYTES if wanted is None else wanted
    if wanted is None:
        raised = min(int(left * costs.settings_share), costs.max_task_memory_bytes)
        wanted = max(DEFAULT_MEMORY_BYTES, raised)
    return min(wanted, left)


def _left_by_settings(cluster: Cluster, tasks: int) -> int | None:
    """What the application's settings leave for each of `tasks` in one process; None if they say nothing of it."""
    python = _pyspark_memory_bytes(cluster.conf)
    if python:  # each process is limited by Spark, to its part by cores
        limit = python * tasks // max(int(cluster.conf.get("spark.executor.cores", "1")), tasks)
        return budget_of_task(limit, tasks, CODE_ADDRESS_BYTES)
    if not cluster.has_containers:
        return None
    limit = python_memory_bytes(cluster) * tasks // max(_slots_of_executor(cluster), tasks)
    return budget_of_task(limit, tasks)


def python_memory_bytes(cluster: Cluster) -> int:
    """Memory of Python in an executor's container: what Spark adds to the heap, without what the JVM itself needs."""
    overhead = _overhead_bytes(cluster)
    return overhead - min(_jvm_overhead_bytes(_heap_bytes(cluster.conf)), overhead // 2)


def _memory_problem(cluster: Cluster, tasks: int, wanted: int | None) -> str | None:
    """Why processes with this number of tasks would exceed their memory; None if they would not."""
    least = MIN_TASK_BYTES if wanted is None else min(wanted, MIN_TASK_BYTES)
    left = _left_by_settings(cluster, tasks)
    if left is None or left >= least:
        return None
    python = _pyspark_memory_bytes(cluster.conf)
    key = "spark.executor.pyspark.memory" if python else "spark.executor.memoryOverhead"
    code = CODE_ADDRESS_BYTES if python else CODE_BYTES
    process = bytes_of_process(least, tasks, code)
    needed = process * max(_slots_of_executor(cluster), tasks) // tasks
    if not python:
        needed += min(_jvm_overhead_bytes(_heap_bytes(cluster.conf)), needed)
    return f"executors have too little memory for Python: set {key} to {(needed >> 20) + 1}m or more"


def _overhead_bytes(cluster: Cluster) -> int:
    """As Spark computes it for the container of an executor."""
    conf = cluster.conf
    overhead = _mebibytes(conf.get("spark.executor.memoryOverhead", "0"))
    if overhead:
        return overhead
    factor = str(_OVERHEAD_FACTOR)
    if cluster.master.startswith("k8s://"):  # which a submission in cluster mode sets, for Python to 0.4
        factor = conf.get("spark.kubernetes.memoryOverheadFactor", factor)
    factor = conf.get("spark.executor.memoryOverheadFactor", factor)
    least = _mebibytes(conf.get("spark.executor.minMemoryOverhead", "384m"))
    return max(least, int(float(factor) * _heap_bytes(conf)))


def _jvm_overhead_bytes(heap: int) -> int:
    """What a JVM takes beside its heap: what Spark gives an application without Python."""
    return max(_MIN_OVERHEAD_BYTES, int(_OVERHEAD_FACTOR * heap))


def _slots_of_executor(cluster: Cluster) -> int:
    """Tasks of one slot that an executor runs at once; 0 where its cores are those of its machine."""
    cores = int(cluster.conf.get("spark.executor.cores", "1" if cluster.has_containers else "0"))
    return cores // int(cluster.conf.get("spark.task.cpus", "1"))


def _heap_bytes(conf: Conf) -> int:
    return _mebibytes(conf.get("spark.executor.memory", "1g"))


def _off_heap_bytes(conf: Conf) -> int:
    if conf.get("spark.memory.offHeap.enabled", "false").lower() != "true":
        return 0
    size = conf.get("spark.memory.offHeap.size", "0")
    return int(size) if size.strip().isdigit() else parse_bytes(size)


def _pyspark_memory_bytes(conf: Conf) -> int:
    return _mebibytes(conf.get("spark.executor.pyspark.memory", "0"))


def _mebibytes(text: str) -> int:
    """A size in Spark's notation, where no unit means MiB; in bytes."""
    return int(text) << 20 if text.strip().isdigit() else parse_bytes(text)
