"""Joins with a side that only Spark can compute: it is collected once, hashed, and its keys prune the other side."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PythonException
from pyspark.sql import Observation
from pyspark.sql.functions import count, lit, rand, udf

import sundog
from tests.costs import costs
from tests.oracle.compare import assert_same
from tests.oracle.plain_spark import plain_spark

pytestmark = pytest.mark.spark

FACTS, KEYS = 40_000, 900
COLUMNS = [
    "IF(id % 13 = 0, NULL, id) AS k",
    "id % 7 AS part",
    "concat('region ', id % 10) AS region",
    "CASE id % 5 WHEN 0 THEN double('NaN') WHEN 1 THEN -0.0D WHEN 2 THEN NULL ELSE id / 4 END AS x",
    "CAST(id / 8 AS DECIMAL(12, 3)) AS d",
    "timestamp_seconds(id * 37) AS t",
    "date_add(DATE'2020-01-01', CAST(id % 500 AS INT)) AS day",
    "id % 2 = 0 AS even",
]
SOURCES = ["csv", "cached", "by_udf", "checkpointed", "grouped", "limited", "moved"]
JOINED = "SELECT region, count(*) n, sum(v) s, max(d) d, min(t) t FROM fact f {} GROUP BY region"
SHAPES = {
    "inner": JOINED.format("JOIN {0} b ON f.k = b.k"),
    "inner from the left": "SELECT b.part, count(*) n, sum(v) s FROM {0} b JOIN fact f ON b.k = f.k GROUP BY b.part",
    "left": JOINED.format("LEFT JOIN {0} b ON f.k = b.k"),
    "right": "SELECT region, count(*) n, sum(v) s FROM {0} b RIGHT JOIN fact f ON b.k = f.k GROUP BY region",
    "semi": "SELECT f.part, count(*) n, sum(v) s FROM fact f LEFT SEMI JOIN {0} b ON f.k = b.k GROUP BY f.part",
    "anti": "SELECT f.part, count(*) n, sum(v) s FROM fact f LEFT ANTI JOIN {0} b ON f.k = b.k GROUP BY f.part",
    "not in": "SELECT count(*) n, sum(v) s FROM fact f WHERE k NOT IN (SELECT k FROM {0} WHERE k IS NOT NULL)",
    "not in with a null": "SELECT count(*) n FROM fact f WHERE f.k NOT IN (SELECT k FROM {0})",
    "exists": "SELECT count(*) n FROM fact f WHERE v < 99 OR EXISTS (SELECT 1 FROM {0} b WHERE b.k = f.k)",
    "null safe": JOINED.format("JOIN {0} b ON f.k <=> b.k AND f.part <=> b.part"),
    "condition": JOINED.format("JOIN {0} b ON f.k = b.k AND f.v > b.part * 100"),
    "left with a condition": JOINED.format("LEFT JOIN {0} b ON f.k = b.k AND f.part < b.part"),
    "two keys": JOINED.format("JOIN {0} b ON f.k = b.k AND f.part = b.part"),
    "floats": "SELECT region, count(*) n, sum(v) s FROM fact f JOIN {0} b ON f.x = b.x GROUP BY region",
    "duplicates": JOINED.format("JOIN {0} b ON f.part = b.part AND b.k < 40"),
    "no keys": "SELECT count(*) n, sum(v) s FROM fact f JOIN {0} b ON f.v < b.k WHERE b.k < 30 AND f.v < 50",
    "nothing left": JOINED.format("JOIN {0} b ON f.k = b.k AND b.region = 'nowhere'"),
    "all left of nothing": JOINED.format("LEFT JOIN {0} b ON f.k = b.k AND b.region = 'nowhere'"),
    "not in nothing": "SELECT count(*) n FROM fact WHERE k NOT IN (SELECT k FROM {0} WHERE region = 'nowhere')",
    "having": JOINED.format("JOIN {0} b ON f.k = b.k") + " HAVING sum(v) > 100000",
    "topk": "SELECT f.v, b.region, b.d FROM fact f JOIN {0} b ON f.k = b.k ORDER BY f.v DESC LIMIT 7",
    "window": """
        SELECT v, region, row_number() OVER (PARTITION BY region ORDER BY v) r FROM fact f JOIN {0} b ON f.k = b.k
    """,
    "best groups": JOINED.format("JOIN {0} b ON f.k = b.k") + " ORDER BY s DESC LIMIT 3",
    "three": """
        SELECT b.region, c.part, p.name, count(*) n, sum(v) s FROM fact f
        JOIN {0} b ON f.k = b.k JOIN cached c ON f.v % 900 = c.k JOIN readable p ON f.part = p.part
        WHERE b.part <> 3 AND p.name <> 'name 2' GROUP BY b.region, c.part, p.name
    """,
    "union": """
        SELECT region, count(*) n FROM (
            SELECT b.region FROM fact f JOIN {0} b ON f.k = b.k UNION ALL SELECT p.name FROM readable p
        ) GROUP BY region
    """,
    "subquery": """
        SELECT count(*) n FROM fact WHERE v > (SELECT avg(v) FROM fact f JOIN {0} b ON f.k = b.k WHERE b.part = 1)
    """,
}


@pytest.fixture(scope="module")
def session(enabled: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The same rows from sources of all kinds; a fact table, whose keys go twice as far, and a small Parquet table."""
    folder: Path = tmp_path_factory.mktemp("sides")
    at = np.arange(FACTS)
    random = np.random.default_rng(3)
    keys = pa.array(np.sort(random.integers(0, 2 * KEYS, FACTS)), mask=random.random(FACTS) < 0.05)
    x = np.where(at % 9 == 0, np.nan, np.where(at % 9 == 1, 0.0, at % 300 / 4))
    fact = {"k": keys, "v": at, "part": pa.array(at % 8, mask=at % 50 == 0), "x": x}
    pq.write_table(pa.table(fact), folder / "fact.parquet", row_group_size=1000)
    names = {"part": np.arange(8), "name": [f"name {part}" for part in range(8)]}
    pq.write_table(pa.table(names), folder / "readable.parquet")
    for name in ("fact", "readable"):
        enabled.read.parquet(str(folder / f"{name}.parquet")).createOrReplaceTempView(name)
    rows = enabled.range(0, KEYS, 1, 3).selectExpr(*COLUMNS)
    rows.write.csv(str(folder / "csv"))
    enabled.read.schema(rows.schema).csv(str(folder / "csv")).createOrReplaceTempView("csv")
    cached = rows.cache()
    cached.count()
    cached.createOrReplaceTempView("cached")
    same = udf(lambda value: value, "long")
    rows.withColumn("k", same("k")).createOrReplaceTempView("by_udf")
    enabled.sql("SELECT * FROM csv").localCheckpoint().createOrReplaceTempView("checkpointed")
    maxima = ", ".join(f"max({name}) AS {name}" for name in rows.columns if name not in ("k", "part"))
    enabled.sql(f"SELECT k, part, {maxima} FROM csv GROUP BY k, part").createOrReplaceTempView("grouped")
    enabled.sql("SELECT * FROM csv LIMIT 100000").createOrReplaceTempView("limited")
    enabled.sql("SELECT /*+ REPARTITION(5, k) */ * FROM csv").createOrReplaceTempView("moved")
    yield enabled
    cached.unpersist()


