"""Scalar subqueries against Spark: their errors, their files, and how often they are computed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

import sundog
from tests.oracle.tables import events, write_files
from tests.spark.against_spark import Raised, check

pytestmark = pytest.mark.spark
GROUPED = "SELECT grp, count(*) c FROM sub_events WHERE {} GROUP BY grp"


@pytest.fixture(scope="module")
def tables(enabled: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("subqueries")
    enabled.read.parquet(str(write_files(events(), folder / "events"))).createOrReplaceTempView("sub_events")
    yield enabled
    enabled.catalog.dropTempView("sub_events")


def test_more_than_one_row_is_the_error_of_spark(tables: Any) -> None:
    theirs = check(tables, GROUPED.format("num > (SELECT num FROM sub_events)"))
    assert isinstance(theirs, Raised)
    with pytest.raises((PySparkException, Py4JJavaError), match="SCALAR_SUBQUERY_TOO_MANY_ROWS"):
        tables.sql(GROUPED.format("num > (SELECT num FROM sub_events)")).collect()


def test_an_error_in_a_subquery_is_the_error_of_spark(tables: Any) -> None:
    theirs = check(tables, GROUPED.format("num > (SELECT max(num / (id - 7)) FROM sub_events)"))
    assert isinstance(theirs, Raised)


@pytest.mark.parametrize(
    "subquery", ["SELECT count(reverse(s)) / 10 FROM sub_events", "SELECT sum(id) % 7 FROM range(1000)"]
)
def test_a_subquery_that_sundog_cannot_compute_is_an_input_from_spark(tables: Any, subquery: str) -> None:
    check(tables, GROUPED.format(f"num > ({subquery})"))
    assert "SparkInput" in sundog.last_run().plan


def test_subqueries_that_spark_has_merged_are_one(tables: Any) -> None:
    """Catalyst makes of both one subquery that gives a struct."""
    sql = GROUPED.format("num BETWEEN (SELECT min(num) + 5 FROM sub_events) AND (SELECT max(num) - 5 FROM sub_events)")
    plan = tables.sql(sql)._jdf.queryExecution().optimizedPlan().toString()
    assert "named_struct" in plan
    check(tables, sql)
    tables.sql(sql).collect()
    (graph,) = sundog.last_run().graphs
    assert len(graph.subqueries) == 1


def test_the_value_prunes_row_groups(tables: Any) -> None:
    check(
        tables, "SELECT grp, count(*) c FROM sub_events WHERE seq > (SELECT max(seq) - 5 FROM sub_events) GROUP BY grp"
    )
    assert sundog.last_run().metrics["row_groups_pruned_statistics"] > 0


def test_explain_shows_a_subquery_and_does_not_run_it(tables: Any) -> None:
    frame = tables.sql(GROUPED.format("num > (SELECT max(num / (id - 7)) FROM sub_events)"))
    text = sundog.explain(frame)
    assert "subquery0" in text
    assert "Gather: subquery0" in text


def test_a_write_over_the_files_of_a_subquery_is_left_to_spark(tables: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    pq.write_table(pa.table({"k": [1, 2, 3]}), Path(path).with_suffix(".parquet"))
    tables.read.parquet(f"{path}.parquet").write.parquet(path)
    tables.read.parquet(path).createOrReplaceTempView("sub_target")
    frame = tables.sql(GROUPED.format("num > (SELECT max(k) FROM sub_target)"))
    frame.write.mode("append").parquet(path)
    assert not sundog.last_run().accelerated
    assert "WRITE" in str(sundog.last_run().fallback_reason)


def test_a_frame_that_ran_keeps_the_files_of_its_subquery(tables: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "growing")
    tables.createDataFrame([(1,)], "k int").write.parquet(path)
    frame = tables.sql(GROUPED.format(f"num > (SELECT max(k) FROM parquet.`{path}`)"))
    before = sorted(frame.collect())
    assert sundog.last_run().accelerated
    tables.createDataFrame([(500,)], "k int").write.mode("append").parquet(path)
    assert sorted(frame.collect()) == before
    assert sundog.last_run().accelerated


BUCKETS = """
SELECT CASE WHEN (SELECT count(*) FROM sub_events WHERE num BETWEEN 1 AND 20) > 3
            THEN (SELECT avg(num) FROM sub_events WHERE num BETWEEN 1 AND 20)
            ELSE (SELECT avg(id) FROM sub_events WHERE num > 20) END AS bucket, grp
FROM {}"""


def test_a_plan_without_a_shape_is_taken_for_its_subqueries(tables: Any) -> None:
    check(tables, BUCKETS.format("sub_events WHERE id = 1"))
    tables.sql(BUCKETS.format("sub_events WHERE id = 1")).collect()
    run = sundog.last_run()
    assert run.whole
    assert run.graphs[0].subqueries


def test_a_plan_that_reads_more_than_its_subqueries_stays_on_spark(tables: Any, tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1, 2, 3]}), tmp_path / "small.parquet")
    tables.read.parquet(str(tmp_path)).createOrReplaceTempView("sub_small")
    check(tables, "SELECT id FROM sub_events WHERE id > (SELECT max(x) FROM sub_small)", accelerated=False)
