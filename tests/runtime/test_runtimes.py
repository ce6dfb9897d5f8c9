"""Both runtimes give the same flow the same meaning: partitions, exchange, gather, metrics, errors, clean-up."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sundog.operators.limit import LimitOperator
from sundog.runtime.driver import DriverRuntime
from sundog.runtime.exchange import coalesce, decode_block, encode_block
from sundog.runtime.flow import Runtime
from sundog.runtime.progress import ProgressSink
from sundog.runtime.spark import SparkRuntime
from tests.runtime.toys import SCHEMA, FailAt, Modulo, Numbers, ProcessId, Sum

SOURCES = [Numbers(0, 25), Numbers(25, 50), Numbers(50, 100)]


@pytest.fixture(params=["driver", pytest.param("executors", marks=pytest.mark.spark)])
def runtime(request: pytest.FixtureRequest) -> Runtime:
    if request.param == "driver":
        return DriverRuntime(2, 1 << 20)
    return SparkRuntime(request.getfixturevalue("spark"), 1 << 20)


class Told(ProgressSink):
    """Remembers what it was told: the labels of stages, with the tasks of each that are done."""

    def __init__(self) -> None:
        self.stages: list[tuple[str, int]] = []
        self.done = 0

    def start(self, label: str, tasks: int) -> None:
        self.stages.append((label, tasks))

    def advance(self, count: int = 1) -> None:
        self.done += count

    def finish(self) -> None:
        pass


def numbers(batches: list[pa.RecordBatch]) -> list[int]:
    return [n for batch in batches for n in batch.column(0).to_pylist()]


def test_collect_keeps_the_order_of_partitions(runtime: Runtime) -> None:
    assert numbers(runtime.start(SOURCES, "scan").collect()) == list(range(100))


def test_collect_partitions_keeps_partitions_apart(runtime: Runtime) -> None:
    parts = runtime.start(SOURCES, "scan").collect_partitions()
    assert [numbers(part) for part in parts] == [list(range(25)), list(range(25, 50)), list(range(50, 100))]


def test_an_exchange_brings_each_row_to_its_target(runtime: Runtime) -> None:
    parts = runtime.start(SOURCES, "scan").exchange(Modulo(4)).collect_partitions()
    assert [sorted(numbers(part)) for part in parts] == [list(range(m, 100, 4)) for m in range(4)]


class JoinableModulo(Modulo):
    joinable = True


@pytest.mark.parametrize("few", [0, 60, 99, 1000])
def test_on_threads_little_is_not_split_and_no_row_is_lost(monkeypatch: pytest.MonkeyPatch, few: int) -> None:
    """Of three tasks none, two or all have so little that it is worth to leave it together."""
    monkeypatch.setattr("sundog.runtime.driver._FEW_ROWS", few)
    runtime = DriverRuntime(2, 1 << 20)
    parts = runtime.start(SOURCES, "scan").exchange(JoinableModulo(4)).collect_partitions()
    assert sorted(number for part in parts for number in numbers(part)) == list(range(100))
    residues = [{number % 4 for number in numbers(part)} for part in parts]
    assert sum(map(len, residues)) == 4, "all rows of a target are with one task"
    assert len(parts) == {0: 4, 1000: 1}.get(few, len(parts))
    assert runtime.metrics.get("exchange_rows") == 100


def test_operators_run_before_and_after_an_exchange(runtime: Runtime) -> None:
    flow = runtime.start(SOURCES, "scan").exchange(Modulo(4)).then(Sum())
    assert numbers(flow.collect()) == [sum(range(m, 100, 4)) for m in range(4)]
    assert numbers(runtime.start(SOURCES, "scan").then(Sum()).gather().then(Sum()).collect()) == [4950]


def test_stages_report_their_progress(runtime: Runtime) -> None:
    runtime.progress = told = Told()
    runtime.start(SOURCES, "scan").exchange(Modulo(2)).then(Sum()).collect()
    if runtime.name == "driver":
        assert told.stages == [("scan", 3), ("Modulo", 2)]
        assert told.done == 5
    else:
        assert told.stages[0] == ("Modulo", 0), "of Spark's tasks nobody knows the number at the start"


def test_metrics_of_all_tasks_arrive(runtime: Runtime) -> None:
    runtime.start(SOURCES, "scan").exchange(Modulo(3)).then(Sum()).collect()
    assert runtime.metrics.get("input_rows") == 100
    assert runtime.metrics.get("exchange_rows") == 100
    assert runtime.metrics.get("stages") == 2
    assert runtime.metrics.get("tasks") == 6


def test_a_failing_task_raises_its_own_error_and_leaves_no_file(
    runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(ValueError, match="met 60"):
        runtime.start(SOURCES, "scan").then(FailAt(60)).collect()
    if runtime.name == "driver":
        assert os.listdir(tmp_path) == []


def test_empty_input_is_no_batches(runtime: Runtime) -> None:
    flow = runtime.start([Numbers(0, 0)], "scan")
    assert flow.collect() == []
    assert numbers(flow.exchange(Modulo(2)).then(Sum()).collect()) == [0, 0]


def test_blocks_round_trip_and_respect_the_size() -> None:
    def parts() -> Iterator[tuple[int, pa.RecordBatch]]:
        for n in range(100):
            yield n % 2, pa.RecordBatch.from_arrays([pa.array([n] * 10)], schema=SCHEMA)
            yield 0, pa.RecordBatch.from_arrays([pa.array([], pa.int64())], schema=SCHEMA)

    blocks = list(coalesce(parts(), block_bytes=400))
    assert len(blocks) == 20
    seen: dict[int, list[int]] = {0: [], 1: []}
    for target, batches in blocks:
        seen[target] += numbers(decode_block(encode_block(batches)))
    assert seen[0] == [n for n in range(0, 100, 2) for _ in range(10)]
    assert seen[1] == [n for n in range(1, 100, 2) for _ in range(10)]


@pytest.mark.spark
def test_a_task_that_runs_again_later_is_not_counted_twice(spark: Any) -> None:
    runtime = SparkRuntime(spark, 1 << 20)
    held = runtime.start(SOURCES, "scan").hold()
    held.collect()
    assert runtime.metrics.get("input_rows") == 100
    for frame in runtime.held:
        frame.unpersist(blocking=True)  # as if its executor was lost
    held.collect()
    assert runtime.metrics.get("input_rows") == 100
    runtime.release()


@pytest.mark.spark
def test_a_stage_that_has_enough_leaves_its_worker_to_the_next(spark: Any) -> None:
    """Spark ends a worker that has not read its input to the end; the next task then waits for a new one."""
    first = LimitOperator(SCHEMA, 1)
    runtime = SparkRuntime(spark, 1 << 20)
    workers = {n for _ in range(8) for n in numbers(runtime.start([ProcessId()], "scan").then(first).collect())}
    assert len(workers) < 8
