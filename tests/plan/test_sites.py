"""The executors as the planner sees them: when one process serves a whole executor, and what memory it has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sundog.plan.costs import EXECUTORS
from sundog.plan.sites import (
    Cluster,
    Executors,
    ProcessWish,
    executors_site,
    may_have_one_process,
    python_memory_bytes,
)
from sundog.runtime.processes.profiles import cluster_of

STANDALONE = Cluster("spark://host:7077", {}, has_profiles=True, shares_pyspark_memory=False)
GIB = 1 << 30


def with_conf(cluster: Cluster, **confs: str) -> Cluster:
    return replace(cluster, conf={f"spark.{name.replace('_', '.')}": value for name, value in confs.items()})


@pytest.mark.parametrize(
    ("cluster", "wish", "expected"),
    [
        (STANDALONE, "executor", True),
        (STANDALONE, "slot", False),
        (STANDALONE, "auto", False),
        (replace(STANDALONE, has_profiles=False), "executor", False),
        (replace(STANDALONE, master="local[4]"), "executor", False),
        (replace(STANDALONE, master="mesos://host"), "executor", False),
        (replace(STANDALONE, master="yarn"), "executor", True),
        (replace(STANDALONE, master="k8s://https://host"), "executor", True),
        (with_conf(STANDALONE, dynamicAllocation_enabled="true"), "executor", False),
        (with_conf(STANDALONE, executor_pyspark_memory="2g"), "executor", False),
        (replace(with_conf(STANDALONE, executor_pyspark_memory="2g"), shares_pyspark_memory=True), "executor", True),
    ],
)
def test_one_process_needs_profiles_of_task_resources(cluster: Cluster, wish: ProcessWish, expected: bool) -> None:
    assert may_have_one_process(cluster, wish) is expected


@pytest.mark.parametrize("executors", [None, Executors(0, 0), Executors(3, 1)])
def test_otherwise_each_slot_has_a_process(executors: Executors | None) -> None:
    site = executors_site(STANDALONE, executors, 3, GIB, EXECUTORS)
    assert (site.slots, site.executors, site.executor_slots, site.task_memory_bytes) == (3, 0, 1, GIB)


def test_tasks_of_one_process_share_what_python_may_take() -> None:
    on_yarn = replace(STANDALONE, master="yarn", conf={"spark.executor.memoryOverhead": "1g"})
    site = executors_site(on_yarn, Executors(2, 4), 8, GIB, EXECUTORS)
    assert (site.slots, site.executors, site.task_memory_bytes) == (8, 2, GIB // 4)
    assert site.process_memory_bytes == GIB
    assert executors_site(STANDALONE, Executors(2, 4), 8, GIB, EXECUTORS).task_memory_bytes == GIB, "no container"


@pytest.mark.parametrize(
    ("master", "confs", "expected"),
    [
        ("spark://host:7077", {}, None),
        ("spark://host:7077", {"spark.executor.pyspark.memory": "2g"}, 2 << 30),
        ("yarn", {}, 384 << 20),
        ("yarn", {"spark.executor.memory": "20g"}, 2 << 30),
        ("yarn", {"spark.executor.memory": "20g", "spark.executor.memoryOverheadFactor": "0.5"}, 10 << 30),
        ("yarn", {"spark.executor.memoryOverhead": "3000"}, 3000 << 20),
        ("yarn", {"spark.executor.memoryOverhead": "3g", "spark.executor.pyspark.memory": "1g"}, 1 << 30),
        ("k8s://https://host", {"spark.executor.memory": "10g"}, 4 << 30),
    ],
)
def test_python_has_the_memory_that_the_settings_give_it(
    master: str, confs: dict[str, str], expected: int | None
) -> None:
    assert python_memory_bytes(master, confs) == expected


@pytest.mark.spark
def test_a_local_session_has_a_process_for_each_slot(spark: Any) -> None:
    assert not may_have_one_process(cluster_of(spark), "executor")
    assert cluster_of(spark) is cluster_of(spark)  # copied from the JVM once
