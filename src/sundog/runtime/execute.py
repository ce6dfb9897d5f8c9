"""Runs a physical plan: chooses the place, builds the flow node by node, and keeps the books.

The place is chosen from what pruning leaves: the columns that must be decoded, in uncompressed bytes. Little work stays
on the driver, where it costs no Spark job; much goes to the executors. Either way the operators are the same.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from time import perf_counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sundog.config import Settings
from sundog.errors import InternalError
from sundog.metrics import Metrics
from sundog.operators.limit import LimitOperator
from sundog.operators.scan import scan_tasks
from sundog.operators.topk import TopKOperator
from sundog.parquet.access_plan import ParquetAccessPlan, plan_access
from sundog.plan.logical import Scan
from sundog.plan.physical import (
    Apply,
    ForeignScan,
    LimitAny,
    ParquetScan,
    PhysicalPlan,
    TopKMerge,
    TopKScan,
)
from sundog.runtime.driver import DriverRuntime
from sundog.runtime.flow import Flow, Runtime, StageRecord
from sundog.runtime.spark import SparkRuntime, frame_from_batches
from sundog.runtime.task import BatchSource
from sundog.tree import walk

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

TASKS_PER_SLOT = 4  # small tasks even out; a task costs the driver 0.1 ms and Spark some 5 ms


class Execution:
    """One part of a query while it runs. `batches` and `to_dataframe` are the two ways to take its result."""

    def __init__(self, session: SparkSession, runtime: Runtime, flow: Flow, planning_seconds: float) -> None:
        self.placement = runtime.name
        self.planning_seconds = planning_seconds
        self._session = session
        self._runtime = runtime
        self._flow = flow
        self._lazy_since: float | None = None

    @property
    def metrics(self) -> Metrics:
        return self._runtime.metrics

    @property
    def stages(self) -> list[StageRecord]:
        return self._runtime.stages

    def batches(self) -> list[pa.RecordBatch]:
        """Run it, and bring all rows to the driver."""
        result = self._flow.collect()
        self.metrics.add("output_rows", sum(batch.num_rows for batch in result))
        return result

    def to_dataframe(self, schema: StructType) -> DataFrame:
        """The result as a Spark DataFrame with `schema`: lazy where it comes from executors."""
        lazy = self._flow.to_dataframe(schema)
        if lazy is not None:
            self._lazy_since = perf_counter()
            return lazy
        return frame_from_batches(self._session, self.batches(), schema)

    def finish(self) -> None:
        """After the action: take over the metrics of what Spark ran lazily."""
        if self._lazy_since is not None and isinstance(self._runtime, SparkRuntime):
            self._runtime.drain_metrics(perf_counter() - self._lazy_since)


def execute(
    plan: PhysicalPlan,
    session: SparkSession,
    settings: Settings,
    foreign: Mapping[int, DataFrame],
    executors_unusable: str | None,
    details: dict[str, Any],
) -> Execution:
    """Plan the access, choose the place, and build the flow; driver parts of it may run at once.

    Raises FileProblem and FileSchemaProblem for files that only Spark can judge: the query is then Spark's.
    """
    started = perf_counter()
    access = _plan_access(plan)
    runtime = _choose_runtime(plan, access, session, settings, executors_unusable)
    if access is not None:
        access.count(runtime.metrics)
    planning_seconds = perf_counter() - started
    builder = _Builder(runtime, access, foreign, details)
    return Execution(session, runtime, builder.flow(plan), planning_seconds)


def _plan_access(plan: PhysicalPlan) -> ParquetAccessPlan | None:
    scans: list[Scan] = [node.scan for node in walk(plan) if isinstance(node, ParquetScan | TopKScan)]
    if len(scans) > 1:
        raise InternalError("a plan has one leaf")
    return plan_access(scans[0].relation, scans[0].columns, scans[0].predicate) if scans else None


def _choose_runtime(
    plan: PhysicalPlan,
    access: ParquetAccessPlan | None,
    session: SparkSession,
    settings: Settings,
    executors_unusable: str | None,
) -> Runtime:
    """`auto`: the driver for what fits it, the executors for the rest and for rows that are theirs already."""
    wish = settings.placement
    if wish == "auto":
        fits = access is not None and access.column_bytes() <= settings.driver_max_bytes
        wish = "driver" if fits or executors_unusable else "executors"
    if wish == "driver" and access is not None:
        return DriverRuntime(os.cpu_count() or 1, settings.task_memory_bytes)
    return SparkRuntime(session, settings.task_memory_bytes, settings.exchange_block_bytes)


class _Builder:
    """Turns nodes into flows, bottom up."""

    def __init__(
        self,
        runtime: Runtime,
        access: ParquetAccessPlan | None,
        foreign: Mapping[int, DataFrame],
        details: dict[str, Any],
    ) -> None:
        self._runtime = runtime
        self._access = access
        self._foreign = foreign
        self._details = details

    def flow(self, plan: PhysicalPlan) -> Flow:
        match plan:
            case ParquetScan():
                return self._scan(plan)
            case ForeignScan():
                return self._foreign_scan(plan)
            case Apply():
                return self.flow(plan.child).then(plan.operator)
            case TopKScan():
                return self._topk_scan(plan)
            case TopKMerge():
                best = TopKOperator(plan.schema, plan.order, plan.limit + plan.offset)
                final = TopKOperator(plan.schema, plan.order, plan.limit, plan.offset)
                return self.flow(plan.child).then(best).gather().then(final)
            case LimitAny():
                enough = LimitOperator(plan.schema, plan.limit + plan.offset)
                final_limit = LimitOperator(plan.schema, plan.limit, plan.offset)
                return self.flow(plan.child).then(enough).gather().then(final_limit)
            case _:
                raise InternalError(f"nothing runs a {type(plan).__name__}")

    def _scan(self, plan: ParquetScan) -> Flow:
        assert self._access is not None
        tasks = scan_tasks(self._access, self._runtime.parallelism * TASKS_PER_SLOT)
        if not tasks:
            return self._runtime.start([BatchSource([])], "Scan")
        return self._runtime.start(tasks, "Scan")

    def _foreign_scan(self, plan: ForeignScan) -> Flow:
        if not isinstance(self._runtime, SparkRuntime):
            raise InternalError("rows of a Spark plan are with the executors")
        return self._runtime.start_frame(self._foreign[plan.foreign.handle], plan.schema, "SparkInput")

    def _topk_scan(self, plan: TopKScan) -> Flow:
        best = TopKOperator(plan.schema, plan.order, plan.limit + plan.offset)
        final = TopKOperator(plan.schema, plan.order, plan.limit, plan.offset)
        return self._scan(ParquetScan(plan.scan)).then(best).gather().then(final)
