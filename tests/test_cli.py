"""The command line: exit codes, one-line errors, JSON that parses."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sundog import __version__
from sundog.cli import app, describe
from sundog.commands import doctor as doctor_command
from sundog.commands.output import print_table
from sundog.environment.doctor import Finding, State
from sundog.errors import SundogError
from sundog.versions import VERSIONS, short_name
from sundog.versions.tested import environments

run = CliRunner().invoke


def test_help_names_the_commands() -> None:
    result = run(app, ["--help"])
    assert result.exit_code == 0
    for command in ("sql", "explain", "data", "bench", "doctor", "docs", "simulate"):
        assert f" {command} " in result.stdout


def test_version() -> None:
    assert run(app, ["--version"]).stdout.strip() == f"sundog {__version__}"


def test_wrong_usage_exits_with_2() -> None:
    assert run(app, ["nonsense"]).exit_code == 2
    assert run(app, ["docs", "--nonsense"]).exit_code == 2


def test_error_is_one_line_on_standard_error_and_debug_raises(tmp_path: Path) -> None:
    arguments = ["docs", str(tmp_path / "missing" / "reference")]
    result = run(app, arguments)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert len(result.stderr.strip().splitlines()) == 1
    assert "Run this in sundog's repository" in result.stderr
    with pytest.raises(SundogError):
        run(app, ["--debug", *arguments], catch_exceptions=False)


def test_foreign_errors_show_their_first_line_and_the_way_to_the_stack() -> None:
    text = describe(ValueError("first\nsecond"))
    assert text.startswith("ValueError: first\n")
    assert "second" not in text
    assert "--debug" in text


def test_docs_writes_checks_and_exits(tmp_path: Path) -> None:
    folder = str(tmp_path / "reference")
    stale = run(app, ["docs", folder, "--check", "--json"])
    assert stale.exit_code == 1
    assert "config.md" in json.loads(stale.stdout)["stale"]
    assert not (tmp_path / "reference").exists()
    assert run(app, ["docs", folder]).exit_code == 0
    fresh = run(app, ["docs", folder, "--check"])
    assert (fresh.exit_code, fresh.stdout.strip()) == (0, "All pages are fresh.")


@pytest.mark.parametrize(("state", "code"), [(State.OK, 0), (State.WARNING, 0), (State.WRONG, 1)])
def test_doctor_exits_with_1_only_if_something_is_wrong(
    monkeypatch: pytest.MonkeyPatch, state: State, code: int
) -> None:
    finding = Finding("part", state, "seen [not markup]", "do [this]")
    monkeypatch.setattr(doctor_command, "examine", lambda with_executors, master: iter([finding]))
    text = run(app, ["doctor"])
    assert text.exit_code == code
    assert "part: seen [not markup]" in text.stdout
    assert "-> do [this]" in text.stdout
    as_json = run(app, ["doctor", "--json"])
    assert as_json.exit_code == code
    parsed = json.loads(as_json.stdout)
    assert parsed["ok"] is (code == 0)
    assert parsed["findings"] == [
        {"part": "part", "state": state.value, "seen": "seen [not markup]", "advice": "do [this]"}
    ]
    assert {"key", "default", "meaning"} == parsed["settings"][0].keys()


def test_doctor_shows_every_environment_that_was_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_command, "examine", lambda with_executors, master: iter([]))
    monkeypatch.setenv("COLUMNS", "200")
    shown = [re.findall(r"[\w.]+", line)[:3] for line in run(app, ["doctor"]).stdout.splitlines()]
    assert [each for each in environments() if [each.spark, *each.key] not in shown] == []
    assert {short_name(each.spark) for each in environments()} == set(VERSIONS)


def test_doctor_lists_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_command, "examine", lambda with_executors, master: iter([]))
    assert "spark.sundog.placement" in run(app, ["doctor", "--settings"]).stdout
    assert "spark.sundog.placement" not in run(app, ["doctor"]).stdout


def test_table_cells_are_not_markup(capsys: pytest.CaptureFixture[str]) -> None:
    print_table("a [b] c", [{"x [y]": "[red]no[/red]", "n": None}])
    shown = capsys.readouterr().out
    assert "a [b] c" in shown
    assert "[red]no[/red]" in shown


@pytest.mark.spark
def test_doctor_asks_an_executor_of_a_real_session(tmp_path: Path) -> None:
    """In a process of its own, as it starts and stops Spark."""
    environment = {**os.environ, "SUNDOG_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "sundog.cli", "doctor", "--json", "--master", "local[1]"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stdout + result.stderr
    parts = {finding["part"]: finding["seen"] for finding in json.loads(result.stdout)["findings"]}
    executor = next(seen for part, seen in parts.items() if part.startswith("executor on "))
    assert f"sundog {__version__}" in executor
