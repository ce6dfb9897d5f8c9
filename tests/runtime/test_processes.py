"""Several partitions in one process: which task has which, and threads between one input and one output."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sundog.expr.calls import AggregateCall, NamedExpr
from sundog.expr.nodes import Column
from sundog.operators.aggregate.phases import aggregate_phases
from sundog.operators.base import Operator, Partitioner
from sundog.operators.context import TaskCancelled, TaskContext
from sundog.operators.sources import HeldBatches
from sundog.plan.costs import EXECUTORS, Costs
from sundog.plan.sites import task_limits
from sundog.runtime.blocks import gathered_blocks
from sundog.runtime.exchange import BlockOrder, decode_block
from sundog.runtime.processes import threads
from sundog.runtime.processes.stage import ProcessFunction, partitions_of, task_of
from sundog.runtime.processes.threads import Emit, PartitionThreads
from sundog.runtime.worker_errors import ErrorChannel, unwrap_worker_error
from sundog.support import TooManyBytes
from tests.runtime.toys import FailAt, Modulo, Numbers


def row(*values: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": list(values)})


def made_by(runner: PartitionThreads[int], *arguments: Any) -> list[int]:
    return [number for batch in runner.run(*arguments) for number in batch.column(0).to_pylist()]


def passes_on(partition: int, items: Iterator[int], emit: Emit) -> None:
    for item in items:
        emit(row(item))


@given(st.integers(1, 40), st.integers(1, 200))
def test_every_partition_has_one_task(tasks: int, partitions: int) -> None:
    found = [partition for task in range(tasks) for partition in partitions_of(task, tasks, partitions)]
    assert found == list(range(partitions))
    assert all(p in partitions_of(task_of(p, tasks, partitions), tasks, partitions) for p in range(partitions))


@given(st.lists(st.integers(0, 4), max_size=60))
def test_each_item_reaches_its_partition_in_order(addresses: list[int]) -> None:
    got: dict[int, list[int]] = {partition: [] for partition in range(5)}

    def work(partition: int, items: Iterator[int], emit: Emit) -> None:
        for item in items:
            got[partition].append(item)
            emit(row(item))

    items = [(address, number) for number, address in enumerate(addresses)]
    runner = PartitionThreads(work, lambda item: 1, threading.Event())
    assert sorted(made_by(runner, range(5), items)) == list(range(len(items)))
    assert got == {p: [number for address, number in items if address == p] for p in range(5)}


@pytest.mark.parametrize("count", [1, 3, 20])
def test_partitions_without_input_run_on_so_many_threads(count: int) -> None:
    names: set[str] = set()

    def work(partition: int, items: Iterator[int], emit: Emit) -> None:
        names.add(threading.current_thread().name)
        emit(row(partition))

    runner = PartitionThreads(work, lambda item: 1, threading.Event())
    assert sorted(made_by(runner, range(8), (), count)) == list(range(8))
    assert 1 <= len(names) <= min(count, 8)


def test_full_queues_neither_lose_rows_nor_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "MAX_WAITING_BYTES", 3)
    items = [(number % 4, number) for number in range(400)]
    runner = PartitionThreads(passes_on, lambda item: 1, threading.Event())
    assert sorted(made_by(runner, range(4), items)) == list(range(400))


def test_a_partition_that_has_enough_does_not_hold_up_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "MAX_WAITING_BYTES", 3)

    def work(partition: int, items: Iterator[int], emit: Emit) -> None:
        if partition:
            passes_on(partition, items, emit)
        else:
            emit(row(next(items)))

    items = [(number % 2, number) for number in range(100)]
    runner = PartitionThreads(work, lambda item: 1, threading.Event())
    assert sorted(made_by(runner, range(2), items)) == [0, *range(1, 100, 2)]


def test_the_first_error_stops_the_others_and_is_raised() -> None:
    stopped = threading.Event()

    def work(partition: int, items: Iterator[int], emit: Emit) -> None:
        if partition == 2:
            raise ValueError("of partition 2")
        try:
            for _ in items:
                pass
        except TaskCancelled:
            stopped.set()
            raise

    def endless() -> Iterator[tuple[int, int]]:
        while True:
            yield 0, 1

    runner = PartitionThreads(work, lambda item: 1, threading.Event())
    with pytest.raises(ValueError, match="of partition 2"):
        list(runner.run(range(3), endless()))
    assert stopped.is_set()


def test_a_reader_that_stops_stops_the_threads() -> None:
    cancelled = threading.Event()
    before = threading.active_count()

    def work(partition: int, items: Iterator[int], emit: Emit) -> None:
        while True:
            emit(row(partition))

    stream = PartitionThreads(work, lambda item: 1, cancelled).run(range(3), (), 3)
    next(stream)
    stream.close()
    assert cancelled.is_set()
    assert threading.active_count() == before


def test_an_error_of_the_input_stops_the_threads() -> None:
    def broken() -> Iterator[tuple[int, int]]:
        yield 0, 1
        raise OSError("no more input")

    runner = PartitionThreads(passes_on, lambda item: 1, threading.Event())
    with pytest.raises(OSError, match="no more input"):
        list(runner.run(range(2), broken()))


class Reported:
    """Stands for an accumulator of Spark's."""

    def __init__(self) -> None:
        self.values: dict[tuple[int, int], Any] = {}

    def add(self, value: dict[tuple[int, int], Any]) -> None:
        self.values |= value


