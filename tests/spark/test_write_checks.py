"""Spark's checks of a write see the original plan: it refuses the same writes, and no data is lost that Spark would
keep."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sundog
from sundog.front.write_command import overlap
from sundog.versions import spark_version
from tests.oracle.plain_spark import plain_spark

pytestmark = [pytest.mark.spark, pytest.mark.thin(2)]

ROWS = [(key, part, f"row {key}") for key in range(12) for part in (0, 1)]
GROUPED = "SELECT max(k) k, max(s) s, p FROM {} GROUP BY p"


TABLES = {"plain_table": "", "partitioned_table": "PARTITIONED BY (p)", "other_table": ""}


def fill(session: Any, name: str) -> None:
    session.sql(f"DROP TABLE IF EXISTS {name}")
    session.sql(f"CREATE TABLE {name} (k INT, s STRING, p INT) USING parquet {TABLES[name]}")
    session.createDataFrame([(k, s, p) for k, p, s in ROWS], "k int, s string, p int").write.insertInto(name)


@pytest.fixture(scope="module")
def tables(enabled: Any) -> Iterator[Any]:
    """Tables that hold the same rows: two to write to, one of them partitioned, and one to read."""
    for name in TABLES:
        fill(enabled, name)
    yield enabled
    for name in TABLES:
        enabled.sql(f"DROP TABLE IF EXISTS {name}")


@pytest.fixture
def session(tables: Any) -> Iterator[Any]:
    """Afterwards each table is as it was."""
    before = {name: sorted(tables.table(name).inputFiles()) for name in TABLES}
    yield tables
    tables.conf.unset("spark.sql.sources.partitionOverwriteMode")
    for name, files in before.items():
        if sorted(tables.table(name).inputFiles()) != files:
            fill(tables, name)


def grouped(session: Any, table: str) -> Any:
    return session.sql(GROUPED.format(table))


WRITES: dict[str, Callable[[Any, str], Any]] = {
    "INSERT OVERWRITE": lambda s, t: s.sql(f"INSERT OVERWRITE {t} {GROUPED.format(t)}"),
    "INSERT OVERWRITE by a view": lambda s, t: (
        s.table(t).createOrReplaceTempView("view_of_it"),
        s.sql(f"INSERT OVERWRITE {t} {GROUPED.format('view_of_it')}"),
    ),
    "INSERT OVERWRITE by a join": lambda s, t: s.sql(
        f"INSERT OVERWRITE {t} SELECT g.k, o.s, g.p FROM ({GROUPED.format(t)}) g JOIN other_table o ON o.k = g.k"
    ),
    "INSERT OVERWRITE of a top-k": lambda s, t: s.sql(f"INSERT OVERWRITE {t} SELECT * FROM {t} ORDER BY k, s LIMIT 3"),
    "CREATE TABLE AS itself": lambda s, t: s.sql(f"CREATE TABLE {t} USING parquet AS {GROUPED.format(t)}"),
    "CREATE OR REPLACE TABLE AS itself": lambda s, t: s.sql(
        f"CREATE OR REPLACE TABLE {t} USING parquet AS {GROUPED.format(t)}"
    ),
    "saveAsTable": lambda s, t: grouped(s, t).write.mode("overwrite").saveAsTable(t),
    "saveAsTable of what is cached": lambda s, t: cached_over_itself(s, t),
    "insertInto": lambda s, t: grouped(s, t).write.insertInto(t, overwrite=True),
    "writeTo.overwritePartitions": lambda s, t: grouped(s, t).writeTo(t).overwritePartitions(),
    "writeTo.createOrReplace": lambda s, t: grouped(s, t).writeTo(t).using("parquet").createOrReplace(),
    "writeTo.append": lambda s, t: grouped(s, t).writeTo(t).append(),
    "INSERT INTO": lambda s, t: s.sql(f"INSERT INTO {t} {GROUPED.format(t)}"),
    "append": lambda s, t: grouped(s, t).write.mode("append").saveAsTable(t),
}
REFUSED = [name for name in WRITES if name not in ("INSERT INTO", "append")]


def cached_over_itself(session: Any, table: str) -> None:
    frame = grouped(session, table).cache()
    try:
        frame.count()
        frame.write.mode("overwrite").saveAsTable(table)
    finally:
        frame.unpersist()


def outcome(write: Callable[[], Any]) -> tuple[Any, ...]:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        write()
    except Py4JJavaError as error:
        return (error.java_exception.getClass().getName(),)
    except PySparkException as error:
        return type(error), spark_version().condition_of(error), error.getMessageParameters()
    return ()


def rows_of(session: Any, table: str) -> list[tuple[Any, ...]]:
    with plain_spark(session):
        return sorted(tuple(row) for row in session.table(table).select("k", "s", "p").collect())


@pytest.mark.parametrize(
    ("write", "table"),
    [(write, "plain_table") for write in WRITES]
    + [(write, "partitioned_table") for write in ("INSERT OVERWRITE", "saveAsTable", "insertInto", "INSERT INTO")],
)
def test_a_write_over_what_it_reads_ends_as_on_spark(session: Any, write: str, table: str) -> None:
    before = rows_of(session, table)
    ours = outcome(lambda: WRITES[write](session, table))
    run = sundog.last_run()
    rows = rows_of(session, table)
    assert not run.accelerated
    if write in REFUSED:
        assert ours
        assert rows == before
    with plain_spark(session):
        if write not in REFUSED:
            session.sql(f"INSERT OVERWRITE {table} SELECT k, s, p FROM other_table")
        assert outcome(lambda: WRITES[write](session, table)) == ours
    assert rows_of(session, table) == rows


def test_dynamic_overwrite_of_what_is_read_is_sparks(session: Any) -> None:
    session.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    session.sql(f"INSERT OVERWRITE partitioned_table {GROUPED.format('partitioned_table')} HAVING p = 1")
    assert [row for row in rows_of(session, "partitioned_table") if row[2] == 1] == [(11, "row 9", 1)]
    assert len(rows_of(session, "partitioned_table")) == 13


@pytest.mark.parametrize("way", ["save", "inside", "above"])
def test_a_path_that_is_read_and_written_is_sparks(session: Any, way: str, tmp_path: Path) -> None:
    """Plain Spark does not look: it clears the path first, and then its own read fails. That is its business."""
    folder = tmp_path / "data" / "part"
    with plain_spark(session):
        session.table("other_table").write.parquet(str(folder))
    target = {"save": folder, "inside": folder / "sub", "above": folder.parent}[way]
    session.read.parquet(str(folder)).createOrReplaceTempView("files")
    outcome(lambda: grouped(session, "files").write.mode("overwrite").parquet(str(target)))
    assert not sundog.last_run().accelerated
    assert "WRITE: the query reads" in str(sundog.last_run().fallback_reasons)


@pytest.mark.parametrize("placement", ["driver", "executors"])
def test_other_targets_are_accelerated(session: Any, placement: str, tmp_path: Path) -> None:
    session.conf.set("spark.sundog.placement", placement)
    try:
        query = grouped(session, "other_table")
        writes: list[Callable[[], Any]] = [
            lambda: session.sql(f"INSERT OVERWRITE plain_table {GROUPED.format('other_table')}"),
            lambda: query.write.insertInto("plain_table", overwrite=True),
            lambda: query.write.mode("overwrite").saveAsTable("plain_table"),
            lambda: query.write.mode("overwrite").parquet(str(tmp_path / "out")),
            lambda: query.write.format("json").mode("overwrite").save(str(tmp_path / "json")),
            lambda: query.write.mode("overwrite").option("path", str(tmp_path / "table")).saveAsTable("plain_table"),
            lambda: (
                query.write.partitionBy("p").bucketBy(2, "k").sortBy("k").mode("overwrite").saveAsTable("plain_table")
            ),
            lambda: query.write.format("noop").mode("append").save(),
        ]
        for write in writes:
            write()
            assert sundog.last_run().accelerated, sundog.last_run().fallback_reasons
        assert rows_of(session, "plain_table") == [(11, "row 9", 0), (11, "row 9", 1)]
        assert "Num Buckets" in str(session.sql("DESCRIBE EXTENDED plain_table").collect())
    finally:
        session.conf.unset("spark.sundog.placement")


SEMI_JOINED = (
    "SELECT G.K, G.S FROM (SELECT k, s FROM other_table ORDER BY k, s LIMIT 9) g "
    "LEFT SEMI JOIN plain_table o ON o.k = g.k"
)


def test_written_files_have_sparks_schema(session: Any, tmp_path: Path) -> None:
    """Names, nullability and metadata are those of the query, before the optimiser took `SELECT K` for `SELECT k`."""
    for number, query in enumerate((SEMI_JOINED, "SELECT k, count(*) c FROM other_table GROUP BY k")):
        frame = session.sql(query)
        frame.write.parquet(str(tmp_path / f"ours{number}"))
        assert sundog.last_run().accelerated
        with plain_spark(session):
            frame.write.parquet(str(tmp_path / f"theirs{number}"))
        files = [next((tmp_path / f"{who}{number}").glob("*.parquet")) for who in ("ours", "theirs")]
        ours, theirs = map(pq.read_schema, files)
        assert ours.equals(theirs, check_metadata=True)


def test_rows_have_the_names_of_the_query(session: Any) -> None:
    assert session.sql(SEMI_JOINED).collect()[0].__fields__ == ["K", "S"]
    assert sundog.last_run().accelerated


@pytest.mark.parametrize("placement", ["driver", "executors"])
def test_a_file_that_only_spark_reads_does_not_fail_an_overwrite(session: Any, placement: str, tmp_path: Path) -> None:
    """Dates of the old calendar, which are seen only when they are decoded: the write is Spark's from its beginning."""
    old = tmp_path / "old"
    with plain_spark(session):
        session.conf.set("spark.sql.parquet.datetimeRebaseModeInWrite", "LEGACY")
        session.sql("SELECT id, DATE'0900-01-01' + CAST(id AS INT) d FROM range(100)").write.parquet(str(old))
        session.conf.unset("spark.sql.parquet.datetimeRebaseModeInWrite")
    without = tmp_path / "without"
    without.mkdir()
    for number, path in enumerate(sorted(old.glob("*.parquet"))):  # without statistics nobody knows before
        table = pq.ParquetFile(path)
        metadata = table.schema_arrow.metadata
        pq.write_table(
            table.read().replace_schema_metadata(metadata), without / f"{number}.parquet", write_statistics=False
        )
    session.read.parquet(str(without)).createOrReplaceTempView("old_dates")
    session.conf.set("spark.sundog.placement", placement)
    session.conf.set("spark.sql.parquet.datetimeRebaseModeInRead", "LEGACY")
    try:
        windows = "SELECT id, max(d) OVER (ORDER BY id ROWS 1 PRECEDING) d, 1 FROM old_dates"
        session.sql(f"INSERT OVERWRITE plain_table {windows}")
        assert not sundog.last_run().accelerated
        assert "FileSchemaProblem" in str(sundog.last_run()) or "FILE_SCHEMA" in str(sundog.last_run())
        assert len(rows_of(session, "plain_table")) == 100
        seen = session.sparkContext.accumulator(0)
        session.sql(windows).foreach(lambda row: seen.add(1))
        assert seen.value == 100
    finally:
        session.conf.unset("spark.sundog.placement")
        session.conf.unset("spark.sql.parquet.datetimeRebaseModeInRead")


