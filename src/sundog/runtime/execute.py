"""Runs a physical plan: has the open questions decided (`prepare.py`), builds the flow node by node, counts what was done."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sundog.config import Settings
from sundog.errors import InternalError
from sundog.expr.nodes import Column, columns_of
from sundog.metrics import Metrics
from sundog.operators.aggregate.phases import aggregate_phases
from sundog.operators.limit import LimitOperator
from sundog.operators.scan.scan import limit_scan, repeated_scans, scan_tasks
from sundog.operators.sort import SortOperator
from sundog.operators.topk.topk import TopKOperator
from sundog.operators.window.ranges.cuts import KeySample
from sundog.operators.window.ranges.halo import check_row_accounting
from sundog.operators.window.ranges.scans import RangeScans
from sundog.operators.window.steps import WindowSteps
from sundog.parquet.prune.access_plan import plan_access
from sundog.plan.logical import Scan
from sundog.plan.physical import (
    Apply,
    ForeignScan,
    GroupWay,
    LimitAny,
    ParallelWindow,
    ParquetScan,
    PhysicalPlan,
    RangeWay,
    SortAll,
    TopKMerge,
    TopKScan,
    TwoPhaseAggregate,
    has_one_partition,
    named_text,
    narrowed,
    scan_below,
)
from sundog.report.details import AggregateDetails
from sundog.runtime.driver import DriverRuntime
from sundog.runtime.flow import Flow, Runtime, StageRecord
from sundog.runtime.prepare import (
    Leaf,
    fewest_ranges,
    group_partitions,
    grouping_task_count,
    key_partitions,
    prepare,
    some_row_groups,
    task_count,
    waiting_parts,
    window_ranges,
)
from sundog.runtime.progress import NO_PROGRESS, ProgressSink
from sundog.runtime.spark import SparkRuntime, driver_for, frame_from_batches, on_driver
from sundog.runtime.task import BatchSource
from sundog.runtime.topk import run_topk
from sundog.runtime.window import (
    check_reach,
    sample_keys,
    window_by_key,
    window_over_exchange,
    window_over_reads,
    window_without_order,
)
from sundog.support import Code, Declined
from sundog.tree import walk
from sundog.types import is_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_SAMPLED_ROW_GROUPS = 8


class Execution:
    """One part of a query while it runs. `batches` and `to_dataframe` are the two ways to take its result."""

    def __init__(
        self, session: SparkSession, plan: PhysicalPlan, runtime: Runtime, flow: Flow, planning_seconds: float
    ) -> None:
        self.plan = plan
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
        if not self._may_stop_early:
            check_row_accounting(self.metrics)
        self.metrics.add("output_rows", sum(batch.num_rows for batch in result))
        return result

    def to_dataframe(self, schema: StructType) -> DataFrame:
        """The result as a Spark DataFrame with `schema`: lazy where it comes from executors."""
        lazy = self._flow.to_dataframe(schema)
        if lazy is not None:
            self._lazy_since = perf_counter()
            return lazy
        return frame_from_batches(self._session, self.batches(), schema, one_partition=has_one_partition(self.plan))

    def finish(self, check: bool = True) -> None:
        """After the action: take over the metrics of what Spark ran lazily. `check`: no row was lost or made up."""
        complete = False
        if self._lazy_since is not None and isinstance(self._runtime, SparkRuntime):
            complete = self._runtime.drain_metrics(perf_counter() - self._lazy_since)
        self._runtime.release()
        if check and complete and not self._may_stop_early:
            check_row_accounting(self.metrics)

    @property
    def _may_stop_early(self) -> bool:
        """Whether a limit above a window may have enough before the window has given out all its rows."""
        limits = [node for node in walk(self.plan) if isinstance(node, LimitAny)]
        return any(isinstance(node, ParallelWindow) for limit in limits for node in walk(limit))


def execute(
    plan: PhysicalPlan,
    session: SparkSession,
    settings: Settings,
    foreign: Mapping[int, DataFrame],
    executors_unusable: str | None,
    details: dict[str, Any],
    progress: ProgressSink = NO_PROGRESS,
    for_good: bool = False,
) -> Execution:
    """Plan the access, choose the place, and build the flow; driver parts of it may run at once.

    `for_good`: rows are handed out as executors make them (into a table, to a user's function), so that the query could
    not be given back to Spark in the middle. What may be found out only then declines before.

    Raises FileProblem and FileSchemaProblem for files that only Spark can judge: the query is then Spark's.
    """
    started = perf_counter()
    prepared = prepare(plan, session, settings, executors_unusable)
    prepared.runtime.progress = progress
    if for_good and prepared.leaf is not None and isinstance(prepared.runtime, SparkRuntime):
        refusable = prepared.leaf.access.refusable_file()
        if refusable is not None:
            raise Declined.because(Code.FILE_SCHEMA, f"{refusable} may hold dates or times that only Spark reads")
    if prepared.leaf is not None:
        prepared.leaf.access.count(prepared.runtime.metrics)
    planning_seconds = perf_counter() - started
    try:
        flow = _Builder(prepared.runtime, prepared.leaf, foreign, details).flow(prepared.plan)
    except BaseException:  # also where the user stops it
        prepared.runtime.release()
        raise
    return Execution(session, prepared.plan, prepared.runtime, flow, planning_seconds)


class _Builder:
    """Turns nodes into flows, bottom up."""

    def __init__(
        self,
        runtime: Runtime,
        leaf: Leaf | None,
        foreign: Mapping[int, DataFrame],
        details: dict[str, Any],
    ) -> None:
        self._runtime = runtime
        self._leaf = leaf
        self._foreign = foreign
        self._details = details

    def flow(self, plan: PhysicalPlan, again: bool = False) -> Flow:
        """`again`: its rows are read, and counted, by another flow as well."""
        match plan:
            case ParquetScan():
                return self._scan(plan.scan, again=again)
            case ForeignScan():
                return self._foreign_scan(plan)
            case Apply():
                return self.flow(plan.child, again).then(plan.operator)
            case TopKScan():
                return self._topk_scan(plan)
            case TopKMerge():
                best = TopKOperator(plan.schema, plan.order, plan.limit + plan.offset)
                final = TopKOperator(plan.schema, plan.order, plan.limit, plan.offset)
                return self.flow(plan.child).then(best).gather().then(final)
            case SortAll():
                return self.flow(plan.child).gather().then(SortOperator(plan.schema, plan.order))
            case LimitAny():
                return self._limit(plan)
            case TwoPhaseAggregate():
                return self._aggregate(plan)
            case ParallelWindow():
                return self._window(plan)
            case _:
                raise InternalError(f"nothing runs a {type(plan).__name__}")

    def _limit(self, plan: LimitAny) -> Flow:
        """One task that stops as soon as there are enough rows, where that is all there is to do."""
        wanted = plan.limit + plan.offset
        limit = LimitOperator(plan.schema, plan.limit, plan.offset)
        if isinstance(plan.child, ParquetScan) and self._leaf is not None:
            return self._runtime.start([limit_scan(self._leaf.access, wanted)], "Scan").then(limit)
        return self.flow(plan.child).then(LimitOperator(plan.schema, wanted)).gather().then(limit)

    def _scan(
        self,
        scan: Scan,
        as_stored: frozenset[str] = frozenset(),
        again: bool = False,
        times: int = 1,
        is_grouped: bool = False,
    ) -> Flow:
        """`times`: as many tasks, of which each reads everything."""
        assert self._leaf is not None
        access = self._leaf.access
        if access.columns != scan.columns:
            access = plan_access(scan.relation, scan.columns, scan.predicate)
        if times > 1:
            tasks = repeated_scans(access, times, as_stored)
        else:
            runtime = self._runtime
            count = (
                grouping_task_count(access, runtime)
                if is_grouped
                else task_count(access.column_bytes(), runtime.parallelism, runtime.scan_tasks_per_slot)
            )
            tasks = scan_tasks(access, count, as_stored, again)
        return self._runtime.start(tasks or [BatchSource([])], "Scan")

    def _topk_scan(self, plan: TopKScan) -> Flow:
        assert self._leaf is not None
        assert self._leaf.topk is not None
        rows = run_topk(self._leaf.topk, plan.limit, plan.offset, self._runtime, self._details)
        return on_driver(self._runtime, [rows] if rows.num_rows else [])

    def _aggregate(self, plan: TwoPhaseAggregate) -> Flow:
        """Partial groups per task, exchanged by the hash of their keys, so that one partition owns each group."""
        on_threads = isinstance(self._runtime, DriverRuntime)
        partitions = group_partitions(plan.keys, plan.aggregates, self._leaf, self._runtime)
        flow = self._grouping_input(plan)
        phases = aggregate_phases(
            plan.keys,
            plan.aggregates,
            partitions,
            in_process=on_threads,
            shares=plan.shares,
            parts=waiting_parts(plan.shares, self._leaf),
            hidden=plan.hidden,
            best=plan.best,
        )
        for number, phase in enumerate(phases):
            flow = flow.then(phase.operator)
            if plan.way is GroupWay.GATHER:
                flow = flow if number else flow.gather()
            elif phase.partitioner is not None:
                flow = flow.exchange(phase.partitioner)
        keys, metrics = ", ".join(named_text(key) for key in plan.keys), self._runtime.metrics
        self._details.setdefault("aggregate", []).append(lambda: AggregateDetails.from_metrics(keys, metrics.as_dict()))
        return flow

    def _window(self, plan: ParallelWindow) -> Flow:
        steps = WindowSteps(plan.child.schema, plan.calls, plan.partition_by, plan.order_by)
        if plan.partition_by:
            return self._partitioned_window(plan, steps)
        if not plan.order_by:
            return window_without_order(steps, self.flow(plan.child))
        if plan.ranges is not None and plan.way is RangeWay.READ:
            flow = self._reading_window(plan, steps, plan.ranges)
            if flow is not None:
                return flow
        keys = narrowed(plan.child, set().union(*(columns_of(key.expr) for key in plan.order_by)))
        if keys is None:
            rows = self.flow(plan.child).hold()
            sample = sample_keys(steps, rows)
        elif plan.ranges is None:
            rows = self.flow(plan.child)
            sample = sample_keys(steps, self.flow(keys, again=True))
        else:
            sample = self._sample_some(keys, steps, plan.ranges)
            if plan.way is RangeWay.SAMPLE_AND_READ:
                ranges = fewest_ranges(self._leaf, self._runtime)
                flow = self._reading_window(plan, steps, plan.ranges.cut_by(sample, steps.need.reach, ranges))
                if flow is not None:
                    return flow
            rows = self.flow(plan.child)
        ranges = window_ranges(self._leaf, self._runtime)
        return window_over_exchange(steps, rows, sample, ranges, self._runtime, self._details)

    def _partitioned_window(self, plan: ParallelWindow, steps: WindowSteps) -> Flow:
        rows = self.flow(plan.child)
        if steps.need.reach:
            keys = narrowed(plan.child, columns_of(plan.order_by[0].expr))
            rows = rows.hold() if keys is None else rows
            check_reach(steps, sample_keys(steps, rows if keys is None else self.flow(keys, again=True)))
        return window_by_key(steps, rows, key_partitions(self._leaf, self._runtime))

    def _reading_window(self, plan: ParallelWindow, steps: WindowSteps, scans: RangeScans) -> Flow | None:
        below = scan_below(plan.child)
        assert below is not None
        assert self._leaf is not None
        rows = self._runtime.start(scans.tasks(self._leaf.access), "Scan").then(*below[2])
        return window_over_reads(steps, rows, scans, self._runtime, self._details)

    def _sample_some(self, keys: PhysicalPlan, steps: WindowSteps, scans: RangeScans) -> KeySample:
        """A sample of a few row groups: where statistics know the extremes of all rows, it need not see them all."""
        sampled = max(_SAMPLED_ROW_GROUPS, 2 * window_ranges(self._leaf, self._runtime))
        some, times, projections = some_row_groups(keys, sampled)
        size = some.column_bytes()
        runtime = driver_for(self._runtime, size)
        count = task_count(size, runtime.parallelism, runtime.scan_tasks_per_slot)
        tasks = scan_tasks(some, count, again=True)
        sample = sample_keys(steps, runtime.start(tasks, "Sample").then(*projections))
        return sample.standing_for(times, scans.extremes)

    def _grouping_input(self, plan: TwoPhaseAggregate) -> Flow:
        """Strings that are only grouped by or aggregated as they are come as they are stored: nothing is copied."""
        if not isinstance(plan.child, ParquetScan):
            below = scan_below(plan.child)
            if plan.shares == 1 or below is None:
                return self.flow(plan.child)
            return self._scan(below[0], times=plan.shares).then(*below[2])
        used = [*(key.expr for key in plan.keys), *(arg for call in plan.aggregates for arg in call.args)]
        plain = {expr.name for expr in used if isinstance(expr, Column) and is_text(expr.dtype)}
        computed = [expr for expr in used if not isinstance(expr, Column)]
        computed += [call.filter for call in plan.aggregates if call.filter is not None]
        as_stored = frozenset(plain - set().union(*(columns_of(expr) for expr in computed)))
        return self._scan(plan.child.scan, as_stored, times=plan.shares, is_grouped=True)

    def _foreign_scan(self, plan: ForeignScan) -> Flow:
        if not isinstance(self._runtime, SparkRuntime):
            raise InternalError("rows of a Spark plan are with the executors")
        return self._runtime.start_frame(self._foreign[plan.foreign.handle], plan.schema, "SparkInput")
