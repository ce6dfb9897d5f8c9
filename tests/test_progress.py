"""Progress is shown for long queries, in the right place, and leaves no output behind."""

from __future__ import annotations

import io
import sys
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from sundog.actions.progress import LiveProgress, NotebookProgress, TerminalProgress, progress_sink
from sundog.runtime.progress import NullProgress, ProgressSink, spark_progress


class Recorder(LiveProgress):
    def __init__(self, show_after: float) -> None:
        super().__init__(show_after)
        self.seen: list[tuple[str, str, int, int]] = []

    def _note(self, what: str) -> None:
        self.seen.append((what, self.label, self.done, self.tasks))

    def _show(self) -> None:
        self._note("show")

    def _update(self) -> None:
        self._note("update")

    def _hide(self) -> None:
        self._note("hide")


def wait_until_shown(sink: LiveProgress) -> None:
    deadline = time.monotonic() + 5
    while not sink._is_shown:
        assert time.monotonic() < deadline, "the progress never appeared"
        time.sleep(0.005)


def test_a_fast_action_shows_nothing() -> None:
    sink = Recorder(show_after=30)
    sink.start("Scan", 3)
    sink.advance()
    sink.finish()
    assert sink.seen == []


def test_a_slow_action_appears_in_the_middle_of_a_stage_and_goes() -> None:
    sink = Recorder(show_after=0.02)
    sink.start("Scan", 3)
    sink.advance()
    wait_until_shown(sink)
    sink.advance(2)
    sink.start("Merge", 1)
    sink.finish()
    sink.finish()
    assert sink.seen == [
        ("show", "Scan", 1, 3),
        ("update", "Scan", 1, 3),
        ("update", "Scan", 3, 3),
        ("update", "Merge", 0, 1),
        ("hide", "Merge", 0, 1),
    ]


def test_the_moment_is_counted_over_the_whole_action_not_per_stage() -> None:
    sink = Recorder(show_after=0.1)
    for _ in range(40):
        sink.start("A short stage", 1)
        sink.advance()
        time.sleep(0.005)
    wait_until_shown(sink)
    sink.finish()
    assert sink.seen[-1][0] == "hide"


def test_it_can_start_anew() -> None:
    sink = Recorder(show_after=0.01)
    for _ in range(2):
        sink.start("Scan", 1)
        wait_until_shown(sink)
        sink.finish()
    assert [what for what, *_ in sink.seen] == ["show", "update", "hide"] * 2


def test_no_task_is_lost_between_threads() -> None:
    sink = Recorder(show_after=0.01)
    sink.start("Scan", 4000)
    threads = [threading.Thread(target=lambda: [sink.advance() for _ in range(1000)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sink.finish()
    assert sink.done == 4000


def test_terminal_shows_stage_and_tasks_and_cleans_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")  # whatever the tests run in
    stream = io.StringIO()
    sink = TerminalProgress(stream, show_after=0.01)
    sink.start("TopK [round] 2", 8)
    wait_until_shown(sink)
    sink.advance(3)
    sink.start("Materialize", 0)
    sink.finish()
    text = stream.getvalue()
    assert "sundog TopK [round] 2" in text, "brackets are text, not markup"
    assert "Materialize" in text
    assert text.rstrip().endswith("\x1b[2K"), "the last thing it does is to erase its line"
    assert "\x1b[?25h" in text, "the cursor is back"


def test_notebook_shows_one_cell_output_and_empties_it() -> None:
    calls: list[tuple[dict[str, str], dict[str, Any]]] = []
    sink = NotebookProgress(lambda data, **options: calls.append((data, options)), show_after=0.01)
    sink.start("Scan <b>", 3)
    wait_until_shown(sink)
    sink.advance(3)
    sink.finish()
    assert "update" not in calls[0][1]
    assert all(options["update"] for _, options in calls[1:])
    assert len({options["display_id"] for _, options in calls}) == 1
    assert "Scan &lt;b&gt;" in calls[0][0]["text/html"]
    assert 'value="3" max="3"' in calls[-2][0]["text/html"]
    assert calls[-1][0]["text/html"] == ""


def test_notebook_is_not_flooded() -> None:
    calls: list[Any] = []
    sink = NotebookProgress(lambda *args, **options: calls.append(args), show_after=0.01)
    sink.start("Scan", 10_000)
    wait_until_shown(sink)
    for _ in range(9_999):
        sink.advance()
    assert len(calls) < 50
    sink.finish()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("enabled", "stream", "expected"),
    [
        (None, Terminal(), TerminalProgress),
        (None, io.StringIO(), NullProgress),
        (None, None, NullProgress),
        (True, io.StringIO(), TerminalProgress),
        (True, Terminal(), TerminalProgress),
        (False, Terminal(), NullProgress),
    ],
)
def test_where_it_is_shown(
    monkeypatch: pytest.MonkeyPatch, enabled: bool | None, stream: io.StringIO | None, expected: type[ProgressSink]
) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert type(progress_sink(enabled)) is expected


def fake_ipython(monkeypatch: pytest.MonkeyPatch, shell_name: str) -> None:
    shell = type(shell_name, (), {})()
    package = SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", package)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=print))  # type: ignore[arg-type]


def test_a_notebook_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_ipython(monkeypatch, "ZMQInteractiveShell")
    assert isinstance(progress_sink(None), NotebookProgress)
    assert isinstance(progress_sink(False), NullProgress)


def test_ipython_in_a_terminal_is_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_ipython(monkeypatch, "TerminalInteractiveShell")
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert isinstance(progress_sink(None), TerminalProgress)


@pytest.mark.spark
def test_spark_tasks_are_counted_and_the_users_tags_stay(spark: Any) -> None:
    spark.sparkContext.addJobTag("mine")
    sink = Recorder(show_after=0)

    def slowly(rows: Any) -> Any:
        time.sleep(0.4)
        yield sum(1 for _ in rows)

    with spark_progress(spark, sink, "Counting"):
        counted = spark.sparkContext.parallelize(range(100), 6).mapPartitions(slowly).collect()
    sink.finish()
    assert sum(counted) == 100
    assert set(spark.sparkContext.getJobTags()) == {"mine"}
    spark.sparkContext.removeJobTag("mine")
    assert any(label == "Counting" and tasks == 6 and 0 < done <= 6 for _, label, done, tasks in sink.seen)
    dones = [done for what, _, done, tasks in sink.seen if what == "update" and tasks == 6]
    assert max(dones) <= 6


@pytest.mark.spark
def test_nobody_looking_costs_no_thread(spark: Any) -> None:
    before = threading.active_count()
    with spark_progress(spark, NullProgress(), "Counting"):
        assert threading.active_count() == before
