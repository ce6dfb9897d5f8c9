"""The generated pages are fresh, complete and readable as Markdown tables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sundog.config import OPTIONS
from sundog.front.expressions.translate import SUPPORTED_EXPRESSIONS
from sundog.functions.table import FUNCTIONS
from sundog.metrics import METRICS
from sundog.report.pages.reference_docs import pages, stale_pages, write_pages
from sundog.support import Code

FUNCTION_NAMES = [function.name for function in FUNCTIONS.values() if not function.internal]
REFERENCE = Path(__file__).parent.parent / "docs" / "reference"


def test_pages_in_the_repository_are_fresh() -> None:
    assert stale_pages(REFERENCE) == [], "run `make docs`"


def test_no_page_is_left_behind() -> None:
    assert {path.name for path in REFERENCE.glob("*.md")} == {name for name in pages() if "/" not in name}


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("config.md", list(OPTIONS)),
        ("metrics.md", list(METRICS)),
        ("fallback-reasons.md", [code.name for code in Code]),
        ("functions.md", FUNCTION_NAMES),
    ],
)
def test_every_declaration_has_one_row(page: str, names: list[str]) -> None:
    assert sorted(re.findall(r"^\| `([^`]+)` \|", pages()[page], re.MULTILINE)) == sorted(names)


def test_the_compatibility_page_names_every_function_and_expression() -> None:
    page = pages()["../compatibility.md"]
    names = {*SUPPORTED_EXPRESSIONS, *FUNCTION_NAMES}
    assert [name for name in names if f"`{name}`" not in page] == []


@pytest.mark.parametrize("page", [name for name in pages() if "/" not in name])
def test_rows_have_as_many_cells_as_their_heading(page: str) -> None:
    tables = re.findall(r"(?:^\|.*\n)+", pages()[page], re.MULTILINE)
    assert tables
    for table in tables:
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1


def test_stale_and_missing_pages_are_noticed_and_written(tmp_path: Path) -> None:
    folder = tmp_path / "reference"
    folder.mkdir()
    assert sorted(write_pages(folder)) == sorted(pages())
    assert stale_pages(folder) == []
    (folder / "config.md").write_text("old")
    (folder / "metrics.md").unlink()
    assert sorted(write_pages(folder)) == ["config.md", "metrics.md"]
    assert write_pages(folder) == []
    assert (tmp_path / "compatibility.md").is_file()
