"""The whole way of a query: read Catalyst's plan, match, plan, run, and give the result back; or leave it to Spark.

    action on a DataFrame
      -> CatalystPlan        the optimised plan, one call
      -> match_plan          the subtrees that sundog takes, as logical plans; reasons for the rest
      -> optimize, lower     rules, then a physical plan
      -> execute             on driver threads or Spark executors
      -> whole plan: an Arrow table straight to the user; subtree: spliced back into Spark's plan

If anything fails while sundog runs a query, Spark runs it instead: it raises its own error where the query is at fault,
and gives its own answer where sundog is. The reason is logged and kept in `Run.fallback_reasons`.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any, TypeVar

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.conversion import ArrowTableToRowsConversion
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import Row, StructType

from sundog.config import Settings, read_settings
from sundog.errors import InternalError, UnsupportedSessionError
from sundog.expr.errors import SparkQueryError
from sundog.front.catalyst_expr import Scope
from sundog.front.catalyst_json import Node
from sundog.front.jvm import CatalystPlan, output_fields
from sundog.front.match import Match, Matches, match_plan
from sundog.front.relation import read_relation
from sundog.front.session_conf import SessionConf
from sundog.front.spark_errors import to_spark_exception
from sundog.front.splice import frame_at, splice
from sundog.front.time_zones import java_zone
from sundog.metrics import Metrics
from sundog.parquet.problems import FileProblem, FileSchemaProblem
from sundog.parquet.relation import Relation
from sundog.plan.logical import Foreign
from sundog.plan.physical import PhysicalPlan, lower
from sundog.plan.rules.order import optimize
from sundog.progress import progress_sink
from sundog.report.explain import explain_text, render_plan
from sundog.run import Run, last_run, start_run
from sundog.runtime.execute import Execution, execute
from sundog.runtime.prepare import prepare
from sundog.runtime.progress import NO_PROGRESS, ProgressSink, spark_progress
from sundog.runtime.spark import named_table
from sundog.runtime.worker_errors import unwrap_worker_error
from sundog.shipping import executor_problem
from sundog.support import Code, Declined, Reason

T = TypeVar("T")
log = logging.getLogger("sundog")
_inside = threading.local()


@dataclass
class Planned:
    """A DataFrame's plan with the parts that sundog takes, ready to run."""

    frame: DataFrame
    catalyst: CatalystPlan
    parts: list[tuple[Match, PhysicalPlan]]
    foreign: dict[int, tuple[int, ...]]
    settings: Settings
    progress: ProgressSink = NO_PROGRESS

    @property
    def text(self) -> str:
        return "\n\n".join(render_plan(physical) for _, physical in self.parts)

    @property
    def is_whole(self) -> bool:
        return len(self.parts) == 1 and self.parts[0][0].path == ()


def plan_frame(frame: DataFrame, run: Run, collected: bool) -> Planned | None:
    """What sundog would take of this DataFrame; None, with reasons in `run`, if nothing.

    `collected`: its rows are wanted on the driver.
    """
    started = perf_counter()
    try:
        conf = conf_of(frame.sparkSession)
        settings = read_settings(conf.get)
        if not settings.enabled:
            raise Declined.because(Code.DISABLED, "spark.sundog.enabled is false")
        if frame.isStreaming:
            raise Declined.because(Code.STREAMING, "the DataFrame is a stream")
        catalyst = CatalystPlan.of(frame.sparkSession._jvm, frame._jdf)
        matches, foreign = _match(frame.sparkSession, catalyst, settings, conf, collected)
        run.decline(*matches.reasons)
        parts = []
        for match in matches.found:
            try:
                parts.append((match, lower(optimize(match.plan), settings)))
            except Declined as declined:
                run.decline(*declined.reasons)
        planned = Planned(frame, catalyst, parts, foreign, settings)
        run.plan = planned.text
        return planned if parts else None
    except Declined as declined:
        run.decline(*declined.reasons)
        return None
    except Py4JError as error:  # another Spark has other methods; if the query itself is at fault, Spark will say so
        log.info("sundog cannot read the plan", exc_info=error)
        run.decline(Reason(Code.PLAN_VERSION, f"reading the plan failed: {str(error).splitlines()[0][:200]}"))
        return None
    finally:
        run.planning_seconds += perf_counter() - started


