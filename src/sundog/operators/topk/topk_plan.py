"""A top-k before it runs: its spec, the queue of row groups, and an initial threshold from statistics alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sundog.expr.buffers import Bools
from sundog.expr.dynamic_filters.threshold import Threshold
from sundog.expr.nodes import Expr, columns_of
from sundog.expr.ordering import SortKey
from sundog.operators.topk.row_group_search import Switches, TopKSpec
from sundog.parquet.meta.bounds import expression_bounds
from sundog.parquet.meta.statistics import Statistics
from sundog.parquet.prune.access_plan import ParquetAccessPlan
from sundog.parquet.prune.pruning import Verdict, outcome_of
from sundog.parquet.prune.row_group_pruner import Candidate, initial_threshold
from sundog.parquet.prune.row_group_queue import RowGroupQueue


@dataclass(frozen=True, eq=False)
class TopKPlan:
    """The search before it runs: spec, files, queue and initial threshold."""

    spec: TopKSpec
    access: ParquetAccessPlan
    queue: RowGroupQueue  # best bound first
    initial: Threshold

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """The whole queue as objects; for short queues."""
        return tuple(self.queue.candidates(len(self.queue)))

    @property
    def late_columns(self) -> tuple[str, ...]:
        """Output columns that are fetched for the winners only."""
        return tuple(name for name in self.access.columns if name not in self.spec.carried)

    def column_bytes(self) -> int:
        """Uncompressed bytes of sort and WHERE columns in the row groups that the initial threshold leaves."""
        names = [column.name for column in self.spec.reading.file_columns if column.name not in self.late_columns]
        left, _ = self.queue.without(lambda each: not self.initial.can_win(each.best, each.position))
        return self.access.column_bytes(names, left.slots)


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
    statistics = access.statistics
    bounds = expression_bounds(order[0].expr, statistics)
    queue = RowGroupQueue.of(access, bounds, order[0], ~_safe(spec, statistics))
    initial = Threshold(order[0], len(order) == 1)
    if switches.initial_threshold:
        sure = np.flatnonzero(access.verdicts == Verdict.ALL_ROWS_MATCH)
        initial = initial_threshold(bounds.take(sure), statistics.rows[sure], order, k)
    return TopKPlan(spec, access, queue if k else queue.taken(len(queue)), initial)


def _carried(access: ParquetAccessPlan, order: tuple[SortKey, ...], checks: tuple[Expr, ...]) -> tuple[str, ...]:
    decoded = set().union(*(columns_of(key.expr) for key in order), *(columns_of(expr) for expr in checks))
    return tuple(name for name in access.columns if name in decoded)


def _safe(spec: TopKSpec, statistics: Statistics) -> Bools:
    """Row groups in which neither the WHERE nor a sort key nor a check can raise: only these may be skipped."""
    safe = np.ones(len(statistics), np.bool_)
    for expr in (*(key.expr for key in spec.order), *spec.checks):
        safe &= expression_bounds(expr, statistics).safe
    if spec.predicate is not None:
        safe &= outcome_of(spec.predicate, statistics).safe
    return safe