def function(
    operators: tuple[Operator, ...],
    partitioner: Partitioner | None,
    partitions: int,
    tasks: int,
    sources: list[Any] | None = None,
    memory: int = 1 << 20,
    costs: Costs = EXECUTORS,
) -> ProcessFunction:
    return ProcessFunction(
        stage=0,
        sources=None if sources is None else tuple(map(pickle.dumps, sources)),
        columns=None,
        pickled_operators=pickle.dumps(operators),
        operator_count=len(operators),
        shared=(),
        partitioner=partitioner,
        result_schema=None,
        limits=task_limits(memory, 1 << 12, costs),
        address=0,
        order=BlockOrder.ANY,
        first_source=0,
        accumulator=Reported(),
        errors=ErrorChannel.open(),
        partitions=partitions,
        tasks=tasks,
    )


def shuffled(first: ProcessFunction, last: ProcessFunction) -> Iterator[tuple[int, list[pa.RecordBatch]]]:
    """What the tasks of a second stage put out, of what those of the first send them, block by block."""
    return received((block for task in range(first.tasks) for block in read_by(first, task)), last)


def read_by(first: ProcessFunction, task: int) -> Iterator[pa.RecordBatch]:
    """What a task of a stage that reads sources puts out."""
    numbers = list(partitions_of(task, first.tasks, first.partitions))
    return first([pa.RecordBatch.from_pydict({"id": numbers})])


def received(sent: Iterable[pa.RecordBatch], last: ProcessFunction) -> Iterator[tuple[int, list[pa.RecordBatch]]]:
    """What the tasks of a stage put out of the blocks that were sent to it."""
    blocks: dict[int, list[pa.RecordBatch]] = {}
    for row_of_block in sent:
        target = task_of(row_of_block.column(0)[0].as_py(), last.tasks, last.partitions)
        blocks.setdefault(target, []).append(row_of_block)
    for task in range(last.tasks):
        yield task, list(last(blocks.get(task, [])))


def rows_of(blocks: list[pa.RecordBatch]) -> pa.Table:
    return pa.Table.from_batches([batch for row in blocks for batch in decode_block(row.column(2)[0].as_buffer())])


@given(st.integers(1, 9), st.integers(1, 20), st.integers(1, 3), st.integers(1, 3))
@settings(max_examples=25)
def test_each_row_reaches_the_process_that_has_its_partition(sources: int, targets: int, few: int, many: int) -> None:
    numbers = [Numbers(n * 100, n * 100 + 100) for n in range(sources)]
    first = function((), Modulo(targets), sources, min(few, sources), numbers)
    last = function((), None, targets, min(many, targets))
    found: list[int] = []
    for task, blocks in shuffled(first, last):
        own = [n for batch in (rows_of(blocks).to_batches() if blocks else ()) for n in batch.column(0).to_pylist()]
        assert {n % targets for n in own} <= set(partitions_of(task, last.tasks, targets))
        found += own
    assert sorted(found) == list(range(sources * 100))
    assert set(first.accumulator.values) == {(0, partition) for partition in range(sources)}
    counted = sum(values[-1][4].get("exchange_rows", 0) for values in first.accumulator.values.values())
    assert counted == sources * 100


