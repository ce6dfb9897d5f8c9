"""sundog computes this Spark's answers, without falling back: all shapes, types and expressions, on both placements.

`make test` runs this folder on every older Spark as well, each in an environment of its own (`make test-sparks`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sundog
from sundog.front.session.conf_table import PREFIX, is_known
from sundog.versions import VERSIONS, spark_version
from tests.oracle.plain_spark import plain_spark
from tests.oracle.spark_settings import all_settings
from tests.versions.comparing import PLACEMENTS, SPARK_ERRORS, accelerated, canonical, outcome, outcome_of_spark
from tests.versions.queries import DECLINED, DECLINED_TYPES, EXPRESSIONS, KEYS, ORDERED, RAISING, SHAPES, WHOLE

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("shape", SHAPES)
def test_shape(session: Any, shape: str) -> None:
    accelerated(session, lambda frame: canonical(frame.collect(), shape in ORDERED), SHAPES[shape], PLACEMENTS)


@pytest.mark.thin(8)
@pytest.mark.parametrize("shape", SHAPES)
def test_shape_where_auto_places_it(session: Any, shape: str) -> None:
    accelerated(session, lambda frame: canonical(frame.collect(), shape in ORDERED), SHAPES[shape], ["auto"])


def test_shapes_in_one_process_of_an_executor(session: Any) -> None:
    """3.5 has no profiles for it, and starts a process for each slot."""
    session.conf.set("spark.sundog.executor.process", "executor")
    try:
        for shape in ("many groups", "range window", "partitioned window", "join and aggregate", "top-k"):
            accelerated(session, lambda frame: canonical(frame.collect()), SHAPES[shape], ["executors"])
    finally:
        session.conf.unset("spark.sundog.executor.process")


@pytest.mark.parametrize("query", DECLINED)
def test_what_sundog_leaves_to_spark(session: Any, query: str) -> None:
    sql, code = DECLINED[query]
    with plain_spark(session):
        theirs = canonical(session.sql(sql).collect())
    assert canonical(session.sql(sql).collect()) == theirs
    assert not sundog.last_run().accelerated
    assert code in {reason.partition(":")[0] for reason in sundog.last_run().fallback_reasons}


@pytest.mark.parametrize("name", DECLINED_TYPES)
def test_a_type_that_sundog_does_not_carry_stays_on_spark(session: Any, tmp_path: Path, name: str) -> None:
    made, queries = DECLINED_TYPES[name]
    if name == "time":
        session.conf.set("spark.sql.timeType.enabled", "true")
    try:
        with plain_spark(session):
            session.sql(made).write.parquet(str(tmp_path / name))
        session.read.parquet(str(tmp_path / name)).createOrReplaceTempView("made")
        for sql, codes in queries.items():
            with plain_spark(session):
                theirs = canonical(session.sql(sql).collect())
            assert canonical(session.sql(sql).collect()) == theirs
            assert not sundog.last_run().accelerated, sql
            assert codes & {reason.partition(":")[0] for reason in sundog.last_run().fallback_reasons}, sql
        accelerated(session, lambda frame: canonical(frame.collect()), "SELECT id FROM made ORDER BY id DESC LIMIT 3")
    finally:
        session.catalog.dropTempView("made")
        session.conf.unset("spark.sql.timeType.enabled")


def test_a_filter_in_a_window_is_computed_or_refused(session: Any) -> None:
    """Refused by Spark's analysis, before 4.2."""
    frame = "SELECT id, sum(num) FILTER (WHERE flag) OVER (ORDER BY seq ROWS 5 PRECEDING) c FROM events"
    assert outcome(session, lambda: session.sql(frame)) == outcome_of_spark(session, lambda: session.sql(frame))


def test_rows_go_through_an_exchange(session: Any) -> None:
    session.conf.set("spark.sundog.placement", "executors")
    session.sql(SHAPES["partitioned window"]).collect()
    assert sundog.last_run().metrics["exchange_blocks"] > 1, sundog.last_run().plan


@pytest.mark.parametrize("key", KEYS)
def test_type(session: Any, key: str) -> None:
    """As a key and as an argument; as sort keys they are in `top-k of all columns` and in tests of their own."""
    sql = f"SELECT {key} k, count(*) c, min(id) i, max({key}) m FROM events GROUP BY {key} ORDER BY k LIMIT 90"
    accelerated(session, lambda frame: canonical(frame.collect()), sql)


@pytest.fixture(params=["true", "false"], ids=["ansi", "not ansi"])
def ansi(session: Any, request: pytest.FixtureRequest) -> Iterator[str]:
    session.conf.set("spark.sql.ansi.enabled", request.param)
    yield request.param
    session.conf.unset("spark.sql.ansi.enabled")


