"""The layout of the tree: modules of one idea, folders of at most a dozen modules, one word for one thing, and an
architecture page without omissions."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import get_args

import pytest

import sundog
from sundog.plan.outputs import Output
from sundog.plan.stages import Input
from tests.conftest import LONG_FILES
from tests.test_layers import BASE

ROOT = Path(__file__).parents[1]
SOURCE = Path(sundog.__file__).parent
MAX_LINES = 400
MAX_MODULES = 12

# A table may be as long as what it lists.
DECLARATIONS = {"front/session/conf_table.py", "plan/costs.py"}

# A private word, and what the field or the glossary calls it.
REPLACED = {
    r"(first|second) (aggregation )?phase|(partial|final) phase": "partial aggregation, final aggregation",
    r"\bfates?\b": "outcome",
    r"\blonely\b": "unmatched",
    r"\bessences?\b": "summary",
    r"\btold": "summary, known, computed",
    r"_hand_on\b": "carry_along",
    r"_on_the_way\b": "what it does there: tasks_summarize",
}


def test_no_module_is_longer_than_four_hundred_lines_but_tables_of_declarations() -> None:
    lengths = {path.relative_to(SOURCE).as_posix(): len(path.read_text().splitlines()) for path in SOURCE.rglob("*.py")}
    assert {name for name, lines in lengths.items() if lines > MAX_LINES} == DECLARATIONS


def test_no_folder_has_more_than_a_dozen_modules() -> None:
    counts: dict[str, int] = {}
    for path in SOURCE.rglob("*.py"):
        if path.name != "__init__.py":
            folder = path.parent.relative_to(SOURCE).as_posix()
            counts[folder] = counts.get(folder, 0) + 1
    assert {folder for folder, count in counts.items() if count > MAX_MODULES} == set()


def test_files_that_run_first_are_there() -> None:
    assert [name for name in LONG_FILES if not (ROOT / name).is_file()] == []


def test_no_two_classes_have_one_name() -> None:
    """Private classes too: a name that is searched for is one class. Names of benchmarks and of the demo are their own:
    nothing else imports them."""
    places: dict[str, list[str]] = {}
    for path in SOURCE.rglob("*.py"):
        name = path.relative_to(SOURCE).as_posix()
        if not name.startswith(("benchmarks/", "demo/")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef):
                    places.setdefault(node.name.lstrip("_"), []).append(name)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


@pytest.mark.parametrize("private", REPLACED)
def test_private_words_stay_away(private: str) -> None:
    texts = [*SOURCE.rglob("*.py"), *SOURCE.rglob("*.j2"), *ROOT.glob("docs/**/*.md"), ROOT / "README.md"]
    found = [
        f"{path.relative_to(ROOT)}: {match.group()!r}, say {REPLACED[private]}"
        for path in texts
        for match in re.finditer(private, path.read_text(), re.IGNORECASE)
    ]
    assert found == []


def test_the_glossary_has_twenty_words_to_start_with() -> None:
    first, _ = (ROOT / "docs" / "glossary.md").read_text().split("## More words of explain")
    words = [line for line in first.splitlines() if line.startswith("| ")][1:]
    assert len(words) == 20


def test_the_architecture_names_every_input_and_output_of_a_stage_and_every_base_module() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    inputs, outputs = re.findall(r"^\| (?:inputs|output)\b.*$", page, re.MULTILINE)
    assert [kind.__name__ for kind in get_args(Input) if f"`{kind.__name__}`" not in inputs] == []
    assert [kind.__name__ for kind in get_args(Output) if f"`{kind.__name__}`" not in outputs] == []
    assert [name for name in sorted(BASE) if f"{name}.py" not in page] == []
