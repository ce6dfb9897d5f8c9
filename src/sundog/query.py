"""One query from plan to result: read Catalyst's plan, match, plan, run, and give the result back.

    action on a DataFrame
      -> CatalystPlan        the optimised plan, one call
      -> match_plan          the subtrees that sundog takes, as logical plans; reasons for the rest
      -> optimize            rules over the logical plan
      -> execute             plan the stages, and run them on driver threads or Spark's executors
      -> whole plan: an Arrow table straight to the user; subtree: spliced back into Spark's plan

When these steps are taken, and what happens when one of them fails, is in `actions/lifecycle.py`.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from time import perf_counter

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from sundog.config import Settings
from sundog.environment.shipping import executor_problem
from sundog.front.expressions.reading import Scope
from sundog.front.expressions.time_zones import java_zone
from sundog.front.jvm.plan import CatalystPlan, held_listings
from sundog.front.match import Match
from sundog.front.read_query import QueryReader
from sundog.front.session.session_conf import SessionConf
from sundog.front.splice import frame_at, splice
from sundog.plan.logical import Foreign, LogicalPlan
from sundog.plan.rules.order import optimize
from sundog.plan.stages import StageGraph
from sundog.plan.subqueries import plans_read, two_rows_at_most
from sundog.run import Run
from sundog.runtime.execute import Execution, execute, explain
from sundog.runtime.frames import named_table
from sundog.runtime.progress import NO_PROGRESS, ProgressSink
from sundog.support import Code, Declined, Reason
from sundog.tree import walk
from sundog.versions import spark_version

log = logging.getLogger("sundog")


@dataclass
class Planned:
    """A DataFrame's plan with the parts that sundog takes, ready to run."""

    frame: DataFrame
    catalyst: CatalystPlan
    parts: list[tuple[Match, LogicalPlan]]
    foreign: dict[int, tuple[CatalystPlan, tuple[int, ...]]]
    subqueries: dict[int, LogicalPlan]
    settings: Settings
    progress: ProgressSink = NO_PROGRESS

    @property
    def is_whole(self) -> bool:
        return len(self.parts) == 1 and self.parts[0][0].path == ()

    @property
    def leaves_nothing(self) -> bool:
        """Whether Spark computes no part of the query: sundog's part is the whole plan, down to the files."""
        trees = plans_read(self.parts[0][1], self.subqueries) if self.is_whole else []
        return self.is_whole and not any(isinstance(node, Foreign) for tree in trees for node in walk(tree))


def plan_frame(frame: DataFrame, run: Run, conf: SessionConf, settings: Settings, collected: bool) -> Planned | None:
    """What sundog would take of this DataFrame; None, with reasons in `run`, if nothing.

    `collected`: its rows are wanted on the driver.
    """
    started = perf_counter()
    try:
        if frame.isStreaming:
            raise Declined.because(Code.STREAMING, "the DataFrame is a stream")
        conf.check(settings.trusted_settings)
        catalyst = CatalystPlan.of(frame.sparkSession._jvm, frame._jdf)
        if collected:
            catalyst.listings = held_listings(frame._jdf)
        reader = QueryReader(frame.sparkSession, conf, settings, _session_scope(frame.sparkSession, conf))
        matches = reader.match(catalyst, collected)
        run.decline(*matches.reasons)
        parts = []
        for match in matches.found:
            try:
                parts.append((match, optimize(match.plan)))
            except Declined as declined:
                run.decline(*declined.reasons)
        subqueries = {number: optimize(two_rows_at_most(tree)) for number, tree in reader.subqueries.items()}
        return Planned(frame, catalyst, parts, reader.foreign, subqueries, settings) if parts else None
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


def check_switched_on(settings: Settings) -> None:
    if not settings.enabled:
        raise Declined.because(Code.DISABLED, "spark.sundog.enabled is false")
    if settings.mode == "off":
        raise Declined.because(Code.DISABLED, "spark.sundog.mode is off")


def session_id(session: SparkSession) -> str:
    """The JVM session's identity: several Python objects may stand for one session."""
    known: str | None = session.__dict__.get("_sundog_id")
    if known is None:
        known = str(session._jsparkSession.sessionUUID())
        session.__dict__["_sundog_id"] = known
    return known


def _session_scope(session: SparkSession, conf: SessionConf) -> Scope:
    """What the session decides about expressions: the time zone, by the JVM's rules, and the case mapping."""
    name = conf.text("spark.sql.session.timeZone")
    rules = java_zone(session._jvm, name)
    case_mapping = conf.flag("spark.sql.icu.caseMappings.enabled")
    segment_trees = conf.flag("spark.sql.window.segmentTree.enabled")
    whole_stage = conf.flag("spark.sql.codegen.wholeStage")
    return Scope({}, name, {} if rules is None else {name: rules}, case_mapping, segment_trees, whole_stage)


def whole_table(planned: Planned, run: Run, executions: list[Execution]) -> pa.Table:
    """Run a query that is wholly ours: its rows, under Spark's names and types."""
    execution = start_execution(planned, 0, run)
    executions.append(execution)
    return named_table(execution.batches(), spark_version().arrow_schema(planned.frame.schema))


def start_execution(planned: Planned, part: int, run: Run, for_good: bool = False) -> Execution:
    """Plan and start a part; its graph of stages is on the run from then on."""
    session = planned.frame.sparkSession
    _, tree = planned.parts[part]
    inputs = {handle: frame_at(session, catalyst, path) for handle, (catalyst, path) in planned.foreign.items()}
    return execute(
        tree,
        session,
        planned.settings,
        inputs,
        executor_problem(session),
        run.graphs.append,
        planned.progress,
        for_good,
        planned.subqueries,
    )


def splice_parts(planned: Planned, run: Run, executions: list[Execution], for_good: bool) -> DataFrame:
    """Spark's plan with each part replaced: by its rows where they are on the driver, by a lazy DataFrame if not.

    `for_good`: what the lazy ones make is handed out at once, and cannot be taken back.
    """
    session = planned.frame.sparkSession
    replacements = []
    for part, (match, _) in enumerate(planned.parts):
        execution = start_execution(planned, part, run, for_good)
        executions.append(execution)
        schema = _schema_at(planned.catalyst, match.path)
        replacements.append((match.path, execution.to_dataframe(schema)))
    return splice(session, planned.catalyst.jplan, replacements, planned.frame.columns)


def _schema_at(catalyst: CatalystPlan, path: tuple[int, ...]) -> StructType:
    return StructType.fromJson(json.loads(catalyst.jnode(path).schema().json()))


def explain_parts(planned: Planned, run: Run) -> list[StageGraph]:
    """The graphs of all parts, as far as they are known before they run; none, with reasons, if one is declined."""
    session = planned.frame.sparkSession
    try:
        unusable = executor_problem(session)
        return [explain(tree, session, planned.settings, unusable, planned.subqueries) for _, tree in planned.parts]
    except Declined as declined:
        run.decline(*declined.reasons)
        return []