def test_a_failed_overwrite_leaves_no_half_written_files(session: Any, tmp_path: Path) -> None:
    """A page is damaged: neither Spark nor sundog can read it. The error is Spark's, and its committer cleans up."""
    path = tmp_path / "damaged" / "0.parquet"
    path.parent.mkdir()
    pq.write_table(pa.table({"k": list(range(5000)), "s": [str(n) for n in range(5000)]}), path, compression="none")
    data = bytearray(path.read_bytes())
    data[4:40] = b"\xff" * 36
    path.write_bytes(bytes(data))
    session.read.parquet(str(path.parent)).createOrReplaceTempView("damaged")
    session.conf.set("spark.sundog.placement", "executors")
    out = tmp_path / "out"
    try:
        assert outcome(lambda: session.sql("SELECT k, max(s) FROM damaged GROUP BY k").write.parquet(str(out)))
    finally:
        session.conf.unset("spark.sundog.placement")
    assert [path.name for path in out.rglob("*") if path.is_file()] == []


def test_cached_parts_are_read_from_the_cache(session: Any) -> None:
    cached = session.table("other_table").cache()
    try:
        cached.count()
        frame = cached.groupBy("p").count()
        assert len(frame.collect()) == 2
        assert not sundog.last_run().accelerated
        window = session.sql("SELECT k, sum(k) OVER (ORDER BY k, s, p) t FROM other_table")
        assert window.collect()[-1]["t"] == 132
        joined = grouped(session, "plain_table").join(cached.withColumnRenamed("k", "key"), "p")
        assert joined.count() == 24
        assert sundog.last_run().accelerated
    finally:
        cached.unpersist()


