"""Shadow mode: Spark answers, sundog runs along, and the report says whether they agree."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sundog
from tests.oracle.needs import of_tasks
from tests.oracle.plain_spark import plain_spark
from tests.oracle.tables import events, write_files

pytestmark = pytest.mark.spark

TOPK = "SELECT num, id, d FROM events ORDER BY num DESC, id LIMIT 20"
GROUPS = "SELECT num % 7 k, sum(d) s, count(*) c FROM events GROUP BY num % 7"
FRAMES = "SELECT id, avg(d) OVER (ORDER BY id ROWS 9 PRECEDING) a FROM events"
JOINED = "SELECT a.id, b.s FROM (SELECT id FROM events ORDER BY num, id LIMIT 20) a JOIN events b ON a.id = b.id"


@pytest.fixture(scope="module")
def data(enabled: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = write_files(events(), tmp_path_factory.mktemp("shadow") / "events")
    enabled.read.parquet(str(folder)).createOrReplaceTempView("events")
    return enabled


@pytest.fixture
def session(data: Any) -> Iterator[Any]:
    """In shadow mode, with an empty report."""
    from sundog.front.session.identity import session_id
    from sundog.shadow_mode import report as shadow

    shadow._reports.pop(session_id(data), None)
    data.conf.set("spark.sundog.mode", "shadow")
    yield data
    data.conf.unset("spark.sundog.mode")


def test_actions_agree_and_spark_answers(session: Any, tmp_path: Path) -> None:
    seen = session.sparkContext.accumulator(0)
    for sql in (TOPK, GROUPS, FRAMES, JOINED):
        with plain_spark(session):
            theirs = sorted(map(repr, session.sql(sql).collect()))
        assert sorted(map(repr, session.sql(sql).collect())) == theirs
        assert not sundog.last_run().accelerated
        assert "SHADOW" in str(sundog.last_run().fallback_reasons)
    session.sql(GROUPS).toPandas()
    session.sql(GROUPS).count()
    session.sql(TOPK).show()
    session.sql(TOPK).tail(3)
    assert len(list(session.sql(TOPK).toLocalIterator())) == 20
    session.sql(TOPK).foreach(lambda row: seen.add(1))
    session.sql(GROUPS).write.parquet(str(tmp_path / "out"))
    report = sundog.shadow_report(session)
    assert seen.value == 20
    assert session.read.parquet(str(tmp_path / "out")).count() == 14
    assert (report.actions, report.eligible, report.compared, report.agreed) == (11, 11, 11, 11), str(report)
    assert not report.differed
    assert not report.skipped
    assert not report.failed
    assert report.spark_seconds > 0
    assert report.sundog_seconds > 0
    assert "11 compared: 11 agreed, 0 differed" in str(report)
    assert "<td>11</td>" in report._repr_html_()


def test_what_is_not_compared_has_a_reason(session: Any) -> None:
    session.sql("SELECT id FROM events WHERE num > 3").limit(5).collect()
    session.sql("SELECT id FROM events WHERE num = 17").collect()
    assert sundog.accelerate(session.sql(TOPK)).columns == ["num", "id", "d"]
    report = sundog.shadow_report(session)
    assert (report.actions, report.eligible, report.compared) == (3, 2, 0)
    assert dict(report.skipped) == {
        "a LIMIT without ORDER BY may give any rows": 1,
        "accelerate has no answer to compare": 1,
    }


def test_a_wrong_answer_is_reported_with_its_rows(
    session: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from sundog.actions import lifecycle

    right = lifecycle.whole_table

    def wrong(*args: Any) -> pa.Table:
        table = right(*args)
        ids = pa.array([-1 if row == 3 else value for row, value in enumerate(table["id"].to_pylist())], pa.int64())
        return table.set_column(table.schema.get_field_index("id"), "id", ids.cast(table["id"].type))

    monkeypatch.setattr("sundog.actions.lifecycle.whole_table", wrong)
    with caplog.at_level(logging.WARNING, "sundog"):
        rows = session.sql(TOPK).collect()
    assert all(row["id"] >= 0 for row in rows)
    report = sundog.shadow_report(session)
    assert (report.compared, report.agreed, len(report.differed)) == (1, 0, 1)
    (difference,) = report.differed
    assert difference.action == "collect"
    assert difference.rows == ((tuple(rows[3]), (rows[3]["num"], -1, rows[3]["d"])),)
    assert "GlobalLimit" in difference.query
    assert "TopK" in difference.plan
    assert difference.confs["spark.sundog.mode"] == "shadow"
    assert difference.confs["spark.sql.session.timeZone"] == "UTC"
    for text in (str(report), caplog.records[0].getMessage()):
        assert f"sundog: ({rows[3]['num']}, -1, " in text
        assert "TopK" in text
    assert "&#x27;" in report._repr_html_() or "<pre>" in report._repr_html_()


@pytest.mark.parametrize("step", ["sundog.front.read_query.match_plan", "sundog.query.execute"])
def test_a_crash_is_counted_and_never_disturbs(session: Any, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even where a bug of ours would be raised, as in these tests."""

    def crashes(*args: Any, **kwargs: Any) -> Any:
        raise RecursionError("too deep")

    monkeypatch.setattr(step, crashes)
    assert len(session.sql(TOPK).collect()) == 20
    report = sundog.shadow_report(session)
    assert dict(report.failed) == {"INTERNAL: RecursionError: too deep": 1}
    assert (report.actions, report.compared) == (1, 0)
    assert sundog.last_run().internal_error


def test_an_error_of_spark_is_raised_and_sundog_must_not_answer(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.errors import ArithmeticException

    failing = "SELECT num % 7 k, max(1 / (id - id)) x FROM events GROUP BY num % 7"
    with pytest.raises(of_tasks(ArithmeticException)):
        session.sql(failing).collect()
    report = sundog.shadow_report(session)
    assert not report.differed
    assert "DIVIDE_BY_ZERO" in str(report.skipped)
    monkeypatch.setattr("sundog.actions.lifecycle.whole_table", lambda *args: pa.table({"k": [1]}))
    with pytest.raises(of_tasks(ArithmeticException)):
        session.sql(failing).collect()
    (difference,) = sundog.shadow_report(session).differed
    assert "DIVIDE_BY_ZERO" in str(difference.rows[0][0])
    assert difference.rows[0][1] == ("1 rows",)


def test_ties_at_the_end_of_a_topk_are_free(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from sundog.actions import lifecycle

    right = lifecycle.whole_table

    def other_ties(*args: Any) -> pa.Table:
        table = right(*args)
        last = table["k"].to_pylist()[-1]
        ids = [-1 if k == last else i for k, i in zip(table["k"].to_pylist(), table["id"].to_pylist(), strict=True)]
        return table.set_column(1, "id", pa.array(ids, table["id"].type))

    monkeypatch.setattr("sundog.actions.lifecycle.whole_table", other_ties)
    session.sql("SELECT num % 3 AS k, id FROM events WHERE num IS NOT NULL ORDER BY k LIMIT 5").collect()
    report = sundog.shadow_report(session)
    assert (report.compared, report.agreed) == (1, 1), str(report)


def test_off_leaves_spark_alone(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    session.conf.set("spark.sundog.mode", "off")
    monkeypatch.setattr("sundog.front.read_query.match_plan", lambda *args: 1 / 0)
    assert len(session.sql(TOPK).collect()) == 20
    assert sundog.last_run().fallback_reasons == ["DISABLED: spark.sundog.mode is off"]
    assert sundog.shadow_report(session) == sundog.ShadowReport()
