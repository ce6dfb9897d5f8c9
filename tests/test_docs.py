"""References in the documentation exist: files of the repository, links between pages, make targets, settings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import sundog
from sundog.config import OPTIONS

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def ids(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_paths_exist(page: Path) -> None:
    paths = re.findall(r"(?:src|tests|docs)/[A-Za-z0-9_./*-]*[A-Za-z0-9_/*]", page.read_text())
    missing = [path for path in paths if "<" not in path and not list(ROOT.glob(path.rstrip("/")))]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)", page.read_text())
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_make_targets_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    mentioned = set(re.findall(r"(?:`|^)make ([a-z-]+)", page.read_text(), re.MULTILINE))
    assert mentioned <= targets


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_settings_exist(page: Path) -> None:
    mentioned = set(re.findall(r"`(spark\.sundog\.[A-Za-z.]*[A-Za-z])`", page.read_text()))
    assert mentioned <= set(OPTIONS)


def test_the_readme_opens_with_the_two_commands() -> None:
    first_screen = "\n".join((ROOT / "README.md").read_text().splitlines()[:25])
    assert "make demo" in first_screen
    assert "make test" in first_screen


def test_ci_runs_the_readme_test_command() -> None:
    commands = [line for line in (ROOT / ".ci" / "run").read_text().splitlines() if line and not line.startswith("#")]
    assert commands[-1] == "exec make test"


def test_every_version_is_pinned_and_no_index_is_named() -> None:
    pin = r"[a-z0-9-]+==[0-9a-z.]+(; python_version (<|==|>=) '3\.\d+')?"
    for path in (ROOT / "constraints").glob("*.txt"):
        lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
        loose = [line for line in lines if not re.fullmatch(pin, line)]
        assert loose == ([] if path.name == "common.txt" else ["-c common.txt"])


def test_the_citation_has_the_version_of_the_package() -> None:
    assert f"\nversion: {sundog.__version__}\n" in (ROOT / "CITATION.cff").read_text()
