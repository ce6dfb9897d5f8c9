"""Failures during a query on a standalone cluster: the answer is Spark's, and nothing is left behind.

Each case proves that its fault happened: the task that met it left a mark, and Spark's event log tells of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sundog.benchmarks.engines.cluster import processes_in
from sundog.environment.java import ensure_java
from sundog.versions import spark_version
from tests.spark.cluster import left_behind, standalone_cluster
from tests.spark.cluster_cases import MANY_SLOTS, answers, case, check, write_tables

pytestmark = [pytest.mark.spark, pytest.mark.long]
EXECUTORS, CORES = 2, 2
# A copy is made of a task that has run for longer than most others, and for some seconds.
CONFS = {
    "spark.speculation": "true",
    "spark.speculation.interval": "200ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.2",
    "spark.speculation.efficiency.enabled": "false",  # it would wait for twice as long, in case the task is at work
    "spark.speculation.minTaskRuntime": "3s",
    "spark.python.task.killTimeout": "500ms",
    "spark.stage.maxConsecutiveAttempts": "8",
    "spark.task.maxFailures": "4",
}
DYNAMIC = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.timeout": "1s",
    "spark.dynamicAllocation.executorIdleTimeout": "1s",
    "spark.dynamicAllocation.cachedExecutorIdleTimeout": "1s",
    "spark.dynamicAllocation.maxExecutors": str(EXECUTORS),
}
FEW_PARTITIONS = {**MANY_SLOTS, "max_exchange_partitions": 1}
# What Spark's event log says of each kind of fault.
SEEN = {
    "worker": "ExceptionFailure",
    "executor": "ExecutorRemoved",
    "fails": "ExceptionFailure",
    "slow": "Speculative",
    "blocks": "FetchFailed",
    "disk": "ExceptionFailure",
    "disk full": "ExceptionFailure",
    "taken away": "ExecutorRemoved",
}
# Of each shape, the stages on executors. `make test-matrix` has a fault in each of them.
STAGES = {
    "aggregate": ["Scan", "Merge groups"],
    "topk": ["TopK round 1", "TopK round 2", "Materialize"],
    "distinct": ["Scan", "Merge groups", "Merge groups"],
    "window": ["Sample", "Scan", "Window"],
    "running": ["Sample", "Scan", "Summarize", "Window"],
    "partitioned": ["Scan", "Window"],
    "join": ["Build side", "Scan", "Merge groups"],
    "large join": ["Scan", "Scan", "Join", "Merge groups"],
    "held": ["Scan", "Summarize", "Window"],
    "sort": ["Sample", "Scan", "Sort"],
    "inside keys": ["Sample", "Scan", "Summarize", "Window"],
    "shares": ["Scan"],
    "union": ["Scan", "Merge groups"],
    "footers": ["Footers", "TopK round 1", "TopK round 2"],
}
# What is not computed in one process per executor: small inputs have one task, and held rows a task each.
ALONE = {
    ("running", "Summarize"),
    ("join", "Build side"),
    ("footers", "Footers"),
    *(("held", purpose) for purpose in STAGES["held"]),
}
# Query, fault, stage, process. Of each shape a worker, or an executor, is killed that serves a whole executor.
CASES = [
    ("aggregate", "worker", "Merge groups", "slot"),
    ("aggregate", "worker", "Scan", "executor"),
    ("topk", "worker", "TopK round 2", "executor"),
    ("distinct", "worker", "Merge groups", "executor"),
    ("window", "worker", "Window", "executor"),
    ("running", "blocks", "Window", "executor"),
    ("running", "worker", "Window", "executor"),
    ("partitioned", "worker", "Window", "executor"),
    ("join", "worker", "Merge groups", "executor"),
    ("held", "worker", "Summarize", "slot"),
    ("large join", "executor", "Join", "executor"),
    ("topk", "fails", "TopK round 1", "slot"),
    ("partitioned", "slow", "Scan", "slot"),
    ("large join", "blocks", "Join", "slot"),
    ("spilling aggregate", "worker", "Merge groups", "slot"),
    ("spilling aggregate", "disk", "Merge groups", "slot"),
    ("spilling join", "disk full", "Join", "slot"),
]
# The same for `make test-matrix`: each kind of fault in one process per executor.
MORE_CASES = [
    ("partitioned", "slow", "Scan", "executor"),
    ("partitioned", "blocks", "Window", "executor"),
    ("large join", "blocks", "Join", "executor"),
    ("held", "executor", "Window", "executor"),
    ("spilling aggregate", "worker", "Merge groups", "executor"),
    ("spilling join", "disk", "Join", "executor"),
    ("spilling join", "disk full", "Join", "executor"),
]


def fault(query: str, kind: str, at: str, process: str) -> dict[str, Any]:
    spills = query.startswith("spilling")
    memory = {"task_memoryBytes": "1m"} if spills else {}
    costs = FEW_PARTITIONS if spills else MANY_SLOTS
    return case(f"{query}, {kind}, {process}", query, kind, at, costs=costs, executor_process=process, **memory)


def check_fault(answer: dict[str, Any], kind: str) -> None:
    """The fault happened, and the answer is Spark's."""
    assert answer["seen"].get(SEEN[kind], 0) > 0, answer
    if kind != "taken away":
        assert answer["marked"], "no task has met the fault"
    if kind == "fails":
        assert answer["marked"] == ["attempt0", "attempt1", "task"]
    if kind != "disk full":
        check(answer)


