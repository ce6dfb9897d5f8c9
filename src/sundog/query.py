"""One query from plan to result: read Catalyst's plan, match, plan, run, and give the result back.

    action on a DataFrame
      -> CatalystPlan        the optimised plan, one call
      -> QueryReader.match   the subtrees that sundog takes, as logical plans; reasons for the rest
      -> optimize            rules over the logical plan
      -> execute             plan the stages, and run them on driver threads or Spark's executors
      -> whole plan: an Arrow table straight to the user; subtree: spliced back into Spark's plan

`actions/lifecycle.py` calls these steps, and handles their failures.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame

from sundog.config import Settings
from sundog.environment.shipping import executor_problem
from sundog.front.jvm.plan import CatalystPlan
from sundog.front.read_query import QueryReader
from sundog.front.session.session_conf import SessionConf
from sundog.front.splice import schema_at, splice
from sundog.plan.rules.order import optimize
from sundog.plan.spark_rows import judge_of
from sundog.plan.stages import Delivery
from sundog.plan.subqueries import two_rows_at_most
from sundog.planned import Planned
from sundog.run import Run
from sundog.runtime.execute import Execution, execute
from sundog.runtime.frames import named_table
from sundog.support import Code, Declined, Reason
from sundog.versions import spark_version


def plan_frame(
    frame: DataFrame, run: Run, conf: SessionConf, settings: Settings, collected: bool, refused: Reason | None = None
) -> Planned | None:
    """What sundog would take of this DataFrame; None, with reasons in `run`, if nothing.

    `collected`: its rows are wanted on the driver. `refused`: why foreign rows that Spark might compute as well are not
    taken, if that is known.
    """
    with run.planning():
        if frame.isStreaming:
            raise Declined.because(Code.STREAMING, "the DataFrame is a stream")
        conf.check(settings.trusted_settings)
        catalyst = CatalystPlan.of(frame.sparkSession._jvm, frame._jdf, hold_listings=collected)
        reader = QueryReader(frame.sparkSession, conf, settings, judge_of(settings, refused))
        matches = reader.match(catalyst, collected)
        run.decline(*matches.reasons)
        planned = Planned(frame, catalyst, reader.foreign, settings)
        for match in matches.found:
            with run.notes_declined():
                planned.parts.append((match, optimize(match.plan)))
        planned.subqueries = {number: optimize(two_rows_at_most(tree)) for number, tree in reader.subqueries.items()}
        return planned if planned.parts else None
    return None


def whole_table(planned: Planned, run: Run, executions: list[Execution]) -> pa.Table:
    """Run a query that sundog takes as a whole: its rows, under Spark's names and types."""
    execution = _start(planned, 0, run, executions, Delivery.DRIVER)
    return named_table(execution.batches(), spark_version().arrow_schema(planned.frame.schema))


def splice_parts(planned: Planned, run: Run, executions: list[Execution], for_good: bool) -> DataFrame:
    """Spark's plan with each part replaced: by its rows if they are on the driver, else by a lazy DataFrame.

    `for_good`: the rows of lazy parts are handed out at once, and cannot be taken back.
    """
    replacements, delivery = [], Delivery.FOR_GOOD if for_good else Delivery.SPARK
    for part, (match, _) in enumerate(planned.parts):
        execution = _start(planned, part, run, executions, delivery)
        replacements.append((match.path, execution.to_dataframe(schema_at(planned.catalyst, match.path))))
    return splice(planned.session, planned.catalyst.jplan, replacements, planned.frame.columns)


def _start(planned: Planned, part: int, run: Run, executions: list[Execution], delivery: Delivery) -> Execution:
    """Plan and start a part. Its graph of stages is on the run from then on."""
    session, settings, tree = planned.session, planned.settings, planned.parts[part][1]
    given = planned.spark_frames(), executor_problem(session), run.graphs.append, planned.progress
    executions.append(execute(tree, session, settings, *given, delivery, planned.subqueries))
    return executions[-1]
