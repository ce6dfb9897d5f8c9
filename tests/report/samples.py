"""Runs as the runtimes would leave them, for tests of the report: one of each shape, one that stayed on Spark."""

from __future__ import annotations

from datetime import datetime, timedelta

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
from sundog.runtime.flow import StageRecord
from sundog.support import Code, Reason

START = datetime(2026, 3, 1)


def topk_details(row_groups: int = 20, file_suffix: str = "") -> TopKDetails:
    """Newest first: a tenth is pruned by statistics, three are read, the rest falls to the threshold. One has no bounds."""
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
        plan="LateMaterialize: columns=[user_id#2]\n"
        "  TopK: fetch=10, order=[event_time#1 DESC NULLS LAST]\n"
        "    ParquetScan: events, files=5, columns=[event_time#1], dynamic_rg_pruning=eligible",
        stages=[StageRecord("TopKScan", 2, 0.03), StageRecord("LateMaterialize: columns=[user_id#2]", 1, 0.01)],
        details={"topk": details or topk_details()},
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
        plan="HaloDrop\n  Window: [sum(amount#3)]\n    Sort: [event_time#1 ASC]\n"
        "      RangeRepartition: order=[event_time#1 ASC]\n        ParquetScan: events, files=5, columns=[event_time#1]",
        stages=[StageRecord("RangeRepartition: order=[event_time#1 ASC]", 4, 1.1), StageRecord("Window", 4, 0.5)],
        details={"window": details},
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
    details = AggregateDetails.from_metrics("user_id, phrase", metrics, (400_000, 380_000, 370_000, 370_000))
    return Run(
        action="collect",
        accelerated=True,
        reasons=[Reason(Code.UNKNOWN_NODE, "Spark sorts the result itself", "Sort")],
        placement="executors",
        seconds=2.4,
        planning_seconds=0.04,
        metrics=metrics,
        plan="Aggregate: mode=final, keys=[user_id#2]\n  HashExchange: keys=[user_id#2]\n"
        "    Aggregate: mode=partial, keys=[user_id#2], aggregates=[count(*) AS n#5]\n"
        "      ParquetScan: events, files=5, columns=[user_id#2]",
        stages=[StageRecord("ParquetScan", 4, 1.3), StageRecord("HashExchange: keys=[user_id#2]", 4, 0.9)],
        details={"aggregate": details},
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
