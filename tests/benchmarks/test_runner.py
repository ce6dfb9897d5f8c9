"""Engines in processes of their own: a real one, and fake ones that hang, crash or are missing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from time import monotonic, sleep

import pytest

from sundog.benchmarks.cases.catalog import select
from sundog.benchmarks.cases.model import DataRef
from sundog.benchmarks.data.catalog import DATA_SETS
from sundog.benchmarks.data.write import make_local
from sundog.benchmarks.processes import PeakMemory, cpu_seconds, process_tree
from sundog.benchmarks.results import Results, Status
from sundog.benchmarks.runner import Settings, Update, run_benchmark

on_linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")


@pytest.fixture(scope="module")
def hits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "hits"
    make_local(DATA_SETS["hits"], 2000, folder)
    return folder


Bench = Callable[..., tuple[Results, list[Update]]]


@pytest.fixture
def bench(hits: Path) -> Bench:
    def run(patterns: list[str], engines: list[str], **settings: object) -> tuple[Results, list[Update]]:
        updates: list[Update] = []
        chosen = Settings(cores=1, warmup=0, **{"repeat": 2, "timeout_seconds": 60.0, "settle_seconds": 0, **settings})  # type: ignore[arg-type]
        folders = {DataRef("hits"): hits}
        return run_benchmark(select(patterns), engines, folders, chosen, "test", updates.append), updates

    return run


@pytest.fixture
def fake(tmp_path: Path) -> Callable[[str], str]:
    """An interpreter that ignores what it is told to run and does this instead, with `job` and `send` at hand."""

    def make(body: str) -> str:
        script = tmp_path / "fake-python"
        preamble = f"""\
            #!{sys.executable}
            import json, os, sys, time
            job = json.loads(sys.stdin.readline())
            names = [case["name"] for case in job["cases"]]
            def send(kind, **values):
                print(json.dumps({{"kind": kind, "values": values}}), flush=True)
            def done(name):
                send("done", case=name, first_seconds=1.0, seconds=[0.5], cpu_seconds=[], rows=1, facts={{}}, note=None)
            """
        script.write_text(dedent(preamble) + dedent(body))
        script.chmod(0o755)
        return str(script)

    return make


def test_a_real_engine_is_measured(bench: Bench) -> None:
    results, updates = bench(["clickbench/q00", "clickbench/q15", "topk/hits-narrow"], ["decode"])
    topk, _, grouped = results.measurements
    assert [m.case for m in results.measurements] == ["topk/hits-narrow", "clickbench/q00", "clickbench/q15"]
    assert (topk.status, grouped.status) == (Status.SKIPPED, Status.OK)
    assert len(grouped.seconds) >= 2
    assert grouped.first_seconds is not None
    assert grouped.first_seconds > 0
    assert results.versions["decode"]["pyarrow"]
    assert results.data == {"hits": "hits"}
    assert [update.case for update in updates if update.finished] == [m.case for m in results.measurements]


def assert_ends(pid: int) -> None:
    """A process that was sent a signal ends when it is next given a processor."""
    until = monotonic() + 10
    state = Path("/proc") / str(pid) / "stat"
    while state.exists() and state.read_text().rsplit(")", 1)[1].split()[0] != "Z":
        assert monotonic() < until, f"process {pid} lives on"
        sleep(0.05)


@on_linux
def test_memory_and_processor_time_are_reported(bench: Bench) -> None:
    results, _ = bench(["clickbench/q33"], ["decode"])
    (measured,) = results.measurements
    assert measured.peak_bytes is not None
    assert measured.peak_bytes > 30 << 20
    assert measured.peak_bytes_by_role["driver"] > 30 << 20
    assert not {"jvm", "python workers"} & set(measured.peak_bytes_by_role)  # but Python may start a short helper
    assert len(measured.cpu_seconds) == len(measured.seconds) >= 2


def test_a_missing_engine_is_said_and_skipped(bench: Bench, fake: Callable[[str], str]) -> None:
    python = fake('send("unavailable", why="pysail is not installed")')
    results, _ = bench(["clickbench/q00"], ["sail", "decode"], pythons={"sail": python})
    assert results.unavailable == {"sail": "pysail is not installed"}
    assert [m.engine for m in results.measurements] == ["decode"]


def test_an_engine_that_cannot_start_is_said_with_its_words(bench: Bench, fake: Callable[[str], str]) -> None:
    results, _ = bench(["clickbench/q00"], ["sail"], pythons={"sail": fake('sys.exit("no such version")')})
    assert results.unavailable == {"sail": "could not start: no such version"}
    assert results.measurements == []


def test_a_hanging_case_is_ended_and_the_next_still_run(bench: Bench, fake: Callable[[str], str]) -> None:
    python = fake(
        """
        send("ready", versions={"fake": "1"})
        for name in names:
            send("start", case=name)
            if name.endswith("q01"):
                time.sleep(600)
            done(name)
        """
    )
    start = monotonic()
    results, _ = bench(["clickbench/q0[012]"], ["sail"], pythons={"sail": python}, timeout_seconds=1.0)
    assert monotonic() - start < 30
    assert [m.status for m in results.measurements] == [Status.OK, Status.TIMEOUT, Status.OK]
    assert results.measurements[1].note == "over 1 s"


def test_a_crash_costs_one_case(bench: Bench, fake: Callable[[str], str]) -> None:
    python = fake(
        """
        send("ready", versions={"fake": "1"})
        for name in names:
            send("start", case=name)
            if name.endswith("q01"):
                sys.stderr.write("out of memory\\n")
                os._exit(9)
            done(name)
        """
    )
    results, _ = bench(["clickbench/q0[012]"], ["sail"], pythons={"sail": python})
    assert [m.status for m in results.measurements] == [Status.OK, Status.FAILED, Status.OK]
    assert results.measurements[1].note == "the process ended: out of memory"


def test_in_turns_a_case_goes_round_before_the_next(bench: Bench, fake: Callable[[str], str], tmp_path: Path) -> None:
    """Engines wait for each other: only one measures at a time. One of them crashes during its run."""
    log = tmp_path / "log"
    python = fake(
        f"""
        def note(text):
            with open({str(log)!r}, "a") as file:
                file.write(f"{{text}} {{job['engine']}} {{name[-1]}}\\n")
        send("ready", versions={{"fake": "1"}})
        for name in names:
            sys.stdin.readline()
            note("begin")
            send("start", case=name)
            time.sleep(0.05)
            note("end")
            if job["engine"] == "duckdb" and name.endswith("q01"):
                os._exit(9)
            done(name)
        """
    )
    engines = ["sail", "duckdb", "polars"]
    results, _ = bench(["clickbench/q0[012]"], engines, pythons=dict.fromkeys(engines, python), in_turns=True)
    expected = [f"{what} {engine} {case}" for case in "012" for engine in engines for what in ("begin", "end")]
    assert log.read_text().splitlines() == expected
    assert [(m.engine, m.case[-1]) for m in results.measurements] == [(e, case) for e in engines for case in "012"]
    assert [m.status for m in results.measurements].count(Status.FAILED) == 1


def test_in_turns_with_a_process_for_each_case(bench: Bench, fake: Callable[[str], str]) -> None:
    python = fake('send("unavailable", why="pysail is not installed")')
    results, _ = bench(["clickbench/q0[01]"], ["sail", "decode"], pythons={"sail": python}, in_turns=True, isolate=True)
    assert results.unavailable == {"sail": "pysail is not installed"}
    assert [m.status for m in results.measurements] == [Status.OK, Status.OK]


def test_an_interrupt_keeps_what_was_measured(hits: Path) -> None:
    def interrupt_at_the_second(update: Update) -> None:
        if update.case == "clickbench/q01" and update.finished is None:
            raise KeyboardInterrupt

    cases, folders = select(["clickbench/q0[012]"]), {DataRef("hits"): hits}
    settings = Settings(cores=1, warmup=0, repeat=1)
    results = run_benchmark(cases, ["decode"], folders, settings, "test", interrupt_at_the_second)
    assert results.interrupted
    assert [m.case for m in results.measurements] == ["clickbench/q00"]


@on_linux
def test_what_a_hanging_engine_started_ends_with_it(bench: Bench, fake: Callable[[str], str], tmp_path: Path) -> None:
    python = fake(
        f"""
        import subprocess
        child = subprocess.Popen(["sleep", "600"])
        open({str(tmp_path / "pid")!r}, "w").write(str(child.pid))
        send("ready", versions={{}})
        send("start", case=names[0])
        time.sleep(600)
        """
    )
    bench(["clickbench/q00"], ["sail"], pythons={"sail": python}, timeout_seconds=1.0)
    assert_ends(int((tmp_path / "pid").read_text()))


def test_answers_are_compared_with_plain_spark(bench: Bench, fake: Callable[[str], str]) -> None:
    python = fake(
        """
        import pyarrow as pa
        send("ready", versions={})
        for case in job["cases"]:
            send("start", case=case["name"])
            table = pa.table({"c": [2 if job["engine"] == "duckdb" else 1]})
            with pa.OSFile(case["answer_file"], "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table)
            done(case["name"])
        """
    )
    engines = ["duckdb", "spark", "polars"]
    results, _ = bench(["clickbench/q00"], engines, pythons=dict.fromkeys(engines, python))
    assert [m.agrees for m in results.measurements] == [False, None, True]
    assert results.measurements[0].note == "differs from spark: column 0: 1 values differ, e.g. [2] instead of [1]"


@on_linux
def test_an_engine_ends_when_its_runner_is_killed() -> None:
    """The worker waits for its job, on a pipe that stays open: nothing but losing its parent can end it."""
    read_end, write_end = os.pipe()
    start = dedent(
        f"""
        import os, subprocess, sys, time
        command = [sys.executable, "-m", "sundog.benchmarks.worker", str(os.getpid())]
        print(subprocess.Popen(command, stdin={read_end}, start_new_session=True).pid, flush=True)
        time.sleep(600)
        """
    )
    runner = subprocess.Popen([sys.executable, "-c", start], stdout=subprocess.PIPE, pass_fds=[read_end])
    assert runner.stdout is not None
    worker = Path("/proc") / runner.stdout.readline().decode().strip()
    assert worker.exists()
    runner.kill()
    runner.wait()
    end = monotonic() + 30
    while worker.exists() and monotonic() < end:
        sleep(0.1)
    assert not worker.exists()
    os.close(read_end)
    os.close(write_end)


@on_linux
def test_a_tree_has_its_children_and_their_memory() -> None:
    grow = "import sys; block = bytearray(200 << 20); print('ready', flush=True); sys.stdin.read()"
    child = subprocess.Popen([sys.executable, "-c", grow], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdin is not None
    memory = PeakMemory(os.getpid()).start()
    assert child.stdout.readline() == b"ready\n"
    assert child.pid in {process.pid for process in process_tree(os.getpid())}
    used = cpu_seconds(os.getpid())
    memory.stop()
    child.stdin.close()
    child.wait()
    assert memory.total_bytes is not None
    assert memory.total_bytes > 200 << 20
    assert used is not None
    assert used > 0
    assert child.pid not in {process.pid for process in process_tree(os.getpid())}