def conf_of(session: SparkSession) -> SessionConf:
    return SessionConf.of(session._jvm, session._jconf)


def _match(
    session: SparkSession, catalyst: CatalystPlan, settings: Settings, conf: SessionConf, collected: bool
) -> tuple[Matches, dict[int, tuple[int, ...]]]:
    """The matches, and where in Catalyst's plan the inputs are that stay Spark's."""
    foreign: dict[int, tuple[int, ...]] = {}
    seen: dict[tuple[int, ...], Relation | Declined] = {}

    def relation_of(leaf: Node, condition: Node | None) -> Relation:
        """Each leaf is read once, although the search may come by several times."""
        if leaf.path not in seen:
            try:
                seen[leaf.path] = read_relation(catalyst, leaf, condition, conf.text, session._jvm)
            except Declined as declined:
                seen[leaf.path] = declined
        found = seen[leaf.path]
        if isinstance(found, Declined):
            raise found
        return found

    def foreign_of(node: Node) -> Foreign:
        foreign[len(foreign)] = node.path
        return Foreign(len(foreign) - 1, output_fields(catalyst.jnode(node.path)), node.name)

    scope = _session_scope(session, conf)
    return match_plan(catalyst.root, relation_of, foreign_of, settings, scope, collected), foreign


def _session_scope(session: SparkSession, conf: SessionConf) -> Scope:
    """What the session decides about expressions: the time zone, by the JVM's rules, and the case mapping."""
    name = conf.get("spark.sql.session.timeZone") or session._jconf.sessionLocalTimeZone()
    rules = java_zone(session._jvm, name)
    case_mapping = conf.get("spark.sql.icu.caseMappings.enabled", "true") == "true"
    return Scope({}, name, {} if rules is None else {name: rules}, case_mapping)


def run_action(
    name: str,
    frame: DataFrame,
    on_table: Callable[[pa.Table], T] | None,
    on_frame: Callable[[DataFrame], T],
    plain: Callable[[], T],
    repeatable: bool = True,
) -> T:
    """Run one action on `frame`: `on_table` for a whole result, `on_frame` for a spliced plan, else `plain`.

    Without `on_table` rows are not wanted on the driver: what executors compute, they keep.
    """
    run = start_run(name)
    started = perf_counter()
    executions: list[Execution] = []
    progress: ProgressSink = NO_PROGRESS
    try:
        with under_action():
            planned = plan_frame(frame, run, collected=on_table is not None)
            if planned is None:
                return plain()
            planned.progress = progress = progress_sink(planned.settings.progress_enabled)
            try:
                finish = _begin(planned, run, executions, on_table, on_frame)
            except InternalError:
                raise
            except Exception as error:  # nothing was handed out yet: Spark may start from the beginning
                note_failure(run, error)
                return plain()
            try:
                result = finish()
                run.accelerated = True
                return result
            except Exception as error:
                cause = unwrap_worker_error(error)
                if isinstance(cause, InternalError):
                    raise cause from error
                if not repeatable:
                    raise to_spark_exception(cause) if isinstance(cause, SparkQueryError) else error from None
                note_failure(run, cause)
                return plain()
    finally:
        progress.finish()
        close_executions(run, executions)
        run.seconds = perf_counter() - started


def note_failure(run: Run, error: BaseException) -> None:
    if isinstance(error, Declined):
        run.decline(*error.reasons)
        return
    first_line = next(iter(str(error).splitlines()), "")[:300]
    run.decline(Reason(Code.EXECUTION, f"{type(error).__name__}: {first_line}"))
    log.info("sundog left the query to Spark after an error", exc_info=error)


def _begin(
    planned: Planned,
    run: Run,
    executions: list[Execution],
    on_table: Callable[[pa.Table], T] | None,
    on_frame: Callable[[DataFrame], T],
) -> Callable[[], T]:
    """Compute what runs on the driver or is the whole result; what is returned hands it to the action."""
    if on_table is None or not planned.is_whole:
        spliced = splice_parts(planned, run, executions)

        def in_spark() -> T:
            with spark_progress(planned.frame.sparkSession, planned.progress, "with Spark"):
                return on_frame(spliced)

        return in_spark
    execution = start_execution(planned, 0, run)
    executions.append(execution)
    table = named_table(execution.batches(), to_arrow_schema(planned.frame.schema, timezone="UTC"))
    return lambda: on_table(table)