def test_observed_metrics_arrive(session: Any) -> None:
    from pyspark.sql import Observation
    from pyspark.sql.functions import count, lit

    for query in ("SELECT * FROM other_table ORDER BY k, s, p LIMIT 7", GROUPED.format("other_table")):
        above = Observation()
        rows = session.sql(query).observe(above, count(lit(1)).alias("rows")).collect()
        assert above.get == {"rows": len(rows)}
    below = Observation()
    observed = session.table("other_table").observe(below, count(lit(1)).alias("rows"))
    observed.orderBy("k").limit(3).collect()
    assert below.get == {"rows": 24}


def test_a_checkpoint_is_read_and_not_its_source(session: Any) -> None:
    frame = session.table("plain_table").localCheckpoint()
    session.sql("INSERT OVERWRITE plain_table VALUES (1, 'x', 1)")
    assert frame.groupBy().count().collect()[0][0] == 24


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("file:/a/b", "/a/b", True),
        ("hdfs://host:1/a/b/", "hdfs://host:1/a/b/c", True),
        ("s3a://bucket/a", "s3a://bucket/ab", False),
        ("/a/b", "/a/c", False),
        ("file:///a", "/a/b/c", True),
    ],
)
def test_paths_overlap(one: str, other: str, expected: bool) -> None:
    assert overlap(one, other) is expected
    assert overlap(other, one) is expected
