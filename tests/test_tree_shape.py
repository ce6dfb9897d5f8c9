"""The tree stays one that a reader finds the way in: modules of one idea, folders of at most a dozen modules."""

from __future__ import annotations

from pathlib import Path

import sundog
from tests.conftest import LONG_FILES

SOURCE = Path(sundog.__file__).parent
MAX_LINES = 400
MAX_MODULES = 12

# A table may be as long as what it lists.
DECLARATIONS = {"front/session/conf_table.py", "plan/costs.py"}


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
    root = Path(__file__).parents[1]
    assert [name for name in LONG_FILES if not (root / name).is_file()] == []
