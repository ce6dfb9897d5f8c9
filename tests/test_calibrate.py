"""`sundog doctor --calibrate`: what it measures, what it writes, and what it says when it cannot."""

from __future__ import annotations

import json
import math
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import sundog
from sundog.cli import app
from sundog.commands import doctor as doctor_command
from sundog.environment import calibrate as calibrating
from sundog.environment.calibrate import Calibration, Sizes, calibrate
from sundog.errors import EnvironmentProblem, ExecutorEnvironmentError
from sundog.operators.context import TaskContext
from sundog.plan.costs import DRIVER, EXECUTORS, SETTING, SiteCosts, read_costs
from sundog.runtime.progress import ProgressSink

SMALL = Sizes(decoded_rows=20_000, narrow_rows=200_000, wide_rows=50_000, tasks_per_slot=3, runs=2)
DECODED = {"decode_ns_per_byte": 2.5}


class Shown(ProgressSink):
    """What somebody who waits would see."""

    def __init__(self) -> None:
        self.labels: list[str] = []
        self.is_finished = False

    def start(self, label: str, tasks: int) -> None:
        self.labels.append(label)

    def advance(self, count: int = 1) -> None:
        pass

    def finish(self) -> None:
        self.is_finished = True


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The system's temporary folder of this test alone."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def accepted(measured: Calibration) -> SiteCosts:
    """The costs as a session reads them from a file."""
    costs = read_costs(measured.as_json())
    for numbers, read in ((measured.driver, costs.driver), (measured.executors, costs.executors)):
        for name, number in numbers.items():
            assert math.isfinite(number)
            assert number > 0
            assert getattr(read, name) == number
    return costs


def test_the_driver_alone_is_measured_without_spark_and_leaves_no_file(temporary: Path) -> None:
    shown = Shown()
    measured = calibrate(None, SMALL, shown)
    assert measured.driver.keys() == {"decode_ns_per_byte"}
    assert measured.executors == {}
    assert accepted(measured).executors == EXECUTORS
    assert shown.labels == ["Calibrate the driver: decode"]
    assert shown.is_finished
    assert list(temporary.iterdir()) == []


@pytest.mark.spark
def test_executors_are_measured_through_a_real_exchange_and_leave_no_file(spark: Any, temporary: Path) -> None:
    (local,) = spark.sparkContext.parallelize([0], 1).map(lambda _: os.environ["SPARK_LOCAL_DIRS"]).collect()
    folders = [Path(folder) for folder in local.split(",")]
    shown = Shown()
    measured = calibrate(spark, SMALL, shown)
    accepted(measured)
    assert measured.executors.keys() >= {"decode_ns_per_byte", "small_step_bytes"}
    # On a busy machine so few rows may drown in the noise; then that is said, and the number left out.
    assert ("shuffle_ns_per_row" in measured.executors) is not any("shuffle" in note for note in measured.notes)
    assert ("task_bytes" in measured.executors) is not any("task_bytes" in note for note in measured.notes)
    assert shown.labels[1:] == ["Calibrate the executors: warm up", "Calibrate the executors: measure"]
    assert list(temporary.iterdir()) == []
    assert all(folder.is_dir() for folder in folders)
    assert [file for folder in folders for file in folder.rglob("calibrate.parquet")] == []


@pytest.mark.spark
def test_explain_prints_the_numbers_of_the_file_that_was_set(enabled: Any, tmp_path: Path) -> None:
    file, data = tmp_path / "costs.json", str(tmp_path / "data")
    Calibration({"decode_ns_per_byte": 7.125}, {"decode_ns_per_byte": 9.5}).write(file)
    enabled.range(1000).write.parquet(data)
    query = enabled.read.parquet(data).orderBy("id").limit(3)
    before = enabled.conf.get(SETTING, "")
    enabled.conf.set(SETTING, str(file))
    try:
        printed = sundog.explain(query, costs=True)
        assert f"decode_ns_per_byte=7.125  (from {file}, which {SETTING} names; sundog's own is 1.25)" in printed
        for name in ("shuffle_ns_per_row", "shuffle_ns_per_byte", "small_step_bytes", "broadcast_bytes", "join_slots"):
            assert f"\n{name}={getattr(DRIVER, name):,}  (" in printed
        assert "decode_ns_per_byte" not in sundog.explain(query)
        Calibration({"decode_ns_per_byte": 8.25}, {}).write(file)
        assert "decode_ns_per_byte=8.25  (" in sundog.explain(query, costs=True)
        file.unlink()
        with pytest.raises(sundog.ConfigError, match=SETTING):
            sundog.explain(query, costs=True)
    finally:
        enabled.conf.set(SETTING, before)


