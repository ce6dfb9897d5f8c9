"""A cancelled action ends soon with Spark's error, and nothing is started again, wherever it ran."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError

import sundog
from sundog.errors import SundogError
from sundog.parquet.problems import FileSchemaProblem
from sundog.plan.lower import scan
from sundog.run import Run
from sundog.runtime.driver import DriverRuntime
from sundog.support import Code
from sundog.versions import spark_version
from tests.oracle.needs import needs_session_tags
from tests.runtime.stages import Stages
from tests.runtime.toys import Numbers, Slow, Spills

pytestmark = [pytest.mark.spark, pytest.mark.thin(3)]

QUERY = "SELECT g, sum(v) FROM cancelled GROUP BY g"
LONG_SECONDS = 20.0
SOON_SECONDS = 5.0  # 0.1 to 0.3 where the machine has nothing else to do
PLACEMENTS = ["driver", "executors"]


@pytest.fixture(scope="module")
def session(enabled: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("cancelled")
    for number in range(4):
        pq.write_table(pa.table({"g": [1, 2, 3], "v": [number, 5, 6]}), folder / f"{number}.parquet")
    enabled.read.parquet(str(folder)).createOrReplaceTempView("cancelled")
    for placement in PLACEMENTS:  # so that kernels are there, and Python workers
        enabled.conf.set("spark.sundog.placement", placement)
        enabled.sql(QUERY).collect()
    return enabled


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every scan takes its time, in all tasks."""
    make_slow(monkeypatch, LONG_SECONDS)


