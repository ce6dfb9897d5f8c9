"""Does sundog give this Spark's answers, and give them itself? All shapes, types, actions and placements, in a minute.

`make test` runs this file on every older Spark as well, each in an environment of its own (`make test-sparks`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

import sundog
from sundog.front.session.conf_table import ONLY_IN, PREFIX, is_known
from sundog.versions import spark_version
from tests.costs import costs
from tests.oracle.plain_spark import plain_spark
from tests.oracle.spark_settings import all_settings
from tests.oracle.tables import events, write_files

pytestmark = pytest.mark.spark

PLACEMENTS = ["driver", "executors"]
SPARK_ERRORS = (PySparkException, Py4JError)  # 3.5 wraps no error of a task

SHAPES = {
    "top-k": "SELECT id, s, d FROM events WHERE num > 3 AND s LIKE 'a%' ORDER BY d DESC NULLS LAST, id LIMIT 5",
    "top-k of all columns": "SELECT * FROM events ORDER BY num DESC, id LIMIT 40",
    "top-k with an offset": "SELECT id, num + 1 AS e FROM events ORDER BY num, id LIMIT 5 OFFSET 2",
    "limit over a scan": "SELECT count(*) FROM (SELECT id FROM events LIMIT 5)",
    "aggregate by key": (
        "SELECT grp, count(*) c, sum(num), avg(dec), min(s), max(ts), sum(wide) FROM events GROUP BY grp"
    ),
    "aggregate without keys": (
        "SELECT count(*), sum(big), min(day), max(f), count(DISTINCT s) FROM events WHERE num > 0"
    ),
    "many groups": "SELECT id % 1500 k, s, count(*) c, sum(num) n, min(day) d FROM events GROUP BY id % 1500, s",
    "distinct": "SELECT DISTINCT s, flag FROM events",
    "rollup": "SELECT s, flag, grouping(s), count(*) FROM events GROUP BY ROLLUP(s, flag)",
    "several distincts": "SELECT grp, count(DISTINCT s), sum(DISTINCT num), max(d) FROM events GROUP BY grp",
    "filter in an aggregate": (
        "SELECT grp, sum(num) FILTER (WHERE flag), count(*) FILTER (WHERE s = 'a') FROM events GROUP BY grp"
    ),
    "having and order": (
        "SELECT grp, count(*) c FROM events GROUP BY grp HAVING count(*) > 2 ORDER BY c DESC, grp LIMIT 7"
    ),
    "moments": "SELECT grp, var_pop(num), stddev(num), covar_samp(num, seq) FROM events GROUP BY grp",
    "picks": "SELECT max_by(s, id), min_by(day, id), bit_xor(num), bool_or(flag), any_value(id) IS NULL FROM events",
    "range window": "SELECT id, sum(num) OVER (ORDER BY seq RANGE BETWEEN 5 PRECEDING AND CURRENT ROW) w FROM events",
    "range window of time": (
        "SELECT id, count(*) OVER (ORDER BY ntz RANGE BETWEEN INTERVAL '60' SECOND PRECEDING AND CURRENT ROW) w "
        "FROM events"
    ),
    "rows window": "SELECT id, sum(num) OVER (ORDER BY seq ROWS BETWEEN 3 PRECEDING AND 2 FOLLOWING) w FROM events",
    "places": (
        "SELECT id, row_number() OVER (ORDER BY seq) n, rank() OVER (ORDER BY grp) r, ntile(7) OVER (ORDER "
        "BY seq) t FROM events"
    ),
    "shifts": "SELECT id, lag(num) OVER (ORDER BY seq) l, lead(s, 2) OVER (ORDER BY seq) m FROM events",
    "partitioned window": (
        "SELECT id, sum(num) OVER (PARTITION BY grp ORDER BY seq) w, row_number() OVER "
        "(PARTITION BY grp ORDER BY seq) n FROM events"
    ),
    "partition columns": "SELECT small, sum(num), max(day) FROM parted WHERE small > 0 GROUP BY small",
    "below a join": (
        "SELECT a.id, b.s FROM (SELECT id FROM events ORDER BY num, id LIMIT 20) a JOIN events b ON a.id = b.id"
    ),
    "join and aggregate": (
        "SELECT a.s, count(*) c, sum(b.num) n FROM events a JOIN events b ON a.id = b.seq AND a.num > b.num GROUP BY a.s"
    ),
    "outer joins": (
        "SELECT a.grp, count(b.id) c, count(c.id) d FROM events a LEFT JOIN events b ON a.id = b.seq AND b.num > 5 "
        "LEFT JOIN (SELECT id, seq FROM events WHERE flag) c ON a.id = c.id GROUP BY a.grp"
    ),
    "semi and anti join": (
        "SELECT grp, count(*) c FROM events a WHERE id IN (SELECT seq FROM events WHERE num > 3) "
        "AND NOT EXISTS (SELECT 1 FROM events b WHERE a.id = b.seq AND b.flag) GROUP BY grp"
    ),
    "null-aware anti join": (
        "SELECT grp, count(*) c FROM events WHERE num NOT IN (SELECT small FROM events WHERE small > 5) GROUP BY grp"
    ),
    "join below a top-k": (
        "SELECT a.id, b.s FROM events a RIGHT JOIN events b ON a.id = b.seq AND a.s = b.s ORDER BY b.num, b.id LIMIT 9"
    ),
    "join of shapes": (
        "SELECT t.s, g.c FROM (SELECT id, grp, s FROM events ORDER BY num, id LIMIT 5) t "
        "JOIN (SELECT grp, count(*) c FROM events GROUP BY grp) g ON t.grp = g.grp"
    ),
    "window over rows of Spark's": "SELECT id, sum(id) OVER (ORDER BY id) w FROM range(3000)",
}

KEYS = ["tiny", "small", "num", "big", "f", "d", "dec", "wide", "s", "bin", "flag", "day", "ts", "ntz"]

EXPRESSIONS = [
    "num + 1", "big - 1", "num * num", "d / 3", "big div 7", "num % 7", "-num", "abs(num)", "dec + dec", "dec * 2", "dec / 3",
    "try_add(num, 1)", "try_divide(big, num)", "num > 3 AND NOT flag", "num IN (1, 2, NULL)", "s LIKE 'a_%'",
    "s IN ('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'zebra')", "length(s)", "substring(s, 2, 2)", "concat(s, 'x')",
    "coalesce(s, 'none')", "CASE WHEN num > 0 THEN 'p' WHEN num < 0 THEN 'n' END", "nullif(num, 3)", "cast(num AS bigint)",
    "cast(num AS double)", "cast(big AS string)", "cast(dec AS int)", "cast(num AS decimal(12,2))", "cast(day AS string)",
    "year(day)", "month(day)", "dayofweek(day)", "weekofyear(day)", "hour(ts)", "minute(ts)", "date_trunc('hour', ts)",
    "trunc(day, 'month')", "date_add(day, 3)", "datediff(day, date'2024-01-01')", "ts + INTERVAL 90 MINUTES",
    "cast(ts AS date)", "cast(day AS timestamp)", "power(d, 2)", "isnan(d)", "d <=> NULL", "CAST(s AS binary)",
]  # fmt: skip

# Raise under ANSI; without it they are NULL or wrap around.
RAISING = {
    "divide": ("num / (num - num)", "DIVIDE_BY_ZERO"),
    "overflow": ("big * 9223372036854775807", "ARITHMETIC_OVERFLOW"),
    "cast": ("cast(big AS int)", "CAST_OVERFLOW"),
    "text": ("cast(s AS int)", "CAST_INVALID_INPUT"),
}


@pytest.fixture(scope="module")
def session(enabled: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    ansi = enabled.conf.get("spark.sql.ansi.enabled")
    enabled.conf.unset("spark.sql.ansi.enabled")  # this version's own default
    folder = tmp_path_factory.mktemp("smoke")
    enabled.conf.set("spark.sql.sources.partitionOverwriteMode", "static")
    enabled.read.parquet(str(write_files(events(), folder / "events"))).createOrReplaceTempView("events")
    with plain_spark(enabled):
        enabled.table("events").write.partitionBy("small").parquet(str(folder / "parted"))
    enabled.read.parquet(str(folder / "parted")).createOrReplaceTempView("parted")
    # so that two thousand rows are worth several tasks and an exchange
    with costs(enabled, task_bytes=4096, gather_groups=100):
        yield enabled
    enabled.conf.set("spark.sql.ansi.enabled", ansi)


def canonical(rows: list[Any]) -> list[str]:
    """Rows as text with their Python types, as a multiset; the last bits of doubles are free."""

    def text(value: Any) -> str:
        if isinstance(value, float):
            return "nan" if math.isnan(value) else f"{value:.10g}"
        if isinstance(value, Decimal):
            return f"Decimal({value})"
        return repr(value)

    return sorted(
        f"{type(row).__name__}({', '.join(f'{k}={text(v)}' for k, v in zip(row.__fields__, row, strict=True))})"
        for row in rows
    )


def both(
    session: Any, action: Callable[[Any], Any], sql: str, placement: str = "driver"
) -> tuple[Any, Any, sundog.Run]:
    """What the action gives on sundog and on plain Spark, and the run of the former."""
    session.conf.set("spark.sundog.placement", placement)
    ours = action(session.sql(sql))
    run = sundog.last_run()
    with plain_spark(session):
        theirs = action(session.sql(sql))
    return ours, theirs, run


@pytest.mark.parametrize("shape", SHAPES)
def test_shape(session: Any, shape: str) -> None:
    with plain_spark(session):
        theirs = canonical(session.sql(SHAPES[shape]).collect())
    for placement in PLACEMENTS:
        session.conf.set("spark.sundog.placement", placement)
        ours = canonical(session.sql(SHAPES[shape]).collect())
        run = sundog.last_run()
        assert ours == theirs
        assert run.accelerated, run.fallback_reasons
        assert run.placement == ("executors" if "SparkInput" in run.plan else placement)


def test_rows_go_through_an_exchange(session: Any) -> None:
    session.conf.set("spark.sundog.placement", "executors")
    session.sql(SHAPES["partitioned window"]).collect()
    assert sundog.last_run().metrics["exchange_blocks"] > 1, sundog.last_run().plan


@pytest.mark.parametrize("key", KEYS)
def test_type(session: Any, key: str) -> None:
    """As a key and as an argument; as sort keys they are in `top-k of all columns` and in tests of their own."""
    sql = f"SELECT {key} k, count(*) c, min(id) i, max({key}) m FROM events GROUP BY {key} ORDER BY k LIMIT 90"
    ours, theirs, run = both(session, lambda frame: canonical(frame.collect()), sql)
    assert ours == theirs
    assert run.accelerated, run.fallback_reasons


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
        ours, theirs, run = both(session, lambda frame: canonical(frame.collect()), sql)
        assert ours == theirs, some
        assert run.accelerated, run.fallback_reasons


def test_case_of_recent_letters(session: Any) -> None:
    """By the Unicode of this Spark's ICU. 3.5 has none, and keeps it."""
    letters = "\u2c5f\u2c2f\ua7d3\ua7d2\U00016ebb\U00016ea0"
    sql = (
        f"SELECT id, upper(concat(s, '{letters}')) u, lower(concat(s, '{letters}')) l FROM events ORDER BY id LIMIT 40"
    )
    ours, theirs, run = both(session, lambda frame: canonical(frame.collect()), sql)
    assert ours == theirs
    assert run.accelerated or spark_version().name == "3.5"


