"""Which files, columns and values a scan reads: what Spark's own objects say, member by member, against plain Spark."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sundog
from tests.oracle.plain_spark import plain_spark

pytestmark = [pytest.mark.spark, pytest.mark.thin(2)]


@pytest.fixture(scope="module")
def session(enabled: Any) -> Any:
    return enabled


@contextmanager
def settings(session: Any, values: dict[str, str]) -> Iterator[None]:
    before = {key: session.conf.get(key, None) for key in values}
    for key, value in values.items():
        session.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            session.conf.unset(key) if value is None else session.conf.set(key, value)


def outcome(frame: Any) -> list[str] | str:
    """The rows of a frame, or the class of its error."""
    try:
        return sorted(map(repr, frame.collect()))
    except Exception as error:
        condition = getattr(error, "getCondition", lambda: None)()
        return f"{type(error).__name__} {condition}"


def same(session: Any, make: Any, accelerated: bool | None = True) -> list[str] | str:
    """What `make` collects with sundog and without: equal, and accelerated or not as expected."""
    ours = outcome(make())
    run = sundog.last_run()
    with plain_spark(session):
        theirs = outcome(make())
    assert ours == theirs
    if accelerated is not None:
        assert run.accelerated == accelerated, run.fallback_reasons
    return ours


def write(path: Path, **columns: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)
    return path


QUERIES = {
    "topk": "SELECT * FROM t ORDER BY id DESC LIMIT 7",
    "group": "SELECT p, count(*), sum(id) FROM t GROUP BY p",
    "window": "SELECT id, row_number() OVER (ORDER BY id) FROM t",
}


def view(session: Any, frame: Any, where: str = "true") -> None:
    frame.where(where).createOrReplaceTempView("t")


# -- V2 source ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def partitioned(session: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = str(tmp_path_factory.mktemp("relations") / "partitioned")
    session.sql(
        "SELECT id, id % 5 AS p, concat('é %/', id % 2) AS q, DATE '2024-01-01' + int(id % 2) AS day FROM range(200)"
    ).repartition(1).write.partitionBy("p", "q", "day").parquet(folder)
    return folder


@pytest.mark.parametrize("v1", ["parquet", ""], ids=["v1", "v2"])
@pytest.mark.parametrize(
    ("query", "where"),
    [
        ("topk", "p = 2"),
        ("group", "p > 1 AND id < 90"),
        ("window", "q = 'é %/1' AND p <> 0"),
        ("group", "day = DATE '2024-01-02' OR p = 3"),
        ("topk", "p = id % 7"),
    ],
)
def test_partition_filters_are_applied(session: Any, partitioned: str, v1: str, where: str, query: str) -> None:
    with settings(session, {"spark.sql.sources.useV1SourceList": v1}):
        view(session, session.read.parquet(partitioned), where)
        same(session, lambda: session.sql(QUERIES[query]))


# -- names of files and folders ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("query", ["topk", "window"])
@pytest.mark.parametrize("v1", ["parquet", ""], ids=["v1", "v2"])
def test_file_names_count_by_sparks_rules(session: Any, tmp_path: Path, v1: str, query: str) -> None:
    names = ["plain.parquet", "_day=1.parquet", "_hidden.parquet", ".dot.parquet", "a b%20c+d.parquet", "x._COPYING_"]
    for number, name in enumerate([*names, "no_suffix", "ü#?&.parquet", "_metadata", "_common_metadata_x"]):
        write(tmp_path / "t" / name, id=[number * 2, number * 2 + 1], p=[number, 0])
    (tmp_path / "t" / "empty.parquet").touch()
    with settings(session, {"spark.sql.sources.useV1SourceList": v1}):
        view(session, session.read.schema("id long, p long").parquet(str(tmp_path / "t")))
        same(session, lambda: session.sql(QUERIES[query]))
        hidden = session.read.schema("id long, p long").option("ignoredPathSegmentRegex", "^plain")
        view(session, hidden.parquet(str(tmp_path / "t")))
        same(session, lambda: session.sql(QUERIES[query]), accelerated=None)
        with settings(session, {"spark.sql.files.ignoredPathSegmentRegex": "^(x|no)"}):
            view(session, session.read.schema("id long, p long").parquet(str(tmp_path / "t")))
            same(session, lambda: session.sql(QUERIES[query]), accelerated=None)


@pytest.mark.parametrize(
    "options",
    [
        {"recursiveFileLookup": "true"},
        {"pathGlobFilter": "*a.parquet"},
        {"modifiedBefore": "2020-01-01T00:00:00"},
        {"modifiedAfter": "2020-01-01T00:00:00"},
        {"recursiveFileLookup": "true", "pathGlobFilter": "b*"},
    ],
    ids=lambda options: "+".join(options),
)
def test_options_that_choose_files_are_sparks(session: Any, tmp_path: Path, options: dict[str, str]) -> None:
    write(tmp_path / "t" / "a.parquet", id=[1, 2])
    write(tmp_path / "t" / "sub" / "b.parquet", id=[3, 4])
    reader = session.read.options(**options).schema("id long")
    same(session, lambda: reader.parquet(str(tmp_path / "t")).orderBy("id").limit(3))


def test_partition_values_are_exact(session: Any, tmp_path: Path) -> None:
    session.sql(
        """SELECT id, CAST(id AS DECIMAL(30, 5)) / 3 AS dec, CAST(id AS DECIMAL(9, 2)) AS small,
                  timestamp_micros(-14831596800000001 + id * 1234567) AS ts, CAST(id / 7 AS DOUBLE) AS d,
                  CAST(id / 7 AS FLOAT) AS f, CAST(timestamp_micros(id * 1001) AS TIMESTAMP_NTZ) AS ntz,
                  concat('日本 ', chr(id + 33), ' ') AS s, id % 2 = 0 AS b, CAST('ab' AS BINARY) AS bin
           FROM range(6)"""
    ).write.partitionBy("dec", "small", "ts", "d", "f", "ntz", "s", "b", "bin").parquet(str(tmp_path / "t"))
    schema = (
        "id long, dec decimal(30,5), small decimal(9,2), ts timestamp, d double, f float, ntz timestamp_ntz, s string, "
        "b boolean, bin binary"
    )
    for reader in (session.read.schema(schema), session.read):
        view(session, reader.parquet(str(tmp_path / "t")))
        same(session, lambda: session.sql("SELECT * FROM t ORDER BY id LIMIT 5"))
        same(session, lambda: session.sql("SELECT ts, dec, s, d, count(*) FROM t WHERE d >= 1/7D GROUP BY ALL"))


def test_a_partition_value_wins_over_the_column_of_the_file(session: Any, tmp_path: Path) -> None:
    write(tmp_path / "t" / "p=1" / "a.parquet", id=[1, 2], p=[7, 7])
    write(tmp_path / "t" / "p=__HIVE_DEFAULT_PARTITION__" / "a.parquet", id=[3, 4], p=[7, 7])
    view(session, session.read.parquet(str(tmp_path / "t")))
    same(session, lambda: session.sql(QUERIES["topk"]))
    same(session, lambda: session.sql(QUERIES["group"]))


# -- defaults, CHAR, hidden columns ------------------------------------------------------------------------------------


@pytest.fixture
def table(session: Any) -> Iterator[str]:
    session.sql("DROP TABLE IF EXISTS relations_t")
    yield "relations_t"
    session.sql("DROP TABLE IF EXISTS relations_t")


DEFAULTS = {
    "n": "INT DEFAULT 42",
    "s": "STRING DEFAULT 'zwölf'",
    "dec": "DECIMAL(18, 4) DEFAULT 12345678901234.5678",
    "small": "DECIMAL(9, 2) DEFAULT -1.50",
    "day": "DATE DEFAULT DATE '0001-01-01'",
    "ts": "TIMESTAMP DEFAULT TIMESTAMP '1500-01-01 00:00:00.000001'",
    "ntz": "TIMESTAMP_NTZ DEFAULT TIMESTAMP_NTZ '2024-01-01 12:00:00'",
    "d": "DOUBLE DEFAULT double('-0.0')",
    "flag": "BOOLEAN DEFAULT true",
    "tiny": "TINYINT DEFAULT -3",
    "none": "INT",
}


@pytest.fixture
def with_defaults(session: Any, table: str) -> str:
    session.sql(f"CREATE TABLE {table} (id LONG, p INT) USING parquet")
    session.sql(f"INSERT INTO {table} SELECT id, id % 3 FROM range(20)")
    for name, column in DEFAULTS.items():
        session.sql(f"ALTER TABLE {table} ADD COLUMN {name} {column}")
    session.sql(
        f"INSERT INTO {table} SELECT 100 + id, 1, int(id), 'x', id, id, DATE '2020-01-01', timestamp_micros(id), "
        "TIMESTAMP_NTZ '2020-01-01 00:00:00', id, false, 1, 5 FROM range(20)"
    )
    return table


def test_old_files_have_the_default_of_an_added_column(session: Any, with_defaults: str) -> None:
    t = with_defaults
    same(session, lambda: session.sql(f"SELECT * FROM {t} ORDER BY id LIMIT 25"))
    same(session, lambda: session.sql(f"SELECT {', '.join(DEFAULTS)}, count(*) FROM {t} GROUP BY ALL"))
    for name in ("n", "s", "d", "ts"):
        same(session, lambda name=name: session.sql(f"SELECT id, {name} FROM {t} ORDER BY {name}, id LIMIT 25"))
    same(session, lambda: session.sql(f"SELECT id, sum(n) OVER (ORDER BY id ROWS 3 PRECEDING) FROM {t}"))
    for where in ("n = 42", "n <> 42", "s = 'zwölf'", "dec > 100", "ts < TIMESTAMP '1900-01-01 00:00:00'", "d = 0"):
        same(session, lambda where=where: session.sql(f"SELECT id FROM {t} WHERE {where} ORDER BY id DESC LIMIT 3"))
    same(session, lambda: session.sql(f"SELECT p, count(*) FROM {t} WHERE n = 42 GROUP BY p"))


def test_a_default_that_was_changed_later_is_the_one_of_its_time(session: Any, with_defaults: str) -> None:
    t = with_defaults
    session.sql(f"ALTER TABLE {t} ALTER COLUMN n SET DEFAULT 7")
    as_from_4_0_on = {f"spark.sql.parquet.{kind}RebaseModeInWrite": "CORRECTED" for kind in ("datetime", "int96")}
    with settings(session, as_from_4_0_on):
        session.sql(f"INSERT INTO {t} (id, p) VALUES (500, 0)")
    same(session, lambda: session.sql(f"SELECT n, count(*) FROM {t} GROUP BY n"))


def test_defaults_that_sparks_reader_fails_on_stay_with_spark(session: Any, with_defaults: str) -> None:
    session.sql(f"ALTER TABLE {with_defaults} ADD COLUMN bin BINARY DEFAULT X'00FF'")
    session.sql(f"ALTER TABLE {with_defaults} ADD COLUMN wide DECIMAL(30, 4) DEFAULT 12345678901234567890.1234")
    for name in ("bin", "wide"):
        query = f"SELECT {name}, count(*) FROM {with_defaults} GROUP BY {name}"
        same(session, lambda query=query: session.sql(query), accelerated=False)


def test_an_array_column_with_a_default_does_not_disturb_the_others(session: Any, with_defaults: str) -> None:
    session.sql(f"ALTER TABLE {with_defaults} ADD COLUMN arr ARRAY<INT> DEFAULT array(1, 2)")
    session.catalog.refreshTable(with_defaults)
    same(session, lambda: session.sql(f"SELECT n, count(*) FROM {with_defaults} GROUP BY n"))


@pytest.mark.parametrize("padding", ["true", "false"])
def test_char_and_varchar_columns(session: Any, table: str, padding: str) -> None:
    session.sql(f"CREATE TABLE {table} (id LONG, c CHAR(5), v VARCHAR(5)) USING parquet")
    with settings(session, {"spark.sql.legacy.charVarcharAsString": "true"}):  # so that the files hold no padding
        session.sql(f"INSERT INTO {table} SELECT id, concat('a', id % 3), concat('b', id % 3) FROM range(9)")
    with settings(session, {"spark.sql.readSideCharPadding": padding}):
        for query in (
            "SELECT c, v, count(*) FROM {t} GROUP BY c, v",
            "SELECT id, c FROM {t} ORDER BY c, id LIMIT 4",
            "SELECT id FROM {t} WHERE c = 'a1' ORDER BY id LIMIT 4",
            "SELECT id FROM {t} WHERE v = 'b1' ORDER BY id LIMIT 4",
            "SELECT max(c), min(v) FROM {t}",
        ):
            same(session, lambda query=query: session.sql(query.format(t=table)), accelerated=None)


def test_hidden_metadata_columns_stay_with_spark(session: Any, partitioned: str) -> None:
    frame = session.read.parquet(partitioned)
    same(session, lambda: frame.where("_metadata.file_size > 0").groupBy("p").count(), accelerated=False)
    same(session, lambda: frame.select("id", "_metadata.file_size").orderBy("id").limit(3), accelerated=False)


# -- bucketed tables ---------------------------------------------------------------------------------------------------


def test_bucketed_tables(session: Any, table: str) -> None:
    session.sql("SELECT id, id % 7 AS p FROM range(100)").write.bucketBy(4, "p").sortBy("id").saveAsTable(table)
    for query in QUERIES.values():
        same(session, lambda query=query: session.sql(query.replace(" t", f" {table}")))
    same(session, lambda: session.sql(f"SELECT p, count(*) FROM {table} WHERE p IN (1, 5) GROUP BY p"))


def test_a_file_without_a_bucket_in_a_bucketed_table_is_left_to_spark(session: Any, table: str) -> None:
    session.sql("SELECT id, id % 7 AS p FROM range(100)").write.bucketBy(4, "p").saveAsTable(table)
    path = next(file for file in session.table(table).inputFiles() if file.endswith(".parquet"))
    write(Path(path.removeprefix("file:").replace("///", "/")).parent / "stray.parquet", id=[1000], p=[3])
    session.sql(f"REFRESH TABLE {table}")
    same(session, lambda: session.sql(f"SELECT p, count(*) FROM {table} GROUP BY p"), accelerated=False)


def test_an_option_with_a_value_that_spark_may_refuse_is_left_to_spark(session: Any, tmp_path: Path) -> None:
    write(tmp_path / "t" / "a.parquet", id=[1, 2], day=[dt.date(1000, 1, 1), dt.date(2000, 1, 1)])
    for mode in ("corrected", "OTHER"):
        reader = session.read.option("datetimeRebaseMode", mode)
        frame = reader.parquet(str(tmp_path / "t"))
        same(session, lambda frame=frame: frame.groupBy("day").count(), accelerated=False)


# -- times in files ----------------------------------------------------------------------------------------------------


def int96_file(path: Path) -> Path:
    """INT96 of a writer other than Spark."""
    path.parent.mkdir(parents=True, exist_ok=True)
    start = dt.datetime(2024, 3, 30, 23, 30)
    times = [start + dt.timedelta(minutes=7 * number) for number in range(60)]
    columns = {"id": list(range(60)), "ts": pa.array(times, pa.timestamp("us"))}
    pq.write_table(pa.table(columns), path, use_deprecated_int96_timestamps=True)
    return path


@pytest.mark.parametrize("conversion", ["true", "false"])
def test_int96_of_other_writers_with_conversion(session: Any, tmp_path: Path, conversion: str) -> None:
    int96_file(tmp_path / "t" / "a.parquet")
    confs = {
        "spark.sql.parquet.int96TimestampConversion": conversion,
        "spark.sql.session.timeZone": "Europe/Berlin",
        # By default 3.5 asks of such files, which have no statistics, that they hold no ancient instant.
        "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    }
    with settings(session, confs):
        view(session, session.read.parquet(str(tmp_path / "t")))
        expected = conversion == "false"
        same(session, lambda: session.sql("SELECT * FROM t ORDER BY ts DESC LIMIT 3"), expected)
        same(session, lambda: session.sql("SELECT date_trunc('hour', ts), count(*) FROM t GROUP BY 1"), expected)


def test_int96_of_spark_is_not_converted(session: Any, tmp_path: Path) -> None:
    with settings(session, {"spark.sql.parquet.outputTimestampType": "INT96"}):
        session.sql("SELECT id, timestamp_seconds(id * 1000) AS ts FROM range(50)").write.parquet(str(tmp_path / "t"))
    confs = {"spark.sql.parquet.int96TimestampConversion": "true", "spark.sql.session.timeZone": "Europe/Berlin"}
    with settings(session, confs):
        view(session, session.read.parquet(str(tmp_path / "t")))
        same(session, lambda: session.sql("SELECT * FROM t ORDER BY ts DESC LIMIT 3"))


OLD = """SELECT id, DATE '1000-01-01' + int(id * 40) AS day, timestamp_micros(-30610224000000000 + id * 7654321000000)
  AS ts,
                make_date(2000, 1, 1 + int(id % 28)) AS new FROM range(200)"""
REBASED = [
    "SELECT id, ts FROM t ORDER BY ts, id LIMIT 5",
    "SELECT day, count(*) FROM t WHERE day < DATE '1010-01-01' GROUP BY day",
    "SELECT new, count(*) FROM t GROUP BY new",
]


@pytest.mark.parametrize("written", ["LEGACY", "CORRECTED"])
@pytest.mark.parametrize("stored", ["TIMESTAMP_MICROS", "TIMESTAMP_MILLIS", "INT96"])
def test_files_of_both_calendars_by_spark(session: Any, tmp_path: Path, stored: str, written: str) -> None:
    """Such a file says itself which calendar it is in; what the session says does not count."""
    confs = {
        "spark.sql.parquet.outputTimestampType": stored,
        "spark.sql.parquet.datetimeRebaseModeInWrite": written,
        "spark.sql.parquet.int96RebaseModeInWrite": written,
    }
    with settings(session, confs):
        session.sql(OLD).repartition(1).write.parquet(str(tmp_path / "t"))
    for mode in ("EXCEPTION", "CORRECTED" if written == "LEGACY" else "LEGACY"):
        with settings(session, {"spark.sql.parquet.datetimeRebaseModeInRead": mode}):
            view(session, session.read.option("int96RebaseMode", mode).parquet(str(tmp_path / "t")))
            for query in REBASED:
                same(session, lambda query=query: session.sql(query), accelerated=None)


@pytest.mark.parametrize("mode", ["LEGACY", "CORRECTED", "EXCEPTION"])
@pytest.mark.parametrize(
    "key",
    [
        "spark.sql.parquet.datetimeRebaseModeInRead",
        "spark.sql.legacy.parquet.datetimeRebaseModeInRead",
        "datetimeRebaseMode",
    ],
)
def test_files_of_other_writers_by_the_mode_however_it_is_set(
    session: Any, tmp_path: Path, key: str, mode: str
) -> None:
    old = [dt.date(1000, 1, 1) + dt.timedelta(days=40 * number) for number in range(200)]
    times = [dt.datetime(1200, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(days=900 * number) for number in range(200)]
    new = [dt.date(2000, 1, 1 + number % 28) for number in range(200)]
    columns = {"id": list(range(200)), "day": old, "ts": pa.array(times, pa.timestamp("us", "UTC")), "new": new}
    write(tmp_path / "t" / "a.parquet", **columns)
    reader = session.read if key.startswith("spark.") else session.read.option(key, mode)
    with settings(session, {key: mode} if key.startswith("spark.") else {}):
        view(session, reader.parquet(str(tmp_path / "t")))
        for query in REBASED:
            same(session, lambda query=query: session.sql(query), accelerated=True if mode == "CORRECTED" else None)


# -- sessions ----------------------------------------------------------------------------------------------------------


def test_a_relation_of_another_session_is_left_to_spark(session: Any, tmp_path: Path) -> None:
    int96_file(tmp_path / "t" / "a.parquet")
    other = session.newSession()
    other.conf.set("spark.sql.parquet.int96TimestampConversion", "true")
    other.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    other.read.parquet(str(tmp_path / "t")).createOrReplaceGlobalTempView("relations_g")
    same(session, lambda: session.sql("SELECT * FROM global_temp.relations_g ORDER BY ts LIMIT 3"), accelerated=False)
