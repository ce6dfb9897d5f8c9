"""Output with the same column twice, and constant keys: Spark's answer, for every shape."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sundog
from tests.oracle.compare import assert_same
from tests.oracle.plain_spark import plain_spark
from tests.oracle.tables import events, write_files

pytestmark = [pytest.mark.spark, pytest.mark.thin(3)]

REPEATED = {
    "topk": "SELECT id, id FROM events ORDER BY id LIMIT 3",
    "topk_of_computed": "SELECT x, x FROM (SELECT num + 1 AS x, id FROM events) ORDER BY x, id LIMIT 5",
    "distinct": "SELECT DISTINCT small, grp, small FROM events",
    "aggregate": "SELECT grp, count(*), grp, count(*) FROM events GROUP BY grp",
    "aggregate_sorted": "SELECT grp, count(*), grp FROM events GROUP BY grp ORDER BY grp",
    "constant_of_aggregate": "SELECT x, x, y FROM (SELECT 1 AS x, count(*) y FROM events GROUP BY grp)",
    "grouping_sets": (
        "SELECT grp, small, sum(grp), max(grp), grp FROM events GROUP BY GROUPING SETS ((grp), (small), ())"
    ),
    "cube": "SELECT grp, grp, count(*) FROM events GROUP BY grp, grp WITH CUBE",
    "window": "SELECT id, id, row_number() OVER (ORDER BY id) r, row_number() OVER (ORDER BY id) s FROM events",
    "window_over_rows_of_spark": "SELECT *, sum(id) OVER (ORDER BY id) FROM "
    "(SELECT a.id, a.id FROM events a JOIN events b ON a.id = b.seq)",
    "window_over_union": "SELECT *, rank() OVER (ORDER BY id) FROM (SELECT id, id FROM events UNION ALL SELECT 3, 4)",
    "spliced_aggregate": "SELECT * FROM (SELECT grp, grp, count(*) c FROM events GROUP BY grp) t JOIN events ON c = id",
    "spliced_twice": "SELECT * FROM (SELECT DISTINCT small, small FROM events) a "
    "JOIN (SELECT DISTINCT small, small FROM events) b ON a.small <=> b.small",
}
IN_TWO_SPELLINGS = {
    "topk": "SELECT D, ID, s FROM events ORDER BY d, id LIMIT 3",
    "topk_of_both": "SELECT num, NUM, id FROM events ORDER BY Num, ID LIMIT 3",
    "aggregate": "SELECT GRP, count(*) FROM events GROUP BY grp",
    "rollup": "SELECT GRP, Small, sum(NUM) FROM events GROUP BY ROLLUP (grp, small)",
    "distinct": "SELECT DISTINCT GRP, S FROM (SELECT grp, s FROM events)",
    "having": (
        "SELECT GRP FROM (SELECT grp, count(*) c FROM events GROUP BY Grp) WHERE C > 3 ORDER BY C DESC, grp LIMIT 2"
    ),
    "window": (
        "SELECT ID, sum(NUM) OVER (ORDER BY seq RANGE BETWEEN 5 PRECEDING AND CURRENT ROW) FROM events WHERE num > 0"
    ),
    "window_over_rows_of_spark": "SELECT A.GRP, ID, lag(ID) OVER (ORDER BY id) "
    "FROM (SELECT Grp FROM events GROUP BY grp) a JOIN events b ON a.grp = B.grp",
}
CONSTANT_KEYS = {
    "partition_and_order": "SELECT count(*) OVER (PARTITION BY 1 ORDER BY CAST(1 AS STRING)) FROM events",
    "partition": "SELECT id, sum(num) OVER (PARTITION BY 1) FROM events",
    "partition_by_null": "SELECT id, count(*) OVER (PARTITION BY NULL) FROM events",
    "partition_beside_a_column": "SELECT id, sum(num) OVER (PARTITION BY 1, grp ORDER BY 'x', id) FROM events",
    "order_by_null": "SELECT id, rank() OVER (ORDER BY NULL), percent_rank() OVER (ORDER BY NULL) FROM events",
    "order_of_peers": "SELECT id, dense_rank() OVER (ORDER BY 'a'), cume_dist() OVER (ORDER BY 1) FROM events",
    "range_over_constant": (
        "SELECT id, sum(num) OVER (ORDER BY 1 RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM events"
    ),
    "range_beside_constant": (
        "SELECT id, sum(num) OVER (ORDER BY 1 RANGE BETWEEN 2 FOLLOWING AND 3 FOLLOWING) FROM events"
    ),
    "no_columns_at_all": "SELECT count(*) OVER () FROM events",
    "group_by_constant": "SELECT count(*) FROM events GROUP BY 1 + 0",
    "group_by_null": "SELECT 1 FROM events GROUP BY NULL",
}


@pytest.fixture(scope="module")
def session(enabled: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("repeated")
    enabled.read.parquet(str(write_files(events(), folder / "events"))).createOrReplaceTempView("events")
    return enabled


def check(session: Any, query: str) -> None:
    with plain_spark(session):
        expected = session.sql(query).toArrow()
    for placement in ("driver", "executors"):
        session.conf.set("spark.sundog.placement", placement)
        ours = session.sql(query).toArrow()
        assert sundog.last_run().accelerated, sundog.last_run().fallback_reasons
        assert_same(ours, expected, ordered="ORDER BY id LIMIT" in query)


@pytest.mark.parametrize("name", REPEATED)
def test_a_column_may_be_put_out_twice(session: Any, name: str) -> None:
    check(session, REPEATED[name])


@pytest.mark.parametrize("name", IN_TWO_SPELLINGS)
def test_a_column_may_be_spelt_in_two_ways(session: Any, name: str) -> None:
    check(session, IN_TWO_SPELLINGS[name])


@pytest.mark.parametrize("name", CONSTANT_KEYS)
def test_keys_may_be_constants(session: Any, name: str) -> None:
    check(session, CONSTANT_KEYS[name])


def test_repeated_columns_reach_rows_and_files_under_their_names(session: Any, tmp_path: Path) -> None:
    frame = session.sql("SELECT grp, count(*) n, grp FROM events GROUP BY grp")
    rows = frame.collect()
    assert sundog.last_run().accelerated
    assert all(row[0] == row[2] for row in rows)
    assert rows[0].__fields__ == ["grp", "n", "grp"]
    frame.toDF("a", "n", "b").write.parquet(str(tmp_path / "out"))
    assert sundog.last_run().accelerated
    written = session.read.parquet(str(tmp_path / "out")).collect()
    assert sorted(map(tuple, written)) == sorted(map(tuple, rows))


@pytest.mark.parametrize(
    "query", ["SELECT rank() OVER (ORDER BY length('abc'))", "SELECT count(*) OVER () FROM range(7)"]
)
def test_rows_of_spark_without_columns_keep_their_number(session: Any, query: str) -> None:
    with plain_spark(session):
        expected = session.sql(query).toArrow()
    assert_same(session.sql(query).toArrow(), expected, ordered=False)
