"""sundog's own entry in the SQL tab of Spark's UI, in its event log and so in the history server.

    start ──► SparkListenerSQLExecutionStart            Spark's executions in between are listed below it: they
    end   ──► ...SQLAdaptiveExecutionUpdate             have its number as that of their root
              ...DriverAccumUpdates, ...SQLExecutionEnd

Spark posts these events for its own executions. Their classes take different arguments in each version. So events are
written as JSON, as in the event log, and Spark reads them like its history server, which must understand those of older
versions: missing fields have defaults. The number of the execution comes from Spark's own counter, which is private. If
any of that is missing, there is no entry, and the query runs as with one.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("sundog")
_UI = "org.apache.spark.sql.execution.ui."
_ROOT_KEY = "spark.sql.execution.root.id"
_DESCRIPTION_KEY = "spark.job.description"
_COUNTER = ("org.apache.spark.sql.execution.SQLExecution$", "nextExecutionId")
_MAX_METRICS = 1 << 20  # of one plan


@dataclass(frozen=True)
class _Application:
    """JVM objects with which entries are made. Looking them up took 3 ms of each action."""

    bus: Any
    read_event: Callable[[str], Any]
    next_number: Callable[[], int]  # of all SQL executions of this JVM

    @classmethod
    def of(cls, session: SparkSession) -> _Application | None:
        """The factory of entries for a session; None if nothing shows or logs SQL executions."""
        context = session.sparkContext
        if not _is_shown(context):
            return None
        read_event = session._jvm.org.apache.spark.util.JsonProtocol.sparkEventFromJson
        return cls(context._jsc.sc().listenerBus(), read_event, _counter(context))


# By SparkContext; None where there are no entries, or Spark did not take one of ours.
_applications: WeakKeyDictionary[Any, _Application | None] = WeakKeyDictionary()


class SqlExecution:
    """One entry, from `start` to `end`, on one thread. Spark jobs that this thread starts belong to it."""

    def __init__(self, context: Any, application: _Application) -> None:
        self._context = context
        self._application = application
        self._number = application.next_number()
        self._metrics = 0
        self._root_before: str | None = None

    @classmethod
    def start(cls, session: SparkSession, description: str, details: str) -> SqlExecution | None:
        """None if nothing shows or logs SQL executions, or if Spark rejects one of sundog's.

        If the user has described the jobs, that description is the entry's.
        """
        context = session.sparkContext
        try:
            if context not in _applications:
                _applications[context] = _Application.of(session)
            application = _applications[context]
            if application is None:
                return None
            entry = cls(context, application)
            entry._post(
                "SparkListenerSQLExecutionStart",
                rootExecutionId=entry._number,
                description=context.getLocalProperty(_DESCRIPTION_KEY) or description,
                details=details,
                physicalPlanDescription="The plan is here when the action is over.",
                sparkPlanInfo=plan_node("sundog", description),
                time=_now(),
                modifiedConfigs={},
                jobTags=[],
            )
        except Exception:  # any error of Py4J: an entry is not worth failing a query
            log.info("sundog's queries have no entries in the SQL tab of Spark's UI", exc_info=True)
            _applications[context] = None
            return None
        entry._root_before = context.getLocalProperty(_ROOT_KEY)
        context.setLocalProperty(_ROOT_KEY, str(entry._number))
        return entry

    def accumulators(self, count: int) -> Iterable[int]:
        """Numbers for metrics of the plan, unlike any of Spark's, which are not negative."""
        first = self._number * _MAX_METRICS + self._metrics
        self._metrics += count
        return range(-1 - first, -1 - first - count, -1)

    def leave(self) -> None:
        """Jobs that follow on this thread no longer belong to the entry."""
        self._context.setLocalProperty(_ROOT_KEY, self._root_before)

    def end(self, text: str, plan: dict[str, Any], values: Iterable[tuple[int, int]], error: str = "") -> None:
        """End the entry: the plan that ran, as text and as nodes of `plan_node`, and the values of its metrics."""
        self._post("SparkListenerSQLAdaptiveExecutionUpdate", physicalPlanDescription=text, sparkPlanInfo=plan)
        self._post("SparkListenerDriverAccumUpdates", accumUpdates=[list(value) for value in values])
        self._post("SparkListenerSQLExecutionEnd", time=_now(), errorMessage=error)

    def _post(self, event: str, **fields: Any) -> None:
        text = json.dumps({"Event": _UI + event, "executionId": self._number, **fields})
        self._application.bus.post(self._application.read_event(text))


def plan_node(
    name: str, text: str, children: Iterable[dict[str, Any]] = (), metrics: Iterable[tuple[str, int, str]] = ()
) -> dict[str, Any]:
    """A node of a plan in the UI. `metrics`: name, accumulator, and kind: sum, size (bytes) or timing
    (milliseconds)."""
    infos = [{"name": name, "accumulatorId": number, "metricType": kind} for name, number, kind in metrics]
    return {"nodeName": name, "simpleString": text, "children": list(children), "metadata": {}, "metrics": infos}


def _is_shown(context: Any) -> bool:
    """Whether it is shown or logged, by settings that Spark reads at its start. `getConf` takes a hundred calls."""
    conf = context.getConf()
    is_on = [conf.get("spark.ui.enabled", "true"), conf.get("spark.eventLog.enabled", "false")]
    return "true" in is_on or bool(conf.get("spark.extraListeners", ""))


def _counter(context: Any) -> Callable[[], int]:
    """Spark's own counter of SQL executions."""
    jvm, new_array = context._jvm, context._gateway.new_array
    name, method_name = _COUNTER
    of_object = jvm.java.lang.Class.forName(name)
    method = of_object.getDeclaredMethod(method_name, new_array(jvm.java.lang.Class, 0))
    method.setAccessible(True)
    counter, nothing = of_object.getField("MODULE$").get(None), new_array(jvm.java.lang.Object, 0)
    return lambda: int(method.invoke(counter, nothing))


def _now() -> int:
    return time.time_ns() // 1_000_000
