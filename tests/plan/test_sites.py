"""The executors as the planner sees them: when one process serves a whole executor, and what memory it has."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sundog.config import Settings
from sundog.machine import Machine
from sundog.operators.context import (
    CODE_ADDRESS_BYTES,
    MIN_TASK_BYTES,
    MemoryBudget,
    ProcessShare,
    budget_of_task,
    bytes_of_process,
)
from sundog.plan.costs import EXECUTORS
from sundog.plan.sites import (
    Cluster,
    Executors,
    ProcessWish,
    SparkApplication,
    TravelRule,
    executors_site,
    may_have_one_process,
    memory_problem,
    process_share,
    python_memory_bytes,
    sites_of,
    task_limits,
    task_memory_bytes,
)
from sundog.plan.stages import Place, Site
from sundog.runtime import execute
from sundog.runtime.processes.profiles import cluster_of, runs_jobs
from sundog.support import Declined

STANDALONE = Cluster("spark://host:7077", {}, has_profiles=True, shares_pyspark_memory=False)
YARN = replace(STANDALONE, master="yarn")
LOCAL = replace(STANDALONE, master="local[4]", conf={"spark.driver.memory": "2g"})
GIB = 1 << 30
CODE_ADDRESS = CODE_ADDRESS_BYTES >> 20


def with_conf(cluster: Cluster, **confs: str) -> Cluster:
    return replace(cluster, conf={f"spark.{name.replace('_', '.')}": value for name, value in confs.items()})


def application(cluster: Cluster, executors: Executors | None = None, runs_jobs: bool = False) -> SparkApplication:
    return SparkApplication(cluster.master, lambda: cluster, lambda: executors, lambda: 8, lambda: runs_jobs)


@pytest.mark.parametrize(
    ("cluster", "wish", "expected"),
    [
        (STANDALONE, "executor", True),
        (STANDALONE, "slot", False),
        (STANDALONE, "auto", True),
        (with_conf(STANDALONE, scheduler_mode="fair"), "auto", False),
        (with_conf(STANDALONE, scheduler_mode="fair"), "executor", True),
        (replace(STANDALONE, has_profiles=False), "executor", False),
        (replace(STANDALONE, master="local[4]"), "executor", False),
        (replace(STANDALONE, master="mesos://host"), "executor", False),
        (replace(STANDALONE, master="yarn"), "executor", True),
        (replace(STANDALONE, master="k8s://https://host"), "executor", True),
        (with_conf(STANDALONE, dynamicAllocation_enabled="true"), "executor", False),
        (with_conf(STANDALONE, task_cpus="2"), "executor", False),
        (with_conf(STANDALONE, task_cpus="1"), "executor", True),
        (replace(STANDALONE, has_resources=True), "executor", False),
        (with_conf(STANDALONE, executor_pyspark_memory="2g"), "executor", False),
        (replace(with_conf(STANDALONE, executor_pyspark_memory="2g"), shares_pyspark_memory=True), "executor", True),
    ],
)
def test_one_process_needs_profiles_of_task_resources(cluster: Cluster, wish: ProcessWish, expected: bool) -> None:
    assert may_have_one_process(cluster, wish, lambda: False) is expected


@pytest.mark.parametrize(("wish", "expected"), [("auto", False), ("executor", True), ("slot", False)])
def test_one_process_would_wait_for_the_tasks_of_another_job(wish: ProcessWish, expected: bool) -> None:
    assert may_have_one_process(STANDALONE, wish, lambda: True) is expected


def test_other_jobs_are_asked_for_only_where_it_matters() -> None:
    def asked() -> bool:
        raise AssertionError("a call through py4j for each query of a local session")

    assert not may_have_one_process(replace(STANDALONE, master="local[4]"), "auto", asked)
    assert may_have_one_process(STANDALONE, "executor", asked)


@pytest.mark.parametrize("executors", [None, Executors(0, 0), Executors(3, 1)])
def test_otherwise_each_slot_has_a_process(executors: Executors | None) -> None:
    site = executors_site(STANDALONE, executors, 3, GIB, EXECUTORS)
    assert (site.slots, site.processes, site.process_slots, site.task_memory_bytes) == (3, 0, 1, GIB)


def test_tasks_of_one_process_share_what_python_may_take() -> None:
    on_yarn = with_conf(YARN, executor_memoryOverhead="3g", executor_cores="4")
    site = executors_site(on_yarn, Executors(2, 4), 8, GIB, EXECUTORS)
    assert (site.slots, site.processes) == (8, 2)
    assert site.task_memory_bytes == (3072 - 384 - 192 - 4 * 64 - 2 * 64 << 20) // 5
    assert bytes_of_process(site.task_memory_bytes, 4) <= (3072 - 384 << 20)
    assert executors_site(STANDALONE, Executors(2, 4), 8, GIB, EXECUTORS).task_memory_bytes == GIB, "no container"


def test_processes_of_single_slots_share_what_python_may_take() -> None:
    on_yarn = with_conf(YARN, executor_memoryOverhead="3g", executor_cores="4")
    site = executors_site(on_yarn, None, 8, GIB, EXECUTORS)
    assert (site.processes, site.task_memory_bytes) == (0, ((3072 - 384) // 4 - 192 - 64) << 20)
    two_cores_a_task = with_conf(YARN, executor_memoryOverhead="2g", executor_cores="4", task_cpus="2")
    site = executors_site(two_cores_a_task, None, 4, GIB, EXECUTORS)
    assert site.task_memory_bytes == ((2048 - 384) // 2 - 192 - 64) << 20
    assert executors_site(STANDALONE, None, 8, GIB, EXECUTORS).task_memory_bytes == GIB


def test_a_limit_of_the_address_space_has_to_hold_all_code() -> None:
    """Spark divides it by cores, and limits each worker."""
    confs = {"executor_pyspark_memory": "4g", "executor_cores": "4"}
    limited = replace(with_conf(STANDALONE, **confs), shares_pyspark_memory=True)
    assert executors_site(limited, None, 8, GIB, EXECUTORS).task_memory_bytes == (1024 - CODE_ADDRESS - 64) << 20
    shared = executors_site(limited, Executors(2, 4), 8, GIB, EXECUTORS)
    assert shared.task_memory_bytes == (4096 - CODE_ADDRESS - 4 * 64 - 2 * 64 << 20) // 5


@pytest.mark.parametrize(
    ("cluster", "confs", "executors", "expected"),
    [
        (STANDALONE, {}, None, 1024),  # whose settings say nothing of Python
        (YARN, {"executor_memoryOverhead": "1g"}, None, 1024 - 384 - 192 - 64),
        (YARN, {"executor_memoryOverhead": "1800m"}, None, 1024),
        (YARN, {"executor_memoryOverhead": "3g"}, None, (3072 - 384 - 192 - 64) * 3 // 4),
        (YARN, {"executor_memoryOverhead": "3g", "executor_cores": "4"}, None, (3072 - 384) // 4 - 192 - 64),
        (YARN, {"executor_memoryOverhead": "100g"}, None, 4096),
        (
            YARN,
            {"executor_memoryOverhead": "11g", "executor_cores": "4"},
            Executors(2, 4),
            (11 * 1024 - 384 - 192 - 4 * 64 - 2 * 64) // 5 * 3 // 4,
        ),
        (STANDALONE, {"executor_pyspark_memory": "4g"}, None, (4096 - CODE_ADDRESS - 64) * 3 // 4),
        (STANDALONE, {"executor_pyspark_memory": "1g"}, None, 1024 - CODE_ADDRESS - 64),
    ],
)
def test_a_budget_that_nobody_set_follows_the_memory_of_the_executors(
    cluster: Cluster, confs: dict[str, str], executors: Executors | None, expected: int
) -> None:
    site = executors_site(with_conf(cluster, **confs), executors, 8, None, EXECUTORS)
    assert site.task_memory_bytes >> 20 in (expected, expected + 1)
    assert memory_problem(with_conf(cluster, **confs), "slot", None, EXECUTORS) is None


@pytest.mark.parametrize(
    ("confs", "wish", "key", "least"),
    [
        ({}, "slot", "spark.executor.memoryOverhead", 545),
        ({"executor_cores": "4"}, "slot", "spark.executor.memoryOverhead", 1473),
        ({"executor_cores": "4"}, "auto", "spark.executor.memoryOverhead", 1041),
        ({"executor_memory": "20g"}, "slot", "spark.executor.memoryOverhead", None),
        ({"executor_pyspark_memory": "512m"}, "slot", "spark.executor.pyspark.memory", None),
    ],
)
def test_executors_without_memory_for_python_are_not_used(
    confs: dict[str, str], wish: ProcessWish, key: str, least: int | None
) -> None:
    """They would be killed. What the reason says to set is enough."""
    cluster = with_conf(YARN, **confs)
    problem = memory_problem(cluster, wish, GIB, EXECUTORS)
    if problem is None:
        assert least is None
        assert task_memory_bytes(cluster, 1, GIB, EXECUTORS) >= MIN_TASK_BYTES
        return
    found = re.search(rf"set {re.escape(key)} to (\d+)m or more", problem)
    assert found is not None, problem
    assert least in (None, int(found[1]))
    enough = replace(cluster, conf={**dict(cluster.conf), key: f"{found[1]}m"})
    assert memory_problem(enough, wish, GIB, EXECUTORS) is None
    one_less = replace(cluster, conf={**dict(cluster.conf), key: f"{int(found[1]) - 2}m"})
    assert memory_problem(one_less, wish, GIB, EXECUTORS) is not None
    if wish == "slot":
        with pytest.raises(Declined, match="too little memory for Python"):
            executors_site(cluster, None, 4, GIB, EXECUTORS)


@pytest.mark.parametrize(
    ("cores", "processes", "slots"),
    [(2, 3, 2), (8, 3, 8), (9, 6, 4), (13, 6, 6), (16, 6, 8), (64, 24, 8), (100, 39, 7)],
)
def test_executors_of_many_cores_have_several_processes(cores: int, processes: int, slots: int) -> None:
    """A thread too many waits for the GIL, and rows cross from the JVM in one stream for each process."""
    site = executors_site(STANDALONE, Executors(3, cores), 3 * cores, GIB, EXECUTORS)
    assert (site.processes, site.process_slots, site.slots) == (processes, slots, processes * slots)


@pytest.mark.parametrize(
    ("master", "confs", "expected"),
    [
        ("yarn", {}, 192),
        ("yarn", {"executor_memory": "20g"}, 1024),
        ("yarn", {"executor_memory": "20g", "executor_memoryOverheadFactor": "0.5"}, 10240 - 2048),
        ("yarn", {"executor_memoryOverhead": "3000"}, 3000 - 384),
        ("yarn", {"executor_minMemoryOverhead": "2g"}, 2048 - 384),
        ("k8s://https://host", {"executor_memory": "10g"}, 512),
        ("k8s://https://host", {"executor_memory": "10g", "kubernetes_memoryOverheadFactor": "0.4"}, 4096 - 1024),
        (
            "k8s://https://host",
            {
                "executor_memory": "10g",
                "kubernetes_memoryOverheadFactor": "0.4",
                "executor_memoryOverheadFactor": "0.3",
            },
            3072 - 1024,
        ),
    ],
)
def test_python_has_the_memory_that_the_settings_give_it(master: str, confs: dict[str, str], expected: int) -> None:
    """Of what Spark adds to the heap, less what it gives an application without Python, but at least a half."""
    found = python_memory_bytes(with_conf(replace(STANDALONE, master=master), **confs))
    assert found >> 20 == expected


@pytest.mark.spark
def test_a_local_session_has_a_process_for_each_slot(spark: Any) -> None:
    assert not may_have_one_process(cluster_of(spark), "executor", partial(runs_jobs, spark))
    assert cluster_of(spark) is cluster_of(spark)  # copied from the JVM once


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("spark.executor.resource.gpu.amount", True),
        ("spark.task.resource.gpu.amount", True),
        ("spark.executor.memory", False),
    ],
)
def test_an_application_that_asks_for_gpus_is_known_by_its_settings(key: str, expected: bool) -> None:
    conf = SimpleNamespace(getAll=lambda: [("spark.app.name", "test"), (key, "1")])
    context = SimpleNamespace(applicationId=f"app-{key}", master="spark://host:7077", getConf=lambda: conf)
    session: Any = SimpleNamespace(sparkContext=context)
    assert cluster_of(session).has_resources is expected


@pytest.mark.parametrize(
    ("nbytes", "is_broadcast", "is_mapped"), [(1999, False, False), (2000, True, False), (3000, True, True)]
)
def test_costs_say_how_large_a_value_is_that_travels_once(nbytes: int, is_broadcast: bool, is_mapped: bool) -> None:
    costs = replace(EXECUTORS, min_broadcast_bytes=2000, min_mapped_bytes=3000)
    rule = TravelRule.of(STANDALONE, costs)
    assert (rule.is_broadcast(nbytes), rule.is_mapped(nbytes)) == (is_broadcast, is_mapped)
    encrypting = TravelRule.of(with_conf(STANDALONE, io_encryption_enabled="true"), costs)
    assert (encrypting.is_broadcast(nbytes), encrypting.is_mapped(nbytes)) == (is_broadcast, False)


@pytest.mark.parametrize(
    ("machine", "process", "expected"),
    [
        (Machine(4), ProcessShare(4), 1024),
        (Machine(4, 64 * GIB), ProcessShare(4), 1024),
        # Half of the machine for the Python processes of all its cores, of which the process serves 4, 1, 2.
        (Machine(4, 4 * GIB), ProcessShare(4), (2048 - 192 - 256 - 128) // 5),
        (Machine(4, 4 * GIB), ProcessShare(1), 2048 // 4 - 192 - 64),
        (Machine(8, 8 * GIB), ProcessShare(2, 4), (4096 // 4 - 192 - 128 - 128) // 3),
        # Less, where the heaps of its executors are more than half of it: of one, of two.
        (Machine(4, 8 * GIB), ProcessShare(1, 4, 6 * GIB), 2048 // 4 - 192 - 64),
        (Machine(4, 8 * GIB), ProcessShare(1, 2, 3 * GIB), 2048 // 4 - 192 - 64),
        (Machine(1, 4 * GIB), ProcessShare(1, 1, 4 * GIB), 512 - 192 - 64),
        # A container of one executor: all but the JVM's, for the slots of that executor, however many cores there are.
        (Machine(64, 8 * GIB, 8 * GIB), ProcessShare(4, 4, 5 * GIB, owns_container=True), (3072 - 576) // 5),
        (Machine(64, 8 * GIB, 8 * GIB), ProcessShare(1, 4, 5 * GIB, owns_container=True), 3072 // 4 - 256),
        (Machine(4, 4 * GIB), ProcessShare(1, 4, 0, owns_container=True), 2048 // 4 - 192 - 64),
        (Machine(1, address_bytes=GIB), ProcessShare(), 1024 - CODE_ADDRESS - 64),
        (Machine(1, GIB, address_bytes=64 << 20), ProcessShare(), 16),
    ],
)
def test_tasks_take_no_more_than_their_part_of_the_machine(
    machine: Machine, process: ProcessShare, expected: int
) -> None:
    """Only the executor knows it."""
    limits = task_limits(GIB, process=process).on_machine(machine)
    assert (limits.memory_bytes >> 20, limits.block_bytes) == (expected, 4 << 20)


def test_a_budget_that_is_wanted_small_stays_so() -> None:
    assert task_limits(1 << 20).on_machine(Machine(1, 1 << 20)).memory_bytes == 1 << 20


@given(st.integers(0, 1 << 36), st.integers(1, 64))
def test_a_process_takes_no_more_than_it_was_given(given_bytes: int, tasks: int) -> None:
    assert bytes_of_process(budget_of_task(given_bytes, tasks), tasks) <= given_bytes


@pytest.mark.parametrize(
    ("cluster", "site", "expected"),
    [
        (LOCAL, Site(Place.EXECUTORS, 4, GIB, EXECUTORS), ProcessShare(1, 4, (2048 + 384) << 20)),
        (STANDALONE, Site(Place.EXECUTORS, 8, GIB, EXECUTORS), ProcessShare(1, 0, (1024 + 384) << 20)),
        (STANDALONE, Site(Place.EXECUTORS, 8, GIB, EXECUTORS, 2), ProcessShare(4, 4, (1024 + 384) << 20)),
        (
            with_conf(YARN, executor_memory="8g", executor_cores="6", memory_offHeap_enabled="true",
                      memory_offHeap_size="1g"),
            Site(Place.EXECUTORS, 12, GIB, EXECUTORS, 4),
            ProcessShare(3, 6, (8192 + 1024 + 819) << 20, owns_container=True),
        ),
    ],
)  # fmt: skip
def test_a_process_shares_the_machine_of_its_executor(cluster: Cluster, site: Site, expected: ProcessShare) -> None:
    found = process_share(cluster, site)
    assert replace(found, jvm_bytes=found.jvm_bytes >> 20 << 20) == expected


def test_what_a_task_may_hold_follows_from_the_costs() -> None:
    limits = task_limits(GIB, 1 << 20, replace(EXECUTORS, waiting_share=0.5, machine_share=0.25))
    assert limits.waiting_bytes(MemoryBudget(100)) == 50
    machine = Machine(2, 4 * GIB)
    assert limits.on_machine(machine).memory_bytes == GIB // 2 - (192 + 64 << 20)


@pytest.mark.parametrize(("master", "is_local"), [("local[8]", True), ("local", True), ("spark://host:7077", False)])
def test_the_driver_has_a_slot_for_each_core_that_it_may_use(
    monkeypatch: pytest.MonkeyPatch, master: str, is_local: bool
) -> None:
    """In a container those are fewer than the machine has. In a local session the executors share its memory."""
    monkeypatch.setattr(execute, "usable_cores", lambda: 3)
    monkeypatch.setattr(execute, "usable_memory_bytes", lambda: GIB)
    monkeypatch.setattr(execute, "application_of", lambda _: application(replace(STANDALONE, master=master)))
    session: Any = None
    sites = execute._sites(session, Settings(), None)
    assert (sites.driver.slots, sites.local_memory_bytes) == (3, GIB if is_local else None)


def test_executors_that_are_not_used_are_not_looked_at() -> None:
    def asked() -> NoReturn:
        raise AssertionError("a call through py4j for each query of a local session")

    local = SparkApplication("local[4]", cluster=asked, executors=asked, slots=asked, runs_jobs=asked)
    assert sites_of(local, 4, GIB, Settings(), None).problem is None


def test_the_sites_of_an_application_say_why_its_executors_cannot_be_used() -> None:
    short = application(with_conf(YARN, executor_memoryOverhead="400m"))
    assert "too little memory" in str(sites_of(short, 4, GIB, Settings(), None).problem)
    assert sites_of(short, 4, GIB, Settings(), "no pyarrow").problem == "no pyarrow"
    sites = sites_of(application(STANDALONE, Executors(2, 4)), 4, GIB, Settings(), None)
    assert (sites.problem, sites.executors().slots, sites.executors().processes) == (None, 8, 2)
    busy = sites_of(application(STANDALONE, Executors(2, 4), runs_jobs=True), 4, GIB, Settings(), None)
    assert (busy.executors().slots, busy.executors().processes) == (8, 0)


def test_a_local_cluster_has_executors_of_its_own() -> None:
    cluster = replace(LOCAL, master="local-cluster[2,1,1024]")
    assert (LOCAL.is_local, cluster.is_local) == (True, False)
    site = executors_site(cluster, None, 2, GIB, EXECUTORS)
    assert process_share(cluster, site).jvm_bytes == GIB + (384 << 20), "of an executor, not the 2 GiB of the driver"
