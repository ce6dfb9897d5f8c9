"""sundog on the executors of a real standalone cluster: every shape, and what becomes of a query whose worker is
killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sundog.environment.java import ensure_java
from tests.oracle.tables import events, write_files
from tests.spark.cluster import processes_in, standalone_cluster

pytestmark = pytest.mark.spark
ROOT = Path(__file__).parent.parent.parent
QUERIES = {
    "aggregate": "SELECT num, s, count(*) c, sum(big) s2, min(dec) m FROM events GROUP BY num, s",
    "topk": "SELECT id, num, s FROM events ORDER BY num DESC, id LIMIT 20",
    "distinct": "SELECT grp, count(DISTINCT num) c, sum(big) s2 FROM events GROUP BY grp",
    "window": "SELECT id, sum(num) OVER (ORDER BY big RANGE BETWEEN 1000000000 PRECEDING AND CURRENT ROW) FROM events",
    "running": "SELECT id, row_number() OVER (ORDER BY id) r, sum(big) OVER (ORDER BY id) s FROM events",
    "partitioned": "SELECT id, rank() OVER (PARTITION BY grp ORDER BY big, id) r FROM events",
    "join": "SELECT size, count(*) c, sum(num) n FROM events JOIN sizes ON num = of GROUP BY size",
    "large join": "SELECT a.s, count(*) c, sum(b.big) n FROM events a FULL JOIN events b ON a.id = b.seq GROUP BY a.s",
}
# Of so little data each task reads some, and groups and rows move although they are few.
SMALL_TASKS = {"task_bytes": 1000, "gather_groups": 0, "small_step_bytes": 0, "broadcast_bytes": 1 << 20}
EXECUTORS, CORES = 2, 4
IN_SLOTS = ("aggregate",)
KILLED = [("aggregate", 1), ("aggregate", 2), ("window", 2)]


def case(name: str, query: str, kill: str | int | None = None, frame: bool = False, **confs: str) -> dict[str, Any]:
    confs = {f"spark.sundog.{key.replace('_', '.')}": value for key, value in confs.items()}
    return {"name": name, "sql": QUERIES[query], "confs": confs, "kill": kill, "frame": frame}


def answers(master: str, folder: Path, cases: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """What a program of its own, with a session of this master, answers to each of the cases."""
    environment = dict(os.environ, PYSPARK_PYTHON=sys.executable)  # the Python of the executors
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.cluster_job", master, str(folder), json.dumps(cases)],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    lines = [line.removeprefix("ANSWER ") for line in done.stdout.splitlines() if line.startswith("ANSWER ")]
    assert len(lines) == len(cases), done.stderr[-3000:]
    return {answer["name"]: answer for answer in map(json.loads, lines)}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Two executors of four cores; the tables `events` and `sizes`."""
    ensure_java()
    folder = tmp_path_factory.mktemp("cluster")
    write_files(events(20_000), folder / "events.table", files=4, row_group_size=1000)
    write_files(pa.table({"of": range(-300, 300), "size": [n % 7 for n in range(600)]}), folder / "sizes.table", 1, 600)
    with standalone_cluster(folder, CORES, workers=EXECUTORS) as master:
        yield master, folder
    assert processes_in(folder) == [], "something of the cluster is left"


@pytest.fixture(scope="module")
def answered(cluster: tuple[str, Path]) -> dict[str, dict[str, Any]]:
    """All cases in one program. The first has fresh executors, whose Python workers are those that it needs."""
    master, folder = cluster
    costs = json.dumps(SMALL_TASKS)
    cases = [case(f"executor {name}", name, costs=costs, executor_process="executor") for name in QUERIES]
    cases += [case(f"slot {name}", name, costs=costs, executor_process="slot") for name in IN_SLOTS]
    cases += [
        case(f"{query} killed in {number}", query, number, costs=costs, executor_process="executor")
        for query, number in KILLED
    ]
    cases += [case("frame", "aggregate", frame=True, costs=costs, executor_process="executor")]
    return answers(master, folder, cases)


def check(answer: dict[str, Any]) -> None:
    """It is Spark's answer, computed by sundog on executors."""
    assert answer["equal"], answer
    assert answer["accelerated"], answer
    assert answer["placement"] == "executors"
    assert answer["rows"] > 0
    assert answer["metrics"]["input_rows"] > 0


@pytest.mark.parametrize("query", QUERIES)
def test_one_process_per_executor_gives_sparks_answer(answered: dict[str, dict[str, Any]], query: str) -> None:
    answer = answered[f"executor {query}"]
    check(answer)
    assert answer["shared"], "no stage had executors to itself"
    cores = {number: {cpus for stage, _, cpus, _ in answer["processes"] if stage == number} for number in range(10)}
    assert all(found <= {CORES if stage in answer["shared"] else 1} for stage, found in cores.items())


@pytest.mark.parametrize("query", IN_SLOTS)
def test_one_process_per_slot_gives_sparks_answer(answered: dict[str, dict[str, Any]], query: str) -> None:
    answer = answered[f"slot {query}"]
    check(answer)
    assert {cpus for _, _, cpus, _ in answer["processes"]} == {1}


def test_all_tasks_of_an_executor_run_in_one_process(answered: dict[str, dict[str, Any]]) -> None:
    answer = answered["executor aggregate"]
    partial, final = sorted({stage for stage, _, _, _ in answer["processes"]})
    assert {cpus for _, _, cpus, _ in answer["processes"]} == {CORES}
    assert len({pid for _, pid, _, _ in answer["processes"]}) == EXECUTORS
    for stage, count in ((partial, EXECUTORS * CORES), (final, 2 * EXECUTORS * CORES)):
        partitions = [partition for each, _, _, partition in answer["processes"] if each == stage]
        assert sorted(partitions) == list(range(count)), "every partition is computed once"
    assert "merged per executor" in answer["plan"]
    assert answer["metrics"]["exchange_blocks"] < answered["slot aggregate"]["metrics"]["exchange_blocks"]


@pytest.mark.parametrize(("query", "stage"), KILLED)
def test_a_killed_python_process_changes_no_answer(answered: dict[str, dict[str, Any]], query: str, stage: int) -> None:
    answer = answered[f"{query} killed in {stage}"]
    assert answer["was_killed"]
    check(answer)


def test_rows_that_go_on_into_sparks_plan_come_from_tasks_of_their_own(answered: dict[str, dict[str, Any]]) -> None:
    """Operators of Spark's follow in the same tasks, and would else have one thread of an executor."""
    answer = answered["frame"]
    assert answer["equal"], answer
    partial, final = sorted({stage for stage, _, _, _ in answer["processes"]})
    cores = {stage: {cpus for each, _, cpus, _ in answer["processes"] if each == stage} for stage in (partial, final)}
    assert cores == {partial: {CORES}, final: {1}}


@pytest.mark.slow
def test_a_query_whose_executor_is_killed_gives_sparks_answer(cluster: tuple[str, Path]) -> None:
    master, folder = cluster
    cases = [case(query, query, "executor") for query in ("topk", "aggregate")]
    for answer in answers(master, folder, cases).values():
        check(answer)
