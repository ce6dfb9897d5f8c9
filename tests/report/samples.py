"""Runs as the runtimes would leave them, for tests of the report: one of each shape, one that stayed on Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from sundog.expr.nodes import Column
from sundog.expr.ordering import SortKey
from sundog.metrics import OperatorCounts
from sundog.operators.aggregate.final_operator import FinalAggregate
from sundog.operators.base import Described, Operator
from sundog.operators.context import TaskContext
from sundog.operators.scan.table_scan import TableScan
from sundog.operators.sources import Source
from sundog.operators.topk.row_group_search import BestOfScan
from sundog.operators.window.ranges.halo import HaloDrop
from sundog.operators.window.window_operator import WindowOperator
from sundog.parquet.prune.access_plan import ScannedTable
from sundog.plan.costs import DRIVER
from sundog.plan.outputs import Result
from sundog.plan.records import StageRecord
from sundog.plan.stages import Parts, Pipeline, Place, StageGraph
from sundog.report.details import (
    AggregateDetails,
    KeyAxis,
    RangeMark,
    RowGroupMark,
    RowGroupState,
    ThresholdStep,
    TopKDetails,
    WindowDetails,
)
from sundog.run import Run
from sundog.support import Code, Reason

START = datetime(2026, 3, 1)
TIME = Column("event_time#1", pa.int64())


@dataclass(frozen=True)
class Text(Described):
    """A step that has nothing but its line in explain."""

    kind: str
    text: str
    counted: Mapping[str, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.kind

    @property
    def details(self) -> str:
        return self.text

    @property
    def planned_metrics(self) -> Mapping[str, float]:
        return self.counted


@dataclass(frozen=True)
class Steps(Source):
    """A source that is only described."""

    taken: tuple[Described, ...]

    @property
    def steps(self) -> tuple[Described, ...]:
        return self.taken

    def read(self, context: TaskContext) -> Iterator[pa.RecordBatch]:
        raise AssertionError("nobody runs it")


def graph_of(steps: Sequence[Described], note: Any) -> StageGraph:
    """One stage of these steps, the last first, the input at the end; with what the planner noted."""
    graph = StageGraph(notes=[note])
    operators = tuple(step for step in reversed(steps) if isinstance(step, Operator))
    reads = tuple(step for step in steps if not isinstance(step, Operator))
    graph.end(Pipeline(Place.DRIVER, "Scan", (Parts((Steps(reads),)),), operators), Result())
    return graph


def record(
    number: int,
    purpose: str,
    tasks: int,
    seconds: float,
    *counted: Mapping[str, float],
    below: Mapping[str, float] = MappingProxyType({}),
) -> StageRecord:
    """A stage that ran: what its input, its operators and its output counted; `below`: the input's second step."""
    operators = []
    for metrics in counted:
        counts = OperatorCounts()
        counts.metrics.merge(metrics)
        operators.append(counts)
    if below:
        operators[0].inner(1).metrics.merge(below)
    return StageRecord(number, purpose, "driver", tasks, seconds, operators)


def topk_details(row_groups: int = 20, file_suffix: str = "") -> TopKDetails:
    """Newest first: a tenth is pruned by statistics, three are read, the rest falls to the threshold. One has no
    bounds."""
    lows = [START + timedelta(hours=3 * index) for index in range(row_groups)]
    highs = [low + timedelta(hours=4) for low in lows]
    axis = KeyAxis([*lows, *highs])
    queue = list(reversed(range(row_groups)))
    pruned = row_groups // 10
    marks = []
    for number, group in enumerate(queue):
        state = RowGroupState.PRUNED_DYNAMIC
        if number < pruned:
            state = RowGroupState.PRUNED_STATISTICS
        elif number < pruned + 3:
            state = RowGroupState.READ
        elif number == row_groups - 2:
            state = RowGroupState.PRUNED_INITIAL_THRESHOLD
        elif number == row_groups - 1:
            state = RowGroupState.NEVER_REACHED
        has_bounds = number != pruned + 2
        marks.append(
            RowGroupMark(
                file=f"part-{group // 4:05d}{file_suffix}.parquet",
                row_group=group % 4,
                rows=1000,
                state=state,
                low=axis.point(lows[group]) if has_bounds else None,
                high=axis.point(highs[group]) if has_bounds else None,
            )
        )
    best = highs[queue[pruned]]
    steps = []
    for offset, hours in enumerate((5, 3, 1)):
        point = axis.point(best - timedelta(hours=hours))
        assert point is not None
        steps.append(ThresholdStep(pruned + 1 + offset, point))
    return TopKDetails("event_time DESC NULLS LAST", 10, True, axis.scale, tuple(marks), tuple(steps))