def close_executions(run: Run, executions: list[Execution]) -> None:
    """After the action: let go of what was held, and put what was counted on the run."""
    for execution in executions:
        execution.finish()
        run.planning_seconds += execution.planning_seconds
        run.placement = execution.placement
        merged = Metrics(run.metrics)
        merged.merge(execution.metrics)
        run.metrics = merged.as_numbers()
        run.stages.extend(execution.stages)


def start_execution(planned: Planned, part: int, run: Run) -> Execution:
    """Start a part; what it decided on the way is in the run's plan from then on."""
    session = planned.frame.sparkSession
    match, physical = planned.parts[part]
    inputs = {handle: frame_at(session, planned.catalyst, path) for handle, path in planned.foreign.items()}
    unusable = executor_problem(session)
    execution = execute(physical, session, planned.settings, inputs, unusable, run.details, planned.progress)
    planned.parts[part] = match, execution.plan
    run.plan = planned.text
    return execution


def splice_parts(planned: Planned, run: Run, executions: list[Execution]) -> DataFrame:
    """Spark's plan with each part replaced: by its rows where they are on the driver, by a lazy DataFrame if not."""
    session = planned.frame.sparkSession
    replacements = []
    for part, (match, _) in enumerate(planned.parts):
        execution = start_execution(planned, part, run)
        executions.append(execution)
        schema = _schema_at(planned.catalyst, match.path)
        replacements.append((match.path, execution.to_dataframe(schema)))
    return splice(session, planned.catalyst.jplan, replacements)


def _schema_at(catalyst: CatalystPlan, path: tuple[int, ...]) -> StructType:
    return StructType.fromJson(json.loads(catalyst.jnode(path).schema().json()))


def to_rows(table: pa.Table, frame: DataFrame) -> list[Row]:
    """Rows with exactly the Python types of Spark's own collect, by pyspark's own conversion."""
    as_bytes = frame.sparkSession._jconf.getConfString("spark.sql.execution.pyspark.binaryAsBytes", "true") == "true"
    rows: list[Row] = ArrowTableToRowsConversion.convert(table, frame.schema, binary_as_bytes=as_bytes)
    return rows


def accelerate(frame: DataFrame) -> DataFrame:
    """An ordinary DataFrame with the eligible parts of `frame` replaced; `frame` itself where there are none.

    Parts that sundog runs on the driver are computed now; parts that run on executors when Spark runs the result.
    """
    check_classic(frame.sparkSession)
    run = start_run("accelerate")
    started = perf_counter()
    try:
        with under_action():
            planned = plan_frame(frame, run, collected=False)
            if planned is None:
                return frame
            executions: list[Execution] = []
            try:
                result = splice_parts(planned, run, executions)
            except InternalError:
                raise
            except Exception as error:
                note_failure(run, error)
                return frame
            finally:
                for execution in executions:
                    run.placement = execution.placement
            run.accelerated = True
            return result
    finally:
        run.seconds = perf_counter() - started


def explain(frame: DataFrame, analyze: bool = False) -> str:
    """The plan as text: what sundog takes, what stays on Spark and why; with `analyze`, run it and show the metrics."""
    check_classic(frame.sparkSession)
    if analyze:
        run_action("explain", frame, lambda table: None, _drain, lambda: _drain(frame))
        run = last_run()
        return explain_text(run.plan, run.reasons, run.metrics, run.placement, run.seconds)
    run = start_run("explain")
    with under_action():
        planned = plan_frame(frame, run, collected=True)
        text = run.plan if planned is None else _decided_text(planned, run)
    return explain_text(text, run.reasons)


def _decided_text(planned: Planned, run: Run) -> str:
    """With what the files' footers decide; without it where they cannot be read, which running the query will tell."""
    session = planned.frame.sparkSession
    try:
        unusable = executor_problem(session)
        plans = [prepare(physical, session, planned.settings, unusable).plan for _, physical in planned.parts]
    except Declined as declined:
        run.decline(*declined.reasons)
        return ""
    except (FileProblem, FileSchemaProblem) as problem:
        log.info("explain shows the plan without the files' statistics: %s", problem)
        return planned.text
    return "\n\n".join(map(render_plan, plans))


def _drain(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def check_classic(session: Any) -> None:
    if not hasattr(session, "_jsparkSession"):
        raise UnsupportedSessionError.connect()


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
