"""Which stages share a process per executor, and in how many tasks of Spark's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sundog.operators.sources import BatchSource
from sundog.plan.costs import EXECUTORS
from sundog.plan.outputs import Exchange, Gather, Result
from sundog.plan.stages import PairedRows, Parts, Pipeline, Place, Site, SparkRows, StageGraph, StageRows
from sundog.report.explain import explain_text
from sundog.runtime.processes.stage import task_of
from tests.runtime.toys import SCHEMA, Modulo


def graph(executors: int = 2, slots: int = 8) -> StageGraph:
    return StageGraph(site=Site(Place.EXECUTORS, slots, 1 << 30, EXECUTORS, executors))


def scan(count: int, place: Place = Place.EXECUTORS) -> Pipeline:
    return Pipeline(place, "scan", (Parts(tuple(BatchSource([]) for _ in range(count))),))


def tasks(made: StageGraph, rows: Pipeline) -> int:
    return made.end(rows, Gather()).process_tasks


@pytest.mark.parametrize(("sources", "expected"), [(1, 0), (2, 0), (3, 2), (16, 2)])
def test_parts_of_tables_are_shared_out_between_the_executors(sources: int, expected: int) -> None:
    assert tasks(graph(), scan(sources)) == expected


@pytest.mark.parametrize(("partitions", "expected"), [(1, 0), (2, 0), (3, 2), (8, 2), (16, 4), (17, 5)])
def test_a_task_after_an_exchange_has_a_partition_for_each_core(partitions: int, expected: int) -> None:
    made = graph()
    assert tasks(made, made.exchange(scan(8), Modulo(partitions), "moved")) == expected


def test_both_sides_of_a_join_are_counted_once() -> None:
    made = graph()
    ends = [made.end(scan(8), Exchange(Modulo(16))) for _ in range(2)]
    assert tasks(made, Pipeline(Place.EXECUTORS, "join", (PairedRows(*ends),))) == 4


def test_an_exchange_that_is_kept_is_dealt_out_once_for_all_readers() -> None:
    """Its last reader may be a stage that gives its rows to Spark, whose operators want a task for each partition."""
    made = graph()
    rows = made.exchange(scan(8), Modulo(16), "moved", readers=2)
    assert [tasks(made, rows), tasks(made, rows)] == [4, 4]
    for_spark = graph()
    for_spark.for_spark = True
    assert tasks(for_spark, for_spark.exchange(scan(8), Modulo(16), "moved", readers=2)) == 0
    assert tasks(for_spark, for_spark.exchange(scan(8), Modulo(16), "moved")) == 4


@given(st.integers(1, 40), st.integers(1, 400))
def test_what_comes_behind_the_partitions_of_all_tasks_is_a_task_more(tasks: int, partitions: int) -> None:
    """Summaries: the number of the task, as Spark's SQL computes it."""
    if tasks <= partitions:
        assert task_of(partitions, tasks, partitions) == tasks
        assert task_of(partitions - 1, tasks, partitions) == tasks - 1


def test_rows_of_spark_and_held_rows_keep_their_tasks() -> None:
    """Operators of Spark's own may run in the same tasks."""
    made = graph()
    assert tasks(made, Pipeline(Place.EXECUTORS, "foreign", (SparkRows(0, SCHEMA, "rows"),))) == 0
    held = made.hold(made.exchange(scan(8), Modulo(16), "moved"))
    (rows,) = held.inputs
    assert isinstance(rows, StageRows)
    assert rows.stage.process_tasks == 0
    assert tasks(made, held) == 0


def test_without_such_executors_every_partition_is_a_task() -> None:
    assert tasks(graph(executors=0), scan(16)) == 0
    assert tasks(graph(), scan(16, Place.DRIVER)) == 0
    assert tasks(StageGraph(), scan(16)) == 0


def test_explain_says_which_stages_share_a_process() -> None:
    made = graph()
    moved = made.exchange(scan(8), Modulo(16), "moved")
    assert "one process" not in explain_text([StageGraph(stages=made.stages)], ())
    made.end(moved, Result())
    assert "-- 2 processes of 4 threads on executors: stages 1, 2 --" in explain_text([made], ())
