"""Shadow mode: Spark answers an action, then sundog runs it too, and the two answers are compared.

Neither sundog's answer nor its errors reach the caller. An action that hands its rows out (a write, `foreach`) is run
once, by Spark; instead of its answer, its query is run again on both and compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any, TypeVar

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors.exceptions.base import PySparkException
from pyspark.sql import SparkSession

from sundog.actions.failures import Outcome, classify, note_failure
from sundog.expr.calls import AggregateCall, WindowCall
from sundog.expr.nodes import Column
from sundog.front.session.session_conf import SessionConf
from sundog.functions.table import is_rounded
from sundog.plan.logical import Aggregate, Limit, LogicalPlan, Project, Sort, TopK, Window
from sundog.planned import Planned
from sundog.run import Run
from sundog.runtime.frames import collect_arrow
from sundog.shadow_mode.answers import Rules, Values, differences
from sundog.shadow_mode.report import Difference, Tally
from sundog.support import Code, Reason
from sundog.tree import walk
from sundog.versions import spark_version

T = TypeVar("T")
_ANY_ROWS = "a LIMIT without ORDER BY may give any rows"
_ORDER_FREE = {"count", "isEmpty"}  # answers that do not depend on which rows a LIMIT gives


@dataclass(frozen=True)
class Shadow:
    """An eligible action: its plan, and how sundog computes its answer."""

    name: str
    session: SparkSession
    planned: Planned
    run: Run
    ours: Callable[[], Any]  # the answer of the action, or the table of its query
    of_query: bool  # the query is compared, not the answer

    def answered_by(self, plain: Callable[[], T]) -> T:
        """Spark's answer, or its error, after sundog has been compared with it."""
        tally = Tally(self.session)
        started = perf_counter()
        answer, raised = None, None
        try:
            answer = plain()
        except (PySparkException, Py4JError) as error:
            failure = classify(error)
            if failure.outcome is Outcome.CANCELLED:
                note_failure(self.run, failure)
                raise
            raised = error
        seconds = perf_counter() - started
        try:
            self._compare(tally, answer, raised, seconds)
        except Exception as error:  # of any kind: Spark has already answered
            failure = classify(error)
            note_failure(self.run, failure)
            if failure.outcome is Outcome.INTERNAL:
                tally.fail(str(failure.reasons[0]))
            else:
                tally.skip(f"sundog left it to Spark: {failure.reasons[0]}")
        self.run.decline(Reason(Code.SHADOW, "Spark answered; spark.sundog.mode is shadow"))
        if raised is not None:
            raise raised
        return answer  # type: ignore[return-value]

    def _compare(self, tally: Tally, answer: Any, raised: Exception | None, spark_seconds: float) -> None:
        if self.name not in _ORDER_FREE and any(map(_gives_any_rows, self._plans)):
            tally.skip(_ANY_ROWS)
            return
        if raised is None and self.of_query:
            started = perf_counter()
            answer = self._collected_by_spark()
            spark_seconds = perf_counter() - started
        started = perf_counter()
        ours = _rows(self.ours())
        sundog_seconds = perf_counter() - started
        if raised is None:
            pairs = differences(_rows(answer), ours, self._rules())
        else:
            pairs = [((f"error: {spark_version().first_line(raised)[:200]}",), (f"{len(ours)} rows",))]
        tally.compare(self._difference(pairs) if pairs else None, spark_seconds, sundog_seconds)

    @property
    def _plans(self) -> list[LogicalPlan]:
        return [match.plan for match, _ in self.planned.parts]

    def _rules(self) -> Rules:
        if self.name in _ORDER_FREE or self.name == "show":  # the rows of `show` are numbered lines
            return Rules()
        if not self.planned.is_whole:
            return Rules(is_rounded=True)  # Spark adds up sundog's rows in the order in which they arrive
        (plan,) = self._plans
        return rules_of(plan)

    def _difference(self, pairs: list[Any]) -> Difference:
        inner = any(isinstance(node, TopK) for plan in self._plans for node in walk(plan))
        settled = self.planned.is_whole and self._rules().is_cut
        note = "a top-k inside of the query may choose among ties" if inner and not settled else ""
        conf = SessionConf.of(self.session)
        confs = {**conf.options, **{key: str(value) for key, value in conf.effective.items()}}
        query = self.planned.frame._jdf.queryExecution().analyzed().toString()
        return Difference(self.name, query, self.run.plan, confs, tuple(pairs), note)

    def _collected_by_spark(self) -> pa.Table:
        """The query's rows, with instants in UTC like sundog's: Spark sends them in the session's time zone."""
        schema = spark_version().arrow_schema(self.planned.frame.schema)
        batches = collect_arrow(self.planned.frame)
        return pa.Table.from_batches(batches).cast(schema) if batches else schema.empty_table()


def _gives_any_rows(plan: LogicalPlan) -> bool:
    return any(isinstance(node, Limit) for node in walk(plan))


def rules_of(plan: LogicalPlan) -> Rules:
    """How to compare the results of a plan that is the whole query."""
    calls: list[AggregateCall | WindowCall] = []
    for node in walk(plan):
        calls += node.aggregates if isinstance(node, Aggregate) else node.calls if isinstance(node, Window) else ()
    rounded = any(is_rounded(call) for call in calls)
    above: list[Project] = []
    inner = plan
    while isinstance(inner, Project):
        above.append(inner)
        inner = inner.child
    if not isinstance(inner, TopK | Sort):
        return Rules(is_rounded=rounded)
    names = {key.expr.name if isinstance(key.expr, Column) else "": "" for key in inner.order}
    for name in names:
        shown = name
        for project in reversed(above):
            found = [e.name for e in project.exprs if isinstance(e.expr, Column) and e.expr.name == shown]
            shown = found[0] if found else ""
        names[name] = shown
    output = plan.schema.names
    if not all(shown in output for shown in names.values()):
        return Rules(is_rounded=rounded)
    return Rules(tuple(output.index(shown) for shown in names.values()), isinstance(inner, TopK), rounded)


def _rows(answer: Any) -> list[Values]:
    """An answer of any action as rows of Python values."""
    if isinstance(answer, pa.Table):
        columns = [column.to_pylist() for column in answer.columns]
        return list(zip(*columns, strict=True)) if columns else [()] * answer.num_rows
    if isinstance(answer, list):
        if all(isinstance(item, pa.RecordBatch) for item in answer):
            return [row for batch in answer for row in _rows(pa.Table.from_batches([batch]))]
        return [tuple(item) for item in answer]
    return list(enumerate(answer.splitlines())) if isinstance(answer, str) else [(answer,)]