@pytest.mark.parametrize(("sample", "travels_as"), [(64, pa.uint8()), (1 << 20, pa.int16())])
def test_the_blocks_of_a_process_are_made_by_the_costs_of_its_site(sample: int, travels_as: pa.DataType) -> None:
    costs = replace(EXECUTORS, narrow_sample_values=sample)
    first = function((), Modulo(1), 1, 1, [Numbers(1000, 1500)], costs=costs)
    (sent,) = read_by(first, 0)
    assert pa.ipc.open_stream(sent.column(2)[0].as_buffer()).schema.types == [travels_as]


def test_an_error_of_one_partition_is_the_error_of_the_task() -> None:
    failing = function((FailAt(150),), Modulo(2), 3, 1, [Numbers(n * 100, n * 100 + 100) for n in range(3)])
    with pytest.raises(RuntimeError, match="met 150"):
        list(failing([pa.RecordBatch.from_pydict({"id": [0, 1, 2]})]))


def test_partitions_of_one_process_may_put_out_so_many_bytes_together() -> None:
    endless = [Numbers(0, 10**12, 100), Numbers(0, 10**12, 100)]
    stopping, tasks = replace(function((), None, 2, 1, endless), max_bytes=100_000), [0, 1]
    blocks: list[pa.RecordBatch] = []
    with pytest.raises(RuntimeError) as stopped:
        blocks.extend(stopping([pa.RecordBatch.from_pydict({"id": tasks})]))
    assert isinstance(unwrap_worker_error(stopped.value), TooManyBytes)
    assert sum(block.nbytes for block in blocks) < 110_000
    enough = replace(stopping, max_bytes=8 * 200, sources=tuple(pickle.dumps(Numbers(0, 100)) for _ in tasks))
    rows = gathered_blocks(enough([pa.RecordBatch.from_pydict({"id": tasks})]), 8 * 200)
    assert [sum(batch.num_rows for batch in rows[number]) for number in tasks] == [100, 100]


TOTAL = AggregateCall("total", "sum", (Column("v", pa.int64()),), pa.int64())


def keyed_rows(distinct: int) -> pa.Table:
    """Rows whose keys are in each quarter, if they are at most 700."""
    numbers = [row * 7919 % distinct for row in range(3000)]
    return pa.table({"n": numbers, "s": [f"key {number}" for number in numbers], "v": range(3000)})


def quarters(table: pa.Table) -> list[HeldBatches]:
    return [HeldBatches(table.slice(n * 750, 750).to_batches()) for n in range(4)]


def key_of(table: pa.Table, name: str) -> tuple[NamedExpr, ...]:
    return (NamedExpr(name, Column(name, table.schema.field(name).type)),)


def assert_totals(found: list[pa.Table], table: pa.Table, key: str) -> None:
    ours, theirs = pa.concat_tables(found), table.group_by(key).aggregate([("v", "sum")])
    totals = dict(zip(ours[key].to_pylist(), ours["total"].to_pylist(), strict=True))
    assert len(totals) == ours.num_rows, "a group is there once"
    assert totals == dict(zip(theirs[key].to_pylist(), theirs["v_sum"].to_pylist(), strict=True))


@given(st.integers(1, 2000), st.sampled_from([1 << 12, 1 << 20]), st.sampled_from(["n", "s"]))
@settings(max_examples=20)
def test_groups_of_one_process_are_merged_before_they_leave_it(distinct: int, memory: int, key: str) -> None:
    """With little memory they leave it sooner, and are merged by the final aggregation."""
    table = keyed_rows(distinct)
    partial, final = aggregate_phases(key_of(table, key), (TOTAL,), 5, EXECUTORS, in_process=False, merged=True)
    first = function((partial.operator,), partial.partitioner, 4, 2, quarters(table), memory)
    last = function((final.operator,), None, 5, 2)
    assert_totals([rows_of(blocks) for _, blocks in shuffled(first, last) if blocks], table, key)
    outputs = [values[-1] for values in first.accumulator.values.values()]
    sent = sum(metrics.get("exchange_rows", 0) for _, _, _, _, metrics, _ in outputs)
    assert sum(rows for rows, *_ in outputs) == sent
    assert sum(seconds for _, _, _, seconds, *_ in outputs) > 0
    if memory > 1 << 12 and distinct <= 700:
        assert sent == 2 * distinct, "each of two processes sends a group once"


