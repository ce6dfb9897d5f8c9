"""sundog on the executors of a real standalone cluster: every shape, with one process per executor and per slot."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sundog.benchmarks.engines.cluster import processes_in
from sundog.environment.java import ensure_java
from tests.spark.cluster import left_behind, standalone_cluster
from tests.spark.cluster_cases import SHAPES, answers, case, check, write_tables

pytestmark = pytest.mark.spark
EXECUTORS, CORES = 2, 4
IN_SLOTS = ("aggregate",)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Two executors of four cores."""
    ensure_java()
    folder = tmp_path_factory.mktemp("cluster")
    write_tables(folder)
    with standalone_cluster(folder, CORES, workers=EXECUTORS) as master:
        yield master, folder
        assert left_behind(folder) == []
    assert processes_in(folder) == [], "something of the cluster is left"


@pytest.fixture(scope="module")
def answered(cluster: tuple[str, Path]) -> dict[str, dict[str, Any]]:
    """All cases in one program. The first has fresh executors, whose Python workers are those that it needs."""
    master, folder = cluster
    cases = [case(f"executor {name}", name, executor_process="executor") for name in SHAPES]
    cases += [case(f"slot {name}", name, executor_process="slot") for name in IN_SLOTS]
    cases += [case("frame", "aggregate", frame=True, executor_process="executor")]
    return answers(master, folder, cases)


@pytest.mark.parametrize("query", SHAPES)
def test_one_process_per_executor_gives_sparks_answer(answered: dict[str, dict[str, Any]], query: str) -> None:
    answer = answered[f"executor {query}"]
    check(answer)
    assert answer["shared"], "no stage had executors to itself"
    cores = {number: {cpus for stage, _, cpus in answer["processes"] if stage == number} for number in range(10)}
    assert all(found <= {CORES if stage in answer["shared"] else 1} for stage, found in cores.items())


@pytest.mark.parametrize("query", IN_SLOTS)
def test_one_process_per_slot_gives_sparks_answer(answered: dict[str, dict[str, Any]], query: str) -> None:
    answer = answered[f"slot {query}"]
    check(answer)
    assert {cpus for _, _, cpus in answer["processes"]} == {1}


def test_all_tasks_of_an_executor_run_in_one_process(answered: dict[str, dict[str, Any]]) -> None:
    answer = answered["executor aggregate"]
    partial, final = sorted({stage for stage, _, _ in answer["processes"]})
    assert {cpus for _, _, cpus in answer["processes"]} == {CORES}
    assert len({pid for _, pid, _ in answer["processes"]}) == EXECUTORS
    for stage, count in ((partial, EXECUTORS * CORES), (final, 2 * EXECUTORS * CORES)):
        assert answer["tasks"][str(stage)] == count, "every partition is computed"
    assert "merged per executor" in answer["plan"]
    assert answer["metrics"]["exchange_blocks"] < answered["slot aggregate"]["metrics"]["exchange_blocks"]


def test_rows_that_go_on_into_sparks_plan_come_from_tasks_of_their_own(answered: dict[str, dict[str, Any]]) -> None:
    """Operators of Spark's follow in the same tasks, and would else have one thread of an executor."""
    answer = answered["frame"]
    assert answer["equal"], answer
    partial, final = sorted({stage for stage, _, _ in answer["processes"]})
    cores = {stage: {cpus for each, _, cpus in answer["processes"] if each == stage} for stage in (partial, final)}
    assert cores == {partial: {CORES}, final: {1}}
