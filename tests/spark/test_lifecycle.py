"""The lifecycle of an action: a bug of sundog at any step gives Spark's answer, and an error of the query gives Spark's
error."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import sundog
from sundog.actions import failures
from sundog.versions import spark_version
from tests.oracle.needs import of_tasks
from tests.oracle.plain_spark import plain_spark
from tests.oracle.tables import events, write_files

pytestmark = [pytest.mark.spark, pytest.mark.thin(3)]

WHOLE = "SELECT id, num FROM events ORDER BY num DESC, id LIMIT 5"
SUBTREE = "SELECT a.id, b.s FROM (SELECT id FROM events ORDER BY num, id LIMIT 5) a JOIN events b ON a.id = b.id"
FAILING = "SELECT id, 1 / (num - num) x FROM events ORDER BY id LIMIT 5"


class Bug(Exception):
    """An error that nobody expected."""


@pytest.fixture(scope="module")
def session(enabled: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = write_files(events(), tmp_path_factory.mktemp("lifecycle") / "events")
    enabled.read.parquet(str(folder)).createOrReplaceTempView("events")
    return enabled


@pytest.fixture
def falls_back(session: Any) -> Iterator[None]:
    session.conf.set("spark.sundog.onInternalError", "fallback")
    yield
    session.conf.set("spark.sundog.onInternalError", "raise")


@pytest.fixture(scope="module")
def made_table(session: Any) -> Iterator[str]:
    session.sql("CREATE TABLE kept (v BIGINT, d BIGINT DEFAULT 7) USING parquet")
    yield "kept"
    session.sql("DROP TABLE IF EXISTS kept")


@pytest.fixture
def table(session: Any, made_table: str) -> str:
    """A table of two columns with two rows, whose second column has a default."""
    session.sql(f"INSERT OVERWRITE {made_table} VALUES (1, 10), (2, 20)")
    return made_table


def rows_of(session: Any, table: str) -> list[tuple[Any, ...]]:
    with plain_spark(session):
        return sorted(tuple(row) for row in session.table(table).collect())


def fails(*args: Any, **kwargs: Any) -> Any:
    raise Bug("a step of sundog's own")


STEPS = {
    "making the query": "sundog.actions.lifecycle.plan_frame",
    "reading the settings": "sundog.actions.lifecycle.SessionConf.of",
    "reading the plan": "sundog.front.jvm.plan.parse_plan",
    "matching": "sundog.front.read_query.match_plan",
    "optimizing": "sundog.query.optimize",
    "planning": "sundog.runtime.execute.Planner",
    "executing": "sundog.query.execute",
}
ACTIONS: dict[str, Callable[[Any], Any]] = {
    "collect": lambda df: sorted(map(repr, df.collect())),
    "toArrow": lambda df: df.toArrow().num_rows,
    "count": lambda df: df.count(),
    "isEmpty": lambda df: df.isEmpty(),
    "show": lambda df: df._show_string(),
    "tail": lambda df: len(df.tail(2)),
    "toLocalIterator": lambda df: len(list(df.toLocalIterator())),
    "accelerate": lambda df: sundog.accelerate(df).count(),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("action", ["collect", "accelerate"])
@pytest.mark.usefixtures("falls_back")
def test_a_bug_at_any_step_gives_sparks_answer(
    session: Any, action: str, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with plain_spark(session):
        theirs = ACTIONS[action](session.sql(WHOLE))
    runs = []
    with monkeypatch.context() as patched:
        patched.setattr(STEPS[step], fails)
        if step == "reading the settings":  # also asked for what to do with a bug
            patched.setattr("sundog.actions.lifecycle._raises", lambda session: False)
        frame = session.sql(WHOLE)
        if action == "accelerate":
            assert sundog.accelerate(frame) is frame
            runs.append(sundog.last_run())
        else:
            assert ACTIONS[action](frame) == theirs
            runs.append(sundog.last_run())
    (run,) = runs
    assert not run.accelerated
    assert [reason.code.name for reason in run.reasons] == ["INTERNAL"]
    assert run.internal_error is not None
    assert "Bug: a step of sundog's own" in run.internal_error
    assert "in fails" in run.internal_error


@pytest.mark.parametrize(
    ("action", "sql"),
    [(name, WHOLE) for name in ACTIONS if name != "accelerate"] + [("collect", SUBTREE), ("toArrow", SUBTREE)],
)
@pytest.mark.usefixtures("falls_back")
def test_a_bug_while_rows_are_handed_over_gives_sparks_answer(
    session: Any, action: str, sql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with plain_spark(session):
        theirs = ACTIONS[action](session.sql(sql))
    monkeypatch.setattr("sundog.query.named_table", fails)
    monkeypatch.setattr("sundog.query.splice", fails)
    assert ACTIONS[action](session.sql(sql)) == theirs
    assert sundog.last_run().fallback_reasons[-1] == "INTERNAL: Bug: a step of sundog's own"


@pytest.mark.usefixtures("falls_back")
def test_a_bug_in_converting_rows_gives_sparks_answer(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with plain_spark(session):
        theirs = session.sql(WHOLE).collect()
    monkeypatch.setattr("sundog.actions.dataframe_actions.to_rows", fails)
    assert session.sql(WHOLE).collect() == theirs
    assert sundog.last_run().internal_error


@pytest.mark.usefixtures("falls_back")
def test_lost_rows_give_sparks_answer(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The row accounting of a window on executors is checked when all is done, and before the caller has an answer."""
    sql = "SELECT id, sum(id) OVER (ORDER BY id) s FROM events"
    joined = f"SELECT w.s FROM ({sql}) w JOIN (SELECT 1 AS one) o ON w.id > o.one"
    session.conf.set("spark.sundog.placement", "executors")
    with plain_spark(session):
        theirs = sorted(session.sql(joined).collect())

    def lost(metrics: Any) -> None:
        raise sundog.InternalError("1 rows went into windows and 0 came out")

    monkeypatch.setattr("sundog.runtime.execute.check_row_accounting", lost)
    assert sorted(session.sql(joined).collect()) == theirs
    session.conf.unset("spark.sundog.placement")
    assert sundog.last_run().fallback_reasons[-1].startswith("INTERNAL: InternalError: 1 rows went into")


