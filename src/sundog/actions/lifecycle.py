"""The lifecycle of an action, one for all: actions of DataFrames, `accelerate`, writers and SQL commands.

    plan -> start -> hand over -> finish

    plan        Catalyst's plan is read and matched. If sundog takes nothing, Spark runs the action; the run says why
    start       parts on the driver are computed; parts that are not the whole query are put into Spark's plan
    hand over   the caller gets its rows, or Spark runs its plan with sundog's parts in it
    finish      metrics are put on the run, held rows are released

After an error anywhere, Spark runs the action as if sundog were not there. `failures.py` classifies the error; a bug of
sundog has reason INTERNAL, with its stack in `Run.internal_error`. Spark does not run the action

- if the user cancelled it: it ends with Spark's error for that;
- if rows were being handed over for good, to `foreach` or to a table: starting again could do things twice, so the
  error is raised as one of Spark's;
- if a setting of sundog's cannot be read, or a bug is to be raised (`spark.sundog.onInternalError=raise`).

In shadow mode Spark runs every action, and afterwards sundog runs those that it planned (`shadowing.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any, Generic, Literal, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from sundog.actions.cancelling import marks_of
from sundog.actions.failures import Outcome, as_spark_error, classify, is_for_the_user, log, note_failure
from sundog.actions.progress import progress_sink
from sundog.actions.shadowing import Shadow
from sundog.config import Settings, read_settings
from sundog.front.session.identity import session_id
from sundog.front.session.session_conf import SessionConf
from sundog.metrics import Metrics
from sundog.plan.costs import read_costs
from sundog.plan.learning import Lesson, learner_of
from sundog.planned import Planned
from sundog.query import plan_frame, splice_parts, whole_table
from sundog.report.explain import analyzed_text
from sundog.report.spark_ui import UiPlan
from sundog.run import Run, start_run
from sundog.runtime.cancel import ActionCancelled, current_watch, watching
from sundog.runtime.execute import Execution
from sundog.runtime.frames import collect_arrow
from sundog.runtime.progress import NO_PROGRESS, ProgressSink, spark_progress
from sundog.runtime.sessions import described_as
from sundog.shadow_mode.report import Tally
from sundog.support import Code, Declined, Reason
from sundog.versions.parts.sql_executions import SqlExecution, plan_node

T = TypeVar("T")
Shadowed = Literal["by answer", "by query", "not"]  # what shadow mode compares: rows that are handed out cannot be
_inside = threading.local()


@dataclass(frozen=True)
class Action(Generic[T]):
    """The parts of an action. `query` is called inside the lifecycle, so that it may fail as well.

    `on_table` takes a whole result on the driver, `on_frame` a DataFrame with sundog's parts in it; without `on_table`,
    rows are not wanted on the driver. `plain` runs the action on Spark alone.
    """

    name: str
    session: SparkSession
    query: Callable[[], DataFrame]
    plain: Callable[[], T]
    on_frame: Callable[[DataFrame], T]
    on_table: Callable[[pa.Table], T] | None = None
    repeatable: bool = True  # handing over may be tried again on plain Spark
    lazy: bool = False  # the result runs later: nothing is finished in this action
    shadowed: Shadowed = "by answer"


@dataclass
class _Life:
    """The state of one action while it runs."""

    run: Run
    started: float = field(default_factory=perf_counter)
    is_shadow: bool = False
    executions: list[Execution] = field(default_factory=list)
    progress: ProgressSink = NO_PROGRESS
    lesson: Lesson | None = None
    entry: SqlExecution | None = None  # in Spark's UI


def run_action(action: Action[T]) -> T:
    """Run one action, with sundog if it can."""
    life = _Life(start_run(action.name))
    try:
        with under_action(), watching(lambda: marks_of(action.session)):
            return _live(action, life)
    finally:
        life.run.seconds = perf_counter() - life.started


def _live(action: Action[T], life: _Life) -> T:
    run, hand_over, failed = life.run, None, True
    try:
        try:
            planned = _plan(action, life)
            if life.is_shadow:
                return _shadowed(action, life, planned)
            if planned is not None and not _is_left_to_spark(action, life, planned):
                hand_over = _start(action, life, planned)
                result = hand_over()
                _finish(life, action.lazy)
                _learn(life, planned)
                run.accelerated, run.whole, failed = True, planned.leaves_nothing, False
                return result
        except Exception as error:
            if life.is_shadow:
                raise
            settle(action.session, run, error, may_restart=action.repeatable or hand_over is None)
        except KeyboardInterrupt:
            run.decline(Reason(Code.CANCELLED, "interrupted from the keyboard or by a notebook"))
            raise
    finally:
        life.progress.finish()
        if failed:
            _abandon(life)
    return action.plain() if life.lesson is None else life.lesson.answered_by_spark(action.plain)


def _is_left_to_spark(action: Action[T], life: _Life, planned: Planned) -> bool:
    """Whether Spark was faster at this query before, or is to be compared now. If so, the run has the reason."""
    if not planned.settings.learn or action.lazy or not action.repeatable:
        return False
    query = f"{action.name} {planned.shape}"
    costs = read_costs(planned.settings.costs).driver
    life.lesson = Lesson.of(session_id(action.session), query, planned.catalyst.seconds, costs)
    reason = life.lesson.reason
    if reason is not None:
        life.run.decline(reason)
    return reason is not None


def _learn(life: _Life, planned: Planned) -> None:
    """Record the time of the action, for the next one of its shape."""
    if life.lesson is not None:
        seconds = perf_counter() - life.started
        rows, groups, window_rows = (
            life.run.metrics.get(name, 0.0) for name in ("input_rows", "groups", "window_rows")
        )
        slots = planned.session.sparkContext.defaultParallelism
        guess = life.lesson.costs.spark_seconds(planned.operators, slots, rows, groups, window_rows)
        life.lesson.answered_by_sundog(seconds, guess)


def settle(session: SparkSession, run: Run, error: Exception, may_restart: bool) -> None:
    """Record an error, and return if Spark may run the action from its beginning. Else raise."""
    if is_for_the_user(error):
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
    """The cancellation that came while another error happened: a cancelled action is not started again."""
    try:
        current_watch().check()
    except ActionCancelled as cancelled:
        return cancelled
    return None


def _raises(session: SparkSession) -> bool:
    return read_settings(SessionConf.of(session).get).on_internal_error == "raise"


def _plan(action: Action[T], life: _Life) -> Planned | None:
    """What sundog would take of the action. In shadow mode no error is raised: Spark answers in any case."""
    conf = SessionConf.of(action.session)
    settings = read_settings(conf.get)
    check_switched_on(settings)
    life.is_shadow = settings.mode == "shadow"
    try:
        return plan_frame(action.query(), life.run, conf, settings, collected=action.on_table is not None)
    except Exception as error:
        if not life.is_shadow:
            raise
        failure = classify(error)
        note_failure(life.run, failure)
        if failure.outcome is Outcome.INTERNAL:
            Tally(action.session).fail(str(failure.reasons[0]))
        return None


def check_switched_on(settings: Settings) -> None:
    if not settings.enabled:
        raise Declined.because(Code.DISABLED, "spark.sundog.enabled is false")
    if settings.mode == "off":
        raise Declined.because(Code.DISABLED, "spark.sundog.mode is off")


def _shadowed(action: Action[T], life: _Life, planned: Planned | None) -> T:
    """Spark's answer; if sundog would have taken the action, after comparing the two."""
    tally = Tally(action.session)
    tally.count_action(eligible=planned is not None)
    if planned is not None and action.shadowed == "not":
        tally.skip(f"{action.name} has no answer to compare")
    if planned is None or action.shadowed == "not":
        return action.plain()
    of_query = action.shadowed == "by query"
    compared: Action[Any] = replace(action, on_table=_as_it_is, on_frame=_collected) if of_query else action

    def ours() -> Any:
        result = _start(compared, life, planned)()
        _finish(life, lazy=False)
        life.executions.clear()
        return result

    return Shadow(action.name, action.session, planned, life.run, ours, of_query).answered_by(action.plain)