def make_slow(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    original = scan.scan_tasks
    monkeypatch.setattr(scan, "scan_tasks", lambda *a, **k: [Slow(t, seconds) for t in original(*a, **k)])
    Slow.begun.clear()


@dataclass
class Outcome:
    """How an action on another thread ended."""

    error: BaseException | None = None
    run: Run | None = None
    ended: float = 0.0
    jobs: list[int] = field(default_factory=list)


def start(session: Any, action: Callable[[], Any], group: str) -> tuple[threading.Thread, Outcome]:
    """Run an action on a thread of its own, in a job group of its own."""
    outcome = Outcome()
    started = threading.Event()

    def target() -> None:
        context = session.sparkContext
        context.setJobGroup(group, "to be cancelled", interruptOnCancel=True)
        context.addJobTag(f"tag of {group}")
        started.set()
        try:
            action()
        except BaseException as error:
            outcome.error = error
        outcome.ended = time.monotonic()
        with suppress(SundogError):  # no action, but a flow of the runtime
            outcome.run = sundog.last_run()
        outcome.jobs = list(context.statusTracker().getJobIdsForGroup(group))

    runner = threading.Thread(target=target)
    runner.start()
    started.wait()
    return runner, outcome


def wait_until_it_runs(session: Any, placement: str, group: str) -> None:
    """A Spark job has tasks, or driver threads have begun."""
    tracker = session.sparkContext.statusTracker()
    give_up = time.monotonic() + 60
    if placement == "driver":
        assert Slow.begun.wait(60)
    while placement == "executors" and time.monotonic() < give_up:
        stages = [s for job in tracker.getJobIdsForGroup(group) for s in tracker.getJobInfo(job).stageIds]
        if any((info := tracker.getStageInfo(stage)) and info.numActiveTasks for stage in stages):
            break
        time.sleep(0.05)
    time.sleep(0.2)


def assert_cancelled(outcome: Outcome, since: float, words: str) -> None:
    assert outcome.ended - since < SOON_SECONDS
    assert isinstance(outcome.error, Py4JJavaError)
    java = outcome.error.java_exception
    while java.getCause() is not None:  # toArrow waits for a thread of its own, and wraps the error
        java = java.getCause()
    assert java.getClass().getName() == "org.apache.spark.SparkException"
    assert spark_version().is_cancelled_job(java)
    assert words in java.getMessage()
    assert outcome.run is not None
    assert not outcome.run.accelerated
    assert [reason.code for reason in outcome.run.reasons] == [Code.CANCELLED]


CANCELLING: dict[str, Callable[[Any, str], Any]] = {
    "part of cancelled job group": lambda session, group: session.sparkContext.cancelJobGroup(group),
    "part of cancelled job tags": lambda session, group: session.sparkContext.cancelJobsWithTag(f"tag of {group}"),
    "as part of cancellation of all": lambda session, group: session.sparkContext.cancelAllJobs(),
}
if spark_version().has_session_tags:
    CANCELLING["as part of cancellation of all jobs "] = lambda session, group: session.interruptAll()


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("words", CANCELLING)
def test_cancelled_action_ends_soon_with_sparks_error_and_runs_nothing_else(
    session: Any, slow: None, placement: str, words: str
) -> None:
    session.conf.set("spark.sundog.placement", placement)
    group = f"{placement} {words}"
    runner, outcome = start(session, session.sql(QUERY).collect, group)
    wait_until_it_runs(session, placement, group)
    since = time.monotonic()
    CANCELLING[words](session, group)
    runner.join(30)
    assert_cancelled(outcome, since, words.strip())
    assert len(outcome.jobs) == (1 if placement == "executors" else 0)
    number = outcome.jobs[0] if outcome.jobs else -1
    assert f"Job {number} cancelled" in str(outcome.error), "of Spark's own job, if there was one"


ACTIONS: dict[str, Callable[[Any], Any]] = {
    "toArrow": lambda frame: frame.toArrow(),
    "count": lambda frame: frame.count(),
    "foreach": lambda frame: frame.foreach(print),
    "write": lambda frame: frame.write.format("noop").mode("overwrite").save(),
}


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("action", ACTIONS)
def test_every_kind_of_action_can_be_cancelled(session: Any, slow: None, placement: str, action: str) -> None:
    session.conf.set("spark.sundog.placement", placement)
    group = f"{placement} {action}"
    frame = session.sql(QUERY)
    runner, outcome = start(session, lambda: ACTIONS[action](frame), group)
    wait_until_it_runs(session, placement, group)
    since = time.monotonic()
    session.sparkContext.cancelJobGroup(group)
    runner.join(30)
    assert_cancelled(outcome, since, "part of cancelled job group")


def test_one_task_on_the_calling_thread_is_cancelled_too(
    session: Any, slow: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.conf.set("spark.sundog.placement", "driver")
    original = DriverRuntime.__init__
    monkeypatch.setattr(DriverRuntime, "__init__", lambda self, _, *args, **named: original(self, 1, *args, **named))
    runner, outcome = start(session, session.sql(QUERY).collect, "one task")
    wait_until_it_runs(session, "driver", "one task")
    since = time.monotonic()
    session.sparkContext.cancelJobGroup("one task")
    runner.join(30)
    assert_cancelled(outcome, since, "part of cancelled job group")


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_others_go_on(session: Any, monkeypatch: pytest.MonkeyPatch, placement: str) -> None:
    session.conf.set("spark.sundog.placement", placement)
    make_slow(monkeypatch, 0.7)
    rows: list[Any] = []
    runner, outcome = start(session, lambda: rows.extend(session.sql(QUERY).collect()), f"mine on {placement}")
    wait_until_it_runs(session, placement, f"mine on {placement}")
    session.sparkContext.cancelJobGroup("yours")
    session.sparkContext.cancelJobsWithTag("yours")
    if spark_version().has_session_tags:
        session.interruptTag("yours")
        session.newSession().interruptAll()
    runner.join(60)
    assert outcome.error is None
    assert len(rows) == 3
    assert outcome.run is not None
    assert outcome.run.accelerated


@needs_session_tags
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_session_tag_of_the_thread_itself_cancels(session: Any, slow: None, placement: str) -> None:
    """A tag of pyspark's sessions is one of the thread: Spark knows it under a name with the thread in it."""
    session.conf.set("spark.sundog.placement", placement)
    real: list[str] = []

    def action() -> None:
        session.addTag("mine")
        real.append(_tags_of(session, "mine")[0])
        session.sql(QUERY).collect()

    runner, outcome = start(session, action, f"tagged on {placement}")
    wait_until_it_runs(session, placement, f"tagged on {placement}")
    since = time.monotonic()
    session.sparkContext.cancelJobsWithTag(real[0])
    runner.join(30)
    assert_cancelled(outcome, since, "part of cancelled job tags")


def test_an_action_cancelled_in_shadow_mode_is_not_run_again_to_compare(session: Any) -> None:
    session.udf.register("wait", lambda value: time.sleep(LONG_SECONDS) or value, "long")
    frame = session.sql(f"SELECT wait(g) FROM ({QUERY})")
    session.conf.set("spark.sundog.placement", "executors")
    session.conf.set("spark.sundog.mode", "shadow")
    session.conf.set("spark.sql.adaptive.enabled", "false")  # one job, so that no cancel falls between two
    try:
        before = sundog.shadow_report(session)
        runner, outcome = start(session, frame.collect, "in shadow")
        wait_until_it_runs(session, "executors", "in shadow")
        since = time.monotonic()
        session.sparkContext.cancelJobGroup("in shadow")
        runner.join(30)
        after = sundog.shadow_report(session)
    finally:
        session.conf.unset("spark.sundog.mode")
        session.conf.unset("spark.sql.adaptive.enabled")
    assert after.eligible == before.eligible + 1
    assert after.compared == before.compared
    assert len(outcome.jobs) == 1
    assert_cancelled(outcome, since, "part of cancelled job group")


@needs_session_tags
def test_operation_of_our_own_session_can_be_interrupted(session: Any, slow: None) -> None:
    session.conf.set("spark.sundog.placement", "executors")
    runner, outcome = start(session, session.sql(QUERY).collect, "operation")
    wait_until_it_runs(session, "executors", "operation")
    since = time.monotonic()
    found = [number for number in map(str, range(2000)) if session.interruptOperation(number)]
    runner.join(30)
    assert len(found) == 1
    assert outcome.ended - since < 10
    assert outcome.run is not None
    assert [reason.code for reason in outcome.run.reasons] == [Code.CANCELLED]


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_ctrl_c_ends_soon_with_keyboard_interrupt(session: Any, slow: None, placement: str) -> None:
    session.conf.set("spark.sundog.placement", placement)
    session.sparkContext.setJobGroup(f"ctrl-c {placement}", "in the main thread", interruptOnCancel=True)
    struck: list[float] = []

    def strike() -> None:
        wait_until_it_runs(session, placement, f"ctrl-c {placement}")
        struck.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    keyboard = threading.Thread(target=strike)
    keyboard.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            session.sql(QUERY).collect()
        assert time.monotonic() - struck[0] < SOON_SECONDS
        assert [reason.code for reason in sundog.last_run().reasons] == [Code.CANCELLED]
    finally:
        keyboard.join()
        session.sparkContext._jsc.clearJobGroup()


def test_spilled_files_of_a_cancelled_action_are_gone(
    session: Any, slow: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.conf.set("spark.sundog.placement", "driver")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(Slow, "read", _spill_and_wait)
    runner, outcome = start(session, session.sql(QUERY).collect, "spilled")
    while not os.listdir(tmp_path):
        time.sleep(0.05)
    session.sparkContext.cancelJobGroup("spilled")
    runner.join(30)
    assert isinstance(outcome.error, Py4JJavaError)
    assert os.listdir(tmp_path) == []


def _spill_and_wait(self: Slow, context: Any) -> Iterator[pa.RecordBatch]:
    (context.scratch() / "rows").write_bytes(b"rows")
    for _ in range(400):
        context.check_cancelled()
        time.sleep(0.05)
    yield from self.source.read(context)


def test_files_that_a_killed_worker_spilled_are_removed_by_the_next_task(session: Any, tmp_path: Path) -> None:
    """Spark ends the worker of a cancelled task with SIGKILL after two seconds."""
    told = tmp_path / "told"

    def run() -> None:
        stages = Stages(session)
        stages.collect(stages.start([Spills(str(told))]))

    runner, outcome = start(session, run, "spilled on executors")
    while not told.exists():
        time.sleep(0.05)
    session.sparkContext.cancelJobGroup("spilled on executors")
    runner.join(30)
    assert isinstance(outcome.error, Py4JJavaError)
    process, scratch = told.read_text().split(maxsplit=1)
    while Path("/proc", process).exists():
        time.sleep(0.1)
    assert Path(scratch).exists()
    stages = Stages(session)
    stages.collect(stages.start([Numbers(0, 10)]))
    stages.runner.release()
    assert not Path(scratch).exists()


# --- marks ------------------------------------------------------------------------------------------------------------


def test_jobs_carry_group_description_tags_and_call_site_of_the_caller(session: Any) -> None:
    session.conf.set("spark.sundog.placement", "executors")
    context = session.sparkContext
    context.setJobGroup("marked", "what I am doing")
    context.addJobTag("job tag")
    has_tags = spark_version().has_session_tags
    if has_tags:
        session.addTag("session tag")
    try:
        line = _line() + 1
        session.sql(QUERY).collect()
        assert sundog.last_run().accelerated
        tags = context._jsc.sc().getLocalProperty("spark.job.tags")
        of_session = _tags_of(session, "session tag") if has_tags else []
    finally:
        if has_tags:
            session.removeTag("session tag")
        context.removeJobTag("job tag")
        context._jsc.clearJobGroup()
    assert tags == "job tag", "as before"
    tracker = context._jsc.sc().statusTracker()
    jobs = set(tracker.getJobIdsForGroup("marked"))
    assert jobs
    for tag in ("job tag", *of_session):
        assert jobs <= set(tracker.getJobIdsForTag(tag)), tag
    store = context._jsc.sc().statusStore()
    for job in jobs:
        found = store.job(job)
        assert found.description().get() == "what I am doing"
        assert found.name() == f"collect at {__file__}:{line}"


def _tags_of(session: Any, name: str) -> list[str]:
    """What Spark calls a tag of the session, and the session itself."""
    jsession = session._jsparkSession
    return [jsession.managedJobTags().get().get(name).get(), jsession.sessionJobTag()]


def _line() -> int:
    import inspect

    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def test_pysparks_own_functions_are_back_after_disable(session: Any) -> None:
    from pyspark import SparkContext, traceback_utils

    session.conf.set("spark.sundog.placement", "driver")
    assert hasattr(SparkContext.cancelJobGroup, "__wrapped__")
    sundog.disable(session)
    try:
        assert not hasattr(SparkContext.cancelJobGroup, "__wrapped__")
        assert not hasattr(traceback_utils.first_spark_call, "__wrapped__")
    finally:
        sundog.enable(session)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_failure_after_a_request_is_not_started_again_on_spark(
    session: Any, monkeypatch: pytest.MonkeyPatch, placement: str
) -> None:
    """Whatever goes wrong first: the user does not want an answer any more."""

    def fail(*args: Any, **kwargs: Any) -> Any:
        session.sparkContext.cancelJobGroup("already cancelled")
        raise FileSchemaProblem("a file", "that only Spark reads")

    session.conf.set("spark.sundog.placement", placement)
    monkeypatch.setattr(scan, "scan_tasks", fail)
    runner, outcome = start(session, session.sql(QUERY).collect, "already cancelled")
    runner.join(60)
    assert_cancelled(outcome, outcome.ended, "part of cancelled job group")
    assert outcome.jobs == []
