"""What a user asks for by name, without `enable`: an accelerated DataFrame, the plan as text."""

from __future__ import annotations

from pyspark.sql import DataFrame

from sundog.actions.handed_out import translate_worker_errors
from sundog.actions.lifecycle import Action, run_action, settle, under_action
from sundog.config import read_settings
from sundog.query import check_switched_on, conf_of, decided_text, plan_frame
from sundog.report.explain import explain_text
from sundog.run import Run, last_run, start_run


def accelerate(frame: DataFrame) -> DataFrame:
    """An ordinary DataFrame with the eligible parts of `frame` replaced; `frame` itself where there are none.

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


def explain(frame: DataFrame, analyze: bool = False) -> str:
    """The plan as text: what sundog takes, what stays on Spark and why; with `analyze`, run it and show the metrics."""
    if analyze:
        _drain_frame(frame)
        run = last_run()
        return explain_text(run.plan, run.reasons, run.metrics, run.placement, run.seconds)
    run = start_run("explain")
    text = ""
    try:
        with under_action():
            text = _planned_text(frame, run)
    except Exception as error:
        settle(frame.sparkSession, run, error, may_restart=True)
    return explain_text(text, run.reasons)


def _planned_text(frame: DataFrame, run: Run) -> str:
    conf = conf_of(frame.sparkSession)
    settings = read_settings(conf.get)
    check_switched_on(settings)
    planned = plan_frame(frame, run, conf, settings, collected=True)
    return run.plan if planned is None else decided_text(planned, run)


def _drain_frame(frame: DataFrame) -> None:
    """Compute all rows of a query, and keep none."""

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
