"""Lowering of a top-k: right above a scan, a search of a queue of row groups with a threshold; elsewhere, a merge.

    driver      every thread takes the next row group from one queue; threads share the threshold, which each tightens
    executors   a round of tasks, merge, tighten, prune the queue again, a larger round, …; inside a task the
                threshold tightens with each row group as well

Afterwards the columns that the search did not need are fetched for the winners only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from sundog.expr.nodes import columns_of
from sundog.operators.aggregate.final_operator import BestGroups
from sundog.operators.topk.materialize import Winners, fetched_bytes, plan_fetch
from sundog.operators.topk.topk import TopKOperator
from sundog.operators.topk.topk_plan import TopKPlan
from sundog.operators.topk.topk_scan import SearchShare, TopKSearch
from sundog.plan.logical import Aggregate, Scan, TopK
from sundog.plan.lower.aggregate import lower_aggregate
from sundog.plan.stages import Parts, Pipeline, Place, Stage

if TYPE_CHECKING:
    from sundog.plan.lower.planner import Planner, Steps


@dataclass(frozen=True, eq=False)
class TopKNote:
    """A search for the report: its plan, and the search itself, which records its decisions."""

    plan: TopKPlan
    search: TopKSearch
    in_tasks: bool


def lower_topk(planner: Planner, plan: TopK) -> Steps[Pipeline]:
    """The k best rows on the driver: by a search right above a scan, else by merging the best rows of each task."""
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
    """Whether groups can be chosen by their results, before their keys are built."""
    results = {call.name for call in aggregate.aggregates}
    return set().union(*(columns_of(key.expr) for key in plan.order)) <= results


def _search(planner: Planner, plan: TopK, scan: Scan) -> Steps[Pipeline]:
    topk = planner.facts.search(plan, scan)
    search = TopKSearch(topk, planner.site.costs)
    rounds = yield from _rounds(planner, search)
    if rounds is None:
        return Pipeline(Place.DRIVER, "TopK", (Parts((Winners(search, plan.limit, plan.offset),)),))
    planner.graph.notes.append(TopKNote(topk, search, in_tasks=not planner.site.on_threads))
    winners = search.winners().slice(plan.offset, plan.limit)
    site = planner.site_of_small(fetched_bytes(topk, winners))
    fetched: list[pa.RecordBatch] = []
    done_by = [tuple((stage, step) for stage in rounds) for step in (0, 1)]
    if fetches := plan_fetch(topk, winners, site.slots, site.on_threads, site.costs):
        fetched = (yield from planner.step(Pipeline(site.place, "Materialize", (Parts(tuple(fetches)),)))) or []
        done_by.insert(0, ((planner.graph.stages[-1], 0),))
    elif topk.late_columns:
        done_by.insert(0, ())
    sources = (Winners(search, plan.limit, plan.offset, winners, tuple(fetched)),)
    return Pipeline(Place.DRIVER, "TopK", (Parts(sources, tuple(done_by)),))


def _rounds(planner: Planner, search: TopKSearch) -> Steps[list[Stage] | None]:
    """Run the search; its stages. None if explain does not run it."""
    site = planner.site
    stages: list[Stage] = []
    if site.on_threads:
        threads = tuple(SearchShare(search) for _ in range(min(site.slots, search.waiting)))
        rows = yield from planner.step(Pipeline(site.place, "TopK search", (Parts(threads),)))
        return None if rows is None else [planner.graph.stages[-1]]
    while tasks := search.next_round(site.slots):
        rows = yield from planner.step(Pipeline(site.place, f"TopK round {len(stages) + 1}", (Parts(tuple(tasks)),)))
        if rows is None:
            return None
        stages.append(planner.graph.stages[-1])
        for batch in rows:
            search.add(batch)
    return stages
