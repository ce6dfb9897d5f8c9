"""`spark.sundog.learn`: a query for which Spark is faster is left to Spark, and a query is recognised by its shape."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sundog
from sundog.actions import lifecycle
from sundog.config import Settings
from sundog.front.session.session_conf import SessionConf
from sundog.query import plan_frame
from sundog.run import Run
from tests.oracle.tables import events, write_files

pytestmark = pytest.mark.spark

TOPK = "SELECT id, num FROM events WHERE num > {0} ORDER BY num DESC, id LIMIT 5"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(events(), tmp_path_factory.mktemp("learning") / "events")


@pytest.fixture
def session(enabled: Any, folder: Path) -> Iterator[Any]:
    enabled.read.parquet(str(folder)).createOrReplaceTempView("events")
    enabled.conf.set("spark.sundog.learn", "true")
    yield enabled
    enabled.conf.set("spark.sundog.learn", "false")


def shape(session: Any, sql: str) -> str:
    planned = plan_frame(session.sql(sql), Run(), SessionConf.of(session), Settings(), collected=True)
    assert planned is not None
    return planned.shape


def test_constants_and_runs_do_not_change_the_shape(session: Any) -> None:
    assert shape(session, TOPK.format(0)) == shape(session, TOPK.format(0)) == shape(session, TOPK.format(7))


@pytest.mark.parametrize(
    "other",
    [
        TOPK.replace("DESC", "ASC"),
        TOPK.replace(">", "<"),
        TOPK.replace("id, num FROM", "num, id FROM"),
        TOPK.replace("num DESC", "abs(num) DESC"),
        TOPK.replace("SELECT id, num", "SELECT id, num, (SELECT max(id) FROM events) m"),
    ],
)
def test_another_query_has_another_shape(session: Any, other: str) -> None:
    assert shape(session, TOPK.format(0)) != shape(session, other.format(0))


def test_another_table_of_the_same_columns_has_another_shape(session: Any, tmp_path: Path) -> None:
    one = shape(session, TOPK.format(0))
    write_files(events(), tmp_path / "others")
    session.read.parquet(str(tmp_path / "others")).createOrReplaceTempView("events")
    assert shape(session, TOPK.format(0)) != one


def test_a_query_that_sundog_runs_slower_is_left_to_spark(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    noted = lifecycle.Lesson.answered_by_sundog

    def slower(lesson: Any, seconds: float, spark_guess: float) -> None:
        noted(lesson, seconds + 600, spark_guess)  # more than Spark takes on a busy machine

    monkeypatch.setattr(lifecycle.Lesson, "answered_by_sundog", slower)
    sql = TOPK.format(1)
    expected = None
    reasons = []
    for _ in range(4):
        rows = session.sql(sql).collect()
        expected = expected or rows
        assert rows == expected
        reasons.append(sundog.last_run().fallback_reason)
    assert reasons[:2] == [None, None]
    assert reasons[2] is not None
    assert reasons[2].startswith("LEARNED: tried on Spark once")
    assert reasons[3] is not None
    assert reasons[3].startswith("LEARNED: Spark took ")
    session.sql(TOPK.format(2)).collect()
    assert not sundog.last_run().accelerated  # its shape is the same
    session.conf.set("spark.sundog.learn", "false")
    session.sql(sql).collect()
    assert sundog.last_run().accelerated


def test_a_write_is_never_tried_on_spark(session: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(lifecycle.Lesson, "of", lambda *_: pytest.fail("a write has no lesson"))
    session.sql(TOPK.format(3)).write.parquet(str(tmp_path / "written"))
    assert sundog.last_run().accelerated
