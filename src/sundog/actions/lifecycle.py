"""The one life of an action: of DataFrames, `accelerate`, writers and SQL commands alike.

    start a Run -> plan -> begin -> hand over -> finish

    plan        Catalyst's plan is read and matched. Nothing for sundog: Spark runs the action, reasons are in the run
    begin       what runs on the driver is computed; parts that are not the whole query are put into Spark's plan
    hand over   the caller gets its rows, or Spark runs its plan with our parts in it
    finish      metrics are put on the run, what was held is let go of

An error anywhere ends in Spark running the action, as if sundog were not there (`failures.py` judges whose fault it was;
a bug of ours has reason INTERNAL and its stack in `Run.internal_error`). The one exception is an error while rows are
handed over for good, to `foreach` or to a table: to start again could do things twice, so the error is raised as Spark's.
`spark.sundog.onInternalError=raise` raises bugs of ours wherever they happen.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Generic, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from sundog.actions.cancelling import marks_of
from sundog.actions.failures import Outcome, as_spark_error, classify, log, note_failure, passes
from sundog.config import read_settings
from sundog.metrics import Metrics
from sundog.progress import progress_sink
from sundog.query import Planned, conf_of, plan_frame, splice_parts, whole_table
from sundog.run import Run, start_run
from sundog.runtime.cancel import ActionCancelled, current_watch, watching
from sundog.runtime.execute import Execution
from sundog.runtime.progress import NO_PROGRESS, ProgressSink, spark_progress
from sundog.support import Code, Reason

T = TypeVar("T")
_inside = threading.local()


@dataclass(frozen=True)
class Action(Generic[T]):
    """What an action is made of. `query` is made inside the life of the action, so that it may fail as well.

    `on_table` takes a whole result on the driver, `on_frame` a DataFrame with our parts in it; without `on_table` rows
    are not wanted on the driver. `plain` is Spark's own way.
    """

    name: str
    session: SparkSession
    query: Callable[[], DataFrame]
    plain: Callable[[], T]
    on_frame: Callable[[DataFrame], T]
    on_table: Callable[[pa.Table], T] | None = None
    repeatable: bool = True  # handing over may be tried again on plain Spark
    lazy: bool = False  # the result runs later: nothing is finished here


@dataclass
class _Life:
    """What is under way for one action."""

    run: Run
    executions: list[Execution] = field(default_factory=list)
    progress: ProgressSink = NO_PROGRESS


def run_action(action: Action[T]) -> T:
    """Run one action, with sundog where it can."""
    life = _Life(start_run(action.name))
    started = perf_counter()
    try:
        with under_action(), watching(lambda: marks_of(action.session)):
            return _live(action, life)
    finally:
        life.run.seconds = perf_counter() - started


def _live(action: Action[T], life: _Life) -> T:
    run, hand_over, failed = life.run, None, True
    try:
        try:
            hand_over = _begin(action, life)
            if hand_over is not None:
                result = hand_over()
                _finish(life, action.lazy)
                run.accelerated, failed = True, False
                return result
        except Exception as error:
            settle(action.session, run, error, may_restart=action.repeatable or hand_over is None)
        except KeyboardInterrupt:
            run.decline(Reason(Code.CANCELLED, "interrupted from the keyboard or by a notebook"))
            raise
    finally:
        life.progress.finish()
        if failed:
            _abandon(life)
    return action.plain()


def settle(session: SparkSession, run: Run, error: Exception, may_restart: bool) -> None:
    """Note an error, and return if Spark may run the action from its beginning. Else raise."""
    if passes(error):
        raise error
    failure = classify(error)
    if failure.outcome is not Outcome.CANCELLED and (cancelled := _cancelled_meanwhile()) is not None:
        failure = classify(cancelled)
    note_failure(run, failure)
    if failure.outcome is Outcome.INTERNAL and _raises(session):
        raise failure.cause from (None if failure.cause is error else error)
    if not may_restart or failure.outcome is Outcome.CANCELLED:
        raise as_spark_error(failure) from (failure.cause if failure.cause is not failure.error else None)


def _cancelled_meanwhile() -> ActionCancelled | None:
    """Whatever else went wrong: what the user cancelled is not started again."""
    try:
        current_watch().check()
    except ActionCancelled as cancelled:
        return cancelled
    return None


def _raises(session: SparkSession) -> bool:
    return read_settings(conf_of(session).get).on_internal_error == "raise"


def _begin(action: Action[T], life: _Life) -> Callable[[], T] | None:
    """Plan, and compute what runs on the driver or is the whole result. What is returned hands it over."""
    planned = plan_frame(action.query(), life.run, collected=action.on_table is not None)
    if planned is None:
        return None
    planned.progress = life.progress = progress_sink(planned.settings.progress_enabled)
    if action.on_table is not None and planned.is_whole:
        table = whole_table(planned, life.run, life.executions)
        return _to_caller(action.on_table, table)
    spliced = splice_parts(planned, life.run, life.executions, for_good=action.lazy or not action.repeatable)
    return _to_spark(action.on_frame, spliced, planned)


def _to_caller(on_table: Callable[[pa.Table], T], table: pa.Table) -> Callable[[], T]:
    return lambda: on_table(table)


def _to_spark(on_frame: Callable[[DataFrame], T], spliced: DataFrame, planned: Planned) -> Callable[[], T]:
    def hand_over() -> T:
        with spark_progress(planned.frame.sparkSession, planned.progress, "with Spark"):
            return on_frame(spliced)

    return hand_over


def _finish(life: _Life, lazy: bool) -> None:
    """Let go of what was held, and put what was counted on the run. Raises if rows were lost or made up."""
    for execution in life.executions:
        if not lazy:
            execution.finish()
        _record(life.run, execution)


def _abandon(life: _Life) -> None:
    """The same after a failure, whose own error counts: another one is only logged."""
    for execution in life.executions:
        try:
            execution.finish(check=False)
            _record(life.run, execution)
        except Exception:
            log.warning("sundog could not clean up after a query that failed", exc_info=True)


def _record(run: Run, execution: Execution) -> None:
    run.planning_seconds += execution.planning_seconds
    run.placement = execution.placement
    merged = Metrics(run.metrics)
    merged.merge(execution.metrics)
    run.metrics = merged.as_numbers()
    run.stages.extend(execution.stages)


@contextmanager
def under_action() -> Iterator[None]:
    """Actions that sundog itself runs inside an action go straight to Spark."""
    depth = getattr(_inside, "depth", 0)
    _inside.depth = depth + 1
    try:
        yield
    finally:
        _inside.depth = depth


def is_inside() -> bool:
    return getattr(_inside, "depth", 0) > 0
