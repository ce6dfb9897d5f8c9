"""The public functions: switch sundog on and off for a session, ask what it would do, do it explicitly.

The modules behind them need a Spark version that sundog knows, so they are imported after that check.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from sundog.actions.connect.session import is_connect, near_session
from sundog.versions import problem_with

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["accelerate", "disable", "enable", "explain"]


def enable(spark: SparkSession) -> None:
    """From now on, actions on this session's DataFrames run accelerated where eligible.

    The session is a classic one, or one of Spark Connect whose server runs in this process's JVM
    (`remote("local[*]")`). Idempotent, and without effect on other sessions. Raises if a setting cannot be read. On a
    cluster it checks once that the executors' Python has what sundog needs; if not, it warns of what is missing, and
    sundog runs on the driver only. On a Spark that sundog does not know it warns and changes nothing.
    """
    problem = problem_with(spark)
    if problem is not None:
        warnings.warn(f"{problem} Nothing was changed: queries run on plain Spark.", stacklevel=2)
        return
    if is_connect(spark):
        near_session(spark)  # raises if it is remote, before anything that needs a JVM is imported
        from sundog.actions.connect.client import enable_connect

        enable_connect(spark)
        return
    from sundog.actions.install import enable_session, prepare_session

    prepare_session(spark)
    enable_session(spark)


def disable(spark: SparkSession) -> None:
    """Actions of this session run on plain Spark again."""
    if problem_with(spark) is not None:
        return
    if is_connect(spark):
        near_session(spark)
        from sundog.actions.connect.client import disable_connect

        disable_connect(spark)
        return
    from sundog.actions.install import disable_session

    disable_session(spark)


def accelerate(frame: DataFrame) -> DataFrame:
    """An ordinary DataFrame with the eligible parts of `frame` replaced; `frame` itself if there are none.

    Parts that sundog runs on the driver are computed now; parts that run on executors when Spark runs the result.
    """
    problem = problem_with(frame.sparkSession)
    if problem is not None:
        warnings.warn(problem, stacklevel=2)
        return frame
    if is_connect(frame.sparkSession):
        near_session(frame.sparkSession)
        from sundog.actions.connect.dataframe_methods import accelerate_connect

        return accelerate_connect(frame)
    from sundog.actions import explicit

    return explicit.accelerate(frame)


def explain(frame: DataFrame, analyze: bool = False, costs: bool = False) -> str:
    """The plan as text: what sundog takes, what stays on Spark and why.

    `analyze`: run it, and show rows, bytes and time of each step. `costs`: the numbers that the planner compared.
    """
    problem = problem_with(frame.sparkSession)
    if problem is not None:
        return f"Everything stays on Spark. {problem}"
    if is_connect(frame.sparkSession):
        near_session(frame.sparkSession)
        from sundog.actions.connect.dataframe_methods import explain_connect

        return explain_connect(frame, analyze, costs)
    from sundog.actions import explicit

    return explicit.explain(frame, analyze, costs)
