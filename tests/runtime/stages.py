"""Stages for tests of the runtimes: built by hand, run at one place."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from sundog.operators.base import Partitioner
from sundog.plan.outputs import Gather, Hold
from sundog.plan.records import StageRecords
from sundog.plan.sites import task_limits
from sundog.plan.stages import Parts, Pipeline, Place, Stage, StageGraph
from sundog.runtime.driver import DriverRuntime
from sundog.runtime.execute import StageRunner
from sundog.runtime.progress import NO_PROGRESS, ProgressSink
from sundog.runtime.spark import SparkRuntime


class Stages:
    """A graph and the runner of its stages. Without a session, on threads of the driver."""

    def __init__(self, session: Any = None, memory: int = 1 << 20, progress: ProgressSink = NO_PROGRESS) -> None:
        self.place = Place.DRIVER if session is None else Place.EXECUTORS
        self.graph = StageGraph()
        self.spark: SparkRuntime | None = None

        def executors(records: StageRecords) -> SparkRuntime:
            self.spark = SparkRuntime(session, task_limits(memory), progress=progress, records=records)
            return self.spark

        self.runner = StageRunner(DriverRuntime(2, memory, progress), executors)

    def start(self, sources: list[Any]) -> Pipeline:
        return Pipeline(self.place, "scan", (Parts(tuple(sources)),))

    def exchange(self, rows: Pipeline, partitioner: Partitioner, unsplit_rows: int = 0, readers: int = 1) -> Pipeline:
        return self.graph.exchange(rows, partitioner, "moved", unsplit_rows, readers)

    def collect(self, rows: Pipeline) -> list[pa.RecordBatch]:
        return self.runner.rows(self.graph.end(rows, Gather()))

    def partitions(self, rows: Pipeline) -> list[list[pa.RecordBatch]]:
        """The batches of each partition, as the runtime gives them."""
        stage: Stage = self.graph.end(rows, Hold())
        if self.place is Place.DRIVER:
            return self.runner._driver.gather(stage, self.runner._sources(stage))
        return self.runner._executors.gather(stage, self.runner._spark_input(stage))

    @property
    def metrics(self) -> Any:
        return self.runner.records.total()