def test_two_widths_of_rows_give_the_cost_of_a_row_and_of_a_byte() -> None:
    measured = Calibration(executors={"decode_ns_per_byte": 2.0})
    calibrating._add_shuffle(measured, narrow_ns=100 + 8 * 3, wide_ns=100 + 128 * 3)
    assert measured.executors["shuffle_ns_per_row"] == pytest.approx(100)
    assert measured.executors["shuffle_ns_per_byte"] == pytest.approx(3)
    reads = 1 + (100 + 24 * 3) / (1.6 * 24 * 2)
    assert measured.executors["max_scattered_reads"] == pytest.approx(reads, rel=1e-3)
    assert measured.notes == []


def test_the_costs_that_come_with_sundog_give_about_the_number_of_reads_that_comes_with_it() -> None:
    measured = Calibration(executors={"decode_ns_per_byte": EXECUTORS.decode_ns_per_byte})
    row, byte = EXECUTORS.shuffle_ns_per_row, EXECUTORS.shuffle_ns_per_byte
    calibrating._add_shuffle(measured, row + 8 * byte, row + 128 * byte)
    reads = measured.executors["max_scattered_reads"]
    assert EXECUTORS.max_scattered_reads <= reads <= 1.3 * EXECUTORS.max_scattered_reads  # it was chosen with care


def test_no_more_reads_are_allowed_than_there_may_be_shares() -> None:
    measured = Calibration(executors=dict(DECODED))
    calibrating._add_shuffle(measured, narrow_ns=2000, wide_ns=9000)
    assert measured.executors["max_scattered_reads"] == EXECUTORS.max_shares


@pytest.mark.parametrize(("narrow_ns", "wide_ns"), [(100, 90), (10, 1000), (-5, 100), (0, 0)])
def test_a_shuffle_that_drowned_in_the_noise_keeps_its_costs(narrow_ns: float, wide_ns: float) -> None:
    measured = Calibration(executors=dict(DECODED))
    calibrating._add_shuffle(measured, narrow_ns, wide_ns)
    assert measured.executors == DECODED
    assert "calibrate again" in measured.notes[0]


@pytest.mark.parametrize(
    ("task_ns", "task_bytes"),
    [(30_000_000, 2 << 20), (60_000_000, 4 << 20), (1, 1024), (10**12, 64 << 20), (0, None), (-1, None)],
)
def test_a_task_that_costs_more_gets_more_bytes_and_slower_bytes_make_it_fewer(
    task_ns: float, task_bytes: int | None
) -> None:
    measured = Calibration(executors=dict(DECODED))
    calibrating._add_task(measured, task_ns)
    assert measured.executors.get("task_bytes") == task_bytes
    assert len(measured.notes) == (task_bytes is None)


@pytest.mark.parametrize(("job_ns", "small_step_bytes"), [(84e6, 33_600_000), (1e12, 256 << 20)])
def test_a_step_is_small_that_the_driver_decodes_in_the_time_of_a_job(job_ns: float, small_step_bytes: int) -> None:
    measured = Calibration(driver=dict(DECODED))
    calibrating._add_small_step(measured, job_ns)
    assert measured.executors == {"small_step_bytes": small_step_bytes}


def test_the_job_that_comes_with_sundog_gives_about_the_small_step_that_comes_with_it() -> None:
    measured = Calibration(driver={"decode_ns_per_byte": DRIVER.decode_ns_per_byte})
    calibrating._add_small_step(measured, 80e6)
    assert measured.executors["small_step_bytes"] == pytest.approx(EXECUTORS.small_step_bytes, rel=0.1)


def test_turns_end_when_they_have_taken_long_enough() -> None:
    runs: list[float] = []

    def run() -> float:
        runs.append(0.0)
        return float(len(runs))

    assert calibrating._in_turns({"kind": run}, Sizes(runs=3), Shown(), math.inf) == {"kind": 2.0}
    assert calibrating._in_turns({"kind": run}, Sizes(runs=3), Shown(), 0) == {"kind": 4.0}


