"""CTEs and other subplans that a query uses several times, against Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sundog
from tests.oracle.tables import events, write_files
from tests.spark.against_spark import PLACEMENTS, check

pytestmark = pytest.mark.spark
GROUPS = (
    "WITH v AS (SELECT grp, small, sum(num) s, count(*) n, max(s) m FROM shared_events WHERE id > 5 GROUP BY "
    "grp, small)"
)
RANKED = f"{GROUPS}, w AS (SELECT *, row_number() OVER (PARTITION BY grp ORDER BY s DESC, small) r FROM v)"
QUERIES = {
    "joined with itself": f"{GROUPS} SELECT a.grp, a.s, b.m FROM v a JOIN v b ON a.grp = b.grp "
    "AND a.small = b.small + 1",
    "other columns": f"{GROUPS} SELECT a.grp, a.n, b.c FROM v a JOIN (SELECT s, count(*) c FROM v GROUP BY s) b "
    "ON a.s = b.s",
    "three times": f"{RANKED} SELECT a.grp, a.s, b.s x, c.s y FROM w a JOIN w b ON a.grp = b.grp AND a.r = b.r + 1 "
    "JOIN w c ON a.grp = c.grp AND a.r = c.r - 1",
    "united with itself": f"{GROUPS} SELECT grp, s FROM v UNION ALL SELECT small, s FROM v "
    "UNION ALL SELECT s, s FROM v",
    "united": f"{GROUPS} SELECT grp, s FROM v WHERE s % 2 = 0 UNION ALL SELECT small, n FROM v",
    "outer and semi": f"{GROUPS} SELECT a.grp, b.n FROM v a LEFT JOIN v b ON a.s = b.n "
    "WHERE a.small IN (SELECT grp FROM v)",
    "full": f"{GROUPS} SELECT a.grp, b.n FROM v a FULL JOIN v b ON a.s = b.n",
    "topk": f"{GROUPS} SELECT a.grp, a.small, b.small x FROM v a JOIN v b ON a.grp = b.grp ORDER BY 1, 2, 3 LIMIT 20",
}  # fmt: skip


@pytest.fixture(scope="module")
def tables(enabled: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("sharing")
    enabled.read.parquet(str(write_files(events(), folder))).createOrReplaceTempView("shared_events")
    yield enabled
    enabled.catalog.dropTempView("shared_events")


@pytest.mark.parametrize("name", QUERIES)
def test_answers_are_those_of_spark(tables: Any, name: str) -> None:
    check(tables, QUERIES[name])


def test_a_cte_that_is_used_twice_is_computed_once(tables: Any) -> None:
    try:
        for place in PLACEMENTS:
            tables.conf.set("spark.sundog.placement", place)
            tables.sql(QUERIES["three times"]).collect()
            assert sundog.last_run().metrics["subplans_shared"] == 1
            assert "read 3 times" in sundog.last_run().plan
    finally:
        tables.conf.unset("spark.sundog.placement")


def test_a_table_that_is_read_twice_is_read_twice(tables: Any) -> None:
    tables.sql(
        "SELECT a.grp, count(*) FROM shared_events a JOIN shared_events b ON a.id = b.id GROUP BY a.grp"
    ).collect()
    assert sundog.last_run().accelerated
    assert "subplans_shared" not in sundog.last_run().metrics


def test_groups_of_rows_that_are_not_null_are_not_those_of_all_rows(
    enabled: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A row group of NULLs only: without it no row that is read is NULL, so that both scans looked alike."""
    folder = tmp_path_factory.mktemp("sharing-nulls")
    some = pa.table({"k": pa.array([1, 2, 3, 4]), "s": ["a", "b", "a", "b"], "x": [1, 2, 3, 4]})
    none = pa.table({"k": pa.nulls(4, pa.int64()), "s": ["a", "b", "c", "c"], "x": [5, 6, 7, 8]})
    pq.write_table(pa.concat_tables([some, none]), folder / "a.parquet", row_group_size=4)
    enabled.read.parquet(str(folder)).createOrReplaceTempView("half_null")
    groups, there = "SELECT s, sum(x) z FROM half_null", "WHERE k IS NOT NULL GROUP BY s"
    check(enabled, f"{groups} GROUP BY s UNION ALL {groups} {there}")
    check(enabled, f"{groups} {there} UNION ALL {groups} GROUP BY s")
    check(enabled, f"SELECT a.s, a.z, b.z y FROM ({groups} GROUP BY s) a JOIN ({groups} {there}) b ON a.s = b.s")
    check(enabled, f"SELECT s, sum(x), (SELECT max(z) FROM ({groups} {there})) FROM half_null GROUP BY s")
