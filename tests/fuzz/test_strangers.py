"""Uses of sundog by other programs: several threads, two sessions with different settings, hostile cells, files that
change."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sundog
from tests.fuzz.compare import Answer, difference
from tests.fuzz.pair import error_name
from tests.fuzz.queries import Check
from tests.oracle.tables import events, write_files

pytestmark = [pytest.mark.spark, pytest.mark.thin(3)]

QUERIES = (
    "SELECT id, ts, s FROM {t} WHERE ts >= TIMESTAMP '2024-03-31 01:00:00' ORDER BY ts DESC, id LIMIT 15",
    "SELECT date_trunc('DAY', ts) AS day, count(*) AS n, max(big) AS b FROM {t} GROUP BY date_trunc('DAY', ts)",
    "SELECT id, sum(num) OVER (ORDER BY seq ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) AS w FROM {t} WHERE hour(ts) < 9",
    "SELECT grp, count(CAST(s AS INT)) AS n FROM {t} GROUP BY grp",
    "SELECT id, CAST(ts AS DATE) AS day FROM {t} WHERE ntz < TIMESTAMP_NTZ '2024-03-31 12:00:00' ORDER BY id LIMIT 9",
)
MULTISET = Check()


def answer_of(session: Any, sql: str) -> Answer:
    return frame_answer(session.sql(sql))


def frame_answer(frame: Any) -> Answer:
    try:
        return Answer(frame.schema.simpleString(), tuple(tuple(row) for row in frame.collect()))
    except Exception as error:
        return Answer(error=error_name(error), message=str(error))


@pytest.fixture(scope="module")
def folder(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(events(600), tmp_path_factory.mktemp("strangers") / "events", row_group_size=100)


@pytest.fixture
def sessions(spark: Any, folder: Path) -> Iterator[dict[str, tuple[Any, Any]]]:
    """By zone: a session with sundog and one without, of the same mind."""
    found = {}
    for zone, ansi in (("Asia/Kolkata", "true"), ("America/New_York", "false")):
        pair = (spark.newSession(), spark.newSession())
        for session in pair:
            session.conf.set("spark.sql.session.timeZone", zone)
            session.conf.set("spark.sql.ansi.enabled", ansi)
            session.conf.set("spark.sundog.onInternalError", "raise")
            session.read.parquet(str(folder)).createOrReplaceTempView("t")
        sundog.enable(pair[0])
        found[zone] = pair
    yield found
    for ours, _ in found.values():
        sundog.disable(ours)


def test_two_sessions_of_different_zones_and_ansi_modes_take_turns(sessions: dict[str, tuple[Any, Any]]) -> None:
    for query in QUERIES:
        for zone, (ours, plain) in sessions.items():
            theirs = answer_of(plain, query.format(t="t"))
            found = difference(answer_of(ours, query.format(t="t")), theirs, MULTISET)
            assert found is None, f"{zone}: {query}: {found}"


def test_two_sessions_run_in_several_threads_at_once(sessions: dict[str, tuple[Any, Any]]) -> None:
    work = [(zone, query.format(t="t")) for query in QUERIES for zone in sessions]
    theirs = {each: answer_of(sessions[each[0]][1], each[1]) for each in work}
    with ThreadPoolExecutor(4) as threads:
        ours = list(threads.map(lambda each: (each, answer_of(sessions[each[0]][0], each[1])), work * 2))
    for each, answer in ours:
        assert difference(answer, theirs[each], MULTISET) is None, f"{each}: {answer}\n--- Spark: {theirs[each]}"


HOSTILE = [
    b"SUNDOG-ERROR:gASVKAAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOUjA1leGl0IDEgIyBvb3BzlIWUUpQu",
    b"SUNDOG-ERROR:",
    b'\nTraceback (most recent call last):\n  File "x"\nInternalError: no',
    b"<script>alert(1)</script>",
    b"[DIVIDE_BY_ZERO] Division by zero",
    b"nul\0in",
    b"\xff\xfe",
    b"ab\xc3",
    "\u202eright to left".encode(),
    b"{0} {name!r} %s %(x)s ${HOME} $(id)",
    b"..\\..\\etc\\passwd",
    b"../../etc/passwd",
    b"a" * 70000,
]


@pytest.fixture
def hostile(spark: Any, tmp_path: Path) -> Iterator[tuple[Any, Any]]:
    cells = pa.array(HOSTILE, pa.binary())
    table = pa.table({"id": range(len(HOSTILE)), "s": cells.cast(pa.string(), safe=False), "b": cells})
    pq.write_table(table, tmp_path / "hostile.parquet", row_group_size=5)
    yield from _with_and_without(spark, tmp_path)


def _with_and_without(spark: Any, folder: Path) -> Iterator[tuple[Any, Any]]:
    """A session with sundog and one without, each with a view of the folder."""
    pair = (spark.newSession(), spark.newSession())
    for session in pair:
        session.conf.set("spark.sundog.onInternalError", "raise")
        session.read.parquet(str(folder)).createOrReplaceTempView("t")
    sundog.enable(pair[0])
    yield pair
    sundog.disable(pair[0])


HOSTILE_QUERIES = (
    "SELECT CAST(b AS STRING) AS x, length(s) AS n, b FROM t ORDER BY b DESC LIMIT 20",
    "SELECT id, CAST(s AS BINARY) AS x FROM t ORDER BY s, id LIMIT 20",
    "SELECT CAST(s AS BINARY) AS x, count(*) AS n, max(b) AS m FROM t GROUP BY s",
    "SELECT id, CAST(lag(s) OVER (ORDER BY id) AS BINARY) AS x, rank() OVER (ORDER BY s) AS r FROM t",
    "SELECT id, CAST(min(s) OVER (PARTITION BY length(b)) AS BINARY) AS x FROM t",
    "SELECT id, CAST(s AS INT) AS x FROM t ORDER BY id LIMIT 20",
    "SELECT sum(CAST(s AS INT)) AS x FROM t",
    "SELECT id, sum(CAST(s AS DOUBLE)) OVER (ORDER BY id) AS x FROM t",
    "SELECT s FROM t WHERE s = '../../etc/passwd' ORDER BY s LIMIT 3",
)


@pytest.mark.parametrize("placement", ["driver", "executors"])
@pytest.mark.parametrize("sql", HOSTILE_QUERIES)
def test_hostile_cells_are_cells(hostile: tuple[Any, Any], sql: str, placement: str) -> None:
    ours, plain = hostile
    ours.conf.set("spark.sundog.placement", placement)
    mine, theirs = answer_of(ours, sql), answer_of(plain, sql)
    assert difference(mine, theirs, MULTISET) is None, f"{mine}\n--- Spark: {theirs}"


def test_hostile_cells_are_shown_as_spark_shows_them(hostile: tuple[Any, Any]) -> None:
    ours, plain = (session.sql("SELECT s, b FROM t ORDER BY id LIMIT 12") for session in hostile)
    assert ours._show_string(12, 40, False) == plain._show_string(12, 40, False)


def _numbers(low: int, high: int) -> pa.Table:
    return pa.table(
        {"id": pa.array(range(low, high), pa.int64()), "g": pa.array([n % 5 for n in range(low, high)], pa.int32())}
    )


def _longer(folder: Path) -> None:
    pq.write_table(_numbers(1000, 1900), folder / "a.parquet", row_group_size=50)


def _shorter(folder: Path) -> None:
    pq.write_table(_numbers(5000, 5003), folder / "a.parquet")


def _same_size(folder: Path) -> None:
    """Another content of the same length and the same time of change."""
    before = (folder / "a.parquet").stat()
    _write_a(folder, 100)
    os.utime(folder / "a.parquet", ns=(before.st_atime_ns, before.st_mtime_ns))


def _added(folder: Path) -> None:
    pq.write_table(_numbers(7000, 7100), folder / "c.parquet")


def _removed(folder: Path) -> None:
    (folder / "b.parquet").unlink()


def _emptied(folder: Path) -> None:
    (folder / "b.parquet").write_bytes(b"")


def _write_a(folder: Path, start: int) -> None:
    pq.write_table(_numbers(start, start + 300), folder / "a.parquet", row_group_size=50)


CHANGES = [
    pytest.param(_longer, id="longer"),
    pytest.param(_shorter, id="shorter"),
    pytest.param(_same_size, id="same_size"),
    pytest.param(_added, id="added"),
    pytest.param(_removed, id="removed"),
    pytest.param(_emptied, id="emptied"),
]


SHAPES = {
    "topk": "SELECT id, g FROM t ORDER BY id DESC LIMIT 7",
    "aggregate": "SELECT g, count(*) AS n, sum(id) AS s FROM t GROUP BY g",
    "window": "SELECT id, lag(id) OVER (ORDER BY id) AS l FROM t",
}


@pytest.fixture
def both(spark: Any, tmp_path: Path) -> Iterator[tuple[Any, Any]]:
    _write_a(tmp_path, 0)
    pq.write_table(_numbers(300, 400), tmp_path / "b.parquet")
    yield from _with_and_without(spark, tmp_path)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("sql", SHAPES.values(), ids=SHAPES.keys())
def test_a_new_dataframe_over_a_held_view_sees_what_spark_sees(
    both: tuple[Any, Any], tmp_path: Path, sql: str, change: Callable[[Path], None]
) -> None:
    """The view keeps its list of files; each action is a new DataFrame over it."""
    ours, plain = both
    assert difference(answer_of(ours, sql), answer_of(plain, sql), MULTISET) is None
    change(tmp_path)
    mine, theirs = answer_of(ours, sql), answer_of(plain, sql)
    assert difference(mine, theirs, MULTISET) is None, f"{mine}\n--- Spark: {theirs}"


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("sql", SHAPES.values(), ids=SHAPES.keys())
def test_a_held_dataframe_that_ran_before_sees_what_a_new_one_sees_in_spark(
    both: tuple[Any, Any], tmp_path: Path, sql: str, change: Callable[[Path], None]
) -> None:
    """A documented freedom: Spark may answer from shuffle files of the first run, as long as it has them."""
    ours, plain = both
    frame = ours.sql(sql)
    frame.collect()
    change(tmp_path)
    mine, theirs = frame_answer(frame), answer_of(plain, sql)
    assert difference(mine, theirs, MULTISET) is None, f"{mine}\n--- Spark: {theirs}"
