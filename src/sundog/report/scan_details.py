"""A scan that the keys of joins pruned, for the report: each row group on the axis of the key, with its outcome."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sundog.expr.dynamic_filters.contract import DynamicFilter
from sundog.expr.printing import render
from sundog.metrics import Metrics
from sundog.operators.scan.table_scan import TableScan
from sundog.parquet.meta.bounds import expression_bounds
from sundog.parquet.prune.access_plan import ParquetAccessPlan
from sundog.plan.lower.scan import FilteredScanNote
from sundog.plan.records import StageRecord
from sundog.plan.stages import Parts, StageGraph
from sundog.report.details import KeyAxis, RowGroupMark, RowGroupState, ScanDetails
from sundog.report.topk_details import key_values


def details_of_scan(note: FilteredScanNote, graph: StageGraph, records: Sequence[StageRecord]) -> list[ScanDetails]:
    """One record, or none if the scan did not run."""
    metrics = _counted(note, graph, records)
    if metrics is None:
        return []
    access, scan = note.access, note.scan
    known = [each for each in scan.filters if each.generation]
    drawn = max(known, key=lambda each: _ruled_out(access, each))
    bounds = expression_bounds(drawn.expr, access.statistics)
    values = key_values([*bounds.low, *bounds.high], bounds.dtype)
    axis = KeyAxis(values)
    states = _states(access, asked_in_tasks=metrics.get("row_groups_pruned_bloom_filter") > 0)
    files, groups = access.statistics.file_of, access.row_groups(np.arange(len(states)))
    marks = [
        RowGroupMark(
            access.files[int(files[slot])].path.rsplit("/", 1)[-1],
            int(groups[slot]),
            int(access.statistics.rows[slot]),
            state,
            axis.point(values[slot]),
            axis.point(values[len(states) + slot]),
        )
        for slot, state in enumerate(states)
    ]
    filters = tuple(f"{render(each.expr)} ({each.keys.count:,} keys)" for each in known if each.keys is not None)
    pages, rows = (int(metrics.get(name)) for name in ("pages_pruned_join_filter", "rows_pruned_join_filter"))
    return [ScanDetails(scan.table.label, render(drawn.expr), filters, axis.scale, tuple(marks), pages, rows)]


def _ruled_out(access: ParquetAccessPlan, each: DynamicFilter) -> int:
    return int(np.count_nonzero(~each.may_hold(expression_bounds(each.expr, access.statistics))))


def _states(access: ParquetAccessPlan, asked_in_tasks: bool) -> list[RowGroupState]:
    """`asked_in_tasks`: tasks asked Bloom filters about what is left, and only they know which they skipped."""
    states = [RowGroupState.PRUNED_STATISTICS] * len(access.verdicts)
    for slot in access.left.tolist():
        states[slot] = RowGroupState.HANDED_OUT if asked_in_tasks else RowGroupState.READ
    for slot in access.pruned_by_filters.slots.tolist():
        states[slot] = RowGroupState.PRUNED_JOIN_FILTER
    return states


def _counted(note: FilteredScanNote, graph: StageGraph, records: Sequence[StageRecord]) -> Metrics | None:
    """What the tasks of the scan counted; None if they did not run."""
    by_number = {record.number: record for record in records}
    for stage in graph.stages:
        record = by_number.get(stage.number)
        for number, each in enumerate(stage.inputs):
            for step, read in enumerate(each.steps if isinstance(each, Parts) else ()):
                if record is not None and isinstance(read, TableScan) and read.table is note.access.scanned:
                    counts = record.inputs.get(number, record.operators[0])
                    return counts.inner(step).metrics if step else counts.metrics
    return None
