"""One query from plan to result: read Catalyst's plan, match, plan, run, and give the result back.

    action on a DataFrame
      -> CatalystPlan        the optimised plan, one call
      -> QueryReader.match   the subtrees that sundog takes, as logical plans; reasons for the rest
      -> optimize            rules over the logical plan
      -> execute             plan the stages, and run them on driver threads or Spark's executors
      -> whole plan: an Arrow table straight to the user; subtree: spliced back into Spark's plan

When these steps are taken, and what happens when one of them fails, is in `actions/lifecycle.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import perf_counter

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame

from sundog.config import Settings
from sundog.environment.shipping import executor_problem
from sundog.front.jvm.plan import CatalystPlan
from sundog.front.read_query import QueryReader
from sundog.front.session.session_conf import SessionConf
from sundog.front.splice import frame_at, schema_at, splice
from sundog.plan.costs import read_costs
from sundog.plan.logical import LogicalPlan
from sundog.plan.rules.order import optimize
from sundog.plan.spark_rows import may_be_left, why_left_to_spark
from sundog.plan.subqueries import two_rows_at_most
from sundog.planned import Planned
from sundog.run import Run
from sundog.runtime.execute import Execution, execute
from sundog.runtime.frames import named_table
from sundog.support import Code, Declined, Reason
from sundog.versions import spark_version

log = logging.getLogger("sundog")


def plan_frame(
    frame: DataFrame,
    run: Run,
    conf: SessionConf,
    settings: Settings,
    collected: bool,
    refused: Reason | None = None,
) -> Planned | None:
    """What sundog would take of this DataFrame; None, with reasons in `run`, if nothing.

    `collected`: its rows are wanted on the driver. `refused`: why nothing is taken over rows of Spark's that Spark
    might compute as well, if that is known.
    """
    started = perf_counter()
    try:
        if frame.isStreaming:
            raise Declined.because(Code.STREAMING, "the DataFrame is a stream")
        conf.check(settings.trusted_settings)
        catalyst = CatalystPlan.of(frame.sparkSession._jvm, frame._jdf, hold_listings=collected)
        reader = QueryReader(frame.sparkSession, conf, settings, _judge(settings, refused))
        matches = reader.match(catalyst, collected)
        run.decline(*matches.reasons)
        planned = Planned(frame, catalyst, reader.foreign, settings)
        for match in matches.found:
            with run.notes_declined():
                planned.parts.append((match, optimize(match.plan)))
        planned.subqueries = {number: optimize(two_rows_at_most(tree)) for number, tree in reader.subqueries.items()}
        return planned if planned.parts else None
    except Declined as declined:
        run.decline(*declined.reasons)
    except Py4JError as error:  # another Spark has other methods; if the query itself is at fault, Spark will say so
        log.info("sundog cannot read the plan", exc_info=error)
        run.decline(Reason(Code.PLAN_VERSION, f"reading the plan failed: {str(error).splitlines()[0][:200]}"))
    finally:
        run.planning_seconds += perf_counter() - started
    return None


def _judge(settings: Settings, refused: Reason | None) -> Callable[[LogicalPlan], Reason | None]:
    """Tells of a shape over rows of Spark's why it is left to Spark."""
    costs = read_costs(settings.costs).executors
    return lambda shape: why_left_to_spark(shape, costs) or (refused if may_be_left(shape) else None)


def whole_table(planned: Planned, run: Run, executions: list[Execution]) -> pa.Table:
    """Run a query that is wholly ours: its rows, under Spark's names and types."""
    execution = _start(planned, 0, run, executions)
    return named_table(execution.batches(), spark_version().arrow_schema(planned.frame.schema))


def splice_parts(planned: Planned, run: Run, executions: list[Execution], for_good: bool) -> DataFrame:
    """Spark's plan with each part replaced: by its rows where they are on the driver, by a lazy DataFrame if not.

    `for_good`: what the lazy ones make is handed out at once, and cannot be taken back.
    """
    replacements = []
    for part, (match, _) in enumerate(planned.parts):
        execution = _start(planned, part, run, executions, for_good)
        replacements.append((match.path, execution.to_dataframe(schema_at(planned.catalyst, match.path))))
    return splice(planned.session, planned.catalyst.jplan, replacements, planned.frame.columns)


def spark_inputs(planned: Planned) -> dict[int, DataFrame]:
    """The frames of the rows that only Spark can read, by handle."""
    return {handle: frame_at(planned.session, *place) for handle, place in planned.spark_inputs.items()}


def _start(planned: Planned, part: int, run: Run, executions: list[Execution], for_good: bool = False) -> Execution:
    """Plan and start a part; its graph of stages is on the run from then on."""
    session, (_, tree) = planned.session, planned.parts[part]
    inputs = spark_inputs(planned)
    settings, progress, subqueries = planned.settings, planned.progress, planned.subqueries
    unusable, on_graph = executor_problem(session), run.graphs.append
    execution = execute(tree, session, settings, inputs, unusable, on_graph, progress, for_good, subqueries)
    executions.append(execution)
    return execution