def _as_it_is(table: Any) -> Any:
    return table


def _collected(frame: DataFrame) -> Any:
    return collect_arrow(frame)


def _start(action: Action[T], life: _Life, planned: Planned) -> Callable[[], T]:
    """Compute what runs on the driver, or is the whole result. The returned function hands it over.

    If the first foreign rows show that taking them does not pay, the rest of the query is still taken, and the next
    query of this shape skips that probe.
    """
    if not planned.spark_inputs:
        return _started(action, life, planned)
    learner = learner_of(session_id(action.session)) if planned.settings.learn else None
    refused = None if learner is None else learner.refusal_of(planned.shape)
    try:
        if refused is not None:
            raise Declined(refused)
        return _started(action, life, planned)
    except Declined as declined:
        if declined.reasons[0].code is not Code.COST:
            raise
        if learner is not None:
            learner.note_refusal(planned.shape, declined.reasons[0])
        conf, collected = SessionConf.of(action.session), action.on_table is not None
        life.run.decline(*declined.reasons)
        again = plan_frame(planned.frame, life.run, conf, planned.settings, collected, declined.reasons[0])
        if again is None:
            raise
        _abandon(life)
        life.executions.clear()
        life.run.graphs.clear()
        life.run.stages.clear()
        return _started(action, life, again)


