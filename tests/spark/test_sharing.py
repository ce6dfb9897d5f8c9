"""CTEs and other subplans that a query uses several times, against Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sundog
from tests.oracle.tables import events, write_files
from tests.spark.against_spark import PLACEMENTS, Raised, check
from tests.spark.test_cancelling import make_slow, start, wait_until_it_runs

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


# --- a query and its scalar subqueries -----------------------------------------------------------------------------

SUMS = "WITH v AS (SELECT grp, small, sum(num) s FROM shared_events WHERE id > 5 GROUP BY grp, small)"
SUM_RANKS = f"{SUMS}, w AS (SELECT *, row_number() OVER (PARTITION BY grp ORDER BY s DESC, small) r FROM v)"
WITH_SUBQUERIES = {
    "the best": f"{SUMS} SELECT grp, small, s FROM v WHERE s = (SELECT max(s) FROM v)",
    "joined": f"{SUMS} SELECT e.id, v.s FROM shared_events e JOIN v ON e.num = v.s WHERE v.s > (SELECT avg(s) FROM v)",
    "two subqueries": f"{SUMS} SELECT grp, s FROM v WHERE s > (SELECT avg(s) FROM v WHERE s < 50000) "
    "OR s < (SELECT min(s) + count(DISTINCT s) FROM v WHERE s % 2 = 0)",
    "in subqueries alone": f"{SUMS} SELECT grp, count(*) FROM shared_events "
    "WHERE num > (SELECT avg(s) FROM v WHERE s > 9) AND id > (SELECT count(DISTINCT s) FROM v WHERE s > 0) "
    "GROUP BY grp",
    "in a subquery of a subquery": f"{SUMS} SELECT grp, s FROM v WHERE s > "
    "(SELECT avg(s) FROM v WHERE s > (SELECT min(s) FROM v WHERE s > 7))",
    "twice in the query": f"{SUMS} SELECT a.grp, a.s, b.s x FROM v a JOIN v b ON a.grp = b.grp "
    "AND a.small = b.small + 1 WHERE a.s > (SELECT avg(s) FROM v)",
    "ranks": f"{SUM_RANKS} SELECT grp, small, s FROM w WHERE r = (SELECT max(r) FROM w WHERE small > s)",
    "outer": f"{SUMS} SELECT v.grp, e.id FROM v LEFT JOIN shared_events e ON v.s = e.num "
    "WHERE v.s > (SELECT avg(s) FROM v)",
    "full": f"{SUMS} SELECT v.grp, e.id FROM v FULL JOIN shared_events e ON v.s = e.num + (SELECT max(s) FROM v)",
    "topk": f"{SUMS} SELECT grp, small, s FROM v WHERE s < (SELECT max(s) FROM v) "
    "ORDER BY s DESC, grp, small LIMIT 9",
    "no row": f"{SUMS} SELECT grp, s FROM v WHERE s > (SELECT s FROM v WHERE s > 1000000000)",
}  # fmt: skip
HELD_BY_EXECUTORS = {"gather_groups": 0}
PROBED = 3  # row groups that are read to see how many groups there are
UNDERESTIMATED = WITH_SUBQUERIES["the best"].replace(
    "id > 5", "id > 5 AND seq >= 0 AND seq > -1 AND seq > -2 AND seq > -3"
)


@pytest.fixture
def costs(tables: Any) -> Iterator[Any]:
    """Sets costs for a test."""
    yield lambda numbers: tables.conf.set("spark.sundog.costs", json.dumps(numbers))
    tables.conf.unset("spark.sundog.costs")


@pytest.fixture
def on_executors(tables: Any) -> Iterator[Any]:
    tables.conf.set("spark.sundog.placement", "executors")
    yield tables
    tables.conf.unset("spark.sundog.placement")


def nothing_is_held(session: Any) -> bool:
    return bool(session.sparkContext._jsc.getPersistentRDDs().isEmpty())


@pytest.mark.parametrize("numbers", [{}, HELD_BY_EXECUTORS], ids=["few", "many"])
@pytest.mark.parametrize("name", WITH_SUBQUERIES)
def test_answers_with_subqueries_are_those_of_spark(tables: Any, costs: Any, name: str, numbers: Any) -> None:
    """The last run is that on executors."""
    costs(numbers)
    check(tables, WITH_SUBQUERIES[name])
    run = sundog.last_run()
    assert run.placement == "executors"
    assert run.metrics["subplans_shared"] >= 1
    assert nothing_is_held(tables)


def test_groups_of_a_query_and_its_subquery_are_read_once(tables: Any, on_executors: Any, costs: Any) -> None:
    for numbers in ({}, HELD_BY_EXECUTORS):
        costs(numbers)
        tables.sql(WITH_SUBQUERIES["the best"]).collect()
        run = sundog.last_run()
        assert run.metrics["row_groups_scanned"] <= run.metrics["row_groups_total"] + PROBED
        assert run.plan.count("Hold: computed once, read twice") == run.plan.count("ParquetScan") == 1


def test_explain_shows_what_runs_and_runs_no_subquery(tables: Any, on_executors: Any, costs: Any) -> None:
    tracker = tables.sparkContext.statusTracker()
    for numbers in ({}, HELD_BY_EXECUTORS):
        costs(numbers)
        frame = tables.sql(WITH_SUBQUERIES["the best"])
        tables.sparkContext.setJobGroup(f"explained {numbers}", "explain")
        text = sundog.explain(frame)
        tables.sparkContext.setLocalProperty("spark.jobGroup.id", None)
        assert text.count("Hold: computed once, read twice") == text.count("ParquetScan") == 1
        assert list(tracker.getJobIdsForGroup(f"explained {numbers}")) == []
        assert nothing_is_held(tables)


@pytest.mark.parametrize(("gather_groups", "fit"), [(150, True), (20, False)])
def test_few_rows_are_held_on_the_driver_and_many_by_executors(
    tables: Any, costs: Any, gather_groups: int, fit: bool
) -> None:
    """Each comparison is taken to keep a third of the rows, and these keep all: some 700 groups instead of 2."""
    costs({"gather_groups": gather_groups})
    check(tables, UNDERESTIMATED)
    run = sundog.last_run()
    assert run.plan.count("Gather: few rows are held on the driver") == fit
    assert run.plan.count("Hold: computed once, read twice") == run.plan.count("ParquetScan") == 1
    given_up = [reason for graph in run.graphs for reason in graph.given_up.values()]
    assert bool(given_up) is not fit
    assert all("executors hold them" in reason for reason in given_up)
    assert nothing_is_held(tables)


@pytest.mark.parametrize("numbers", [{}, HELD_BY_EXECUTORS], ids=["few", "many"])
def test_held_rows_are_released_when_a_query_fails(tables: Any, costs: Any, numbers: Any) -> None:
    costs(numbers)
    sql = f"{SUMS} SELECT grp, 1 / (s - s) FROM v WHERE s = (SELECT max(s) FROM v)"
    assert isinstance(check(tables, sql), Raised)
    assert nothing_is_held(tables)


def test_held_rows_are_released_when_a_query_is_cancelled(
    tables: Any, on_executors: Any, costs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    costs(HELD_BY_EXECUTORS)
    tables.sql(WITH_SUBQUERIES["joined"]).collect()
    make_slow(monkeypatch, 20)
    runner, outcome = start(tables, tables.sql(WITH_SUBQUERIES["joined"]).collect, "cancelled with held rows")
    wait_until_it_runs(tables, "executors", "cancelled with held rows")
    tables.sparkContext.cancelJobGroup("cancelled with held rows")
    runner.join(30)
    assert outcome.error is not None
    assert nothing_is_held(tables)


def test_held_rows_are_released_after_a_write(tables: Any, on_executors: Any, costs: Any, tmp_path: Path) -> None:
    """The rows of the last stage are read by Spark, after all steps."""
    costs(HELD_BY_EXECUTORS)
    frame = tables.sql(WITH_SUBQUERIES["joined"])
    frame.write.parquet(str(tmp_path / "written"))
    assert sundog.last_run().metrics["subplans_shared"] == 1
    assert nothing_is_held(tables)
    written = tables.read.parquet(str(tmp_path / "written")).collect()
    assert sorted(written) == sorted(frame.collect())


DIFFERENT = {
    "a condition": ("id > 5", "id > 6"),
    "a function": ("sum(num) s", "max(num) s"),
    "an expression": ("sum(num) s", "sum(num + 1) s"),
    "a key": ("small, sum", "tiny AS small, sum"),
    "a table": ("shared_events", "other_events"),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_what_differs_is_not_shared(tables: Any, tmp_path: Path, name: str) -> None:
    tables.read.parquet(str(write_files(events(seed=8), tmp_path))).createOrReplaceTempView("other_events")
    old, new = DIFFERENT[name]
    body = SUMS.removeprefix("WITH v AS (").removesuffix(")")
    other = body.replace(old, new).replace("BY grp, small", "BY grp, tiny" if "tiny" in new else "BY grp, small")
    assert other != body
    check(tables, f"SELECT grp, s FROM ({body}) WHERE s >= (SELECT avg(s) FROM ({other}))")
    run = sundog.last_run()
    assert "subplans_shared" not in run.metrics
    assert run.plan.count("ParquetScan") == 2


def test_groups_of_views_with_other_settings_are_not_shared(tables: Any) -> None:
    """A view keeps the settings that it was made under: one sum raises on overflow, one does not."""
    body = "SELECT grp, sum(big) s FROM parquet.`{}` GROUP BY grp"
    path = tables.table("shared_events").inputFiles()[0].rpartition("/")[0]
    try:
        for ansi in ("true", "false"):
            tables.conf.set("spark.sql.ansi.enabled", ansi)
            tables.sql(f"CREATE OR REPLACE VIEW sums_{ansi} AS {body.format(path)}")
        tables.conf.set("spark.sql.ansi.enabled", "true")
        check(tables, "SELECT grp FROM sums_true WHERE s >= (SELECT max(s) FROM sums_false)")
        assert "subplans_shared" not in sundog.last_run().metrics
        check(tables, "SELECT grp FROM sums_true WHERE s >= (SELECT max(s) FROM sums_true)")
        assert sundog.last_run().metrics["subplans_shared"] == 1
    finally:
        tables.conf.unset("spark.sql.ansi.enabled")
        for ansi in ("true", "false"):
            tables.sql(f"DROP VIEW IF EXISTS sums_{ansi}")


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
