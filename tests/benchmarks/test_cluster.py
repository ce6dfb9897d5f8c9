"""`sundog bench --cluster`: executors of a real standalone cluster are measured, and nothing of it is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sundog.benchmarks.cases.catalog import select
from sundog.benchmarks.cases.model import DataRef
from sundog.benchmarks.cli import ArgumentError, _layout
from sundog.benchmarks.data.catalog import DATA_SETS
from sundog.benchmarks.data.write import make_local
from sundog.benchmarks.engines.catalog import find_engine
from sundog.benchmarks.engines.cluster import Layout, end_processes_in, processes_in
from sundog.benchmarks.engines.model import Cluster, EngineUnavailable
from sundog.benchmarks.processes import process_tree
from sundog.benchmarks.runner import Settings, run_benchmark

on_linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")


def test_a_layout_is_executors_times_cores() -> None:
    layout = Layout.parse("2x4")
    assert (layout.executors, layout.cores, layout.slots, str(layout)) == (2, 4, 8, "2x4")


@pytest.mark.parametrize("text", ["", "2", "x4", "2x", "0x4", "2x0", "2 x 4", "-1x4", "2x4x1"])
def test_a_wrong_layout_says_how_to_write_it(text: str) -> None:
    with pytest.raises(ArgumentError, match="such as 2x4"):
        _layout(text)


def test_an_engine_that_is_not_sparks_has_no_cluster(tmp_path: Path) -> None:
    with pytest.raises(EngineUnavailable, match="standalone cluster"):
        find_engine("decode").make(1, Cluster("1x1", tmp_path))


@on_linux
def test_what_works_in_a_folder_is_found_and_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sundog.benchmarks.engines.cluster.STOP_SECONDS", 0.2)
    inside, beside = tmp_path / "a", tmp_path / "ab"
    sleeping = []
    for folder in (inside / "work", inside, beside):
        folder.mkdir(parents=True, exist_ok=True)
        sleeping.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], cwd=folder))
    try:
        assert sorted(processes_in(inside)) == sorted(each.pid for each in sleeping[:2])
        end_processes_in(inside)
        assert [each.wait(10) for each in sleeping[:2]] == [-signal.SIGKILL] * 2
        assert sleeping[2].poll() is None, "a folder whose name only begins the same"
    finally:
        for each in sleeping:
            each.kill()
            each.wait()


@on_linux
@pytest.mark.spark
@pytest.mark.matrix
def test_a_tiny_case_runs_on_both_engines_and_leaves_nothing(tmp_path: Path) -> None:
    make_local(DATA_SETS["hits"], 20_000, tmp_path / "hits")
    before = {process.pid for process in process_tree(os.getpid())}
    settings = Settings(cores=2, warmup=0, repeat=1, in_turns=True, settle_seconds=0, cluster="2x2")
    results = run_benchmark(
        select(["aggregate/hits-users"]), ["spark", "sundog-executors"], {DataRef("hits"): tmp_path / "hits"},
        settings, "test", lambda update: None,
    )  # fmt: skip
    assert results.unavailable == {}
    spark, ours = results.measurements
    assert ours.agrees is True, ours.note
    assert (ours.facts["accelerated"], ours.facts["placement"]) == (True, "executors"), ours.facts
    for measured in (spark, ours):
        assert measured.first_cpu_seconds is not None
        assert measured.first_cpu_seconds > 0.5, "a JVM's first query costs more: executors were not counted"
    assert ours.peak_bytes_by_role["python workers"] > 0
    assert results.settings["cluster"] == "2x2"
    assert {process.pid for process in process_tree(os.getpid())} <= before