@pytest.mark.parametrize("error", [Bug, sundog.InternalError, RecursionError, MemoryError, TypeError, KeyError])
@pytest.mark.parametrize("step", ["matching", "executing"])
def test_raise_raises_a_bug(session: Any, step: str, error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*args: Any, **kwargs: Any) -> Any:
        raise error("ours")

    monkeypatch.setattr(STEPS[step], fails)
    with pytest.raises(error, match="ours"):
        session.sql(WHOLE).collect()
    with pytest.raises(error, match="ours"):
        sundog.accelerate(session.sql(WHOLE))
    assert sundog.last_run().internal_error


@pytest.mark.parametrize("sql", [FAILING, "SELECT 1 / 0 FROM events ORDER BY id LIMIT 3"], ids=["row", "constant"])
def test_an_error_of_the_query_is_sparks_and_no_bug(session: Any, sql: str) -> None:
    from pyspark.errors import ArithmeticException

    with pytest.raises(of_tasks(ArithmeticException)) as caught:
        session.sql(sql).collect()
    assert caught.value.getCondition() == "DIVIDE_BY_ZERO"
    assert caught.value.getQueryContext()  # which only Spark knows
    assert sundog.last_run().internal_error is None


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
@pytest.mark.usefixtures("falls_back")
def test_an_interrupt_is_not_answered_by_spark(
    session: Any, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*args: Any, **kwargs: Any) -> Any:
        raise error

    monkeypatch.setattr("sundog.query.execute", interrupted)
    with pytest.raises(error):
        session.sql(WHOLE).collect()