@contextmanager
def placement(session: Any, place: str) -> Iterator[None]:
    session.conf.set("spark.sundog.placement", place)
    try:
        yield
    finally:
        session.conf.unset("spark.sundog.placement")


def run(session: Any, query: str, place: str = "auto") -> sundog.Run:
    """The run, after its rows were compared with Spark's."""
    with placement(session, place):
        ours = session.sql(query).toArrow()
    found = sundog.last_run()
    with plain_spark(session):
        assert_same(ours, session.sql(query).toArrow(), ordered=False)
    return found


def is_taken(found: sundog.Run) -> bool:
    return found.accelerated and "collected once" in found.plan


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("place", ["driver", "executors"])
def test_joins_with_a_file_of_sparks_are_sparks(session: Any, name: str, place: str) -> None:
    found = run(session, SHAPES[name].format("csv"), place)
    assert is_taken(found), found.fallback_reasons
    assert found.placement == place
    assert not found.whole


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("name", ["inner", "left", "not in with a null", "three"])
def test_any_source_of_sparks_may_be_a_side(session: Any, source: str, name: str) -> None:
    found = run(session, SHAPES[name].format(source))
    assert is_taken(found), found.fallback_reasons


def test_a_side_without_rows_is_a_side(session: Any, tmp_path: Path) -> None:
    session.read.schema(session.table("csv").schema).csv(str(tmp_path)).createOrReplaceTempView("no_files")
    session.sql("SELECT * FROM cached WHERE part > 7").createOrReplaceTempView("none_of_cached")
    for source in ("no_files", "none_of_cached"):
        for name in ("inner", "left", "anti", "not in with a null"):
            found = run(session, SHAPES[name].format(source))
            assert is_taken(found), found.fallback_reasons