def test_strings_that_groups_of_several_targets_point_into_count_once() -> None:
    """Two quarters have 660 KB of strings. They would exceed 1 MiB if each of five targets counted all of a quarter."""
    table = keyed_rows(700)
    table = table.set_column(1, "s", pc.utf8_lpad(table["s"], 440))
    partial, _ = aggregate_phases(key_of(table, "s"), (TOTAL,), 5, EXECUTORS, in_process=False, merged=True)
    first = function((partial.operator,), partial.partitioner, 4, 2, quarters(table), 1 << 20)
    for task in range(2):
        for _ in read_by(first, task):
            pass
    sent = [values[-1][4].get("exchange_rows", 0) for values in first.accumulator.values.values()]
    assert sum(sent) == 2 * 700, "each of two processes sends a group once"


@given(st.integers(1, 2000), st.sampled_from(["n", "s"]))
@settings(max_examples=20)
def test_gathered_groups_of_one_process_are_merged_before_they_leave_it(distinct: int, key: str) -> None:
    table = keyed_rows(distinct)
    partial, final = aggregate_phases(key_of(table, key), (TOTAL,), 5, EXECUTORS, in_process=False, merged=True)
    assert partial.partitioner is not None
    first = function((partial.operator,), partial.partitioner.for_driver(3), 4, 2, quarters(table), 1 << 20)
    gathered: list[pa.RecordBatch] = []
    for task in range(2):
        for batches in gathered_blocks(read_by(first, task), None).values():
            gathered += batches
    assert_totals([pa.Table.from_batches(final.operator.run(iter(gathered), TaskContext()))], table, key)
    outputs = [values[-1] for values in first.accumulator.values.values()]
    assert sum(rows for rows, *_ in outputs) == sum(batch.num_rows for batch in gathered)
    assert not any("exchange_rows" in metrics for _, _, _, _, metrics, _ in outputs), "the driver is no task"
    if distinct <= 700:
        assert sum(batch.num_rows for batch in gathered) == 2 * distinct


@given(st.integers(1, 40), st.integers(1, 500))
@settings(max_examples=20)
def test_counts_of_distinct_values_of_one_process_are_merged_before_they_leave_it(groups: int, distinct: int) -> None:
    table = keyed_rows(distinct)
    table = table.append_column("g", pa.array([n % groups for n in table["n"].to_pylist()]))
    count = AggregateCall("c", "count", (Column("s", pa.string()),), pa.int64(), distinct=True)
    partial, middle, final = aggregate_phases(
        key_of(table, "g"), (count, TOTAL), 6, EXECUTORS, in_process=False, merged=True, merged_again=True
    )
    first = function((partial.operator,), partial.partitioner, 4, 2, quarters(table), 1 << 20)
    second = function((middle.operator,), middle.partitioner, 6, 2, None, 1 << 20)
    sent = [block for _, blocks in shuffled(first, second) for block in blocks]
    last = function((final.operator,), None, 6, 2)
    tables = [rows_of(blocks) for _, blocks in received(sent, last) if blocks]
    assert_totals(tables, table, "g")
    found = pa.concat_tables(tables)
    expected = table.group_by("g").aggregate([("s", "count_distinct")]).to_pydict()
    assert dict(zip(found["g"].to_pylist(), found["c"].to_pylist(), strict=True)) == dict(
        zip(expected["g"], expected["s_count_distinct"], strict=True)
    )
    rows = sum(values[-1][4].get("exchange_rows", 0) for values in second.accumulator.values.values())
    assert rows <= 2 * min(groups, distinct), "each of two processes sends a group once"
