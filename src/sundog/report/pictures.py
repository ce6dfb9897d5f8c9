"""The shapes of a run as the report draws them, from what the planner noted and the operators counted."""

from __future__ import annotations

from collections.abc import Sequence

from sundog.metrics import Metrics
from sundog.plan.lower.aggregate import AggregateNote
from sundog.plan.lower.scan import FilteredScanNote
from sundog.plan.lower.topk import TopKNote
from sundog.plan.lower.window import ExchangeNote, ReadsNote
from sundog.plan.records import StageRecord
from sundog.plan.stages import StageGraph
from sundog.report.details import AggregateDetails, ScanDetails, ShapeDetails, TopKDetails, WindowDetails
from sundog.report.scan_details import details_of_scan
from sundog.report.topk_details import details_of_search
from sundog.report.window_details import details_of_exchange, details_of_reads


def shapes_of(graph: StageGraph, records: Sequence[StageRecord]) -> list[ShapeDetails]:
    """One record for each top-k over a scan, window without PARTITION BY, GROUP BY, and scan that joins pruned."""
    found: list[ShapeDetails] = []
    for note in graph.notes:
        match note:
            case TopKDetails() | WindowDetails() | AggregateDetails() | ScanDetails():
                found.append(note)
            case TopKNote():
                found.append(details_of_search(note))
            case ExchangeNote(calls, ranges, sample):
                found.append(details_of_exchange(calls, ranges, sample))
            case ReadsNote(calls, scans):
                found.append(details_of_reads(calls, scans))
            case AggregateNote():
                found.append(_details_of_groups(note, graph, records))
            case FilteredScanNote():
                found += details_of_scan(note, graph, records)
    return found


def _details_of_groups(note: AggregateNote, graph: StageGraph, records: Sequence[StageRecord]) -> AggregateDetails:
    """What the operators of a GROUP BY counted, and the exchange behind its partial aggregation."""
    metrics = Metrics()
    by_number = {record.number: record for record in records}
    for stage in graph.stages:
        record = by_number.get(stage.number)
        for place, operator in enumerate(stage.operators, 1):
            if record is not None and any(operator is phase for phase in note.phases):
                metrics.merge(record.operators[place].metrics)
                if operator is note.phases[0]:
                    metrics.merge(record.operators[-1].metrics)

    def counted(name: str) -> int:
        return int(metrics.get(name))

    return AggregateDetails(
        keys=note.keys,
        input_rows=counted("partial_input_rows"),
        partial_rows=counted("partial_output_rows"),
        partial_skipped=counted("partial_aggregation_skipped"),
        exchange_rows=counted("exchange_rows"),
        exchange_bytes=counted("exchange_bytes"),
        groups=counted("groups"),
        spill_count=counted("spill_count"),
        spilled_bytes=counted("spilled_bytes"),
        early_emits=counted("early_emits"),
    )