def test_every_type_comes_as_it_is(session: Any) -> None:
    columns = "f.v, b.part, b.region, b.x, b.d, b.t, b.day, b.even, CAST(b.region AS BINARY) bytes"
    for source in ("csv", "cached"):
        found = run(session, f"SELECT {columns} FROM fact f JOIN {source} b ON f.k = b.k ORDER BY f.v LIMIT 900")
        assert is_taken(found), found.fallback_reasons


def test_keys_of_spark_prune_row_groups_and_rows(session: Any) -> None:
    days = "b.day BETWEEN DATE'2020-04-10' AND DATE'2020-05-10' AND b.t < '1970-01-01 10:00:00'"
    query = f"SELECT region, sum(v) s FROM fact f JOIN csv b ON f.k = b.k WHERE {days} GROUP BY region"
    found = run(session, query)
    assert is_taken(found), found.fallback_reasons
    assert found.metrics["row_groups_total"] == 40
    assert found.metrics["row_groups_pruned_join_filter"] >= 35
    assert "join_filters=[k#" in found.plan
    assert "SparkInput: " in found.plan
    assert "CSV, columns=[" in found.plan


def test_explain_shows_the_side_and_runs_nothing(session: Any) -> None:
    calls = session.sparkContext.accumulator(0)
    session.table("cached").withColumn("k", counting(calls)("k")).createOrReplaceTempView("counted")
    frame = session.sql(SHAPES["inner"].format("counted"))
    text = sundog.explain(frame)
    assert "BuildSide\n          SparkInput: " in text
    assert "EvalPython, " in text
    assert "InMemoryRelation, columns=[" in text
    assert calls.value == 0
    text = sundog.explain(frame, analyze=True)
    assert "collected once  [900 rows, " in text or "collected once  [830 rows, " in text
    assert calls.value > 0


def counting(calls: Any) -> Any:
    return udf(lambda value: (calls.add(1), value)[1], "long")


def test_spark_computes_the_side_once(session: Any) -> None:
    calls = session.sparkContext.accumulator(0)
    session.table("cached").withColumn("k", counting(calls)("k")).createOrReplaceTempView("counted")
    query = SHAPES["left"].format("counted")
    with plain_spark(session):
        session.sql(query).collect()
    times = calls.value
    for place in ("driver", "executors"):
        before = calls.value
        with placement(session, place):
            session.sql(query).collect()
        assert is_taken(sundog.last_run())
        assert calls.value - before == times > 0


