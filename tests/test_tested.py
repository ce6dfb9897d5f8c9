"""The list of environments in which the tests have passed. No JVM."""

from __future__ import annotations

from pathlib import Path

from sundog.report.pages.reference_docs import pages
from sundog.versions import VERSIONS, short_name
from sundog.versions.tested import Environment, add, environments, read


def test_every_version_of_spark_was_tested_somewhere() -> None:
    assert {short_name(each.spark) for each in environments()} == set(VERSIONS)


def test_the_page_on_compatibility_shows_every_environment() -> None:
    page = pages()["../compatibility.md"]
    assert [each for each in environments() if f"| {each.spark} | {each.python} | {each.java} |" not in page] == []


def test_an_environment_is_written_down_once_and_in_order(tmp_path: Path) -> None:
    add(tmp_path, "4.1", Environment("4.1.9", "3.11", "21"))
    add(tmp_path, "4.1", Environment("4.1.9", "3.9", "17"))
    add(tmp_path, "4.1", Environment("4.1.10", "3.11", "21"))
    add(tmp_path, "4.1", Environment("4.1.10", "3.11", "17"))
    assert read(tmp_path / "tested_4.1.json") == [
        Environment("4.1.9", "3.9", "17"),
        Environment("4.1.10", "3.11", "17"),
        Environment("4.1.10", "3.11", "21"),
    ]
    assert read(tmp_path / "tested_4.0.json") == []
