"""The generated pages are fresh, complete and readable as Markdown tables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sundog.config import OPTIONS
from sundog.front.support import Code
from sundog.metrics import METRICS
from sundog.report.reference_docs import pages, stale_pages, write_pages

REFERENCE = Path(__file__).parent.parent / "docs" / "reference"


def test_pages_in_the_repository_are_fresh() -> None:
    assert stale_pages(REFERENCE) == [], "run `make docs`"


def test_no_page_is_left_behind() -> None:
    assert {path.name for path in REFERENCE.glob("*.md")} == set(pages())


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("config.md", list(OPTIONS)),
        ("metrics.md", list(METRICS)),
        ("fallback-reasons.md", [code.name for code in Code]),
    ],
)
def test_every_declaration_has_one_row(page: str, names: list[str]) -> None:
    assert sorted(re.findall(r"^\| `([^`]+)` \|", pages()[page], re.MULTILINE)) == sorted(names)


@pytest.mark.parametrize("page", list(pages()))
def test_rows_have_as_many_cells_as_their_heading(page: str) -> None:
    tables = re.findall(r"(?:^\|.*\n)+", pages()[page], re.MULTILINE)
    assert tables
    for table in tables:
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1


def test_stale_and_missing_pages_are_noticed_and_written(tmp_path: Path) -> None:
    assert sorted(write_pages(tmp_path)) == sorted(pages())
    assert stale_pages(tmp_path) == []
    (tmp_path / "config.md").write_text("old")
    (tmp_path / "metrics.md").unlink()
    assert sorted(write_pages(tmp_path)) == ["config.md", "metrics.md"]
    assert write_pages(tmp_path) == []