def test_corr_of_what_does_not_vary(session: Any, ansi: str) -> None:
    """NULL, or under ANSI before 4.3 a division by zero."""
    for call in ("corr(num, 1)", "corr(num, seq)"):
        for query in (
            f"SELECT grp, {call} c FROM events GROUP BY grp",
            f"SELECT id, {call} OVER (ORDER BY id) c FROM events",
        ):
            frame = session.sql(query)
            assert _outcome(session, frame) == _outcome_of_spark(session, frame)


@pytest.mark.parametrize("case", RAISING)
def test_error(session: Any, case: str, ansi: str) -> None:
    """Spark's exception under ANSI, from an action that is run again and from a write, which is not; else its value."""
    expression, condition = RAISING[case]
    sql = f"SELECT grp, max({expression}) x FROM events GROUP BY grp"
    if ansi == "false":
        ours_rows, theirs_rows, run = both(session, lambda frame: canonical(frame.collect()), sql, "executors")
        assert ours_rows == theirs_rows
        assert run.accelerated, run.fallback_reasons
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


WHOLE = "SELECT id, d, s, dec, day, ts, ntz, bin, flag, f FROM events ORDER BY num DESC, id LIMIT 40"
SUBTREE = "SELECT id, reverse(s) AS s FROM (SELECT id, s FROM events ORDER BY num, id LIMIT 20)"  # `reverse` is Spark's


