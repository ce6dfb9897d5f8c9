"""Constants have Catalyst's exact values, whatever the thread, the active session and their form as text."""

from __future__ import annotations

from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sundog
from tests.oracle.compare import assert_same
from tests.oracle.plain_spark import plain_spark
from tests.oracle.tables import events, write_files

pytestmark = pytest.mark.spark

TIMES = "SELECT id, ts FROM events WHERE ts > timestamp'2024-03-31 02:30:00' ORDER BY ts, id LIMIT 20"
MANY_TIMES = (
    "SELECT count(*) FROM events WHERE ts NOT IN ("
    + ", ".join(f"timestamp'2024-03-30 {hour:02}:00:00'" for hour in range(12))
    + ") GROUP BY grp"
)
DAYS = ", ".join(f"date'2024-01-{day:02}'" for day in range(1, 20))
QUERIES = {
    "double": "SELECT id FROM events WHERE d > -0.0D OR d = 1e-300D OR d = double('NaN') ORDER BY id LIMIT 50",
    "float": "SELECT id, f + float('0.1') FROM events WHERE f <> float('-0.0') ORDER BY id LIMIT 50",
    "zero": "SELECT id, coalesce(d, -0.0D), coalesce(f, float('-0.0')) FROM events ORDER BY id LIMIT 50",
    "decimal": "SELECT id, dec + 1e2BD FROM events WHERE wide > -99999999999999999999999.125 ORDER BY id LIMIT 50",
    "date": "SELECT id, coalesce(day, date'0004-03-15') FROM events WHERE day > date'0001-01-01' ORDER BY id LIMIT 50",
    "binary": "SELECT id, coalesce(bin, X'00FF') FROM events WHERE bin <> X'01' ORDER BY id LIMIT 50",
    "string": "SELECT id, coalesce(s, 'ü\\n\\0🂡') FROM events WHERE s <> 'Zürich' ORDER BY id LIMIT 50",
    "boolean": "SELECT id, coalesce(flag, true) FROM events WHERE flag <> false OR flag IS NULL ORDER BY id LIMIT 50",
    "interval": "SELECT id, ts + INTERVAL '1 02:03:04.000005' DAY TO SECOND FROM events ORDER BY id LIMIT 50",
    "ntz": "SELECT id FROM events WHERE ntz < timestamp_ntz'2024-03-31 02:30:00.000001' ORDER BY id LIMIT 50",
    "nulls": "SELECT id, if(num > 0, NULL, num), if(num > 0, NULL, s), if(num > 0, NULL, ts) FROM events "
    "ORDER BY id LIMIT 50",
    "strings_in_set": "SELECT count(*) FROM events WHERE s IN ('', 'a', 'ab', 'b', 'Zürich', 'null', 'zebra', 'c', "
    "'d', 'e', 'f', NULL) GROUP BY grp",
    "dates_in_set": f"SELECT count(*) FROM events WHERE day IN ({DAYS}) GROUP BY grp",
    "floats_in_set": "SELECT count(*) FROM events WHERE d NOT IN (0.0D, 1D, 2D, 3D, 4D, 5D, 6D, 7D, 8D, 9D, "
    "double('NaN'), double('inf')) GROUP BY grp",
    "decimals_in_set": (
        "SELECT count(*) FROM events WHERE dec NOT IN (1, 2.5, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12) GROUP BY grp"
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(events(), tmp_path_factory.mktemp("constants") / "events")


@pytest.fixture(scope="module")
def session(enabled: Any, folder: Path) -> Any:
    enabled.conf.set("spark.sundog.placement", "driver")
    enabled.read.parquet(str(folder)).createOrReplaceTempView("events")
    return enabled


def check(session: Any, query: str) -> None:
    with plain_spark(session):
        expected = session.sql(query).toArrow()
    ours = session.sql(query).toArrow()
    assert sundog.last_run().accelerated, sundog.last_run().fallback_reasons
    assert_same(ours, expected, ordered="ORDER BY" in query)


@pytest.mark.parametrize("name", QUERIES)
def test_constants_of_each_type(session: Any, name: str) -> None:
    check(session, QUERIES[name])


@pytest.mark.parametrize("zone", ["America/Los_Angeles", "Europe/Berlin", "+05:30"])
def test_timestamps_in_a_second_session_and_another_thread(session: Any, folder: Path, zone: str) -> None:
    """Spark prints a timestamp in the zone of the thread's active session, which is not the DataFrame's here."""
    second = session.newSession()
    second.conf.set("spark.sql.session.timeZone", zone)
    second.conf.set("spark.sundog.placement", "driver")
    second.read.parquet(str(folder)).createOrReplaceTempView("events")
    sundog.enable(second)
    problems: list[BaseException] = []

    def work() -> None:
        try:
            for query in (TIMES, MANY_TIMES):
                check(second, query)
                check(session, query)
        except BaseException as problem:
            problems.append(problem)

    try:
        work()
        thread = Thread(target=work)
        thread.start()
        thread.join()
    finally:
        sundog.disable(second)
    assert not problems, problems


def test_a_timestamp_that_clocks_show_twice_is_an_instant(session: Any) -> None:
    session.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        for hour in ("00:30:00", "01:30:00"):
            check(
                session, f"SELECT id, coalesce(ts, timestamp'2024-10-27 {hour}+00:00') FROM events ORDER BY id LIMIT 30"
            )
    finally:
        session.conf.set("spark.sql.session.timeZone", "UTC")


def test_a_string_that_is_not_utf8_is_left_to_spark(session: Any, tmp_path: Path) -> None:
    words = pa.array([b"\xffa", b"\xfea", b"a", "\ufffda".encode()], pa.binary())
    pq.write_table(pa.table({"b": words, "n": [1, 2, 3, 4]}), tmp_path / "words.parquet")
    session.read.parquet(str(tmp_path)).createOrReplaceTempView("words")
    query = "SELECT n, count(*) FROM words WHERE cast(b AS STRING) = cast(X'FF61' AS STRING) GROUP BY n"
    assert session.sql(query).collect() == [(1, 1)]
    run = sundog.last_run()
    assert not run.accelerated
    assert any("UTF-8" in reason for reason in run.fallback_reasons), run.fallback_reasons