def test_expressions(session: Any, ansi: str) -> None:
    """Ten at a time: each is a query's worth of planning."""
    for start in range(0, len(EXPRESSIONS), 10):
        some = EXPRESSIONS[start : start + 10]
        columns = ", ".join(f"{expression} AS x{number}" for number, expression in enumerate(some))
        sql = f"SELECT id, {columns} FROM events ORDER BY id LIMIT 700"
        accelerated(session, lambda frame: canonical(frame.collect()), sql)


def test_case_of_recent_letters(session: Any) -> None:
    """By the Unicode of this Spark's ICU. 3.5 has none, and keeps it."""
    letters = "\u2c5f\u2c2f\ua7d3\ua7d2\U00016ebb\U00016ea0"
    sql = (
        f"SELECT id, upper(concat(s, '{letters}')) u, lower(concat(s, '{letters}')) l FROM events ORDER BY id LIMIT 40"
    )
    if spark_version().name != "3.5":
        accelerated(session, lambda frame: canonical(frame.collect()), sql)
        return
    assert outcome(session, lambda: session.sql(sql)) == outcome_of_spark(session, lambda: session.sql(sql))
    assert not sundog.last_run().accelerated


def test_corr_of_what_does_not_vary(session: Any, ansi: str) -> None:
    """NULL, or under ANSI before 4.3 a division by zero."""
    for call in ("corr(num, 1)", "corr(num, seq)"):
        for query in (
            f"SELECT grp, {call} c FROM events GROUP BY grp",
            f"SELECT id, {call} OVER (ORDER BY id) c FROM events",
        ):
            assert outcome(session, lambda q=query: session.sql(q)) == outcome_of_spark(
                session, lambda q=query: session.sql(q)
            )


@pytest.mark.parametrize("case", RAISING)
def test_error(session: Any, case: str, ansi: str) -> None:
    """Spark's exception under ANSI, from an action that is run again and from a write, which is not; else its value."""
    expression, condition = RAISING[case]
    sql = f"SELECT grp, max({expression}) x FROM events GROUP BY grp"
    if ansi == "false":
        accelerated(session, lambda frame: canonical(frame.collect()), sql)
        return
    with plain_spark(session), pytest.raises(SPARK_ERRORS) as theirs:
        session.sql(sql).collect()
    session.conf.set("spark.sundog.placement", "driver")
    with pytest.raises(SPARK_ERRORS) as ours:
        session.sql(sql).collect()
    assert type(ours.value) is type(theirs.value)
    assert condition in str(ours.value)
    session.conf.set("spark.sundog.placement", "executors")
    with pytest.raises(SPARK_ERRORS) as written:
        session.sql(sql).write.format("noop").mode("overwrite").save()
    assert condition in str(written.value)


def test_files_of_other_types_than_the_schema(session: Any, tmp_path: Path) -> None:
    """A file that is narrower than the table: read or refused, as this Spark does."""
    pq.write_table(
        pa.table({"k": pa.array([1, 2, 3], pa.int64()), "v": pa.array([1.5, 2.5, 3.5])}), tmp_path / "a.parquet"
    )
    pq.write_table(
        pa.table({"k": pa.array([4, 5], pa.int32()), "v": pa.array([4.5, 5.5], pa.float32())}), tmp_path / "b.parquet"
    )
    frame = session.read.schema("k bigint, v double").parquet(str(tmp_path)).groupBy().sum("k", "v")
    assert outcome(session, lambda: frame) == outcome_of_spark(session, lambda: frame)


def test_ancient_dates_of_another_writer(session: Any, tmp_path: Path) -> None:
    days = np.array([-200_000, 0, 10_000], "int32")
    pq.write_table(pa.table({"d": pa.array(days, pa.date32())}), tmp_path / "a.parquet")
    frame = session.read.parquet(str(tmp_path)).selectExpr("min(cast(d AS string))")
    assert outcome(session, lambda: frame) == outcome_of_spark(session, lambda: frame)


def test_every_setting_of_this_spark_has_an_answer(session: Any) -> None:
    registered = all_settings(session)
    missing = sorted(key for key in registered if key.startswith(PREFIX) and not is_known(key))
    assert not missing, f"decide about these in front/session/conf_table.py: {missing}"


def test_settings_that_the_newest_spark_has_not_are_named_by_the_versions_that_have_them(session: Any) -> None:
    of_older_versions = {key for version in VERSIONS.values() for key in version.own_confs}
    assert of_older_versions & set(all_settings(session)) == spark_version().own_confs


def test_another_session_is_left_alone(session: Any) -> None:
    other = session.newSession()
    other.read.parquet(*session.table("events").inputFiles()).createOrReplaceTempView("events")
    before = sundog.last_run()
    other.sql(WHOLE).collect()
    assert sundog.last_run() is before
