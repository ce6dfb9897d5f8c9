"""The same SQL on plain Spark and on sundog, on driver and executors: equal rows to the bit, or equal errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

import sundog
from tests.oracle.compare import assert_same
from tests.oracle.plain_spark import plain_spark

PLACEMENTS = ("driver", "executors")


@dataclass(frozen=True)
class Raised:
    """The error condition of a query that fails; Java's own exceptions have none, and are told by their class."""

    condition: str


def answer(spark: Any, query: str) -> pa.Table | Raised:
    try:
        return spark.sql(query).toArrow()
    except (PySparkException, Py4JJavaError) as error:
        condition = getattr(error, "getCondition", lambda: None)()  # Py4J's has one in 3.5 only, see conftest.py
        return Raised(condition or type(error).__name__)


def check(
    spark: Any, query: str, *, ordered: bool = False, accelerated: bool | None = True, tolerance: float = 0.0
) -> Any:
    """Run `query` everywhere; `accelerated` None: either will do. Spark's answer, for further claims about it."""
    with plain_spark(spark):
        theirs = answer(spark, query)
    try:
        for placement in PLACEMENTS:
            spark.conf.set("spark.sundog.placement", placement)
            ours = answer(spark, query)
            run = sundog.last_run()
            if isinstance(theirs, Raised) or isinstance(ours, Raised):
                assert ours == theirs, f"{placement}: {query}"
                continue
            if accelerated is not None:
                assert run.accelerated is accelerated, f"{placement}: {query}\n{run.fallback_reasons}"
            try:
                assert_same(ours, theirs, ordered, tolerance)
            except AssertionError as difference:
                raise AssertionError(f"{placement}: {query}\n{difference}") from None
    finally:
        spark.conf.unset("spark.sundog.placement")
    return theirs
