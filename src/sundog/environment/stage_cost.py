"""The processor time of a stage in a Python worker of each executor: its first stage, and later ones.

A small GROUP BY runs on every slot, several times. A task reports the processor time of its process since its start. At
the end of the first stage that is the cold cost, with imports and kernels; what a later stage adds is the warm cost.
Processor time, because it is the same on a busy cluster.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

import pyarrow as pa

from sundog.expr.calls import AggregateCall, NamedExpr
from sundog.expr.nodes import Column
from sundog.operators.aggregate.phases import aggregate_phases
from sundog.operators.base import Operator
from sundog.operators.context import DEFAULT_MEMORY_BYTES, TaskContext
from sundog.operators.sources import HeldBatches
from sundog.plan.costs import EXECUTORS
from sundog.plan.outputs import Gather
from sundog.plan.sites import task_limits
from sundog.plan.stages import Parts, Pipeline, Place, StageGraph
from sundog.runtime.driver import DriverRuntime
from sundog.runtime.execute import StageRunner
from sundog.runtime.spark import SparkRuntime

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RUNS = 4
_ROWS = pa.record_batch({"key": pa.array([1, 2, 1]), "value": pa.array([1.0, 2.0, 3.0])})
Clock = tuple[str, int, int, float]  # host, process that forked the worker, worker, its processor seconds so far


@dataclass(frozen=True)
class StageCost:
    """The cost on one executor, in processor seconds: medians over its workers. None: no worker has run two stages."""

    host: str
    workers: int
    cold_seconds: float
    warm_seconds: float | None


def stage_costs(spark: SparkSession) -> list[StageCost]:
    """Run the stages; the session's workers should be new."""
    runner = StageRunner(
        DriverRuntime(1, DEFAULT_MEMORY_BYTES),
        lambda records: SparkRuntime(spark, task_limits(DEFAULT_MEMORY_BYTES), records=records),
    )
    clocks: list[Clock] = []
    try:
        for _ in range(_RUNS):
            stage = StageGraph().end(_stage(spark.sparkContext.defaultParallelism), Gather())
            for batch in runner.rows(stage):
                clocks.extend(zip(*(column.to_pylist() for column in batch.columns), strict=True))
    finally:
        runner.release()
    return costs_of(clocks)


def costs_of(clocks: Iterable[Clock]) -> list[StageCost]:
    """The costs by executor, from the clocks of tasks. Workers of one executor are forked from one process."""
    executors: dict[tuple[str, int], dict[int, list[float]]] = {}
    for host, parent, worker, seconds in clocks:
        executors.setdefault((host, parent), {}).setdefault(worker, []).append(seconds)
    found = []
    for (host, _), workers in sorted(executors.items()):
        readings = [sorted(each) for each in workers.values()]
        # The second reading includes what the worker did after its first task.
        later = [after - before for each in readings for before, after in pairwise(each[1:])]
        cold = median(each[0] for each in readings)
        found.append(StageCost(host, len(workers), cold, median(later) if later else None))
    return found


def _stage(tasks: int) -> Pipeline:
    key, value = (Column(field.name, field.type) for field in _ROWS.schema)
    calls = (AggregateCall("total", "sum", (value,), pa.float64()),)
    rows = Pipeline(Place.EXECUTORS, "Measure a stage", (Parts((HeldBatches([_ROWS]),) * tasks),))
    for phase in aggregate_phases((NamedExpr("key", key),), calls, 1, EXECUTORS, in_process=True):
        rows = rows.then(phase.operator)
    return rows.then(_ReadClock())


@dataclass(frozen=True)
class _ReadClock(Operator):
    @property
    def schema(self) -> pa.Schema:
        return pa.schema([("host", pa.string()), ("parent", pa.int64()), ("worker", pa.int64()), ("cpu", pa.float64())])

    def run(self, batches: Iterator[pa.RecordBatch], context: TaskContext) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        clock: Clock = (socket.gethostname(), os.getppid(), os.getpid(), time.process_time())
        yield pa.record_batch([[each] for each in clock], schema=self.schema)

    name = "ReadClock"