def _of_pandas(table: Any) -> Any:
    return str(table.dtypes), sorted(map(repr, table.to_dict("records")))


ACTIONS: dict[str, Callable[[Any], Any]] = {
    "collect": lambda df: canonical(df.collect()),
    "toPandas": lambda df: _of_pandas(df.toPandas()),
    "count": lambda df: df.count(),
    "isEmpty": lambda df: df.isEmpty(),
    "take": lambda df: canonical(df.orderBy("id").take(3)),
    "head": lambda df: repr(df.orderBy("id").head(2)),
    "tail": lambda df: repr(df.orderBy("id").tail(2)),
    "toLocalIterator": lambda df: canonical(list(df.toLocalIterator())),
}


@pytest.mark.parametrize(("sql", "placement"), [(WHOLE, "driver"), (SUBTREE, "executors")], ids=["whole", "part"])
@pytest.mark.parametrize("action", ACTIONS)
def test_action(session: Any, action: str, sql: str, placement: str) -> None:
    ours, theirs, run = both(session, ACTIONS[action], sql, placement)
    assert ours == theirs
    assert run.accelerated, run.fallback_reasons


@pytest.mark.parametrize(
    "sql", [WHOLE, "SELECT id, s FROM events WHERE id < 0 ORDER BY id LIMIT 3"], ids=["rows", "none"]
)
def test_pandas_and_arrow_by_arrow(session: Any, sql: str) -> None:
    session.conf.set("spark.sql.execution.arrow.pyspark.enabled", "true")
    try:
        ours, theirs, run = both(session, ACTIONS["toPandas"], sql)
        assert ours == theirs
        assert run.accelerated, run.fallback_reasons
        ours, theirs, run = both(session, lambda frame: frame.toArrow(), sql)
        assert ours.schema.equals(theirs.schema)
        assert repr(ours.to_pylist()) == repr(theirs.to_pylist())  # by text: NaN is not NaN
        assert run.accelerated, run.fallback_reasons
    finally:
        session.conf.unset("spark.sql.execution.arrow.pyspark.enabled")


