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
        """Both answers to a query over `t` are the same, and sundog did not fail on the way."""
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
