"""Damaged and crafted files, read through Spark: the answer or the error is Spark's, and the session stays usable."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sundog
from sundog.kernels.pages.thrift_values import I32
from sundog.operators.scan.scan import ScanTask
from sundog.parquet.decode.chunk_pages import StoredChunk
from tests.fuzz.files.structure_damage import put_together, take_apart
from tests.parquet.test_damaged_files import LIES, change_footer

pytestmark = pytest.mark.spark

ROWS = 2000
QUERY = "SELECT n % 7 AS k, sum(n) AS s, max(word) AS w FROM damaged GROUP BY n % 7 ORDER BY k LIMIT 5"


@pytest.fixture(scope="module", params=["driver", "executors"])
def session(request: pytest.FixtureRequest, enabled: Any) -> Any:
    enabled.conf.set("spark.sundog.placement", request.param)
    return enabled


def sound() -> bytes:
    numbers = np.arange(ROWS)
    table = pa.table({"n": numbers, "word": [f"word number {n % 9}" for n in numbers.tolist()]})
    out = pa.BufferOutputStream()
    pq.write_table(table, out, max_rows_per_page=300, row_group_size=1000, store_schema=False)
    return bytes(out.getvalue())


def wrapped_counts() -> bytes:
    """Row counts of pages whose total is right, but whose partial sums point outside of every buffer."""
    parts = take_apart(sound())
    for chunk in parts.chunks:
        for page, change in zip((page for page in chunk.pages if page.kind == 0), (900, -900), strict=False):
            page.details[1] = (I32, page.details[1][1] + change)
    return put_together(parts)


def outcome(session: Any) -> Any:
    try:
        return session.sql(QUERY).collect()
    except Exception as error:
        return type(error).__name__


def both(session: Any, folder: Path, content: bytes) -> tuple[Any, Any]:
    """What sundog gives, and what plain Spark gives."""
    path = folder / "file.parquet"
    path.write_bytes(content)
    session.read.schema("n bigint, word string").parquet(str(path)).createOrReplaceTempView("damaged")
    ours = outcome(session)
    session.conf.set("spark.sundog.enabled", "false")
    try:
        return ours, outcome(session)
    finally:
        session.conf.unset("spark.sundog.enabled")


@pytest.mark.parametrize(
    "lie",
    [
        "a codec that does not exist",
        "a column less",
        "another type than the schema's",
        "a bound that is too short",
        "a negative offset",
    ],
)
def test_a_footer_that_lies_is_judged_by_spark(session: Any, tmp_path: Path, lie: str) -> None:
    ours, theirs = both(session, tmp_path, change_footer(sound(), LIES[lie]))
    assert ours == theirs
    assert not sundog.last_run().accelerated


def test_pages_that_lead_out_of_their_buffer_are_judged_by_spark(session: Any, tmp_path: Path) -> None:
    ours, theirs = both(session, tmp_path, wrapped_counts())
    assert ours == theirs
    assert both(session, tmp_path, sound())[0][0].k == 0, "the session lives"


def test_a_broken_file_is_ignored_if_spark_ignores_it(session: Any, tmp_path: Path) -> None:
    session.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    try:
        (tmp_path / "b.parquet").write_bytes(sound())
        (tmp_path / "a.parquet").write_bytes(change_footer(sound(), LIES["a negative size"]))
        session.read.schema("n bigint, word string").parquet(str(tmp_path)).createOrReplaceTempView("damaged")
        ours = outcome(session)
        session.conf.set("spark.sundog.enabled", "false")
        assert ours == outcome(session)
    finally:
        session.conf.unset("spark.sql.files.ignoreCorruptFiles")
        session.conf.unset("spark.sundog.enabled")


def test_the_decoder_is_the_one_that_the_setting_names(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On executors it travels with the task; on the driver, none of our decoder's classes is even made."""
    made: list[Any] = []
    original = StoredChunk.__init__
    monkeypatch.setattr(StoredChunk, "__init__", lambda self, *given: made.append(given) or original(self, *given))
    kept: list[ScanTask] = []
    reduce = ScanTask.__reduce_ex__
    monkeypatch.setattr(ScanTask, "__reduce_ex__", lambda self, version: kept.append(self) or reduce(self, version))
    path = tmp_path / "file.parquet"
    path.write_bytes(sound())
    answers = {}
    for decoder in ("arrow", "own"):
        session.conf.set("spark.sundog.decoder", decoder)
        try:
            frame = session.read.parquet(str(path))
            answers[decoder] = frame.groupBy((frame.n % 7).alias("k")).count().orderBy("k").limit(5).collect()
        finally:
            session.conf.unset("spark.sundog.decoder")
        assert sundog.last_run().accelerated, sundog.last_run().fallback_reasons
        if sundog.last_run().placement == "driver":
            assert bool(made) == (decoder == "own")
        else:
            assert {task.reading.options.decoder for task in kept} == {decoder}
        made.clear()
        kept.clear()
    assert answers["arrow"] == answers["own"]
