"""Aggregation above its memory budget: the partial one emits early, the final one spills, the answer is the same, and
no file is left."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from sundog.expr.calls import AggregateCall, NamedExpr
from sundog.expr.nodes import Column
from sundog.operators.aggregate.phases import aggregate_phases
from sundog.operators.aggregate.skip_probe import SkipProbe
from sundog.operators.context import MemoryBudget, ScratchFolder, TaskCancelled, TaskContext
from sundog.plan.costs import DRIVER
from tests.operators.aggregate.runner import Setup, run_phases

LONG = pa.int64()
KEY = NamedExpr("k", Column("k", LONG))
COUNT = AggregateCall("count#1", "count", (), LONG)
SUM = AggregateCall("sum#2", "sum", (Column("x", LONG),), LONG)


def distinct_batches(keys: int, batch_rows: int, text: bool = False) -> Iterator[pa.RecordBatch]:
    order = np.random.default_rng(5).permutation(keys)
    for start in range(0, keys, batch_rows):
        numbers = pa.array(order[start : start + batch_rows])
        column = numbers.cast(pa.string()) if text else numbers
        yield pa.RecordBatch.from_arrays([column, numbers], names=["k", "x"])


@pytest.mark.parametrize("text", [False, True])
def test_second_phase_spills_and_leaves_nothing_behind(tmp_path: Path, text: bool) -> None:
    key = NamedExpr("k", Column("k", pa.string() if text else LONG))
    batches = list(distinct_batches(50_000, 5_000, text))
    tasks = [[*batches, batches[0]], [batches[3]]]
    setup = Setup(partitions=2, memory=300_000, probe_rows=1000)
    table, metrics = run_phases([key], [COUNT, SUM], tasks, setup, spill_root=tmp_path)
    assert table.num_rows == 50_000
    assert sum(table.column("count#1").to_pylist()) == 60_000
    twice = set(batches[0]["x"].to_pylist() + batches[3]["x"].to_pylist())
    sums = dict(zip(map(int, table.column("k").to_pylist()), table.column("sum#2").to_pylist(), strict=True))
    assert sums == {number: number * (2 if number in twice else 1) for number in range(50_000)}
    assert metrics.get("spill_count") > 0
    assert metrics.get("spilled_bytes") > 50_000
    assert list(tmp_path.iterdir()) == []


def test_cuts_that_are_still_too_large_are_cut_again(tmp_path: Path) -> None:
    batches = list(distinct_batches(50_000, 5_000))
    setup = Setup(partitions=1, memory=40_000, probe_rows=1000)
    table, metrics = run_phases([KEY], [COUNT], [batches], setup, spill_root=tmp_path)
    assert table.num_rows == 50_000
    assert metrics.get("spill_count") > 16
    assert list(tmp_path.iterdir()) == []


def test_hot_key_is_merged_instead_of_spilled() -> None:
    rows = pa.array(np.zeros(50_000, np.int64))
    batch = pa.RecordBatch.from_arrays([rows, rows], names=["k", "x"])
    setup = Setup(partitions=2, memory=200_000, probe_rows=1, batch_rows=1000)
    table, metrics = run_phases([KEY], [COUNT, SUM], [[batch] * 4], setup)
    assert table.to_pylist() == [{"k": 0, "count#1": 200_000, "sum#2": 0}]
    assert metrics.get("spill_count") == 0


def test_first_phase_emits_early_when_groups_do_not_fit() -> None:
    batches = [pa.RecordBatch.from_arrays([pa.array(np.arange(5_000) // 4)] * 2, names=["k", "x"])] * 6
    setup = Setup(memory=30_000, batch_rows=5_000)
    table, metrics = run_phases([KEY], [COUNT], [batches], setup)
    assert metrics.get("early_emits") > 0
    assert table.num_rows == 1_250
    assert set(table.column("count#1").to_pylist()) == {24}


def test_first_phase_stops_grouping_where_it_does_not_reduce() -> None:
    batches = list(distinct_batches(400_000, 50_000))
    _, metrics = run_phases([KEY], [COUNT], [batches], Setup())
    assert metrics.get("partial_aggregation_skipped") >= 350_000
    assert metrics.get("partial_output_rows") == 400_000


def test_first_phase_goes_on_where_it_reduces() -> None:
    batches = [pa.RecordBatch.from_arrays([pa.array(np.arange(50_000) % 100)] * 2, names=["k", "x"])] * 8
    _, metrics = run_phases([KEY], [COUNT], [batches], Setup())
    assert metrics.get("partial_aggregation_skipped") == 0
    assert metrics.get("partial_aggregations_given_up") == 0
    assert metrics.get("partial_output_rows") == 100


def test_sorted_input_is_reduced_although_groups_are_many() -> None:
    keys = np.repeat(np.arange(100_000), 5)
    batches = [pa.RecordBatch.from_arrays([pa.array(part)] * 2, names=["k", "x"]) for part in np.split(keys, 10)]
    _, metrics = run_phases([KEY], [COUNT], [batches], Setup())
    assert metrics.get("partial_output_rows") < 110_000


def test_reduction_that_sets_in_late_is_noticed() -> None:
    late = pa.RecordBatch.from_arrays([pa.array(np.arange(50_000) % 10)] * 2, names=["k", "x"])
    batches = [*distinct_batches(100_000, 50_000), *[late] * 12]
    _, metrics = run_phases([KEY], [COUNT], [batches], Setup(probe_rows=10_000))
    assert metrics.get("partial_output_rows") < 300_000


def test_tasks_tell_each_other_that_grouping_does_not_reduce() -> None:
    """The second task gives up after an eighth of the first one's probe; the third one sees that its own rows do
    reduce."""
    distinct = list(distinct_batches(100_000, 50_000))
    few = pa.RecordBatch.from_arrays([pa.array(np.arange(50_000) % 10)] * 2, names=["k", "x"])
    _, alone = run_phases([KEY], [COUNT], [distinct], Setup(probe_rows=16_000))
    _, metrics = run_phases([KEY], [COUNT], [distinct, distinct, [few] * 2], Setup(probe_rows=16_000))
    assert alone.get("partial_aggregation_skipped") == 100_000
    assert alone.get("partial_aggregations_given_up") == 1
    assert metrics.get("partial_aggregation_skipped") == 200_000
    assert metrics.get("partial_aggregations_given_up") == 2
    assert metrics.get("partial_output_rows") == 200_010


def test_a_hint_makes_the_probe_short() -> None:
    hints: set[str] = set()
    first = SkipProbe(DRIVER, hints)
    first.grouped(DRIVER.skip_probe_rows - 1, DRIVER.skip_probe_rows - 1, cheap=False)
    assert not first.skipping
    first.grouped(1, 1, cheap=False)
    assert first.skipping
    second = SkipProbe(DRIVER, hints)
    assert second.probing
    second.grouped(DRIVER.hinted_probe_rows, DRIVER.hinted_probe_rows, cheap=False)
    assert second.skipping
    third = SkipProbe(DRIVER, hints)
    third.grouped(DRIVER.hinted_probe_rows, 10, cheap=False)
    assert not third.skipping
    assert third.window == DRIVER.skip_probe_rows


def test_ungrouped_rows_are_combined_before_a_real_exchange() -> None:
    """Each batch alone does not reduce, all of a task's rows together do."""
    batches = [*distinct_batches(300_000, 50_000)] * 4
    _, metrics = run_phases([KEY], [COUNT], [batches], Setup(in_process=False))
    assert metrics.get("partial_aggregation_skipped") > 1_000_000
    assert metrics.get("partial_output_rows") == 300_000


