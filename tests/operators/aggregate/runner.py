"""Runs an aggregation's phases as a runtime would, in one thread; and compares results with the reference."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from sundog.expr.calls import AggregateCall, NamedExpr
from sundog.metrics import Metrics
from sundog.operators.aggregate.final_operator import BestGroups
from sundog.operators.aggregate.phases import aggregate_phases, grouped_by
from sundog.operators.context import MemoryBudget, ScratchFolder, TaskContext
from sundog.plan.costs import DRIVER, Costs
from tests.operators.aggregate.reference import OVERFLOW, Row, python_values, same_key

HUGE = 1 << 40


@dataclass(frozen=True)
class Setup:
    """How an aggregation is run. Small figures make small data take the ways of large data."""

    partitions: int = 3
    in_process: bool = True
    memory: int = HUGE
    batch_rows: int = 1 << 18
    probe_rows: int = 1 << 16
    targets: int = 64
    bucket_bytes: int = 1 << 19
    sampled_rows: int = 1 << 13
    part_rows: int = 1 << 21
    table_groups: int = 1 << 17
    shares: int = 1
    parts: int = 1

    @property
    def costs(self) -> Costs:
        return replace(
            DRIVER,
            min_batch_rows=min(DRIVER.min_batch_rows, self.batch_rows),
            max_batch_rows=self.batch_rows,
            skip_probe_rows=self.probe_rows,
            first_skip_rows=4 * self.probe_rows,
            partial_table_groups=self.table_groups,
            scatter_targets=self.targets,
            bucket_bytes=self.bucket_bytes,
            group_sample_rows=self.sampled_rows,
            rows_per_sampled_row=min(DRIVER.rows_per_sampled_row, self.sampled_rows),
            merge_part_rows=self.part_rows,
        )


USUAL = Setup()


def run_phases(
    keys: Sequence[NamedExpr],
    calls: Sequence[AggregateCall],
    tasks: Sequence[Sequence[pa.RecordBatch]],
    setup: Setup = USUAL,
    spill_root: Path | None = None,
    hidden: frozenset[str] = frozenset(),
    best: BestGroups | None = None,
) -> tuple[pa.Table, Metrics]:
    """The result of all tasks of the last phase, and what was counted."""
    metrics = Metrics()
    shares = setup.shares if grouped_by(tuple(keys), tuple(calls)) else 1
    phases = aggregate_phases(
        tuple(keys),
        tuple(calls),
        setup.partitions,
        setup.costs,
        in_process=setup.in_process,
        shares=shares,
        parts=setup.parts,
        hidden=hidden,
        best=best,
    )
    inputs_of_tasks: list[list[pa.RecordBatch]] = [list(batches) for batches in tasks]
    if shares > 1:
        inputs_of_tasks = [[batch for batches in tasks for batch in batches]] * shares
    results: list[pa.RecordBatch] = []
    for phase in phases:
        partitions = phase.partitioner.partitions if phase.partitioner else len(inputs_of_tasks)
        outputs: list[list[pa.RecordBatch]] = [[] for _ in range(partitions)]
        hints: set[str] = set()
        for number, batches in enumerate(inputs_of_tasks):
            context = TaskContext(number, memory=MemoryBudget(setup.memory), hints=hints)
            context.scratch_folder = ScratchFolder(None if spill_root is None else str(spill_root))
            try:
                made = phase.operator.run(iter(batches), context)
                if phase is phases[-1]:
                    results += list(made)
                elif phase.partitioner is None:
                    outputs[number] += list(made)
                else:
                    for target, batch in phase.partitioner.split(made, context):
                        assert batch.schema == phase.partitioner.schema
                        outputs[target].append(batch if setup.in_process else through_ipc(batch))
            finally:
                context.close()
            metrics.merge(context.metrics)
        inputs_of_tasks = outputs
    table = pa.Table.from_batches(results, phases[-1].operator.schema)
    table.validate(full=True)
    return table, metrics


def through_ipc(batch: pa.RecordBatch) -> pa.RecordBatch:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    with pa.ipc.open_stream(sink.getvalue()) as reader:
        return reader.read_next_batch()


def rows_by_key(table: pa.Table, keys: int) -> dict[Row, Row]:
    columns = [python_values(column.combine_chunks()) for column in table.columns]
    rows = {}
    for row in zip(*columns, strict=True):
        key = tuple(map(same_key, row[:keys]))
        assert key not in rows, f"the group {key} came twice"
        rows[key] = row[keys:]
    return rows


def assert_same_results(
    got: dict[Row, Row], expected: dict[Row, Row], calls: Sequence[AggregateCall], scale: float = 1.0
) -> None:
    """`scale` is the size of the summands: a sum that cancels is as exact as its summands are."""
    assert got.keys() == expected.keys()
    for key, row in expected.items():
        for call, value, wanted in zip(calls, got[key], row, strict=True):
            assert matches(value, wanted, scale), f"{call.function} of group {key}: {value!r}, expected {wanted!r}"


def matches(value: Any, wanted: Any, scale: float) -> bool:
    if isinstance(wanted, float) and value is not None:
        if math.isnan(wanted):
            return math.isnan(value)
        if value == wanted:
            return math.copysign(1, value) == math.copysign(1, wanted)
        return abs(value - wanted) <= 1e-12 * max(abs(wanted), scale)
    return bool(value == wanted and wanted != OVERFLOW)
