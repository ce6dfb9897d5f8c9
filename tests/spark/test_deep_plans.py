"""Plans that are deep or wide: planned in time linear in their size, and answered as Spark does.

Spark's own analysis overflows the JVM's stack at some 500 nested terms; `tests/expr/test_deep.py` goes further.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from py4j.protocol import MEMORY_COMMAND_NAME
from pyspark.sql import functions as F  # noqa: N812

import sundog
from sundog.front.jvm.plan import CatalystPlan
from tests.oracle.compare import assert_same
from tests.oracle.plain_spark import plain_spark
from tests.oracle.tables import events, write_files

pytestmark = pytest.mark.spark


def total(terms: int) -> str:
    return f"SELECT id, {' + '.join(['num'] * terms)} AS x FROM events ORDER BY id LIMIT 9"


def either(terms: int) -> str:
    parts = " OR ".join(f"num * {n + 1} = seq" for n in range(terms))
    return f"SELECT count(*) FROM events WHERE {parts}"


def case(branches: int) -> str:
    parts = " ".join(f"WHEN num = {n} THEN 'v{n}'" for n in range(branches))
    return f"SELECT CASE {parts} ELSE s END AS c, count(*) FROM events GROUP BY 1"


def in_list(members: int) -> str:
    return f"SELECT grp, count(*) FROM events WHERE num IN ({', '.join(map(str, range(members)))}) GROUP BY grp"


def columns(count: int) -> str:
    parts = ", ".join(f"num + {n} AS c{n}" for n in range(count))
    return f"SELECT id, {parts} FROM events ORDER BY id LIMIT 5"


def summed_windows(terms: int) -> str:
    return f"SELECT id, {' + '.join(['rank() OVER (ORDER BY grp)'] * terms)} AS x FROM events"


QUERIES: dict[str, tuple[Callable[[int], str], int]] = {
    "sum_of_terms": (total, 260),
    "conditions": (either, 150),
    "case": (case, 200),
    "in_list": (in_list, 3000),
    "columns": (columns, 200),
    "windows": (summed_windows, 60),
}


@pytest.fixture(scope="module")
def session(enabled: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("deep")
    enabled.read.parquet(str(write_files(events(), folder / "events", files=1))).createOrReplaceTempView("events")
    return enabled


@pytest.mark.parametrize("name", QUERIES)
def test_a_deep_or_wide_query_is_answered_as_spark_does(session: Any, name: str) -> None:
    query, size = QUERIES[name]
    with plain_spark(session):
        expected = session.sql(query(size)).toArrow()
    for placement in ("driver", "executors") if name == "sum_of_terms" else ("driver",):
        session.conf.set("spark.sundog.placement", placement)
        ours = session.sql(query(size)).toArrow()
        assert sundog.last_run().accelerated, sundog.last_run().fallback_reasons
        assert_same(ours, expected, ordered="LIMIT" in query(size))


def test_many_operators_above_each_other_are_left_to_spark(session: Any) -> None:
    frame = session.table("events").select("id", "num").orderBy("id").limit(1000)
    for number in range(34):
        frame = frame.orderBy("num", "id").limit(999 - number)  # GlobalLimit, LocalLimit and Sort each
    with plain_spark(session):
        expected = frame.toArrow()
    ours = frame.toArrow()
    run = sundog.last_run()
    assert_same(ours, expected, ordered=True)
    assert any(reason.startswith("TOO_DEEP") for reason in run.fallback_reasons), run.fallback_reasons


@contextmanager
def calls_counted(session: Any) -> Iterator[list[int]]:
    """Count the calls to the JVM, but not those of py4j's own garbage collection, which come at any time."""
    client = session.sparkContext._gateway._gateway_client
    send, counted = client.send_command, [0]

    def counting(command: str, *args: Any, **kwargs: Any) -> Any:
        counted[0] += not command.startswith(MEMORY_COMMAND_NAME)
        return send(command, *args, **kwargs)

    client.send_command = counting
    try:
        yield counted
    finally:
        client.send_command = send


@pytest.mark.parametrize("name", ["sum_of_terms", "case", "columns"])
def test_reading_a_plan_takes_few_calls_whatever_its_size(session: Any, name: str) -> None:
    """Texts come in pieces of 7,000 characters, two calls each; beside them the number of calls does not grow."""
    query, size = QUERIES[name]
    taken = []
    for each in (size // 4, size):
        jdf = session.sql(query(each))._jdf
        length = len(jdf.queryExecution().optimizedPlan().toJSON())
        CatalystPlan.of(session._jvm, jdf)
        with calls_counted(session) as counted:
            CatalystPlan.of(session._jvm, jdf)
        taken.append(counted[0] - 2 * 1.6 * length / 7000)
    assert taken[1] <= taken[0] + 15, taken


def test_chained_columns_and_filters(session: Any) -> None:
    frame = session.table("events").select("id", "num")
    for number in range(60):
        frame = frame.withColumn(f"c{number % 7}", F.col("num") + number).where(F.col("id") != number)
    frame = frame.orderBy("id").limit(7)
    with plain_spark(session):
        expected = frame.toArrow()
    ours = frame.toArrow()
    assert sundog.last_run().accelerated, sundog.last_run().fallback_reasons
    assert_same(ours, expected, ordered=True)