def test_cancelled_task_stops_and_cleans_up(tmp_path: Path) -> None:
    phases = aggregate_phases((KEY,), (COUNT,), 1, DRIVER, in_process=True)
    context = TaskContext(memory=MemoryBudget(100_000), scratch_folder=ScratchFolder(str(tmp_path)))
    partial = list(phases[0].operator.run(distinct_batches(50_000, 5_000), TaskContext()))

    def states() -> Iterator[pa.RecordBatch]:
        for batch in partial:
            for start in range(0, batch.num_rows, 2_000):
                yield batch.slice(start, 2_000)
            context.cancelled.set()

    with pytest.raises(TaskCancelled):
        list(phases[1].operator.run(states(), context))
    context.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("distinct", [1_000_000, 5_000])
def test_long_strings_are_copied_a_few_at_a_time_before_an_exchange(distinct: int) -> None:
    """Of 180 MB of strings, what numpy holds, all copies among it, takes less than half of the budget."""
    key, limit, batch_rows = NamedExpr("k", Column("k", pa.string())), 16 << 20, 10_000
    setup = Setup(partitions=4, in_process=False, memory=limit, batch_rows=batch_rows, probe_rows=1000)
    partial = aggregate_phases((key,), (SUM,), 4, setup.costs, in_process=False)[0]

    def rows_sent(rows: int) -> int:
        assert partial.partitioner is not None
        context = TaskContext(memory=MemoryBudget(limit))
        batches = (
            pa.record_batch({"k": pc.utf8_lpad(numbers.cast(pa.string()), 180, "0"), "x": numbers})
            for start in range(0, rows, batch_rows)
            for numbers in [pa.array(np.arange(start, start + batch_rows) % distinct)]
        )
        sent = partial.partitioner.split(partial.operator.run(batches, context), context)
        return sum(batch.num_rows for _, batch in sent)

    rows_sent(2 * batch_rows)  # compiles the kernels
    tracemalloc.start()
    try:
        assert rows_sent(1_000_000) >= distinct
        assert tracemalloc.get_traced_memory()[1] < limit // 2
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_twenty_million_keys_in_256_megabytes(tmp_path: Path) -> None:
    """More groups than memory: the final aggregation finishes within its budget, and every key is there once."""
    keys, parts = 20_000_000, 2
    setup = Setup(partitions=parts, memory=256 << 20)
    tasks = [
        [pa.RecordBatch.from_arrays([pa.array(numbers), pa.array(numbers)], names=["k", "x"]) for numbers in half]
        for half in np.array_split(np.random.default_rng(9).permutation(keys).reshape(100, -1), 2)
    ]
    table, metrics = run_phases([KEY], [COUNT, SUM], tasks, setup, spill_root=tmp_path)
    assert table.num_rows == keys
    found = table.column("k").to_numpy()
    assert np.array_equal(np.sort(found), np.arange(keys))
    assert np.array_equal(found, table.column("sum#2").to_numpy())
    assert set(np.unique(table.column("count#1").to_numpy())) == {1}
    assert metrics.get("spill_count") > 0
    assert metrics.get("peak_memory_bytes") <= 256 << 20
    assert list(tmp_path.iterdir()) == []
