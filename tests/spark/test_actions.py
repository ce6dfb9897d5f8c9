"""Every action of a DataFrame, with sundog on and off: the same value, of the same Python types, and `last_run` says
so."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sundog
from sundog.runtime.progress import ProgressSink
from sundog.versions import spark_version
from tests.oracle.needs import of_tasks
from tests.oracle.plain_spark import plain_spark
from tests.oracle.tables import events, write_files

pytestmark = [pytest.mark.spark, pytest.mark.thin(3)]

WHOLE = "SELECT id, d, s, dec, day, ts, ntz, bin, flag, f FROM events ORDER BY num DESC, id LIMIT 40"
SUBTREE = "SELECT a.id, b.s, b.ts FROM (SELECT id FROM events ORDER BY num, id LIMIT 20) a JOIN events b ON a.id = b.id"
INELIGIBLE = "SELECT id, s FROM events WHERE num = 17"


@pytest.fixture(scope="module")
def session(enabled: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = write_files(events(), tmp_path_factory.mktemp("actions") / "events")
    enabled.read.parquet(str(folder)).createOrReplaceTempView("events")
    return enabled


def sorted_rows(rows: list[Any]) -> list[str]:
    return sorted(map(repr, rows))


ACTIONS: dict[str, Callable[[Any], Any]] = {
    "collect": lambda df: sorted_rows(df.collect()),
    "toArrow": lambda df: (df.toArrow().schema, sorted_rows(df.toArrow().to_pylist())),
    "toPandas": lambda df: (str(df.toPandas().dtypes), sorted_rows(df.toPandas().to_dict("records"))),
    "count": lambda df: df.count(),
    "isEmpty": lambda df: df.isEmpty(),
    "take": lambda df: sorted_rows(df.orderBy("id").take(3)),
    "head": lambda df: repr(df.orderBy("id").head(2)),
    "first": lambda df: repr(df.orderBy("id").first()),
    "tail": lambda df: repr(df.orderBy("id").tail(2)),
    "toLocalIterator": lambda df: sorted_rows(list(df.toLocalIterator())),
}


@pytest.mark.parametrize("placement", ["driver", "executors"])
@pytest.mark.parametrize("sql", [WHOLE, SUBTREE, INELIGIBLE], ids=["whole", "subtree", "ineligible"])
@pytest.mark.parametrize("action", ACTIONS)
def test_action_gives_what_spark_gives(session: Any, action: str, sql: str, placement: str) -> None:
    session.conf.set("spark.sundog.placement", placement)
    ours = ACTIONS[action](session.sql(sql))
    run = sundog.last_run()
    becomes_a_shape = action in ("take", "head", "first", "tail", "count", "isEmpty")
    assert run.accelerated == (sql != INELIGIBLE or becomes_a_shape)
    with plain_spark(session):
        theirs = ACTIONS[action](session.sql(sql))
    assert ours == theirs
    assert not sundog.last_run().accelerated


@pytest.mark.parametrize("sql", [WHOLE, SUBTREE], ids=["whole", "subtree"])
def test_show_prints_what_spark_prints(session: Any, sql: str, capsys: pytest.CaptureFixture[str]) -> None:
    for truncate, vertical in ((True, False), (False, False), (5, True)):
        session.sql(f"SELECT * FROM ({sql}) ORDER BY id").show(7, truncate, vertical)
        ours = capsys.readouterr().out
        assert sundog.last_run().accelerated
        with plain_spark(session):
            session.sql(f"SELECT * FROM ({sql}) ORDER BY id").show(7, truncate, vertical)
        assert ours == capsys.readouterr().out


@pytest.mark.parametrize("sql", [WHOLE, SUBTREE], ids=["whole", "subtree"])
def test_writes_hold_the_same_rows(session: Any, sql: str, tmp_path: Path) -> None:
    session.sql(sql).write.mode("overwrite").option("compression", "zstd").parquet(str(tmp_path / "ours"))
    assert sundog.last_run().accelerated
    assert list((tmp_path / "ours").glob("*.zstd.parquet"))
    session.sql(sql).write.format("json").save(str(tmp_path / "json"))
    assert sundog.last_run().accelerated
    with plain_spark(session):
        theirs = sorted_rows(session.sql(sql).collect())
        assert sorted_rows(session.read.parquet(str(tmp_path / "ours")).collect()) == theirs
        assert session.read.json(str(tmp_path / "json")).count() == len(theirs)


@pytest.mark.parametrize("placement", ["driver", "executors"])
def test_a_result_is_sorted_where_it_goes(session: Any, placement: str, tmp_path: Path) -> None:
    """Rows that come to the driver are sorted there; Spark sorts those that are written, and what lies below a join."""
    session.conf.set("spark.sundog.placement", placement)
    frame = session.sql("SELECT id % 500 k, count(*) c FROM events GROUP BY id % 500 ORDER BY c DESC, k")
    rows = frame.collect()
    assert sundog.last_run().accelerated
    assert sundog.last_run().plan.startswith("Sort: [")
    assert list(frame.toLocalIterator()) == rows
    frame.coalesce(1).write.parquet(str(tmp_path / "sorted"))
    assert sundog.last_run().accelerated
    assert "Sort" not in sundog.last_run().plan
    assert "Sort" not in sundog.explain(frame.selectExpr("uuid()", "*"))
    with plain_spark(session):
        assert frame.collect() == rows
        assert session.read.parquet(str(tmp_path / "sorted")).collect() == rows
    session.sql("SELECT first(id) f FROM (SELECT id FROM events ORDER BY num, id)").collect()
    assert not sundog.last_run().accelerated


def test_save_modes_still_protect_existing_data(session: Any, tmp_path: Path) -> None:
    from pyspark.errors import AnalysisException

    session.sql(WHOLE).write.parquet(str(tmp_path / "out"))
    with pytest.raises(AnalysisException, match="PATH_ALREADY_EXISTS"):
        session.sql(WHOLE).write.parquet(str(tmp_path / "out"))
    assert session.read.parquet(str(tmp_path / "out")).count() == 40


def test_tables_written_by_sql_and_by_writers(session: Any) -> None:
    try:
        session.sql(f"CREATE TABLE made USING parquet AS {WHOLE}")
        assert sundog.last_run().accelerated
        session.sql(f"INSERT INTO made {WHOLE}")
        assert sundog.last_run().accelerated
        session.sql(WHOLE).write.mode("append").saveAsTable("made")
        assert sundog.last_run().accelerated
        session.sql(WHOLE).write.insertInto("made")
        assert session.table("made").count() == 160
        assert session.table("made").distinct().count() == 40
    finally:
        session.sql("DROP TABLE IF EXISTS made")


def test_foreach_and_foreach_partition_see_every_row(session: Any) -> None:
    seen = session.sparkContext.accumulator(0)
    session.sql(WHOLE).foreach(lambda row: seen.add(1))
    assert sundog.last_run().accelerated
    assert seen.value == 40
    session.sql(WHOLE).foreachPartition(lambda rows: seen.add(sum(1 for _ in rows)))
    assert sundog.last_run().accelerated
    assert seen.value == 80


def test_explain_shows_sparks_plan_and_ours(session: Any, capsys: pytest.CaptureFixture[str]) -> None:
    session.sql(SUBTREE).explain()
    text = capsys.readouterr().out
    assert "== Physical Plan ==" in text
    assert "== Sundog ==" in text
    assert "TopK: fetch=20" in text
    assert "UNKNOWN_NODE" not in sundog.explain(session.sql(WHOLE))
    analyzed = sundog.explain(session.sql(WHOLE), analyze=True)
    assert "row groups ->" in analyzed


def test_accelerate_without_enable_composes(session: Any) -> None:
    sundog.disable(session)
    try:
        frame = session.sql("SELECT id, num FROM events ORDER BY num, id LIMIT 10")
        ours = sundog.accelerate(frame)
        assert sundog.last_run().accelerated
        assert "FileScan" not in ours._jdf.queryExecution().toString()
        assert repr(ours.collect()) == repr(frame.collect())
        joined = ours.join(session.table("events").select("id", "s"), "id")
        assert sorted_rows(joined.collect()) == sorted_rows(
            frame.join(session.table("events").select("id", "s"), "id").collect()
        )
        plain = session.sql(INELIGIBLE)
        assert sundog.accelerate(plain) is plain
    finally:
        sundog.enable(session)


def test_caching_the_accelerated_and_the_plain(session: Any) -> None:
    cached = session.sql(WHOLE).cache()
    try:
        first, second = cached.collect(), cached.collect()
        assert repr(first) == repr(second)
        assert not sundog.last_run().accelerated
    finally:
        cached.unpersist()


def test_two_threads_each_see_their_own_run(session: Any) -> None:
    runs: dict[str, sundog.Run] = {}
    barrier = threading.Barrier(2)

    def work(name: str, sql: str) -> None:
        barrier.wait()
        session.sql(sql).collect()
        barrier.wait()
        runs[name] = sundog.last_run()

    threads = [threading.Thread(target=work, args=item) for item in {"a": WHOLE, "b": INELIGIBLE}.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert runs["a"].accelerated
    assert not runs["b"].accelerated


def test_other_sessions_are_left_alone(session: Any) -> None:
    other = session.newSession()
    other.read.parquet(session.table("events").inputFiles()[0]).createOrReplaceTempView("events")
    session.sql(INELIGIBLE).collect()
    before = sundog.last_run()
    other.sql("SELECT id FROM events ORDER BY num, id LIMIT 3").collect()
    assert sundog.last_run() is before


def test_enable_is_idempotent_and_disable_restores(session: Any) -> None:
    frame_class = spark_version().frame_class()
    patched = frame_class.collect
    sundog.enable(session)
    assert frame_class.collect is patched
    sundog.disable(session)
    assert frame_class.collect is not patched
    sundog.enable(session)


def test_an_action_that_raises_renews_the_run(session: Any) -> None:
    from pyspark.errors import ArithmeticException

    session.sql(WHOLE).collect()
    before = sundog.last_run()
    with pytest.raises(of_tasks(ArithmeticException)) as caught:
        session.sql("SELECT id, 1 / (num - num) x FROM events ORDER BY id LIMIT 5").collect()
    assert caught.value.getCondition() == "DIVIDE_BY_ZERO"
    assert sundog.last_run() is not before
    assert not sundog.last_run().accelerated


def test_streaming_is_answered_with_a_reason(session: Any, tmp_path: Path) -> None:
    stream = session.readStream.format("rate").load()
    assert "STREAMING" in sundog.explain(stream)


def test_a_connect_session_gets_a_clear_error() -> None:
    import pyspark

    class ConnectSession:
        version = pyspark.__version__

    with pytest.raises(sundog.UnsupportedSessionError, match="Spark Connect"):
        sundog.enable(ConnectSession())  # type: ignore[arg-type]


@pytest.mark.parametrize("placement", ["driver", "executors"])
@pytest.mark.parametrize("sql", [WHOLE, SUBTREE], ids=["whole", "subtree"])
def test_an_action_reports_its_progress_and_its_end(
    session: Any, sql: str, placement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    class Told(ProgressSink):
        def start(self, label: str, tasks: int) -> None:
            told.append(label)

        def advance(self, count: int = 1) -> None:
            pass

        def finish(self) -> None:
            told.append("end")

    monkeypatch.setattr("sundog.actions.lifecycle.progress_sink", lambda enabled: Told())
    session.conf.set("spark.sundog.placement", placement)
    session.sql(sql).collect()
    assert len(told) > 1
    assert told[-1] == "end"


def test_a_plan_of_another_spark_is_left_to_it(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def other(jvm: Any, jplan: Any) -> str:
        return str(jplan.methodThatThisSparkDoesNotHave())

    monkeypatch.setattr("sundog.front.jvm.plan.plan_json", other)
    rows = session.sql(WHOLE).collect()
    assert len(rows) == 40
    run = sundog.last_run()
    assert not run.accelerated
    assert any(reason.startswith("PLAN_VERSION") for reason in run.fallback_reasons), run.fallback_reasons