@pytest.mark.parametrize("limit", ["rows", "bytes"])
def test_a_side_that_is_larger_than_it_was_thought_goes_back_to_spark(session: Any, limit: str) -> None:
    """Spark knows the rows of an `explode` no better than those below it."""
    long = "repeat('x', 500)" if limit == "bytes" else "'x'"
    session.sql(
        f"SELECT k, {long} AS text FROM csv LATERAL VIEW explode(sequence(1, 300)) AS n"
    ).createOrReplaceTempView("many")
    with costs(session, broadcast_bytes=1 << 18, max_misjudged_broadcast=2):
        found = run(session, "SELECT count(*) n, max(b.text) t FROM fact f JOIN many b ON f.k = b.k")
    assert not found.accelerated
    [reason] = [text for text in map(str, found.fallback_reasons) if text.startswith("COST")][:1]
    assert "are collected" in reason
    assert "524,288 bytes" in reason


def test_a_side_that_is_known_to_be_large_is_not_looked_at(session: Any) -> None:
    with costs(session, broadcast_bytes=1000):
        found = run(session, SHAPES["inner"].format("cached"))
    assert not found.accelerated
    assert "COST: one side has about 900 rows of Spark's" in str(found.fallback_reasons)


def test_a_hint_says_that_a_side_is_small_where_spark_knows_nothing(session: Any) -> None:
    numbers = session.sparkContext.parallelize([(number, f"name {number % 5}") for number in range(300)])
    session.createDataFrame(numbers, "k long, name string").createOrReplaceTempView("listed")
    query = "SELECT {} name, count(*) n, sum(v) s FROM {} ON f.k = b.k GROUP BY name"
    for sides in ("fact f JOIN listed b", "listed b JOIN fact f", "fact f LEFT JOIN listed b"):
        found = run(session, query.format("", sides))
        assert "does not know how many rows" in str(found.fallback_reasons)
        with costs(session, spark_join_ns_per_row=10_000):  # the guess is far more rows than there are
            found = run(session, query.format("/*+ BROADCAST(b) */", sides))
        assert is_taken(found), found.fallback_reasons
        found = run(session, query.format("/*+ SHUFFLE_HASH(b) */", sides))
        assert not found.accelerated


def test_a_side_that_is_most_of_the_work_stays_on_spark(session: Any) -> None:
    with costs(session, hand_over_ns_per_row=1e6):
        found = run(session, SHAPES["inner"].format("cached"))
    assert not found.accelerated
    assert "would take 0.90 s to hand over" in str(found.fallback_reasons)


def test_the_rest_of_a_query_is_taken_without_the_join(session: Any) -> None:
    query = f"{SHAPES['inner'].format('csv')} UNION ALL SELECT name, count(*), 1, 1, NULL FROM readable GROUP BY name"
    with costs(session, hand_over_ns_per_row=1e6):
        found = run(session, query)
    assert found.accelerated
    assert "would take" in str(found.fallback_reasons)
    assert "collected once" not in found.plan


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) n FROM fact f FULL JOIN csv b ON f.k = b.k",
        "SELECT count(*) n FROM fact f RIGHT JOIN csv b ON f.k = b.k",
        "SELECT count(*) n FROM csv b LEFT JOIN fact f ON f.k = b.k",
        "SELECT count(*) n FROM csv b WHERE k IN (SELECT k FROM fact)",
        "SELECT count(*) n FROM csv b JOIN cached f ON f.k = b.k",
    ],
)
def test_a_side_that_cannot_be_built_stays_on_spark(session: Any, query: str) -> None:
    assert not run(session, query).accelerated


def test_a_shape_below_is_taken_by_itself(session: Any) -> None:
    """What the join would win by the keys is less than to group a large table by Spark."""
    same = udf(lambda value: value, "long")
    groups = session.sql("SELECT k, sum(v) total FROM fact GROUP BY k")
    groups.withColumn("k", same("k")).createOrReplaceTempView("over_groups")
    found = run(session, "SELECT count(*) n, sum(total) s FROM fact f JOIN over_groups b ON f.k <=> b.k")
    assert found.accelerated
    assert "collected once" not in found.plan


