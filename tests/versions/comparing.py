"""Comparison of sundog with plain Spark: rows, types and errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

import sundog
from tests.oracle.plain_spark import plain_spark

PLACEMENTS = ["driver", "executors"]
SPARK_ERRORS = (PySparkException, Py4JError)  # 3.5 wraps no error of a task


def canonical(rows: list[Any], ordered: bool = False) -> list[str]:
    """Rows as text with their Python types, as a multiset or in order; the last bits of doubles are free."""

    def text(value: Any) -> str:
        if isinstance(value, float):
            return "nan" if math.isnan(value) else f"{value:.10g}"
        if isinstance(value, Decimal):
            return f"Decimal({value})"
        return repr(value)

    texts = [
        f"{type(row).__name__}({', '.join(f'{k}={text(v)}' for k, v in zip(row.__fields__, row, strict=True))})"
        for row in rows
    ]
    return texts if ordered else sorted(texts)


def accelerated(session: Any, action: Callable[[Any], Any], sql: str, placements: Sequence[str] = PLACEMENTS) -> None:
    """The action on the query gives what plain Spark gives, and sundog runs it, in each of the placements."""
    with plain_spark(session):
        theirs = action(session.sql(sql))
    for placement in placements:
        session.conf.set("spark.sundog.placement", placement)
        ours = action(session.sql(sql))
        run = sundog.last_run()
        assert ours == theirs, placement
        assert run.accelerated, run.fallback_reasons
        if placement != "auto":
            assert run.placement == placement or "SparkInput" in run.plan  # rows of Spark's are on executors


def outcome(session: Any, frame: Callable[[], Any]) -> str:
    """Rows, or the class of the error."""
    try:
        return str(canonical(frame().collect()))
    except SPARK_ERRORS as error:
        return type(error).__name__


def outcome_of_spark(session: Any, frame: Callable[[], Any]) -> str:
    with plain_spark(session):
        return outcome(session, frame)
