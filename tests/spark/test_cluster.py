"""sundog on the executors of a real standalone cluster: every shape, with one process per executor and per slot.

Where Spark has no resource profiles for Python functions, which is in 3.5, the processes are one per slot, whatever was
asked for, and the answers the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sundog.benchmarks.engines.cluster import processes_in
from sundog.environment.java import ensure_java
from sundog.versions import spark_version
from tests.oracle.needs import needs_profiles
from tests.spark.cluster import left_behind, standalone_cluster
from tests.spark.cluster_cases import SHAPES, SMALL_TASKS, answers, case, check, write_tables

pytestmark = pytest.mark.spark
EXECUTORS, CORES = 2, 4
IN_SLOTS = ("aggregate",)
GATHERED = {**SMALL_TASKS, "gather_groups": 1_000_000, "min_merged_groups": 0}


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
    cases += [case(f"{process} ties", "ties", executor_process=process) for process in ("executor", "slot")]
    cases += [case("gathered", "aggregate", costs=GATHERED, executor_process="executor")]
    cases += [case("frame", "aggregate", frame=True, executor_process="executor")]
    if spark_version().has_profiles:
        cases += [case("profiled frame", "aggregate", frame=True, profile=True, executor_process="executor")]
    return answers(master, folder, cases)


@pytest.mark.parametrize("query", SHAPES)
def test_one_process_per_executor_where_spark_can_gives_sparks_answer(
    answered: dict[str, dict[str, Any]], query: str
) -> None:
    answer = answered[f"executor {query}"]
    check(answer)
    assert bool(answer["shared"]) == spark_version().has_profiles, "whether a stage had executors to itself"
    cores = {number: {cpus for stage, _, cpus in answer["processes"] if stage == number} for number in range(10)}
    assert all(found <= {CORES if stage in answer["shared"] else 1} for stage, found in cores.items())


@pytest.mark.parametrize("query", IN_SLOTS)
def test_one_process_per_slot_gives_sparks_answer(answered: dict[str, dict[str, Any]], query: str) -> None:
    answer = answered[f"slot {query}"]
    check(answer)
    assert {cpus for _, _, cpus in answer["processes"]} == {1}


@needs_profiles
@pytest.mark.parametrize("process", ["executor", "slot"])
def test_rows_with_equal_keys_keep_the_order_of_their_file(answered: dict[str, dict[str, Any]], process: str) -> None:
    """Of each file, several tasks read row groups, and rows of several ranges meet in one process or not."""
    answer = answered[f"{process} ties"]
    check(answer)
    assert "RangeRepartition" in answer["plan"]
    assert answer["metrics"]["exchange_rows"] >= 20_000
    assert answer["metrics"]["ranges"] > 1


def test_all_tasks_of_an_executor_run_in_one_process(answered: dict[str, dict[str, Any]]) -> None:
    answer = answered["executor aggregate"]
    partial, final = sorted({stage for stage, _, _ in answer["processes"]})
    assert {cpus for _, _, cpus in answer["processes"]} == {CORES}
    assert len({pid for _, pid, _ in answer["processes"]}) == EXECUTORS
    for stage, count in ((partial, EXECUTORS * CORES), (final, 2 * EXECUTORS * CORES)):
        assert answer["tasks"][str(stage)] == count, "every partition is computed"
    assert "merged per executor" in answer["plan"]
    assert answer["metrics"]["exchange_blocks"] < answered["slot aggregate"]["metrics"]["exchange_blocks"]


@needs_profiles
def test_groups_of_an_executor_are_merged_before_the_driver_gathers_them(answered: dict[str, dict[str, Any]]) -> None:
    answer = answered["gathered"]
    check(answer)
    assert "after those of each executor" in answer["plan"]
    assert "exchange_rows" not in answer["metrics"]
    assert {cpus for _, _, cpus in answer["processes"]} == {CORES}


@needs_profiles
def test_counts_of_distinct_values_are_merged_per_executor_too(answered: dict[str, dict[str, Any]]) -> None:
    assert answered["executor distinct"]["plan"].count("merged per executor") == 2


@needs_profiles
def test_ranges_that_were_summarized_on_the_way_are_computed_in_one_process_each(
    answered: dict[str, dict[str, Any]],
) -> None:
    """What was moved is read twice, and dealt out to the tasks of the executors once for both."""
    answer = answered["executor running"]
    assert "summarized by the sending tasks" in answer["plan"]
    (summarize, _), (window, purpose) = answer["stages"][-2:]
    assert purpose == "Window"
    assert (summarize in answer["shared"], window in answer["shared"]) == (False, True)
    cores = {stage: {cpus for each, _, cpus in answer["processes"] if each == stage} for stage in (summarize, window)}
    assert cores == {summarize: {1}, window: {CORES}}


def test_rows_that_go_on_into_sparks_plan_come_from_tasks_of_their_own(answered: dict[str, dict[str, Any]]) -> None:
    """Operators of Spark's follow in the same tasks, and would else have one thread of an executor."""
    answer = answered["frame"]
    assert answer["equal"], answer
    partial, final = sorted({stage for stage, _, _ in answer["processes"]})
    cores = {stage: {cpus for each, _, cpus in answer["processes"] if each == stage} for stage in (partial, final)}
    assert cores == {partial: {CORES if spark_version().has_profiles else 1}, final: {1}}


@needs_profiles
def test_a_profile_of_the_users_behind_rows_of_ours_is_kept(answered: dict[str, dict[str, Any]]) -> None:
    """Spark refuses two profiles in one stage."""
    answer = answered["profiled frame"]
    assert answer["equal"], answer
    partial, final = sorted({stage for stage, _, _ in answer["processes"]})
    cores = {stage: {cpus for each, _, cpus in answer["processes"] if each == stage} for stage in (partial, final)}
    assert cores == {partial: {CORES}, final: {2}}
