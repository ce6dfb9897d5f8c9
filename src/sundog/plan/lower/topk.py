"""Top-k. Tied to its scan it searches a queue of row groups with a live threshold; over anything else it merges.

    driver      every thread takes the next row group from one queue; the threshold is shared and moves with each
    executors   a round of tasks, merge, tighten, prune the queue again, a larger round, ...; inside a task the
                threshold moves row group by row group as well

Afterwards the columns that the search did not need are fetched for the winners only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from sundog.expr.nodes import Column, columns_of
from sundog.operators.aggregate.final_operator import BestGroups
from sundog.operators.context import TaskContext
from sundog.operators.sources import BatchSource
from sundog.operators.topk.materialize import assemble, fetched_bytes, plan_fetch
from sundog.operators.topk.topk import TopKOperator
from sundog.operators.topk.topk_plan import TopKPlan
from sundog.operators.topk.topk_scan import TopKSearch
from sundog.plan.logical import Aggregate, Scan, TopK
from sundog.plan.lower.aggregate import lower_aggregate
from sundog.plan.lower.scan import TableScan
from sundog.plan.stages import Described, Parts, Pipeline, Place, Stage

if TYPE_CHECKING:
    from sundog.plan.lower.planner import Planner, Steps


@dataclass(frozen=True)
class LateMaterialize:
    """Columns that are read for the winners only, for explain."""

    columns: tuple[str, ...]

    def describe(self) -> str:
        return f"LateMaterialize: columns=[{', '.join(self.columns)}]"


@dataclass(frozen=True, eq=False)
class TopKNote:
    """A search for the report: its plan, and the search itself, which remembers what it decided."""

    plan: TopKPlan
    search: TopKSearch
    in_tasks: bool


@dataclass(frozen=True, eq=False)
class SearchShare:
    """One of the threads that work off a queue together. Its rows stay with the search."""

    search: TopKSearch

    def read(self, context: TaskContext) -> Iterator[pa.RecordBatch]:
        self.search.work(context)
        return iter(())


def lower_topk(planner: Planner, plan: TopK) -> Steps[Pipeline]:
    """The k best rows on the driver: by a search right above a scan, by merging the best of each task above others."""
    if isinstance(plan.child, Scan):
        return (yield from _search(planner, plan, plan.child))
    if isinstance(plan.child, Aggregate) and _orders_by_results(plan, plan.child):
        best = BestGroups(plan.order, plan.limit + plan.offset, planner.site.costs)
        rows = yield from lower_aggregate(planner, plan.child, best)
    else:
        rows = yield from planner.lower(plan.child)
    best_rows = TopKOperator(plan.schema, plan.order, plan.limit + plan.offset, costs=planner.site.costs)
    final = TopKOperator(plan.schema, plan.order, plan.limit, plan.offset, costs=planner.driver_site.costs)
    return planner.graph.gather(rows.then(best_rows), "TopK").then(final)


def _orders_by_results(plan: TopK, aggregate: Aggregate) -> bool:
    """Whether groups can be chosen by their results, before anyone looks up their keys."""
    results = {call.name for call in aggregate.aggregates}
    return set().union(*(columns_of(key.expr) for key in plan.order)) <= results


def _search(planner: Planner, plan: TopK, scan: Scan) -> Steps[Pipeline]:
    topk = planner.facts.search(plan, scan)
    search = TopKSearch(topk, planner.site.costs)
    spec = TopKOperator(plan.schema, plan.order, plan.limit, plan.offset, costs=planner.site.costs)
    reads: tuple[Described, ...] = (spec, TableScan(scan, planner.dynamic_pruning, plan.checks))
    stages = yield from _rounds(planner, search, reads)
    sort_columns = {key.expr.name for key in plan.order if isinstance(key.expr, Column)}
    late = tuple(name for name in scan.columns if name not in sort_columns)
    late_reads = (LateMaterialize(late),) if late else ()
    if stages is None:
        return Pipeline(Place.DRIVER, "TopK", (Parts((), (*late_reads, *reads)),))
    search.count(planner.graph.metrics)
    planner.graph.notes.append(TopKNote(topk, search, in_tasks=not planner.site.on_threads))
    winners = search.winners().slice(plan.offset, plan.limit)
    site = planner.site_of_small(fetched_bytes(topk, winners))
    fetched: list[pa.RecordBatch] = []
    done_by = [tuple(stages), ()]
    if fetches := plan_fetch(topk, winners, site.slots, site.on_threads, site.costs):
        fetching = Pipeline(site.place, "Materialize", (Parts(tuple(fetches), late_reads),))
        fetched = (yield from planner.step(fetching)) or []
        done_by.insert(0, (planner.graph.stages[-1],))
    elif late:
        done_by.insert(0, ())
    rows = assemble(topk, winners, fetched)
    sources = (BatchSource([rows] if rows.num_rows else []),)
    return Pipeline(Place.DRIVER, "TopK", (Parts(sources, (*late_reads, *reads), tuple(done_by)),))


def _rounds(planner: Planner, search: TopKSearch, reads: tuple[Described, ...]) -> Steps[list[Stage] | None]:
    """Run the search; its stages. None where explain does not run it."""
    site = planner.site
    stages: list[Stage] = []
    if site.on_threads:
        threads = tuple(SearchShare(search) for _ in range(min(site.slots, search.waiting)))
        rows = yield from planner.step(Pipeline(site.place, "TopK search", (Parts(threads, reads),)))
        return None if rows is None else [planner.graph.stages[-1]]
    while tasks := search.next_round(site.slots):
        purpose = f"TopK round {len(stages) + 1}"
        rows = yield from planner.step(Pipeline(site.place, purpose, (Parts(tuple(tasks), reads),)))
        if rows is None:
            return None
        stages.append(planner.graph.stages[-1])
        for batch in rows:
            search.add(batch)
    return stages