@pytest.mark.parametrize(("load", "is_busy"), [(0.1, False), (100.0, True)])
def test_a_busy_machine_is_noted(monkeypatch: pytest.MonkeyPatch, load: float, is_busy: bool) -> None:
    monkeypatch.setattr(calibrating, "usable_cores", lambda: 2)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    measured = Calibration()
    calibrating._note_load(measured)
    assert any("cores: 2" in note for note in measured.notes) is is_busy


def test_made_rows_are_as_many_as_asked_for_and_no_narrower() -> None:
    batches = list(calibrating._MadeRows(150_000, 2).read(TaskContext()))
    assert sum(batch.num_rows for batch in batches) == 150_000
    assert min(batches[0].column(1).to_pylist()) < -(1 << 60)


def test_executors_that_lack_a_package_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibrating, "ensure_executors", lambda spark: None)
    monkeypatch.setattr(calibrating, "executor_problem", lambda spark: "numba is missing there")
    with pytest.raises(ExecutorEnvironmentError, match="numba is missing there"):
        calibrating._check_executors(None)  # type: ignore[arg-type]


def test_a_written_file_is_read_back(tmp_path: Path) -> None:
    file = tmp_path / "costs.json"
    Calibration({"decode_ns_per_byte": 3.0}, {"task_bytes": 4096}).write(file)
    costs = read_costs(str(file))
    assert (costs.driver.decode_ns_per_byte, costs.executors.task_bytes) == (3.0, 4096)
    assert costs.driver.task_bytes == DRIVER.task_bytes


def test_a_file_is_never_left_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "costs.json"
    Calibration(dict(DECODED)).write(file)
    before = file.read_text()

    def full(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(EnvironmentProblem, match=r"cannot be written: No space left on device.*--calibrate FILE"):
        Calibration({"decode_ns_per_byte": 9.0}).write(file)
    assert file.read_text() == before
    assert list(tmp_path.iterdir()) == [file]


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["doctor", *arguments])


def test_the_command_writes_the_file_and_says_how_to_use_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = Calibration(dict(DECODED), {"task_bytes": 8 << 20}, ["something drowned"])
    monkeypatch.setattr(doctor_command, "_measure", lambda master: measured)
    file = tmp_path / "costs.json"

    shown = run("--calibrate", str(file))
    assert shown.exit_code == 0
    assert f'spark.conf.set("{SETTING}", "{file}")' in shown.stdout
    assert "decode_ns_per_byte" in shown.stdout
    assert "something drowned" in shown.stderr
    assert read_costs(str(file)).driver.decode_ns_per_byte == 2.5

    parsed = json.loads(run("--calibrate", str(file), "--json").stdout)
    assert (parsed["file"], parsed["setting"], parsed["notes"]) == (str(file), SETTING, ["something drowned"])
    assert parsed["costs"] == [
        {"place": "driver", "cost": "decode_ns_per_byte", "old": 1.25, "new": 2.5, "ratio": 2.0},
        {"place": "executors", "cost": "task_bytes", "old": 4 << 20, "new": 8 << 20, "ratio": 2.0},
    ]


def test_the_command_measures_on_the_master_that_it_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    masters: list[str | None] = []

    def measure(master: str | None) -> Calibration:
        masters.append(master)
        return Calibration()

    monkeypatch.setattr(doctor_command, "_measure", measure)
    file = str(tmp_path / "costs.json")
    for arguments in ((), ("--master", "spark://host:7077"), ("--no-executors",)):
        assert run("--calibrate", file, *arguments).exit_code == 0
    assert masters == ["local[*]", "spark://host:7077", None]


def test_a_file_that_cannot_be_written_is_said_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor_command, "_measure", lambda master: pytest.fail("it was measured"))
    for file in (tmp_path, tmp_path / "missing" / "costs.json"):
        shown = run("--calibrate", str(file))
        assert shown.exit_code == 1
        assert f"{file} cannot be written" in shown.stderr.replace("\n", "")


def test_a_spark_that_does_not_start_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object) -> None:
        raise RuntimeError("Could not parse Master URL\nat stack")

    monkeypatch.setattr(doctor_command, "session", broken)
    file = tmp_path / "costs.json"
    shown = run("--calibrate", str(file), "--master", "nonsense")
    assert shown.exit_code == 1
    assert "Spark does not start on nonsense: Could not parse Master URL" in shown.stderr
    assert "--no-executors" in shown.stderr
    assert not file.exists()


def test_a_file_without_calibrate_is_wrong_usage() -> None:
    assert run("costs.json").exit_code == 2