@pytest.mark.usefixtures("falls_back")
def test_a_bug_is_warned_of_once_for_each_place(
    session: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failures._warned_places.clear()
    monkeypatch.setattr("sundog.query.optimize", lambda plan: 1 / 0)
    with caplog.at_level(logging.WARNING, "sundog"):
        session.sql(WHOLE).collect()
        session.sql(SUBTREE).collect()
        assert len(caplog.records) == 1
        monkeypatch.setattr("sundog.front.read_query.match_plan", lambda *args: 1 / 0)
        session.sql(WHOLE).collect()
    assert len(caplog.records) == 2
    assert "A bug of sundog's own" in caplog.records[0].getMessage()


def test_a_bug_in_a_worker_is_a_bug(session: Any, falls_back: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator that fails on an executor: the driver sees what the worker raised, and Spark answers."""
    monkeypatch.setattr("sundog.plan.lower.planner.LimitOperator", lambda *args: Unusable())
    session.conf.set("spark.sundog.placement", "executors")
    assert len(session.sql("SELECT id FROM events WHERE num > 3 LIMIT 3").collect()) == 3
    session.conf.unset("spark.sundog.placement")
    assert sundog.last_run().fallback_reasons[-1].startswith("INTERNAL")


class Unusable:
    """Stands for an operator, and fails where it runs."""

    def run(self, *args: Any, **kwargs: Any) -> Any:
        raise ZeroDivisionError("in a worker")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.run


@pytest.mark.usefixtures("falls_back")
def test_explain_survives_a_bug(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sundog.front.read_query.match_plan", fails)
    assert "INTERNAL: Bug" in sundog.explain(session.sql(WHOLE))


def test_a_wrong_setting_is_told(session: Any) -> None:
    session.conf.set("spark.sundog.placement", "moon")
    try:
        with pytest.raises(sundog.ConfigError, match="placement"):
            session.sql(WHOLE).collect()
    finally:
        session.conf.unset("spark.sundog.placement")


COMMANDS = {
    "a default at the end": ("INSERT INTO kept SELECT v, DEFAULT FROM (SELECT max(id) v FROM events)", True),
    "a default in values": ("INSERT INTO kept VALUES (1, DEFAULT)", False),
    "values": ("INSERT INTO kept VALUES (3, 30)", False),
    "a query": ("INSERT INTO kept SELECT id, num FROM events ORDER BY num, id LIMIT 3", True),
    "too few columns": ("INSERT INTO kept SELECT max(id) FROM events", False),
    "a column list": ("INSERT INTO kept (d, v) SELECT count(*), max(id) FROM events", True),
    "a column list with a default": ("INSERT INTO kept (v) SELECT max(id) FROM events", True),
    "by name": ("INSERT INTO kept BY NAME SELECT count(*) d, max(id) v FROM events", True),
    "a cast to the target": ("INSERT INTO kept SELECT max(id), max(flag) = true FROM events", None),
    "with before insert": ("WITH m AS (SELECT max(id) v FROM events) INSERT INTO kept SELECT v, v FROM m", True),
    "with inside insert": ("INSERT INTO kept WITH m AS (SELECT max(id) v FROM events) SELECT v, v FROM m", True),
    "overwrite": ("INSERT OVERWRITE kept SELECT max(id), 1 FROM events", True),
    "replace where": ("INSERT INTO kept REPLACE WHERE v = 1 SELECT max(id), 1 FROM events", False),
    "several inserts": (
        "FROM events INSERT INTO kept SELECT max(id), 1 INSERT INTO kept SELECT min(id), 2",
        False,
    ),
    "a missing column": ("INSERT INTO kept SELECT nowhere, max(id) FROM events", False),
    "a missing table": ("INSERT INTO nowhere SELECT max(id) FROM events", False),
    "too many columns": ("INSERT INTO kept SELECT max(id), 1, 2 FROM events", False),
    "no statement": ("INSERT INTO INTO kept", None),
}


@pytest.mark.parametrize("what", COMMANDS)
def test_a_command_does_what_spark_does(session: Any, table: str, what: str) -> None:
    sql, accelerated = COMMANDS[what]
    with plain_spark(session):
        theirs = outcome(session, sql), rows_of(session, "kept")
        session.sql("INSERT OVERWRITE kept VALUES (1, 10), (2, 20)")
    ours = outcome(session, sql)
    run = sundog.last_run()
    assert (ours, rows_of(session, "kept")) == theirs
    if accelerated is not None:
        assert run.accelerated == accelerated, run.fallback_reasons


def outcome(session: Any, sql: str) -> Any:
    """None, or the error."""
    from pyspark.errors import PySparkException

    try:
        session.sql(sql)
    except PySparkException as error:
        return type(error), spark_version().condition_of(error)
    return None


def test_commands_with_arguments_are_sparks(session: Any, table: str) -> None:
    session.sql("INSERT INTO kept SELECT max(id), :d FROM events", args={"d": 5})
    session.sql("INSERT INTO {t} SELECT max(id), 6 FROM events", t=session.table("kept"))
    assert [row[1] for row in rows_of(session, "kept")] == [10, 20, 5, 6]


@pytest.mark.parametrize("placement", ["driver", "executors"])
def test_partition_specs_are_sparks(session: Any, placement: str) -> None:
    session.conf.set("spark.sundog.placement", placement)
    session.sql("CREATE TABLE parts (v BIGINT, p INT, q STRING) USING parquet PARTITIONED BY (p, q)")
    try:
        for sql in (
            "INSERT INTO parts PARTITION (p = 1, q = 'x') SELECT max(id) FROM events",
            "INSERT INTO parts PARTITION (p = 2, q) SELECT max(id), s FROM events WHERE s IS NOT NULL GROUP BY s",
            "INSERT INTO parts SELECT max(id), 3, 'y' FROM events",
            "INSERT OVERWRITE parts PARTITION (p = 1, q) SELECT min(id), 'z' FROM events",
        ):
            session.sql(sql)
            assert sundog.last_run().accelerated, (sql, sundog.last_run().fallback_reasons)
        session.sql("INSERT OVERWRITE parts PARTITION (p = 3, q = 'y') IF NOT EXISTS SELECT min(id) FROM events")
        assert sundog.last_run().fallback_reasons[0].startswith("WRITE: the target exists")
        ours = rows_of(session, "parts")
        assert max(row[0] for row in ours if row[1] == 3) > 0
        assert {row[1] for row in ours} == {1, 2, 3}
        assert {row[2] for row in ours if row[1] == 1} == {"z"}
    finally:
        session.conf.unset("spark.sundog.placement")
        session.sql("DROP TABLE parts")


@pytest.mark.parametrize("placement", ["driver", "executors"])
@pytest.mark.parametrize(
    "sql", ["INSERT INTO kept {}", "CREATE TABLE made USING parquet AS {}"], ids=["insert", "ctas"]
)
def test_an_error_in_a_commands_query_is_sparks(session: Any, table: str, sql: str, placement: str) -> None:
    from pyspark.errors import ArithmeticException

    session.conf.set("spark.sundog.placement", placement)
    with pytest.raises(of_tasks(ArithmeticException)) as caught:
        session.sql(sql.format("SELECT max(id) id, max(1 / (num - num)) x FROM events"))
    session.conf.unset("spark.sundog.placement")
    assert caught.value.getCondition() == "DIVIDE_BY_ZERO"
    assert not sundog.last_run().accelerated
    assert rows_of(session, "kept") == [(1, 10), (2, 20)]
    assert not session.catalog.tableExists("made")


@pytest.mark.parametrize("query", [WHOLE, FAILING], ids=["sound", "failing"])
def test_if_not_exists_does_not_run_the_query(
    session: Any, table: str, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sundog.query.execute", fails)  # raises, since a bug of ours is raised in tests
    session.sql(f"CREATE TABLE IF NOT EXISTS kept USING parquet AS {query}")
    session.sql(query).write.mode("ignore").saveAsTable("kept")
    folder = next(iter(session.table("kept").inputFiles())).rpartition("/")[0]
    session.sql(query).write.mode("ignore").parquet(folder)
    assert rows_of(session, "kept") == [(1, 10), (2, 20)]


@pytest.mark.parametrize("step", ["matching", "executing"])
@pytest.mark.usefixtures("falls_back")
def test_a_bug_before_a_write_leaves_it_to_spark(
    session: Any, table: str, step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(STEPS[step], fails)
    session.sql(f"INSERT INTO kept {WHOLE}")
    assert sundog.last_run().fallback_reasons == ["INTERNAL: Bug: a step of sundog's own"]
    session.sql(WHOLE).write.parquet(str(tmp_path / "out"))
    assert sundog.last_run().fallback_reasons == ["INTERNAL: Bug: a step of sundog's own"]
    session.sql(WHOLE).foreach(lambda row: None)
    assert sundog.last_run().fallback_reasons == ["INTERNAL: Bug: a step of sundog's own"]
    assert len(rows_of(session, "kept")) == 7
    assert session.read.parquet(str(tmp_path / "out")).count() == 5


@pytest.mark.parametrize("placement", ["driver", "executors"])
def test_an_error_while_rows_are_handed_out_is_of_sparks_class(session: Any, placement: str) -> None:
    from py4j.protocol import Py4JError
    from pyspark.errors import ArithmeticException, PySparkException

    session.conf.set("spark.sundog.placement", placement)
    try:
        frame = session.sql("SELECT id % 9 k, max(1 / (num - num)) x FROM events GROUP BY id % 9")
        with pytest.raises(of_tasks(ArithmeticException)):
            frame.foreach(lambda row: None)
        good = session.sql("SELECT id % 9 k, max(num) x FROM events GROUP BY id % 9")
        with plain_spark(session), pytest.raises((PySparkException, Py4JError), match="ZeroDivisionError") as theirs:
            good.foreach(lambda row: 1 / 0)
        with pytest.raises(type(theirs.value), match="ZeroDivisionError"):  # PythonException since 4.2
            good.foreach(lambda row: 1 / 0)
        assert sundog.last_run().internal_error is None
    finally:
        session.conf.unset("spark.sundog.placement")


def test_enable_twice_and_a_session_afterwards(session: Any) -> None:
    sundog.enable(session)
    sundog.enable(session)
    assert callable(sundog.session)
    again = sundog.session("sundog-tests")
    assert again.sparkContext is session.sparkContext
    sundog.enable(again)


@pytest.mark.parametrize("sql", [WHOLE, SUBTREE], ids=["whole", "subtree"])
def test_an_action_leaves_the_active_session_alone(session: Any, sql: str) -> None:
    from pyspark.sql import SparkSession

    other = session.newSession()
    frame = session.sql(sql)
    other.createDataFrame([(1,)], "a int")
    try:
        assert SparkSession.getActiveSession()._jsparkSession.equals(other._jsparkSession)
        frame.collect()
        frame.show()
        assert sundog.last_run().accelerated
        assert SparkSession.getActiveSession()._jsparkSession.equals(other._jsparkSession)
    finally:
        session.createDataFrame([(1,)], "a int")
