"""A top-k before it starts: what to look for, the queue of row groups, and a first threshold from statistics alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sundog.expr.buffers import Bools
from sundog.expr.dynamic_filters.threshold import Threshold
from sundog.expr.nodes import Expr, columns_of
from sundog.expr.ordering import SortKey
from sundog.expr.ranks import Rank
from sundog.operators.topk.row_group_search import Switches, TopKSpec
from sundog.parquet.meta.bounds import expression_bounds
from sundog.parquet.meta.statistics import FileStatistics
from sundog.parquet.prune.access_plan import ParquetAccessPlan
from sundog.parquet.prune.pruning import Verdict, outcome_of
from sundog.parquet.prune.row_group_pruner import Candidate, best_place, initial_threshold, sure_rows


@dataclass(frozen=True)
class TopKPlan:
    """The search before it starts: spec, files, queue and initial threshold."""

    spec: TopKSpec
    access: ParquetAccessPlan
    candidates: tuple[Candidate, ...]  # best bound first
    initial: Threshold

    @property
    def late_columns(self) -> tuple[str, ...]:
        """Output columns that are fetched for the winners only."""
        return tuple(name for name in self.access.columns if name not in self.spec.carried)

    def column_bytes(self) -> int:
        """Uncompressed bytes of sort and WHERE columns in the row groups that the initial threshold leaves."""
        names = [column.name for column in self.spec.reading.file_columns if column.name not in self.late_columns]
        left = [c for c in self.candidates if c.must_read or self.initial.can_win(c.best, c.position)]
        return sum(self.access.layout(c.file).column_bytes(names, c.row_group)[1] for c in left)


def plan_topk(
    access: ParquetAccessPlan,
    order: tuple[SortKey, ...],
    k: int,
    checks: tuple[Expr, ...] = (),
    switches: Switches = Switches(),  # noqa: B008
) -> TopKPlan:
    """Queue the row groups that the WHERE leaves, best bound first. `k` is LIMIT + OFFSET.

    The access plan must have been made for all columns of the order and of the checks.
    """
    carried = _carried(access, order, checks) if switches.late_materialization else access.columns
    spec = TopKSpec(access.reading, access.predicate, order, k, carried, checks, switches)
    candidates: list[Candidate] = []
    sure: list[tuple[Rank | None, int]] = []
    for number, layout, verdicts in access.opened():
        statistics = FileStatistics(layout)
        bounds = expression_bounds(order[0].expr, statistics)
        must_read = (~_safe(spec, statistics)).tolist()
        row_counts = statistics.rows.tolist()
        matches = (verdicts == Verdict.ALL_ROWS_MATCH).tolist()
        for slot in np.flatnonzero(verdicts != Verdict.SKIP).tolist():
            best = best_place(bounds, slot, order[0])
            candidates.append(Candidate(number, slot, row_counts[slot], matches[slot], best, must_read[slot]))
            if matches[slot]:
                sure.extend(sure_rows(bounds, slot, row_counts[slot], order[0]))
    candidates.sort(key=Candidate.sort_key)
    initial = initial_threshold(sure if switches.initial_threshold else [], order, k)
    return TopKPlan(spec, access, tuple(candidates) if k else (), initial)


def _carried(access: ParquetAccessPlan, order: tuple[SortKey, ...], checks: tuple[Expr, ...]) -> tuple[str, ...]:
    decoded = set().union(*(columns_of(key.expr) for key in order), *(columns_of(expr) for expr in checks))
    return tuple(name for name in access.columns if name in decoded)


def _safe(spec: TopKSpec, statistics: FileStatistics) -> Bools:
    """Row groups in which neither WHERE nor sort keys nor checks can raise: only these may be left unread."""
    safe = np.ones(len(statistics), np.bool_)
    for expr in (*(key.expr for key in spec.order), *spec.checks):
        safe &= expression_bounds(expr, statistics).safe
    if spec.predicate is not None:
        safe &= outcome_of(spec.predicate, statistics).safe
    return safe
