"""Explicit calls, without `enable`: an accelerated DataFrame, the plan as text."""

from __future__ import annotations

from pyspark.sql import DataFrame

from sundog.actions.handed_out import translate_worker_errors
from sundog.actions.lifecycle import Action, check_switched_on, run_action, settle, under_action
from sundog.config import read_settings
from sundog.environment.shipping import executor_problem
from sundog.front.session.session_conf import SessionConf
from sundog.plan.stages import StageGraph
from sundog.query import plan_frame
from sundog.report.explain import analyzed_text, explain_text
from sundog.run import Run, last_run, start_run
from sundog.runtime.execute import explain as plan_only


def accelerate(frame: DataFrame) -> DataFrame:
    """An ordinary DataFrame with the eligible parts of `frame` replaced; `frame` itself if there are none.

    Parts that sundog runs on the driver are computed now; parts that run on executors when Spark runs the result.
    """
    translate_worker_errors()
    return run_action(
        Action(
            "accelerate",
            frame.sparkSession,
            query=lambda: frame,
            plain=lambda: frame,
            on_frame=lambda spliced: spliced,
            lazy=True,
            shadowed="not",
        )
    )


def explain(frame: DataFrame, analyze: bool = False, costs: bool = False) -> str:
    """The plan as text: what sundog takes, what stays on Spark and why.

    `analyze`: run it, and show rows, bytes and time of each step. `costs`: the numbers that the planner compared.
    """
    if analyze:
        _drain_frame(frame)
        run = last_run()
        return analyzed_text(run.parts, run.reasons, run.metrics, run.placement, run.seconds, costs)
    run = start_run("explain")
    try:
        with under_action():
            run.graphs = _graphs(frame, run)
    except Exception as error:
        settle(frame.sparkSession, run, error, may_restart=True)
    return explain_text(run.graphs, run.reasons, costs)


def _graphs(frame: DataFrame, run: Run) -> list[StageGraph]:
    """The graphs of all parts, as far as they are known before they run; empty, with reasons, if one is declined."""
    session = frame.sparkSession
    conf = SessionConf.of(session)
    settings = read_settings(conf.get)
    check_switched_on(settings)
    planned = plan_frame(frame, run, conf, settings, collected=True)
    if planned is None:
        return []
    unusable, inputs = executor_problem(session), planned.spark_frames()
    with run.notes_declined():
        return [plan_only(tree, session, settings, inputs, unusable, planned.subqueries) for _, tree in planned.parts]
    return []


def _drain_frame(frame: DataFrame) -> None:
    """Compute all rows of a query, and discard them."""

    def drain(frame: DataFrame) -> None:
        frame.write.format("noop").mode("overwrite").save()

    run_action(
        Action(
            "explain",
            frame.sparkSession,
            query=lambda: frame,
            plain=lambda: drain(frame),
            on_frame=drain,
            on_table=lambda table: None,
            shadowed="not",
        )
    )