def test_show(session: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for sql in (WHOLE, SUBTREE):
        frame = session.sql(f"SELECT * FROM ({sql}) ORDER BY id")
        frame.show(7)
        assert sundog.last_run().accelerated
        ours = capsys.readouterr().out
        with plain_spark(session):
            frame.show(7)
        assert ours == capsys.readouterr().out


def test_foreach(session: Any) -> None:
    seen = session.sparkContext.accumulator(0)
    session.sql(WHOLE).foreach(lambda row: seen.add(1))
    assert sundog.last_run().accelerated
    session.sql(WHOLE).foreachPartition(lambda rows: seen.add(sum(1 for _ in rows)))
    assert sundog.last_run().accelerated
    assert seen.value == 80


def test_written_files_and_tables(session: Any, tmp_path: Path) -> None:
    session.conf.set("spark.sundog.placement", "executors")
    session.sql(SHAPES["many groups"]).write.mode("overwrite").option("compression", "zstd").parquet(
        str(tmp_path / "ours")
    )
    assert sundog.last_run().accelerated, sundog.last_run().fallback_reasons
    with plain_spark(session):
        written = canonical(session.read.parquet(str(tmp_path / "ours")).collect())
        assert written == canonical(session.sql(SHAPES["many groups"]).collect())
    try:
        session.sql(f"CREATE TABLE made USING parquet AS {WHOLE}")
        assert sundog.last_run().accelerated, sundog.last_run().fallback_reasons
        session.sql(f"INSERT INTO made {WHOLE}")
        assert sundog.last_run().accelerated, sundog.last_run().fallback_reasons
        session.sql(WHOLE).write.insertInto("made")
        assert sundog.last_run().accelerated, sundog.last_run().fallback_reasons
        session.sql(WHOLE).write.mode("append").saveAsTable("made")
        assert sundog.last_run().accelerated, sundog.last_run().fallback_reasons
        with plain_spark(session):
            assert session.table("made").count() == 160
            assert session.table("made").distinct().count() == 40
        session.sql(WHOLE).write.mode("overwrite").partitionBy("flag").saveAsTable("made")
        assert sundog.last_run().accelerated, sundog.last_run().fallback_reasons
        session.sql(f"SELECT * FROM ({WHOLE}) WHERE flag").write.format("noop").mode("overwrite").save()
        assert sundog.last_run().accelerated, sundog.last_run().fallback_reasons
        with plain_spark(session):
            assert session.table("made").count() == 40
        session.sql("DROP TABLE made")
        session.sql(WHOLE).writeTo("made").using("parquet").create()
        assert sundog.last_run().accelerated, sundog.last_run().fallback_reasons
        with plain_spark(session):
            assert session.table("made").count() == 40
    finally:
        session.sql("DROP TABLE IF EXISTS made")


def test_explain_and_accelerate(session: Any, capsys: pytest.CaptureFixture[str]) -> None:
    session.sql(WHOLE).explain()
    assert "dynamic_rg_pruning" in capsys.readouterr().out
    assert "dynamic_rg_pruning" in sundog.explain(session.sql(WHOLE))
    frame = sundog.accelerate(session.sql(WHOLE))
    assert sundog.last_run().accelerated
    with plain_spark(session):
        assert canonical(frame.collect()) == canonical(session.sql(WHOLE).collect())


def test_files_of_other_types_than_the_schema(session: Any, tmp_path: Path) -> None:
    """A file that is narrower than the table: read or refused, as this Spark does."""
    pq.write_table(
        pa.table({"k": pa.array([1, 2, 3], pa.int64()), "v": pa.array([1.5, 2.5, 3.5])}), tmp_path / "a.parquet"
    )
    pq.write_table(
        pa.table({"k": pa.array([4, 5], pa.int32()), "v": pa.array([4.5, 5.5], pa.float32())}), tmp_path / "b.parquet"
    )
    frame = session.read.schema("k bigint, v double").parquet(str(tmp_path)).groupBy().sum("k", "v")
    assert _outcome(session, frame) == _outcome_of_spark(session, frame)


def test_ancient_dates_of_another_writer(session: Any, tmp_path: Path) -> None:
    days = np.array([-200_000, 0, 10_000], "int32")
    pq.write_table(pa.table({"d": pa.array(days, pa.date32())}), tmp_path / "a.parquet")
    frame = session.read.parquet(str(tmp_path)).selectExpr("min(cast(d AS string))")
    assert _outcome(session, frame) == _outcome_of_spark(session, frame)


def _outcome(session: Any, frame: Any) -> str:
    """Rows, or the class of the error."""
    try:
        return str(canonical(frame.collect()))
    except SPARK_ERRORS as error:
        return type(error).__name__


def _outcome_of_spark(session: Any, frame: Any) -> str:
    with plain_spark(session):
        return _outcome(session, frame)


def test_every_setting_of_this_spark_has_an_answer(session: Any) -> None:
    registered = all_settings(session)
    missing = sorted(key for key in registered if key.startswith(PREFIX) and not is_known(key))
    assert not missing, f"decide about these in front/session/conf_table.py: {missing}"


def test_settings_of_single_versions_say_that_this_one_has_them(session: Any) -> None:
    registered = all_settings(session)
    found = {name: versions for name, versions in ONLY_IN.items() if PREFIX + name in registered}
    assert [name for name, versions in found.items() if spark_version().name not in versions] == []


def test_another_session_is_left_alone(session: Any) -> None:
    other = session.newSession()
    other.read.parquet(*session.table("events").inputFiles()).createOrReplaceTempView("events")
    before = sundog.last_run()
    other.sql(WHOLE).collect()
    assert sundog.last_run() is before