def test_an_error_of_the_side_is_sparks(session: Any) -> None:
    failing = udf(lambda value: 1 // (value - 3), "long")
    session.table("cached").withColumn("k", failing("part")).createOrReplaceTempView("failing")
    query = SHAPES["inner"].format("failing")
    for place in ("driver", "executors"):
        with placement(session, place), pytest.raises(PythonException, match="ZeroDivisionError"):
            session.sql(query).collect()
        assert not sundog.last_run().accelerated
    with plain_spark(session), pytest.raises(PythonException, match="ZeroDivisionError"):
        session.sql(query).collect()


def test_an_ansi_error_of_the_side_is_sparks(session: Any) -> None:
    session.sql("SELECT k DIV (part - 3) AS k, region FROM csv").createOrReplaceTempView("dividing")
    query = "SELECT region, count(*) n FROM fact f JOIN dividing b ON f.k = b.k GROUP BY region"
    assert error_of(session, query) == "DIVIDE_BY_ZERO"
    assert not sundog.last_run().accelerated
    with plain_spark(session):
        assert error_of(session, query) == "DIVIDE_BY_ZERO"


def error_of(session: Any, query: str) -> str:
    with pytest.raises(Exception) as error:  # noqa: PT011 - its class depends on the version
        session.sql(query).collect()
    return str(error.value.getCondition())


def test_observed_rows_and_functions_that_are_not_deterministic_stay_on_spark(session: Any) -> None:
    seen = Observation()
    observed = session.table("csv").observe(seen, count(lit(1)).alias("rows"))
    session.table("fact").join(observed, "k").groupBy("region").count().collect()
    assert "UNKNOWN_NODE: observe() reports" in str(sundog.last_run().fallback_reasons)
    assert seen.get == {"rows": KEYS}
    drawing = udf(lambda value: value, "long").asNondeterministic()
    session.table("csv").withColumn("k", drawing("k")).createOrReplaceTempView("drawn")
    found = run(session, SHAPES["inner"].format("drawn"))
    assert "NONDETERMINISTIC: a function that is not deterministic" in str(found.fallback_reasons)


def test_seeded_draws_are_those_of_spark(session: Any) -> None:
    session.table("csv").withColumn("d", rand(7)).createOrReplaceTempView("seeded")
    found = run(session, SHAPES["inner"].format("seeded"))
    assert is_taken(found), found.fallback_reasons
    session.table("moved").withColumn("d", rand(7)).createOrReplaceTempView("seeded")
    with placement(session, "auto"):
        session.sql(SHAPES["inner"].format("seeded")).collect()
    assert "NONDETERMINISTIC: Rand" in str(sundog.last_run().fallback_reasons)


def test_types_that_sundog_does_not_carry_stay_on_spark(session: Any) -> None:
    for column in ("array(part)", "struct(part)"):
        session.sql(f"SELECT k, {column} AS a FROM csv").createOrReplaceTempView("strange")
        query = "SELECT f.v, b.a FROM fact f JOIN strange b ON f.k = b.k ORDER BY f.v LIMIT 5"
        found = run(session, query)
        assert not found.accelerated
        assert "UNSUPPORTED_TYPE" in str(found.fallback_reasons)


def test_writes_and_shadow_mode(session: Any, tmp_path: Path) -> None:
    query = SHAPES["inner"].format("csv")
    out = str(tmp_path / "out")
    for place in ("driver", "executors"):
        with placement(session, place):
            session.sql(query).write.mode("overwrite").parquet(out)
        assert is_taken(sundog.last_run())
        assert session.read.parquet(out).count() == 10
    session.conf.set("spark.sundog.mode", "shadow")
    before = sundog.shadow_report(session)
    try:
        session.sql(query).collect()
        after = sundog.shadow_report(session)
        assert (after.compared - before.compared, after.agreed - before.agreed) == (1, 1)
    finally:
        session.conf.unset("spark.sundog.mode")


def test_a_part_below_what_spark_computes_is_spliced(session: Any) -> None:
    same = udf(lambda value: value, "long")
    frame = session.sql(SHAPES["inner"].format("csv")).withColumn("n", same("n"))
    ours = frame.toArrow()
    assert is_taken(sundog.last_run()), sundog.last_run().fallback_reasons
    with plain_spark(session):
        assert_same(ours, frame.toArrow(), ordered=False)
