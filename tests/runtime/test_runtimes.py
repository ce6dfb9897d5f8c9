"""Both runtimes run the same stages alike: partitions, exchange, gather, metrics, errors, clean-up."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sundog.operators.byte_limit import ByteLimit
from sundog.operators.context import MemoryBudget
from sundog.operators.limit import LimitOperator
from sundog.plan.costs import EXECUTORS
from sundog.plan.outputs import Gather
from sundog.plan.stages import Parts, Pipeline, Place
from sundog.runtime.exchange import coalesce, decode_block, encode_block
from sundog.runtime.progress import ProgressSink
from sundog.runtime.spark import _shares_of_time
from sundog.support import TooManyBytes
from tests.runtime.stages import Stages
from tests.runtime.toys import SCHEMA, FailAt, Modulo, Numbers, ProcessId, Slow, Sum

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
    rows = Pipeline(stages.place, "union", (Parts(tuple(SOURCES[:2])), Parts(tuple(SOURCES[2:]))))
    assert numbers(stages.collect(rows)) == list(range(100))
    (record,) = stages.runner.records.in_order()
    assert {number: counts.rows for number, counts in record.inputs.items()} == {0: 50, 1: 50}
    assert record.operators[0].rows == 100


def test_stages_of_one_job_share_its_time_as_their_tasks_clocks_say() -> None:
    def task(seconds: float, output: float = 0.0) -> list[Any]:
        return [(1, 1, 1, seconds, {}, ()), (1, 1, 1, seconds + output, {}, ())]

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


@pytest.mark.parametrize("endless", [0, 1])
def test_a_stage_stops_when_its_rows_are_more_than_may_be_gathered(stages: Stages, endless: int) -> None:
    """Whichever of its tasks it is, and the other has not to end first."""
    sources: list[Any] = [Numbers(0, 10**12, 1000), Slow(Numbers(0, 25), 60)]
    if endless:
        sources.reverse()
    rows, started = stages.start(sources), time.monotonic()
    with pytest.raises(TooManyBytes) as stopped:
        stages.runner.rows(stages.graph.end(rows, Gather(max_bytes=100_000)))
    assert "more than 100,000 bytes" in stopped.value.reasons[0].sentence
    assert time.monotonic() - started < 30
    if stages.spark is not None:
        assert not list(wait_for_jobs(stages.spark.session))
    assert numbers(stages.collect(stages.start(SOURCES))) == list(range(100)), "the runtime goes on"


def test_rows_within_the_limit_are_all_gathered_in_order(stages: Stages) -> None:
    gather = Gather(max_bytes=8 * 100)
    assert numbers(stages.runner.rows(stages.graph.end(stages.start(SOURCES), gather))) == list(range(100))
    with pytest.raises(TooManyBytes):  # that of all tasks together
        stages.runner.rows(stages.graph.end(stages.start(SOURCES), Gather(max_bytes=8 * 99)))


def test_an_error_while_rows_are_gathered_within_a_limit_is_the_tasks_own(stages: Stages) -> None:
    rows = stages.start(SOURCES).then(FailAt(60))
    with pytest.raises(ValueError, match="met 60"):
        stages.runner.rows(stages.graph.end(rows, Gather(max_bytes=1 << 20)))


def test_a_dictionary_that_batches_share_is_counted_once() -> None:
    strings = pa.array(["x" * 1000, "y"])
    batches = [
        pa.record_batch([pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int32()), strings)], names=["s"])
        for _ in range(10)
    ]
    assert len(list(ByteLimit(2000).watched(batches))) == 10
    with pytest.raises(TooManyBytes):
        list(ByteLimit(1000).watched(batches))


def wait_for_jobs(session: Any) -> Iterator[int]:
    """The jobs that still run after a while."""
    tracker, until = session.sparkContext.statusTracker(), time.monotonic() + 10
    while tracker.getActiveJobsIds() and time.monotonic() < until:
        time.sleep(0.1)
    yield from tracker.getActiveJobsIds()


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
    assert [counts.rows for counts in scan.operators] == [100, 100]
    assert scan.operators[0].metrics.get("input_rows") == 100
    assert scan.operators[1].metrics.get("exchange_rows") == 100
    assert [counts.rows for counts in summed.operators] == [100, 4, 4, 4]
    assert [counts.bytes for counts in summed.operators[:3]] == [800, 32, 32]
    assert scan.operators[1].bytes >= 400
    assert summed.operators[3].bytes >= 32, "on executors those of the blocks"
    for each in (scan, summed):
        seconds = [counts.seconds for counts in each.operators]
        assert 0 < seconds[0] <= seconds[-1]
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

    blocks = list(coalesce(parts(), block_bytes=400, waiting_bytes=1 << 20, memory=MemoryBudget()))
    assert len(blocks) == 20
    seen: dict[int, list[int]] = {0: [], 1: []}
    for target, batches in blocks:
        seen[target] += numbers(decode_block(encode_block(batches, EXECUTORS)))
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
def test_rows_that_two_stages_read_are_moved_once(spark: Any) -> None:
    stages = Stages(spark)
    moved = stages.exchange(stages.start(SOURCES), Modulo(3), readers=2)
    found = [sorted(numbers(stages.collect(moved.then(each)))) for each in (Sum(), LimitOperator(SCHEMA, 2))]
    assert found[0] == sorted(sum(range(rest, 100, 3)) for rest in range(3))
    assert len(found[1]) == 6
    assert stages.metrics.get("input_rows") == 100, "the sources were read once"
    assert [record.tasks for record in stages.runner.records.in_order()] == [3, 3, 3]
    stages.runner.release()


@pytest.mark.spark
def test_a_stage_that_has_enough_leaves_its_worker_to_the_next(spark: Any) -> None:
    """Spark ends a worker that has not read its input to the end; the next task then waits for a new one."""
    first = LimitOperator(SCHEMA, 1)
    stages = Stages(spark)
    workers = {n for _ in range(8) for n in numbers(stages.collect(stages.start([ProcessId()]).then(first)))}
    assert len(workers) < 8
