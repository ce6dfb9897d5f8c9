"""Aggregates and partitioned windows over rows that only Spark can read: where costs say so, with Spark's answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PythonException
from pyspark.sql import Observation
from pyspark.sql.functions import count, lit, udf

import sundog
from tests.costs import costs
from tests.oracle.compare import assert_same
from tests.oracle.plain_spark import plain_spark

pytestmark = pytest.mark.spark

ROWS = 20_000
COLUMNS = [
    "id",
    "id * 7919 % 5000 AS k",
    "id % 3 AS few",
    "CAST(id % 7 AS DECIMAL(20, 3)) AS d",
    "IF(id % 11 = 0, NULL, concat('name ', id % 900)) AS s",
    "CAST(id % 1000 AS FLOAT) AS f",
    "timestamp_seconds(id * 37) AS t",
    "date_add(DATE'2020-01-01', CAST(id % 500 AS INT)) AS day",
    "id % 2 = 0 AS even",
]
GROUPED = "SELECT k, s, count(*) c, sum(d) total, max(t), min(day), count(f), bool_or(even) FROM {} GROUP BY k, s"
SLIDING = "SELECT k, id, s, d, sum(id) OVER (PARTITION BY k ORDER BY id ROWS 20 PRECEDING) w FROM {}"
WORTH_IT = {"min_spark_rows_seconds": 0, "spark_few_groups": 100, "spark_many_groups_ns_per_row": 10_000}
WORTH_IT |= {"spark_window_ns_per_row": 10_000}


@pytest.fixture(scope="module")
def session(enabled: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The same rows cached, as CSV, and as a UDF gives them; and a Parquet table beside."""
    folder: Path = tmp_path_factory.mktemp("rows")
    rows = enabled.range(0, ROWS, 1, 4).selectExpr(*COLUMNS)
    rows.write.csv(str(folder / "csv"))
    cached = rows.cache()
    cached.count()
    cached.createOrReplaceTempView("cached")
    enabled.read.schema(rows.schema).csv(str(folder / "csv")).createOrReplaceTempView("csv")
    same = udf(lambda value: value, "long")
    rows.withColumn("k", same("k")).createOrReplaceTempView("by_udf")
    failing = udf(lambda value: 1 // (value - 77), "long")
    rows.withColumn("k", failing("id")).createOrReplaceTempView("failing")
    pq.write_table(pa.table({"k": np.arange(100) % 10}), folder / "table.parquet")
    enabled.read.parquet(str(folder / "table.parquet")).createOrReplaceTempView("readable")
    yield enabled
    cached.unpersist()


def run(session: Any, query: str) -> sundog.Run:
    """The run, after its rows were compared with Spark's."""
    ours = session.sql(query).toArrow()
    found = sundog.last_run()
    with plain_spark(session):
        assert_same(ours, session.sql(query).toArrow(), ordered=False)
    return found


@pytest.mark.parametrize("source", ["cached", "csv", "by_udf"])
def test_rows_of_spark_are_taken_where_that_pays(session: Any, source: str) -> None:
    with costs(session, **WORTH_IT):
        for query in (GROUPED, SLIDING):
            found = run(session, query.format(source))
            assert found.accelerated, found.fallback_reasons
            assert found.placement == "executors"
            assert "SparkInput: " in found.plan
            assert found.metrics["input_rows"] == ROWS


@pytest.mark.parametrize("query", [GROUPED, SLIDING])
def test_few_rows_are_left_to_spark_with_the_figures(session: Any, query: str) -> None:
    found = run(session, query.format("cached"))
    assert not found.accelerated
    (reason,) = [text for text in map(str, found.fallback_reasons) if text.startswith("COST")]
    assert "about 20,000 rows of Spark's, each" in reason
    assert "ns to hand over" in reason


def test_few_keys_are_left_to_spark_and_the_rest_of_the_query_is_taken(session: Any) -> None:
    few = "SELECT few, count(*) c FROM cached GROUP BY few"
    with costs(session, **WORTH_IT):
        assert "some 3 keys, about 20,000 rows" in str(run(session, few).fallback_reason)
        assert "some 3 keys" in sundog.explain(session.sql(few))
        found = run(session, f"{few} UNION ALL SELECT k, count(*) FROM readable GROUP BY k")
        assert found.accelerated
        assert "some 3 keys" in str(found.fallback_reasons)


def test_rows_that_were_refused_once_are_not_looked_at_again(session: Any) -> None:
    few = "SELECT few, count(*) c FROM cached GROUP BY few"
    context, jobs = session.sparkContext, []
    session.conf.set("spark.sundog.learn", "true")
    try:
        with costs(session, **WORTH_IT):
            for group in ("looks", "remembers"):
                context.setJobGroup(group, group)
                session.sql(few).collect()
                assert "some 3 keys, about 20,000 rows" in str(sundog.last_run().fallback_reason)
                jobs.append(len(context.statusTracker().getJobIdsForGroup(group)))
    finally:
        session.conf.set("spark.sundog.learn", "false")
        for key in ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel"):
            context.setLocalProperty(key, None)
    assert 0 < jobs[1] < jobs[0]


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT few, first(id) FROM cached GROUP BY few, k", "NONDETERMINISTIC: first"),
        (
            "SELECT k, count(*) FROM (SELECT /*+ REPARTITION(3) */ * FROM cached) GROUP BY k",
            "COST: how many keys rows of Spark's have",
        ),
        ("SELECT k, count(*) FROM unknown GROUP BY k", "COST: Spark does not know how many rows there are"),
    ],
)
def test_what_is_not_known_is_left_to_spark(session: Any, query: str, reason: str) -> None:
    numbers = session.sparkContext.parallelize([(number,) for number in range(50)])
    session.createDataFrame(numbers, "k long").createOrReplaceTempView("unknown")
    with costs(session, **WORTH_IT):
        session.sql(query).collect()
    assert not sundog.last_run().accelerated
    assert reason in str(sundog.last_run().fallback_reasons)


def test_observed_rows_are_left_to_spark(session: Any) -> None:
    seen = Observation()
    with costs(session, **WORTH_IT):
        session.table("cached").observe(seen, count(lit(1)).alias("rows")).groupBy("k").count().collect()
    assert "UNKNOWN_NODE: observe() reports" in str(sundog.last_run().fallback_reasons)
    assert seen.get == {"rows": ROWS}


def test_an_error_of_sparks_own_rows_is_sparks(session: Any) -> None:
    with costs(session, **WORTH_IT, first_key_rows=10):
        with pytest.raises(PythonException, match="ZeroDivisionError"):
            session.sql("SELECT k, count(*) FROM failing GROUP BY k").collect()
        with pytest.raises(PythonException, match="ZeroDivisionError"):
            session.sql("SELECT k, count(*) FROM failing GROUP BY k").foreach(lambda row: None)


def test_rows_of_spark_are_written_and_shadowed(session: Any, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    with costs(session, **WORTH_IT):
        session.sql(SLIDING.format("cached")).write.parquet(out)
        assert sundog.last_run().accelerated
        assert session.read.parquet(out).count() == ROWS
        before = sundog.shadow_report(session)
        session.conf.set("spark.sundog.mode", "shadow")
        try:
            session.sql(GROUPED.format("csv")).collect()
            after = sundog.shadow_report(session)
            assert (after.compared - before.compared, after.agreed - before.agreed) == (1, 1)
        finally:
            session.conf.unset("spark.sundog.mode")
