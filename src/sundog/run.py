"""`Run`: the record of the last action on a thread. Was it accelerated, why not, and what did it skip?"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import PathLike
from time import perf_counter

from py4j.protocol import Py4JError

from sundog.errors import SundogError
from sundog.plan.explain import render_plan
from sundog.plan.records import StageRecord
from sundog.plan.stages import StageGraph
from sundog.report.html import Section, run_fragment, write_report
from sundog.support import Code, Declined, Reason


@dataclass
class Run:
    """One action. Replaced by every action on the thread, also by one that raises."""

    action: str = ""
    accelerated: bool = False
    whole: bool = False  # accelerated, and no part of the query was left to Spark
    reasons: list[Reason] = field(default_factory=list)
    placement: str | None = None
    seconds: float = 0.0
    planning_seconds: float = 0.0
    metrics: dict[str, float] = field(default_factory=dict)
    graphs: list[StageGraph] = field(default_factory=list)  # what ran, one for each part of the query
    stages: list[list[StageRecord]] = field(default_factory=list)  # the records of the stages of each graph
    internal_error: str | None = None  # the stack of a bug of sundog's own, for which Spark ran the query

    @property
    def plan(self) -> str:
        """The stages of each part as a tree of text."""
        return "\n\n".join(filter(None, map(render_plan, self.graphs)))

    @property
    def parts(self) -> list[tuple[StageGraph, list[StageRecord]]]:
        """Each graph with the records of its stages; none of a graph that failed before its stages were recorded."""
        recorded = [*self.stages, *([] for _ in self.graphs[len(self.stages) :])]
        return list(zip(self.graphs, recorded, strict=True))

    @property
    def fallback_reasons(self) -> list[str]:
        return [str(reason) for reason in self.reasons]

    @property
    def fallback_reason(self) -> str | None:
        return str(self.reasons[0]) if self.reasons else None

    def to_html(self, path: str | PathLike[str]) -> None:
        """Write this run as one self-contained HTML file: what was done, what was skipped, and why not."""
        write_report(path, [Section(self)], title="sundog run")

    def _repr_html_(self) -> str:
        """The HTML that a notebook shows for a run."""
        return run_fragment(self)

    def decline(self, *reasons: Reason) -> None:
        self.reasons.extend(reason for reason in reasons if reason not in self.reasons)

    @contextmanager
    def notes_declined(self) -> Iterator[None]:
        """Catch `Declined` inside the block, and keep its reasons."""
        try:
            yield
        except Declined as declined:
            self.decline(*declined.reasons)

    @contextmanager
    def planning(self) -> Iterator[None]:
        """Time the planning inside the block. Catch `Declined`, and a plan that cannot be read, as reasons."""
        started = perf_counter()
        try:
            with self.notes_declined():
                yield
        except Py4JError as error:  # another Spark has other methods; if the query is at fault, Spark will say so
            log.info("sundog cannot read the plan", exc_info=error)
            self.decline(Reason(Code.PLAN_VERSION, f"reading the plan failed: {str(error).splitlines()[0][:200]}"))
        finally:
            self.planning_seconds += perf_counter() - started


log = logging.getLogger("sundog")
_last = threading.local()


def last_run() -> Run:
    """The last action that this thread ran on an enabled session."""
    run: Run | None = getattr(_last, "run", None)
    if run is None:
        raise SundogError("No action has run on this thread since sundog.enable(spark).")
    return run


def current_action() -> str:
    """The name of the action that this thread is in, or was in last; empty before the first."""
    run: Run | None = getattr(_last, "run", None)
    return "" if run is None else run.action


def start_run(action: str) -> Run:
    """Begin a new record, which `last_run` returns from now on."""
    run = Run(action)
    _last.run = run
    return run
