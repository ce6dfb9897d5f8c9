"""The list of environments in which the tests have passed. No JVM."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sundog.report.pages.reference_docs import pages
from sundog.versions import VERSIONS, short_name
from sundog.versions.tested import Environment, PassedTests, add, environments, read
from tests.versions.record import Collected, NotPassedError, outcomes

ROOT = Path(__file__).parent.parent
SMOKE = PassedTests("2026-01-01", 80, 0, 80)
OTHERS = PassedTests("2026-01-02", 900, 7, 1500)


def test_every_version_of_spark_was_tested_somewhere() -> None:
    assert {short_name(each.spark) for each in environments()} == set(VERSIONS)


def test_the_page_on_compatibility_shows_every_environment() -> None:
    page = pages()["../compatibility.md"]
    assert [each for each in environments() if f"| {' | '.join(each.as_row().values())} |" not in page] == []


def test_an_outcome_says_when_how_many_and_of_how_many() -> None:
    assert str(OTHERS) == "2026-01-02: 900 of 1,500, 7 skipped"
    assert str(SMOKE) == "2026-01-01: 80 of 80"
    assert str(PassedTests("2026-01-01")) == "2026-01-01"


def environment(
    spark: str, python: str, java: str, smoke: PassedTests | None = SMOKE, others: PassedTests | None = None
) -> Environment:
    return Environment(spark, python, java, {"numpy": "2.4.6"}, smoke, others)


def test_an_environment_is_written_down_once_and_in_order(tmp_path: Path) -> None:
    add(tmp_path, "4.1", environment("4.1.9", "3.11", "21"))
    add(tmp_path, "4.1", environment("4.1.9", "3.9", "17"))
    add(tmp_path, "4.1", environment("4.1.10", "3.11", "21"))
    add(tmp_path, "4.1", environment("4.1.10", "3.11", "17"))
    assert read(tmp_path / "tested_4.1.json") == [
        environment("4.1.9", "3.9", "17"),
        environment("4.1.10", "3.11", "17"),
        environment("4.1.10", "3.11", "21"),
    ]
    assert read(tmp_path / "tested_4.0.json") == []


def test_what_was_not_run_now_is_kept_if_no_version_has_changed(tmp_path: Path) -> None:
    add(tmp_path, "4.1", environment("4.1.9", "3.11", "21"))
    add(tmp_path, "4.1", environment("4.1.9", "3.11", "21", None, OTHERS))
    assert read(tmp_path / "tested_4.1.json") == [environment("4.1.9", "3.11", "21", SMOKE, OTHERS)]
    add(tmp_path, "4.1", environment("4.1.10", "3.11", "21"))
    assert read(tmp_path / "tested_4.1.json") == [environment("4.1.10", "3.11", "21")]


def report(folder: Path, name: str, *cases: str, time: str = "04:05:06") -> Path:
    """As pytest's `--junitxml` writes it. A case is `folder::test`, and after a blank what became of it."""
    lines = []
    for case in cases:
        test, _, outcome = case.partition(" ")
        where, _, what = test.partition("::")
        inside = f"<{outcome}/>" if outcome else ""
        lines.append(f'<testcase classname="tests.{where}.test_x" name="{what}">{inside}</testcase>')
    path = folder / name
    suite = f'<testsuite timestamp="2026-02-03T{time}">{"".join(lines)}</testsuite>'
    path.write_text(f"<testsuites>{suite}</testsuites>")
    return path


def test_reports_of_several_runs_are_counted_together(tmp_path: Path) -> None:
    there = Collected()
    there.smoke, there.others = 2, 9
    reports = [
        report(tmp_path, "a.xml", "versions::one", "versions::two", "spark::three"),
        report(tmp_path, "b.xml", "spark::four", "spark::five skipped"),
    ]
    assert outcomes(reports, there) == (PassedTests("2026-02-03", 2, 0, 2), PassedTests("2026-02-03", 2, 1, 9))
    assert outcomes(reports[1:], there) == (None, PassedTests("2026-02-03", 1, 1, 9))


def test_a_test_in_several_reports_counts_once_as_it_ended_last(tmp_path: Path) -> None:
    there = Collected()
    there.others = 9
    first = report(tmp_path, "a.xml", "spark::one failure", "spark::two", "spark::three")
    again = report(tmp_path, "b.xml", "spark::one", "spark::two skipped", time="05:00:00")
    for reports in ([first, again], [again, first]):
        assert outcomes(reports, there) == (None, PassedTests("2026-02-03", 2, 1, 9))
    broken = report(tmp_path, "c.xml", "spark::three failure", "spark::three", time="06:00:00")
    with pytest.raises(NotPassedError, match="three"):
        outcomes([first, again, broken], there)


@pytest.mark.long
def test_all_tests_are_counted() -> None:
    """In a process of its own: pytest does not run inside of pytest."""
    program = "from tests.versions.record import collected; there = collected(); print(there.smoke, there.others)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    smoke, others = map(int, done.stdout.split())
    assert smoke > 100
    assert others > 1000


@pytest.mark.parametrize(
    "cases",
    [
        ["versions::one", "versions::two", "spark::three failure"],
        ["versions::one", "versions::two error"],
        ["versions::one"],
        ["versions::one", "versions::two skipped"],
    ],
)
def test_a_report_with_a_failure_or_a_part_of_the_smoke_test_counts_for_nothing(
    tmp_path: Path, cases: list[str]
) -> None:
    there = Collected()
    there.smoke = 2
    with pytest.raises(NotPassedError):
        outcomes([report(tmp_path, "a.xml", *cases)], there)