def check_process(answer: dict[str, Any], query: str, process: str) -> None:
    """The stage with the fault had a process of as many cores as it should."""
    purpose = dict(answer["stages"])[answer["hit"]]
    alone = process == "slot" or (query, purpose) in ALONE or not spark_version().has_profiles
    cores = {cpus for stage, _, cpus in answer["processes"] if stage == answer["hit"]}
    assert cores == {1 if alone else CORES}, answer


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    ensure_java()
    folder = tmp_path_factory.mktemp("faults")
    write_tables(folder)
    with standalone_cluster(folder, CORES, workers=EXECUTORS) as master:
        yield master, folder
        assert left_behind(folder) == [], "temporary files of applications that have ended"
    assert processes_in(folder) == [], "something of the cluster is left"


@pytest.fixture(scope="module")
def answered(cluster: tuple[str, Path]) -> dict[str, dict[str, Any]]:
    return answers(*cluster, [fault(*each) for each in CASES], CONFS)


def check_case(answer: dict[str, Any], query: str, kind: str, process: str) -> None:
    check_fault(answer, kind)
    if kind == "disk full":
        check_left_to_spark(answer)
        return
    check_process(answer, query, process)
    if query.startswith("spilling"):
        assert answer["metrics"]["spill_count"] > 0


def check_left_to_spark(answer: dict[str, Any]) -> None:
    """No disk had space for it."""
    assert answer["equal"]
    assert not answer["accelerated"]
    (reason,) = answer["reasons"]
    assert reason.startswith("EXECUTION")
    assert "File too large" in reason


@pytest.mark.parametrize(("query", "kind", "at", "process"), CASES)
def test_a_fault_changes_no_answer(
    answered: dict[str, dict[str, Any]], query: str, kind: str, at: str, process: str
) -> None:
    check_case(answered[f"{query}, {kind}, {process}"], query, kind, process)


@pytest.mark.matrix
@pytest.mark.timeout(1500)
def test_a_fault_of_any_kind_in_one_process_per_executor_changes_no_answer(cluster: tuple[str, Path]) -> None:
    found = answers(*cluster, [fault(*each) for each in MORE_CASES], CONFS, seconds=1200)
    for query, kind, _, process in MORE_CASES:
        check_case(found[f"{query}, {kind}, {process}"], query, kind, process)


@pytest.mark.matrix
@pytest.mark.parametrize("query", ["held", "running", "aggregate"])
def test_executors_that_dynamic_allocation_takes_away_change_no_answer(cluster: tuple[str, Path], query: str) -> None:
    """Before the last stage is made. What it reads was held on them, or lies in the shuffle."""
    given = case(query, query, "taken away", STAGES[query][-1], costs=MANY_SLOTS)
    answer = answers(*cluster, [given], {**CONFS, **DYNAMIC})[query]
    check_fault(answer, "taken away")
    check_process(answer, query, "slot")


@pytest.mark.matrix
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("process", ["slot", "executor"])
@pytest.mark.parametrize("kind", ["worker", "executor", "fails"])
def test_a_fault_in_each_stage_of_each_shape_changes_no_answer(
    cluster: tuple[str, Path], kind: str, process: str
) -> None:
    found = answers(*cluster, [fault(query, kind, "each", process) for query in STAGES], CONFS, seconds=2700)
    for name, answer in found.items():
        check_fault(answer, kind)
        check_process(answer, name.partition(", ")[0], process)
    stages = {query: [name for name in found if name.startswith(f"{query}, ")] for query in STAGES}
    assert {
        query: [name.partition(": ")[2].rpartition(" ")[0] for name in names] for query, names in stages.items()
    } == STAGES
