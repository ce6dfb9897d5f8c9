"""Every action and writer on this Spark, on both placements; explain, accelerate and shadow mode."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sundog
from sundog.versions import spark_version
from tests.oracle.plain_spark import plain_spark
from tests.versions.comparing import PLACEMENTS, accelerated, canonical
from tests.versions.queries import SHAPES, SUBTREE, WHOLE

pytestmark = pytest.mark.spark


def _of_pandas(table: Any) -> Any:
    return str(table.dtypes), sorted(map(repr, table.to_dict("records")))


ACTIONS: dict[str, Callable[[Any], Any]] = {
    "collect": lambda df: canonical(df.collect()),
    "toPandas": lambda df: _of_pandas(df.toPandas()),
    "count": lambda df: df.count(),
    "isEmpty": lambda df: df.isEmpty(),
    "take": lambda df: canonical(df.orderBy("id").take(3)),
    "first": lambda df: repr(df.orderBy("id").first()),
    "head": lambda df: repr(df.orderBy("id").head(2)),
    "tail": lambda df: repr(df.orderBy("id").tail(2)),
    "toLocalIterator": lambda df: canonical(list(df.toLocalIterator())),
}


@pytest.mark.parametrize("sql", [WHOLE, SUBTREE], ids=["whole", "part"])
@pytest.mark.parametrize("action", ACTIONS)
def test_action(session: Any, action: str, sql: str) -> None:
    accelerated(session, ACTIONS[action], sql)


@pytest.mark.parametrize(
    "sql", [WHOLE, "SELECT id, s FROM events WHERE id < 0 ORDER BY id LIMIT 3"], ids=["rows", "none"]
)
def test_pandas_and_arrow_by_arrow(session: Any, sql: str) -> None:
    session.conf.set("spark.sql.execution.arrow.pyspark.enabled", "true")
    try:
        accelerated(session, ACTIONS["toPandas"], sql)
        accelerated(session, _of_arrow, sql)
    finally:
        session.conf.unset("spark.sql.execution.arrow.pyspark.enabled")


def _of_arrow(frame: Any) -> tuple[str, str]:
    table = frame.toArrow()
    return str(table.schema), repr(table.to_pylist())  # by text: NaN is not NaN


@pytest.mark.parametrize("sql", [WHOLE, SUBTREE], ids=["whole", "part"])
def test_show(session: Any, capsys: pytest.CaptureFixture[str], sql: str) -> None:
    def shown(frame: Any) -> str:
        frame.orderBy("id").show(7)
        return capsys.readouterr().out

    accelerated(session, shown, sql)


def test_foreach(session: Any) -> None:
    def seen(frame: Any) -> int:
        count = session.sparkContext.accumulator(0)
        frame.foreach(lambda row: count.add(1))
        return int(count.value)

    def seen_in_partitions(frame: Any) -> int:
        count = session.sparkContext.accumulator(0)
        frame.foreachPartition(lambda rows: count.add(sum(1 for _ in rows)))
        return int(count.value)

    accelerated(session, seen, WHOLE)
    accelerated(session, seen_in_partitions, WHOLE)


FLAT = "SELECT id, s, dec, day FROM events ORDER BY num DESC, id LIMIT 40"
"""Of types that most formats keep."""
FORMATS = {
    **dict.fromkeys(("parquet", "json", "csv", "orc"), FLAT),
    "text": "SELECT concat(id, ' ', s) value FROM events WHERE s IS NOT NULL ORDER BY num DESC, id LIMIT 40",
}
if spark_version().name != "3.5":  # which has no XML
    FORMATS["xml"] = "SELECT id, dec, day FROM events ORDER BY num DESC, id LIMIT 40"


@pytest.mark.parametrize("file_format", FORMATS)
def test_files_are_written(session: Any, tmp_path: Path, file_format: str) -> None:
    sql = FORMATS[file_format]
    options = {"rowTag": "row"} if file_format == "xml" else {}

    def read(name: str) -> list[str]:
        reader = session.read.schema(schema).options(**options).format(file_format)
        return canonical(reader.load(str(tmp_path / name)).collect())

    with plain_spark(session):
        schema = session.sql(sql).schema
        session.sql(sql).write.options(**options).format(file_format).save(str(tmp_path / "theirs"))
        theirs = read("theirs")
    assert len(theirs) > 30
    for placement in PLACEMENTS:
        session.conf.set("spark.sundog.placement", placement)
        session.sql(sql).write.mode("overwrite").options(**options).format(file_format).save(str(tmp_path / "ours"))
        assert sundog.last_run().accelerated, sundog.last_run().fallback_reasons
        with plain_spark(session):
            assert read("ours") == theirs


def test_many_rows_are_written_by_executors(session: Any, tmp_path: Path) -> None:
    session.conf.set("spark.sundog.placement", "executors")
    session.sql(SHAPES["many groups"]).write.option("compression", "zstd").parquet(str(tmp_path / "ours"))
    assert sundog.last_run().accelerated, sundog.last_run().fallback_reasons
    with plain_spark(session):
        written = canonical(session.read.parquet(str(tmp_path / "ours")).collect())
        assert written == canonical(session.sql(SHAPES["many groups"]).collect())


TABLES: list[tuple[str, Callable[[Any], Any], int]] = [
    ("CREATE TABLE", lambda spark: spark.sql(f"CREATE TABLE made USING parquet AS {WHOLE}"), 1),
    ("INSERT INTO", lambda spark: spark.sql(f"INSERT INTO made {WHOLE}"), 2),
    ("insertInto", lambda spark: spark.sql(WHOLE).write.insertInto("made"), 3),
    ("append", lambda spark: spark.sql(WHOLE).write.mode("append").saveAsTable("made"), 4),
    ("INSERT OVERWRITE", lambda spark: spark.sql(f"INSERT OVERWRITE made {WHOLE}"), 1),
    ("insertInto, overwriting", lambda spark: spark.sql(WHOLE).write.insertInto("made", overwrite=True), 1),
    ("partitions", lambda spark: spark.sql(WHOLE).write.mode("overwrite").partitionBy("flag").saveAsTable("made"), 1),
    ("buckets", lambda spark: spark.sql(WHOLE).write.mode("overwrite").bucketBy(3, "id").saveAsTable("made"), 1),
    ("writeTo", lambda spark: spark.sql(WHOLE).writeTo("made_too").using("parquet").create(), 1),
]
"""Writes one after the other, and how often each row is in the table afterwards."""


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_tables_are_written(session: Any, placement: str) -> None:
    session.conf.set("spark.sundog.placement", placement)
    with plain_spark(session):
        theirs = canonical(session.sql(WHOLE).collect())
    try:
        for name, write, times in TABLES:
            write(session)
            assert sundog.last_run().accelerated, (name, sundog.last_run().fallback_reasons)
            with plain_spark(session):
                made = session.table("made_too" if name == "writeTo" else "made")
                columns = session.sql(WHOLE).columns
                assert canonical(made.select(*columns).collect()) == sorted(theirs * times), name
    finally:
        for table in ("made", "made_too"):
            session.sql(f"DROP TABLE IF EXISTS {table}")


def test_a_sink_of_data_source_v2_takes_rows(session: Any) -> None:
    for placement in PLACEMENTS:
        session.conf.set("spark.sundog.placement", placement)
        session.sql(f"SELECT * FROM ({WHOLE}) WHERE flag").write.format("noop").mode("overwrite").save()
        assert sundog.last_run().accelerated, sundog.last_run().fallback_reasons


def test_an_insert_into_a_folder_stays_on_spark(session: Any, tmp_path: Path) -> None:
    session.sql(f"INSERT OVERWRITE DIRECTORY '{tmp_path}/made' USING parquet {WHOLE}")
    assert [reason.partition(":")[0] for reason in sundog.last_run().fallback_reasons] == ["WRITE"]
    with plain_spark(session):
        assert canonical(session.read.parquet(str(tmp_path / "made")).collect()) == canonical(
            session.sql(WHOLE).collect()
        )


def test_explain_and_accelerate(session: Any, capsys: pytest.CaptureFixture[str]) -> None:
    session.sql(WHOLE).explain()
    assert "dynamic_rg_pruning" in capsys.readouterr().out
    assert "dynamic_rg_pruning" in sundog.explain(session.sql(WHOLE))
    frame = sundog.accelerate(session.sql(WHOLE))
    assert sundog.last_run().accelerated
    with plain_spark(session):
        assert canonical(frame.collect()) == canonical(session.sql(WHOLE).collect())


def test_explain_says_what_has_run(session: Any) -> None:
    for placement in PLACEMENTS:
        session.conf.set("spark.sundog.placement", placement)
        text = sundog.explain(session.sql(SHAPES["partitioned window"]), analyze=True)
        assert f"-- ran on {placement} " in text
        assert "[2,000 rows" in text


def test_shadow_mode_compares_and_spark_answers(session: Any) -> None:
    session.conf.set("spark.sundog.mode", "shadow")
    try:
        for placement in PLACEMENTS:
            session.conf.set("spark.sundog.placement", placement)
            for sql in (WHOLE, SHAPES["many groups"]):
                ours = canonical(session.sql(sql).collect())
                assert [reason.partition(":")[0] for reason in sundog.last_run().fallback_reasons] == ["SHADOW"]
                with plain_spark(session):
                    assert ours == canonical(session.sql(sql).collect())
        assert "4 compared: 4 agreed, 0 differed. 0 not compared, 0 failed" in str(sundog.shadow_report(session))
    finally:
        session.conf.unset("spark.sundog.mode")
