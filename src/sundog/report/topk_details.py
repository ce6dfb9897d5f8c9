"""A finished top-k as the report draws it: every row group on the axis of the sort key, with its outcome.

Made only when a report is written: a query of a few milliseconds must not pay for a picture that is never shown. During
the search only a list of decisions is kept, one entry per row group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from sundog.expr.buffers import Indices
from sundog.expr.dynamic_filters.threshold import Threshold
from sundog.expr.printing import render_order
from sundog.expr.ranks import Rank, array_of_ranks
from sundog.operators.topk.topk_plan import TopKPlan
from sundog.operators.topk.topk_scan import TopKSearch
from sundog.parquet.meta.bounds import expression_bounds
from sundog.parquet.prune.pruning import Verdict
from sundog.parquet.prune.row_group_pruner import Candidate
from sundog.parquet.prune.row_group_queue import RowGroupQueue
from sundog.plan.lower.topk import TopKNote
from sundog.report.details import KeyAxis, RowGroupMark, RowGroupState, ThresholdStep, TopKDetails


@dataclass(frozen=True)
class Decision:
    """The decision about a row group (file, row group), and the threshold that it was compared with. In time order."""

    position: tuple[int, int]
    state: RowGroupState
    threshold: Threshold


@dataclass(frozen=True)
class _RowGroup:
    candidate: Candidate
    low: Rank | None
    high: Rank | None
    is_skipped: bool


def decisions_of(search: TopKSearch, in_tasks: bool) -> list[Decision]:
    """The history of a finished search. `in_tasks`: row groups were handed to tasks, which judged them again."""
    taken = RowGroupState.HANDED_OUT if in_tasks else RowGroupState.READ
    start = search.plan.initial
    at_start = [
        Decision(place, RowGroupState.PRUNED_INITIAL_THRESHOLD, start)
        for place in _places(search.plan, search.ruled_out_at_start)
    ]
    absent = set(search.without_values)
    judged = [
        Decision(place, _fate(place, absent, taken) if was_taken else RowGroupState.PRUNED_DYNAMIC, threshold)
        for slots, was_taken, threshold in search.judged
        for place in _places(search.plan, slots)
    ]
    return [*at_start, *judged]


def _fate(place: tuple[int, int], absent: set[tuple[int, int]], taken: RowGroupState) -> RowGroupState:
    return RowGroupState.PRUNED_BLOOM_FILTER if place in absent else taken


def _places(plan: TopKPlan, slots: Indices) -> list[tuple[int, int]]:
    """(file, row group) of row groups."""
    access = plan.access
    return list(zip(access.statistics.file_of[slots].tolist(), access.row_groups(slots).tolist(), strict=True))


def details_of_search(note: TopKNote) -> TopKDetails:
    return topk_details(note.plan, decisions_of(note.search, note.in_tasks))


def topk_details(plan: TopKPlan, decisions: Sequence[Decision]) -> TopKDetails:
    """Row groups in the order of the queue; those that the WHERE ruled out are placed by their bounds."""
    order = plan.spec.order
    dtype = order[0].expr.dtype
    groups = _row_groups(plan)
    ranks = [rank for group in groups for rank in (group.low, group.high)]
    values = key_values([*ranks, *(decision.threshold.lead for decision in decisions)], dtype)
    lows, highs, thresholds = values[: len(ranks) : 2], values[1 : len(ranks) : 2], values[len(ranks) :]
    axis = KeyAxis([*lows, *highs])
    outcomes = {decision.position: decision.state for decision in decisions}
    marks = []
    for group, low, high in zip(groups, lows, highs, strict=True):
        position = group.candidate.position
        state = (
            RowGroupState.PRUNED_STATISTICS if group.is_skipped else outcomes.get(position, RowGroupState.NEVER_REACHED)
        )
        path = plan.access.files[position[0]].path
        name = path.rsplit("/", 1)[-1]
        marks.append(RowGroupMark(name, position[1], group.candidate.rows, state, axis.point(low), axis.point(high)))
    place = {group.candidate.position: number for number, group in enumerate(groups)}
    steps = _steps(decisions, thresholds, place, axis)
    return TopKDetails(render_order(order), plan.spec.k, order[0].descending, axis.scale, tuple(marks), tuple(steps))


def _row_groups(plan: TopKPlan) -> list[_RowGroup]:
    key, access = plan.spec.order[0], plan.access
    bounds = expression_bounds(key.expr, access.statistics)
    everything = replace(access, verdicts=np.full_like(access.verdicts, Verdict.SCAN))
    queue = RowGroupQueue.of(everything, bounds, key, np.zeros(len(bounds), np.bool_))
    return [
        _RowGroup(
            queue.candidate(slot), bounds.low[slot], bounds.high[slot], bool(access.verdicts[slot] == Verdict.SKIP)
        )
        for slot in queue.slots.tolist()
    ]


def _steps(
    decisions: Sequence[Decision], thresholds: Sequence[Any], place: dict[tuple[int, int], int], axis: KeyAxis
) -> list[ThresholdStep]:
    """The steps of the threshold. A threshold at NULL has no place on the axis and is left out."""
    steps: list[ThresholdStep] = []
    generation = -1
    for decision, threshold in zip(decisions, thresholds, strict=True):
        if not decision.threshold.bounded or decision.threshold.generation == generation:
            continue
        generation = decision.threshold.generation
        value = axis.point(threshold)
        if value is not None and decision.position in place:
            steps.append(ThresholdStep(place[decision.position], value))
    return steps


def key_values(ranks: Sequence[Rank | None], dtype: pa.DataType) -> list[Any]:
    """Ranks as values to show; all of them as stored numbers or bytes if Python has no value for one."""
    array = array_of_ranks(ranks, dtype)
    try:
        values: list[Any] = array.to_pylist()
    except (ValueError, OverflowError):  # a year after 9999, a bound cut in the middle of a character
        return list(ranks)
    return values
