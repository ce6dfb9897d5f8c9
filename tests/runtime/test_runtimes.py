"""Both runtimes give the same flow the same meaning: partitions, exchange, gather, metrics, errors, clean-up."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sundog.operators.context import MemoryBudget
from sundog.operators.limit import LimitOperator
from sundog.plan.stages import Parts, Pipeline, Place
from sundog.runtime.exchange import coalesce, decode_block, encode_block
from sundog.runtime.progress import ProgressSink
from sundog.runtime.spark import _shares_of_time
from tests.runtime.stages import Stages
from tests.runtime.toys import SCHEMA, FailAt, Modulo, Numbers, ProcessId, Sum

SOURCES = [Numbers(0, 25), Numbers(25, 50), Numbers(50, 100)]


@pytest.fixture(params=["driver", pytest.param("executors", marks=pytest.mark.spark)])
def stages(request: pytest.FixtureRequest) -> Iterator[Stages]:
    """Of each place; afterwards, nothing of it is held."""
    made = Stages(None if request.param == "driver" else request.getfixturevalue("spark"))
    yield made
    made.runner.release()


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


def test_collect_keeps_the_order_of_partitions(stages: Stages) -> None:
    assert numbers(stages.collect(stages.start(SOURCES))) == list(range(100))


def test_each_of_several_inputs_has_its_own_counts(stages: Stages) -> None:
    rows = Pipeline(stages.place, "union", (Parts(tuple(SOURCES[:2]), ()), Parts(tuple(SOURCES[2:]), ())))
    assert numbers(stages.collect(rows)) == list(range(100))
    (record,) = stages.runner.records.in_order()
    assert {number: counts.rows for number, counts in record.inputs.items()} == {0: 50, 1: 50}
    assert record.operators[0].rows == 100


def test_stages_of_one_job_share_its_time_as_their_tasks_clocks_say() -> None:
    def task(seconds: float, exchange: float = 0.0) -> list[Any]:
        return [(1, 1, 1, seconds, {}), (0, 0, 0, 0.0, {"exchange_seconds": exchange})]

    assert _shares_of_time({(0, 0): task(2.0), (0, 1): task(1.0, 1.0), (1, 0): task(4.0)}) == {0: 0.5, 1: 0.5}
    assert _shares_of_time({(0, 0): task(3.0), (1, 0): task(1.0)}) == {0: 0.75, 1: 0.25}
    assert _shares_of_time({(0, 0): task(0.0), (1, 0): task(0.0)}) == {0: 0.5, 1: 0.5}


def test_collect_partitions_keeps_partitions_apart(stages: Stages) -> None:
    parts = stages.partitions(stages.start(SOURCES))
    assert [numbers(part) for part in parts] == [list(range(25)), list(range(25, 50)), list(range(50, 100))]


def test_an_exchange_brings_each_row_to_its_target(stages: Stages) -> None:
    parts = stages.partitions(stages.exchange(stages.start(SOURCES), Modulo(4)))
    assert [sorted(numbers(part)) for part in parts] == [list(range(m, 100, 4)) for m in range(4)]


@pytest.mark.parametrize("few", [0, 60, 99, 1000])
def test_on_threads_little_is_not_split_and_no_row_is_lost(few: int) -> None:
    """Of three tasks none, two or all have so little that it is worth to leave it together."""
    stages = Stages()
    parts = stages.partitions(stages.exchange(stages.start(SOURCES), Modulo(4), few))
    assert sorted(number for part in parts for number in numbers(part)) == list(range(100))
    residues = [{number % 4 for number in numbers(part)} for part in parts]
    assert sum(map(len, residues)) == 4, "all rows of a target are with one task"
    assert len(parts) == {0: 4, 1000: 1}.get(few, len(parts))
    assert stages.metrics.get("exchange_rows") == 100


def test_operators_run_before_and_after_an_exchange(stages: Stages) -> None:
    moved = stages.exchange(stages.start(SOURCES), Modulo(4)).then(Sum())
    assert numbers(stages.collect(moved)) == [sum(range(m, 100, 4)) for m in range(4)]
    gathered = stages.graph.gather(stages.start(SOURCES).then(Sum()), "gathered")
    assert numbers(stages.collect(gathered.then(Sum()))) == [4950]


@pytest.mark.parametrize("place", ["driver", pytest.param("executors", marks=pytest.mark.spark)])
def test_stages_report_their_progress(place: str, request: pytest.FixtureRequest) -> None:
    told = Told()
    stages = Stages(None if place == "driver" else request.getfixturevalue("spark"), progress=told)
    stages.collect(stages.exchange(stages.start(SOURCES), Modulo(2)).then(Sum()))
    if place == "driver":
        assert told.stages == [("scan", 3), ("moved", 2)]
        assert told.done == 5
    else:
        assert told.stages[0] == ("moved", 0), "of Spark's tasks nobody knows the number at the start"


@pytest.mark.spark
@pytest.mark.parametrize("given", [None, "the user's own"])
def test_a_job_is_described_by_its_steps_unless_the_user_has_described_it(spark: Any, given: str | None) -> None:
    stages, context = Stages(spark), spark.sparkContext
    context.setLocalProperty("spark.job.description", given)
    context.addJobTag("described")
    before = set(context._jsc.sc().statusTracker().getJobIdsForTag("described"))
    try:
        stages.collect(stages.exchange(stages.start(SOURCES), Modulo(2)).then(Sum()))
        assert context.getLocalProperty("spark.job.description") == given
        (job,) = set(context._jsc.sc().statusTracker().getJobIdsForTag("described")) - before
        assert context._jsc.sc().statusStore().job(job).description().get() == (given or "sundog: scan, moved")
    finally:
        context.removeJobTag("described")
        context.setLocalProperty("spark.job.description", None)
        stages.runner.release()


def test_metrics_of_all_tasks_arrive(stages: Stages) -> None:
    stages.collect(stages.exchange(stages.start(SOURCES), Modulo(3)).then(Sum()))
    assert stages.metrics.get("input_rows") == 100
    assert stages.metrics.get("exchange_rows") == 100
    assert stages.metrics.get("stages") == 2
    assert stages.metrics.get("tasks") == 6


def test_each_operator_has_its_own_counts(stages: Stages) -> None:
    stages.collect(stages.exchange(stages.start(SOURCES), Modulo(4)).then(Sum(), Sum()))
    scan, summed = stages.runner.records.in_order()
    assert [counts.rows for counts in scan.operators] == [100, 0], "what an output moves it counts itself"
    assert scan.operators[0].metrics.get("input_rows") == 100
    assert scan.operators[1].metrics.get("exchange_rows") == 100
    assert [counts.rows for counts in summed.operators] == [100, 4, 4, 0]
    assert [counts.bytes for counts in summed.operators] == [800, 32, 32, 0]
    seconds = [counts.seconds for counts in summed.operators[:3]]
    assert seconds == sorted(seconds), "the time of a step is in that of the steps above it"


def test_a_failing_task_raises_its_own_error_and_leaves_no_file(
    stages: Stages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(ValueError, match="met 60"):
        stages.collect(stages.start(SOURCES).then(FailAt(60)))
    if stages.place is Place.DRIVER:
        assert os.listdir(tmp_path) == []


def test_empty_input_is_no_batches(stages: Stages) -> None:
    rows = stages.start([Numbers(0, 0)])
    assert stages.collect(rows) == []
    assert numbers(stages.collect(stages.exchange(rows, Modulo(2)).then(Sum()))) == [0, 0]


def test_blocks_round_trip_and_respect_the_size() -> None:
    def parts() -> Iterator[tuple[int, pa.RecordBatch]]:
        for n in range(100):
            yield n % 2, pa.RecordBatch.from_arrays([pa.array([n] * 10)], schema=SCHEMA)
            yield 0, pa.RecordBatch.from_arrays([pa.array([], pa.int64())], schema=SCHEMA)

    blocks = list(coalesce(parts(), block_bytes=400, memory=MemoryBudget()))
    assert len(blocks) == 20
    seen: dict[int, list[int]] = {0: [], 1: []}
    for target, batches in blocks:
        seen[target] += numbers(decode_block(encode_block(batches)))
    assert seen[0] == [n for n in range(0, 100, 2) for _ in range(10)]
    assert seen[1] == [n for n in range(1, 100, 2) for _ in range(10)]


@pytest.mark.spark
def test_a_task_that_runs_again_later_is_not_counted_twice(spark: Any) -> None:
    stages = Stages(spark)
    held = stages.graph.hold(stages.start(SOURCES))
    stages.collect(held)
    assert stages.metrics.get("input_rows") == 100
    assert stages.spark is not None
    for frame in stages.spark.held:
        frame.unpersist(blocking=True)  # as if its executor was lost
    stages.collect(held)
    assert stages.metrics.get("input_rows") == 100
    stages.runner.release()


@pytest.mark.spark
def test_a_stage_that_has_enough_leaves_its_worker_to_the_next(spark: Any) -> None:
    """Spark ends a worker that has not read its input to the end; the next task then waits for a new one."""
    first = LimitOperator(SCHEMA, 1)
    stages = Stages(spark)
    workers = {n for _ in range(8) for n in numbers(stages.collect(stages.start([ProcessId()]).then(first)))}
    assert len(workers) < 8
