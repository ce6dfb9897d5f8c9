"""Drives a top-k search: threads with one live threshold on the driver, rounds with a travelling one on executors.

    driver      every thread takes the next row group from one queue; the bar is shared and moves row group by row group
    executors   a round of tasks, merge, tighten, prune the queue again, a larger round, ... ; inside a task the bar
                moves row group by row group as well

Afterwards the columns that the search did not need are fetched for the winners only.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from sundog.operators.context import TaskContext
from sundog.operators.topk.materialize import assemble, fetched_bytes, plan_fetch
from sundog.operators.topk.topk_plan import TopKPlan
from sundog.operators.topk.topk_scan import TopKSearch
from sundog.runtime.driver import DriverRuntime
from sundog.runtime.flow import Runtime
from sundog.runtime.spark import driver_for
from sundog.runtime.topk_details import decisions_of, topk_details


def run_topk(plan: TopKPlan, limit: int, offset: int, runtime: Runtime, details: dict[str, Any]) -> pa.RecordBatch:
    """The rows `offset .. offset + limit` of the sorted table, with all output columns."""
    search = TopKSearch(plan)
    on_threads = isinstance(runtime, DriverRuntime)
    if isinstance(runtime, DriverRuntime):
        _search_with_threads(search, runtime)
    else:
        _search_in_rounds(search, runtime)
    search.count(runtime.metrics)
    winners = search.winners().slice(offset, limit)
    details.setdefault("topk", []).append(lambda: topk_details(plan, decisions_of(search, in_tasks=not on_threads)))
    fetcher = driver_for(runtime, fetched_bytes(plan, winners))
    fetches = plan_fetch(plan, winners, fetcher.parallelism, split_columns=isinstance(fetcher, DriverRuntime))
    fetched = fetcher.start(fetches, "Materialize").collect() if fetches else []
    return assemble(plan, winners, fetched)


def _search_with_threads(search: TopKSearch, runtime: DriverRuntime) -> None:
    def work(_: int, context: TaskContext) -> None:
        search.work(context)

    workers = min(runtime.parallelism, search.waiting)
    runtime.run_tasks(workers, work, "TopK search")


def _search_in_rounds(search: TopKSearch, runtime: Runtime) -> None:
    while tasks := search.next_round(runtime.parallelism):
        for batch in runtime.start(tasks, f"TopK round of {len(tasks)} tasks").collect():
            search.add(batch)
