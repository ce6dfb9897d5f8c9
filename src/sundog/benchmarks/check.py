"""`--check`: compares the answers of a suite on plain Spark and on sundog, once in each placement.

No time is measured, so one session serves for all and the tables may be tiny. A case of which sundog takes nothing is
skipped: Spark would be compared with itself. If Spark raises an error, sundog must raise it too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

import sundog
from sundog.benchmarks.agree import difference
from sundog.benchmarks.cases.model import Case, DataRef
from sundog.benchmarks.data.catalog import find_data_set
from sundog.benchmarks.engines.spark import as_arrow
from sundog.benchmarks.results import Taken
from sundog.config import read_settings
from sundog.front.session.session_conf import SessionConf
from sundog.query import plan_frame
from sundog.run import Run

PLACEMENTS = ("driver", "executors")
_PLACEMENT_KEY = "spark.sundog.placement"


@dataclass(frozen=True)
class Checked:
    """One case in one placement: how much sundog took, the first reason against more, and how its answer differs."""

    case: str
    placement: str
    taken: Taken
    reason: str | None = None
    difference: str | None = None

    def as_json(self) -> dict[str, object]:
        return {**asdict(self), "taken": self.taken.value}


def check_cases(
    spark: Any, cases: Sequence[Case], folders: Mapping[DataRef, Path], placements: Sequence[str] = PLACEMENTS
) -> Iterator[Checked]:
    """Check one case after the other, in every placement. sundog is off afterwards."""
    named: DataRef | None = None
    try:
        for case in cases:
            if case.data != named:
                for name, folder in find_data_set(case.data.name).folders(folders[case.data]).items():
                    spark.read.parquet(str(folder)).createOrReplaceTempView(name)
                named = case.data
            yield from _check(spark, case, placements)
    finally:
        sundog.disable(spark)
        spark.conf.unset(_PLACEMENT_KEY)


def _check(spark: Any, case: Case, placements: Sequence[str]) -> Iterator[Checked]:
    sundog.disable(spark)
    planned = Run()
    conf = SessionConf.of(spark)
    if plan_frame(spark.sql(case.sql), planned, conf, read_settings(conf.get), collected=True) is None:
        yield from (Checked(case.name, where, Taken.SPARK, planned.fallback_reason) for where in placements)
        return
    expected = _answer(spark, case)
    sundog.enable(spark)
    for placement in placements:
        spark.conf.set(_PLACEMENT_KEY, placement)
        actual = _answer(spark, case)
        run = sundog.last_run()
        taken = Taken.of(run.accelerated, run.whole)
        yield Checked(case.name, placement, taken, run.fallback_reason, answers_differ(expected, actual, case))


def _answer(spark: Any, case: Case) -> pa.Table | str:
    """The rows, or the error that comes instead: by its condition if it is Spark's, by its words if it is a bug."""
    try:
        return as_arrow(spark.sql(case.sql))
    except PySparkException as error:
        return error.getErrorClass() or type(error).__name__
    except Py4JJavaError as error:  # an error in a task, on Spark 3.5: its text has numbers of jobs and stages
        cause = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        return str(cause.toString())
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def answers_differ(expected: pa.Table | str, actual: pa.Table | str, case: Case) -> str | None:
    """The difference in one sentence: rows, types, or the error; None if there is none."""
    if isinstance(expected, str) or isinstance(actual, str):
        want, got = (answer if isinstance(answer, str) else "an answer" for answer in (expected, actual))
        return None if want == got else f"{got}, not {want}"
    if not actual.schema.equals(expected.schema):
        return f"schema {actual.schema.types}, not {expected.schema.types}"
    return difference(expected, actual, case.check)