def topk_run(details: TopKDetails | None = None) -> Run:
    return Run(
        action="toArrow",
        accelerated=True,
        placement="driver",
        seconds=0.08,
        planning_seconds=0.03,
        metrics={
            "row_groups_total": 20,
            "row_groups_scanned": 3,
            "row_groups_pruned_statistics": 2,
            "row_groups_pruned_dynamic_filter": 13,
            "input_rows": 3000,
            "bytes_scanned": 5_000_000,
            "topk_rounds": 1,
            "compute_seconds": 0.02,
        },
        graphs=[
            graph_of(
                [
                    BestOfScan((SortKey(TIME, True, False),), 10, counted={"topk_rounds": 1}),
                    TableScan(
                        ScannedTable("events", 1),
                        (),
                        dynamic=True,
                        counted={"row_groups_total": 20, "row_groups_pruned_statistics": 2},
                    ),
                ],
                details or topk_details(),
            )
        ],
        stages=[
            [
                record(0, "TopK search", 2, 0.03, {}, {}, below={"bytes_scanned": 5_000_000}),
                record(1, "Materialize", 1, 0.01, {}, {}),
            ]
        ],
    )


def window_run() -> Run:
    hours = (0, 4, 7, 12, 20)
    cuts = [START + timedelta(hours=hour) for hour in hours]
    axis = KeyAxis(cuts)
    ranges = tuple(
        RangeMark(
            rows=10_000 + 1000 * index,
            low=axis.point(cuts[index]),
            high=axis.point(cuts[index + 1]),
            halo_low=axis.point(cuts[index] - timedelta(seconds=10)) if index else None,
            halo_rows=12 if index else 0,
            seconds=0.1,
        )
        for index in range(len(cuts) - 1)
    )
    details = WindowDetails(
        order="event_time ASC",
        frames=("sum(amount) RANGE BETWEEN 10 SECOND PRECEDING AND CURRENT ROW",),
        scale=axis.scale,
        ranges=ranges,
        cut_by="row-group statistics",
        moved_by="reading them straight from the files",
    )
    return Run(
        action="toArrow",
        accelerated=True,
        placement="executors",
        seconds=1.9,
        planning_seconds=0.05,
        metrics={"input_rows": 46_000, "output_rows": 46_000, "ranges": 4, "halo_rows": 36, "rows_routed": 46_036},
        graphs=[
            graph_of(
                [
                    HaloDrop(pa.schema([])),
                    WindowOperator(pa.schema([]), (), (), ()),
                    Text("RangeRepartition", "order=[event_time#1 ASC]"),
                    Text("ParquetScan", "events, files=5, columns=[event_time#1]"),
                ],
                details,
            )
        ],
        stages=[[record(0, "Scan", 4, 1.1, {}, {}, {}, {}), record(1, "Window", 4, 0.5, {}, {})]],
    )


def aggregate_run() -> Run:
    metrics: dict[str, float] = {
        "input_rows": 5_000_000,
        "partial_input_rows": 5_000_000,
        "partial_output_rows": 4_300_000,
        "partial_aggregation_skipped": 1_200_000,
        "exchange_rows": 4_300_000,
        "exchange_bytes": 88_000_000,
        "groups": 1_520_000,
        "spill_count": 3,
        "spilled_bytes": 120_000_000,
    }
    details = AggregateDetails(
        keys="user_id, phrase",
        input_rows=5_000_000,
        partial_rows=4_300_000,
        partial_skipped=1_200_000,
        exchange_rows=4_300_000,
        exchange_bytes=88_000_000,
        groups=1_520_000,
        spill_count=3,
        spilled_bytes=120_000_000,
        groups_per_partition=(400_000, 380_000, 370_000, 370_000),
    )
    return Run(
        action="collect",
        accelerated=True,
        reasons=[Reason(Code.UNKNOWN_NODE, "Spark sorts the result itself", "Sort")],
        placement="executors",
        seconds=2.4,
        planning_seconds=0.04,
        metrics=metrics,
        graphs=[
            graph_of(
                [
                    FinalAggregate((), (), DRIVER),
                    Text("HashExchange", "keys=[user_id#2]"),
                    Text("Aggregate", "mode=partial, keys=[user_id#2], aggregates=[count(*) AS n#5]"),
                    Text("ParquetScan", "events, files=5, columns=[user_id#2]"),
                ],
                details,
            )
        ],
        stages=[[record(0, "Scan", 4, 1.3, {}, {}, {}), record(1, "Merge groups", 4, 0.9, {}, {})]],
    )


def spark_run() -> Run:
    return Run(
        action="collect",
        reasons=[
            Reason(Code.COLLATION, "column name has the collation UTF8_LCASE", "Sort"),
            Reason(Code.SOURCE, "the data comes from CSV files", "LogicalRelation"),
        ],
        seconds=3.2,
        planning_seconds=0.01,
    )
