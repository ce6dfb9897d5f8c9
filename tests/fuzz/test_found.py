"""Every difference that `make fuzz` found, as its smallest case, by name."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sundog
from tests.fuzz.actions import ACTIONS
from tests.fuzz.compare import Answer, difference
from tests.fuzz.folders import set_confs
from tests.fuzz.pair import error_name
from tests.fuzz.queries import Check

pytestmark = pytest.mark.spark
MULTISET = Check()


@dataclass
class Both:
    """A session with sundog and one without, over the folder that a test fills."""

    ours: Any
    plain: Any
    folder: Path

    def write(self, table: pa.Table, **options: Any) -> None:
        (self.folder / "t").mkdir(exist_ok=True)
        pq.write_table(table, self.folder / "t" / f"part-{len(list((self.folder / 't').iterdir()))}.parquet", **options)

    def check(
        self,
        sql: str,
        confs: dict[str, str] | None = None,
        check: Check = MULTISET,
        action: str = "collect",
        schema: str = "",
    ) -> None:
        """Both answers to a query over `t` are the same, and sundog did not fail."""
        confs = confs or {}
        theirs, ours = (self._answer(session, sql, confs, action, schema) for session in (self.plain, self.ours))
        assert difference(ours, theirs, check) is None, f"{ours}\n--- Spark: {theirs}"

    def _answer(self, session: Any, sql: str, confs: dict[str, str], action: str, schema: str) -> Answer:
        with set_confs(session, confs):
            try:
                reader = session.read.schema(schema) if schema else session.read
                reader.parquet(str(self.folder / "t")).createOrReplaceTempView("t")
                return ACTIONS[action](session.sql(sql), self.folder)
            except Exception as error:
                return Answer(error=error_name(error), message=str(error))


@pytest.fixture
def both(spark: Any, tmp_path: Path) -> Iterator[Both]:
    ours = spark.newSession()
    ours.conf.set("spark.sundog.onInternalError", "raise")
    sundog.enable(ours)
    yield Both(ours, spark.newSession(), tmp_path)
    sundog.disable(ours)


@pytest.mark.parametrize("action", ["CTAS", "INSERT", "write.parquet", "collect"])
def test_files_of_the_hybrid_calendar_are_written_on_as_spark_does(both: Both, action: str) -> None:
    """16:5, what only Spark can read is found out before the first byte is written."""
    days = pa.table({"d": pa.array([dt.date(1500, 1, 1), dt.date(2024, 1, 1), None], pa.date32())})
    both.write(days)
    with set_confs(both.plain, {"spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY"}):
        read = both.plain.read.option("datetimeRebaseMode", "CORRECTED")  # the default since 4.0
        read.parquet(str(both.folder / "t")).write.mode("append").parquet(str(both.folder / "legacy"))
    (both.folder / "t").rename(both.folder / "old")
    (both.folder / "legacy").rename(both.folder / "t")
    both.check("SELECT d, count(*) AS n FROM t GROUP BY d", action=action)


@pytest.mark.parametrize("action", ["collect", "toArrow", "toPandas", "show"])
def test_strings_that_are_no_valid_utf8_come_as_spark_gives_them(both: Both, action: str) -> None:
    """1:4, the JVM's rows carry U+FFFD, Arrow's the bytes."""
    cells = pa.array([b"ab\xc3", b"\xff", b"ok"], pa.binary()).cast(pa.string(), safe=False)
    both.write(pa.table({"id": [1, 2, 3], "s": cells}))
    both.check("SELECT s, id FROM t ORDER BY id LIMIT 10", action=action)


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "brotli"},
        {"use_dictionary": False, "column_encoding": {"d": "BYTE_STREAM_SPLIT"}},
        {"use_dictionary": False, "column_encoding": {"n": "BYTE_STREAM_SPLIT"}},
    ],
)
@pytest.mark.parametrize("mode", ["EXCEPTION", "CORRECTED"])
def test_a_file_that_only_arrow_reads_ends_as_on_spark(both: Both, options: dict[str, Any], mode: str) -> None:
    """Spark has no BROTLI, and reads dates in BYTE_STREAM_SPLIT only where none may be of the old calendar."""
    both.write(pa.table({"n": [1, 2, None], "d": [dt.date(2020, 1, 1), None, dt.date(2021, 1, 1)]}), **options)
    confs = {"spark.sql.parquet.datetimeRebaseModeInRead": mode}
    both.check("SELECT n, count(d), max(d) FROM t GROUP BY n", confs)


@pytest.mark.parametrize("order", ["DESC NULLS FIRST", "ASC NULLS FIRST", "DESC NULLS LAST"])
def test_rows_are_cut_at_the_least_key_there_is(both: Both, order: str) -> None:
    keys = [None, (1 << 63) - 1, -(1 << 63)] * 500
    both.write(pa.table({"k": pa.array(keys, pa.int64()), "id": range(1500)}), row_group_size=100)
    frame = "ROWS BETWEEN UNBOUNDED PRECEDING AND 10 FOLLOWING"
    both.check(f"SELECT id, k, sum(id) OVER (ORDER BY k {order}, id {frame}) w FROM t")


def test_a_partition_column_of_nulls_only_has_no_type(both: Both) -> None:
    folder = both.folder / "t" / "p=__HIVE_DEFAULT_PARTITION__"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"id": range(10)}), folder / "part-0.parquet")
    both.check("SELECT p, id, count(p) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) w FROM t")
    both.check("SELECT p, count(*), max(id) FROM t GROUP BY p")


@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"])
def test_strings_that_deltas_make_small_are_no_dictionary(both: Both, encoding: str) -> None:
    texts = pa.table({"s": ["aaaaaaaa"] * 500 + [""] * 500, "id": range(1000)})
    both.write(texts, use_dictionary=False, column_encoding={"s": encoding})
    both.check("SELECT s, count(*), max(id) FROM t GROUP BY s")
    assert sundog.last_run().accelerated


# --- by tests.fuzz.relational ----------------------------------------------------------------------------------------

PLACEMENTS = ("driver", "executors")
_RANKS = "SELECT rank() OVER (ORDER BY q.v) r{also} FROM t p JOIN t q ON p.k = q.k WHERE q.id < 9"
_SHOWN_TWICE = (
    f"SELECT x.r, count(*) n, max(y.k) m FROM ({_RANKS.format(also='')}) x "
    f"JOIN ({_RANKS.format(also=', p.k')}) y ON x.r = y.r GROUP BY x.r"
)
_FILTERED = (
    "SELECT x.k, max(w) m FROM (SELECT k, sum(v) FILTER (WHERE 10 div v > 0) OVER (PARTITION BY k) w FROM t) x "
    "JOIN (SELECT k FROM t WHERE id = 1) y ON x.k = y.k GROUP BY x.k"
)


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize(
    "sql",
    [
        # the join has no build rows, and does not ask the window for its rows
        "SELECT w, count(*) n FROM (SELECT k, count(*) OVER (PARTITION BY k) w FROM t) x "
        "JOIN (SELECT k FROM t WHERE v + id < 0) y ON x.k = y.k GROUP BY w",
        "SELECT w FROM (SELECT k, sum(v) OVER (ORDER BY id ROWS 2 PRECEDING) w FROM t) x "
        "LEFT SEMI JOIN (SELECT k FROM t WHERE v + id < 0) y ON x.k = y.k",
        # equal windows, of which one shows a join key and the other does not
        _SHOWN_TWICE,
    ],
    ids=["no build rows", "no build rows, semi", "shown twice"],
)
def test_windows_below_joins(both: Both, sql: str, placement: str) -> None:
    ids = range(60)
    rows = {"id": ids, "k": [None if n % 7 == 0 else n % 5 for n in ids], "v": [n % 4 + 1 for n in ids]}
    both.write(pa.table(rows), row_group_size=6)
    both.check(sql, {"spark.sundog.placement": placement, "spark.sql.adaptive.enabled": "false"})
    assert sundog.last_run().accelerated


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("form", ["a FULL JOIN t b ON a.k = b.v", "a JOIN t b ON a.k = b.v"])
def test_rows_without_columns_are_counted(both: Both, form: str, placement: str) -> None:
    """Nobody reads the keys above the join: count(*) of LIMIT was 0 on executors."""
    both.write(pa.table({"id": range(60), "k": [n % 5 for n in range(60)], "v": [n % 4 for n in range(60)]}))
    confs = {"spark.sundog.placement": placement, "spark.sundog.costs": '{"small_step_bytes": 0}'}
    both.check(f"SELECT count(*) n FROM (SELECT a.id FROM t {form} LIMIT 50)", confs)
    assert sundog.last_run().accelerated


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_part_that_gives_a_column_twice_is_handed_to_spark(both: Both, placement: str) -> None:
    """Spark puts the key of applyInPandas in front of the columns, which have it already."""
    both.write(pa.table({"id": range(60), "k": [n % 7 for n in range(60)]}))
    both.ours.conf.set("spark.sundog.placement", placement)
    found = []
    for session in (both.plain, both.ours):
        counts = session.read.parquet(str(both.folder / "t")).groupBy("k").count()
        found.append(
            counts.groupBy("count").applyInPandas(lambda rows: rows.head(1)[["count"]], "count long").collect()
        )
    run = sundog.last_run()
    assert run.accelerated, run.fallback_reasons
    assert sorted(found[0]) == sorted(found[1])


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_frame_that_leaves_its_type_raises_for_rows_without_a_partner(both: Both, placement: str) -> None:
    ids = range(60)
    keys = pa.array([(1 << 31) - 1 - n if n % 5 == 3 else n for n in ids], pa.int32())
    both.write(pa.table({"id": ids, "k": [n % 5 for n in ids], "h": keys}), row_group_size=6)
    frame = "PARTITION BY k ORDER BY h RANGE BETWEEN CURRENT ROW AND 100 FOLLOWING"
    sql = (
        f"SELECT x.k, max(w) m FROM (SELECT k, max(id) OVER ({frame}) w FROM t) x JOIN (SELECT k FROM t WHERE "
        "id = 1) y ON x.k = y.k GROUP BY x.k"
    )
    both.check(sql, {"spark.sundog.placement": placement, "spark.sql.ansi.enabled": "true"})


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_filter_of_a_window_raises_for_rows_without_a_partner(both: Both, placement: str) -> None:
    both.write(pa.table({"id": range(60), "k": [n % 5 for n in range(60)], "v": [n % 5 - 3 for n in range(60)]}))
    both.check(_FILTERED, {"spark.sundog.placement": placement, "spark.sql.ansi.enabled": "true"})


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a.s, count(*) n FROM t a JOIN t b ON a.s = b.s AND a.id <> b.id GROUP BY a.s",
        "SELECT k, count(*) n FROM t WHERE s NOT IN (SELECT s FROM t WHERE k = 1) GROUP BY k",
        "SELECT k, count(*) n FROM t WHERE s = (SELECT max(s) FROM t) GROUP BY k",
    ],
)
def test_strings_that_are_no_valid_utf8_are_compared_by_their_bytes(both: Both, sql: str, placement: str) -> None:
    cells = pa.array([b"ab\xc3", b"\xff", b"ok"] * 20, pa.binary()).cast(pa.string(), safe=False)
    both.write(pa.table({"id": range(60), "k": [n % 4 for n in range(60)], "s": cells}), row_group_size=9)
    both.check(sql, {"spark.sundog.placement": placement})