def _started(action: Action[T], life: _Life, planned: Planned) -> Callable[[], T]:
    planned.progress = life.progress = progress_sink(planned.settings.progress_enabled)
    if planned.settings.ui_enabled:
        life.entry = SqlExecution.start(action.session, f"sundog: {planned.title}", f"{action.name}, run by sundog")
    if action.on_table is not None and planned.is_whole:
        table = whole_table(planned, life.run, life.executions)
        return _to_caller(action.on_table, table)
    spliced = splice_parts(planned, life.run, life.executions, for_good=action.lazy or not action.repeatable)
    return _to_spark(action.on_frame, spliced, planned)


def _to_caller(on_table: Callable[[pa.Table], T], table: pa.Table) -> Callable[[], T]:
    return lambda: on_table(table)


def _to_spark(on_frame: Callable[[DataFrame], T], spliced: DataFrame, planned: Planned) -> Callable[[], T]:
    title = f"sundog: {planned.title}, with Spark"

    def hand_over() -> T:
        with spark_progress(planned.session, planned.progress, "with Spark"), described_as(planned.session, title):
            return on_frame(spliced)

    return hand_over


def _finish(life: _Life, lazy: bool) -> None:
    """Release held rows, and put the counts on the run. Raises if rows were lost or added."""
    for execution in life.executions:
        if not lazy:
            execution.finish()
        _record(life.run, execution)
    _end_entry(life)


def _abandon(life: _Life) -> None:
    """The same after a failure. The first error is the one to raise: a further one is only logged."""
    for execution in life.executions:
        try:
            execution.finish(check=False)
            _record(life.run, execution)
        except Exception:
            log.warning("sundog could not clean up after a query that failed", exc_info=True)
    _end_entry(life, error=life.run.fallback_reason or "failed")


def _end_entry(life: _Life, error: str = "") -> None:
    """Show in Spark's UI what ran. An error in this does not fail the action."""
    entry, life.entry, run = life.entry, None, life.run
    if entry is None:
        return
    try:
        entry.leave()
        seconds = perf_counter() - life.started
        text = analyzed_text(run.parts, run.reasons, run.metrics, run.placement, seconds)
        plan = UiPlan(entry.accumulators, plan_node)
        tree = plan.tree(run.action, run.parts, run.metrics)
        entry.end(text, tree, plan.values, error)
    except Exception:
        log.warning("sundog could not describe a query in Spark's UI", exc_info=True)


def _record(run: Run, execution: Execution) -> None:
    run.planning_seconds += execution.planning_seconds
    run.placement = execution.placement
    merged = Metrics(run.metrics)
    merged.merge(execution.metrics)
    run.metrics = merged.as_numbers()
    run.stages.append(execution.stages)


@contextmanager
def under_action() -> Iterator[None]:
    """Mark this thread as inside an action: further actions, run by sundog itself, go straight to Spark."""
    depth = getattr(_inside, "depth", 0)
    _inside.depth = depth + 1
    try:
        yield
    finally:
        _inside.depth = depth


def is_inside() -> bool:
    return getattr(_inside, "depth", 0) > 0
