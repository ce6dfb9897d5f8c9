"""Aggregates without an exchange, in shares of the keys or gathered: when they are chosen, the plan's text, and the
answer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sundog
from tests.costs import costs
from tests.oracle.compare import assert_same
from tests.oracle.plain_spark import plain_spark

pytestmark = [pytest.mark.spark, pytest.mark.thin(3)]

ROWS = 30_000
QUERIES = {
    "one key": "SELECT id, count(*) AS c, sum(v) AS s, avg(v) AS a FROM scattered GROUP BY id",
    "text": "SELECT name, id % 7 AS m, max(v) AS v FROM scattered GROUP BY name, id % 7",
    "distinct": "SELECT few, count(DISTINCT id) AS d, sum(v) AS s FROM scattered GROUP BY few",
    "distinct only": "SELECT count(DISTINCT id, name) AS d FROM scattered",
    "top": "SELECT id, sum(v) AS s FROM scattered GROUP BY id HAVING s > 10 ORDER BY s DESC, id LIMIT 20",
    "best": "SELECT name, few, sum(v) AS s, count(*) AS c FROM scattered GROUP BY name, few ORDER BY s DESC, c LIMIT 7",
    "computed": "SELECT id + 1 AS k, min(name) AS n FROM (SELECT id * 2 AS id, name FROM scattered) GROUP BY id + 1",
    "counted": "SELECT count(*) AS c, sum(c) AS s FROM (SELECT id, count(v) AS c FROM scattered GROUP BY id)",
}


@pytest.fixture(scope="module")
def session(enabled: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    random = np.random.default_rng(11)
    ids = random.integers(0, ROWS, ROWS)
    table = pa.table(
        {
            "id": pa.array(ids, mask=ids % 100 == 3),
            "few": ids % 5,
            "name": pa.array([f"name {number % 9000}" if number % 50 else None for number in ids.tolist()]),
            "v": random.integers(-1000, 1000, ROWS),
        }
    )
    folder = tmp_path_factory.mktemp("scattered")
    for part in range(3):
        share = table.slice(part * ROWS // 3, ROWS // 3)
        pq.write_table(share, folder / f"part-{part}.parquet", row_group_size=2_500)
    enabled.read.parquet(str(folder)).createOrReplaceTempView("scattered")
    return enabled


@pytest.fixture(autouse=True)
def small_figures(session: Any) -> Iterator[None]:
    session.conf.set("spark.sundog.placement", "executors")
    with costs(session, task_bytes=1024, gather_groups=100, skip_probe_rows=1000, min_batch_rows=1000):
        yield


@pytest.mark.parametrize("query", QUERIES)
def test_shares_give_sparks_answer(session: Any, query: str) -> None:
    ours = session.sql(QUERIES[query]).toArrow()
    run = sundog.last_run()
    assert run.accelerated, run.fallback_reasons
    assert "read by each of 2 tasks" in run.plan
    assert run.metrics["input_rows"] == ROWS, "each row is counted once"
    assert run.metrics["rows_read_again"] >= ROWS
    with plain_spark(session):
        theirs = session.sql(QUERIES[query]).toArrow()
    assert_same(ours, theirs, ordered=query == "top")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT few, count(*) AS c, sum(v) AS s FROM scattered GROUP BY few",
        "SELECT sum(v) AS s, count(name) AS n FROM scattered",
        "SELECT max(v) AS v, count(*) AS c FROM scattered WHERE v > 5000",
        "SELECT few, v > 0 AS p, min(name) AS n FROM scattered GROUP BY few, v > 0 ORDER BY few, p LIMIT 3",
        "SELECT count(DISTINCT few) AS d, sum(v) AS s FROM scattered",
        "SELECT few, count(DISTINCT v > 0) AS d FROM scattered GROUP BY few",
    ],
)
def test_few_groups_are_gathered(session: Any, query: str) -> None:
    ours = session.sql(query).toArrow()
    run = sundog.last_run()
    assert run.accelerated, run.fallback_reasons
    assert "few groups are merged on the driver" in run.plan
    assert "exchange_rows" not in run.metrics or run.metrics["exchange_rows"] < 100
    with plain_spark(session):
        theirs = session.sql(query).toArrow()
    assert_same(ours, theirs, ordered="ORDER BY" in query)


def test_groups_that_cost_less_to_move_than_to_read_again_are_exchanged(session: Any) -> None:
    with costs(session, decode_ns_per_byte=1, shuffle_ns_per_row=0, shuffle_ns_per_byte=0.5):
        session.sql("SELECT name, count(*) AS c FROM scattered GROUP BY name").toArrow()
    run = sundog.last_run()
    assert run.accelerated, run.fallback_reasons
    assert "HashExchange: keys=" in run.plan


def test_rows_of_which_a_where_may_leave_few_are_exchanged(session: Any) -> None:
    session.sql("SELECT id, name, count(*) AS c FROM scattered WHERE v > -900 GROUP BY id, name").toArrow()
    assert "HashExchange: keys=" in sundog.last_run().plan


def test_rows_that_are_not_simply_read_are_exchanged(session: Any) -> None:
    session.sql("SELECT id, count(*) AS c FROM (SELECT id FROM scattered LIMIT 20000) GROUP BY id").toArrow()
    assert "HashExchange: keys=" in sundog.last_run().plan


def test_many_slots_exchange(session: Any) -> None:
    with costs(session, few_slots=1, max_reads_by_many=1):
        assert "read by each" not in sundog.explain(session.sql(QUERIES["one key"]))


@pytest.mark.parametrize("query", ["one key", "distinct"])
def test_a_slot_takes_several_shares_if_none_of_them_would_fit_a_tasks_memory_else(session: Any, query: str) -> None:
    session.conf.set("spark.sundog.task.memoryBytes", "1m")
    try:
        with costs(session, share_memory_factor=3.5):
            ours = session.sql(QUERIES[query]).toArrow()
        run = sundog.last_run()
    finally:
        session.conf.unset("spark.sundog.task.memoryBytes")
    assert re.search("read by each of [468] tasks", run.plan)
    assert run.metrics["input_rows"] == ROWS
    assert run.metrics["rows_read_again"] >= 3 * ROWS
    with plain_spark(session):
        theirs = session.sql(QUERIES[query]).toArrow()
    assert_same(ours, theirs, ordered=False)


def test_groups_for_which_all_rows_would_be_read_too_often_are_exchanged(session: Any) -> None:
    session.conf.set("spark.sundog.task.memoryBytes", "1m")
    try:
        with costs(session, share_memory_factor=1000):
            assert "read by each" not in sundog.explain(session.sql(QUERIES["one key"]))
    finally:
        session.conf.unset("spark.sundog.task.memoryBytes")


def test_shares_under_a_coalesce_of_the_users(session: Any, tmp_path: Path) -> None:
    frame = session.sql("SELECT id, count(*) AS c FROM scattered GROUP BY id").coalesce(1)
    frame.write.parquet(str(tmp_path / "out"))
    assert sundog.last_run().accelerated
    written = pq.read_table(tmp_path / "out")
    assert written.num_rows == session.sql("SELECT DISTINCT id FROM scattered").count()
    assert sum(written.column("c").to_pylist()) == ROWS
