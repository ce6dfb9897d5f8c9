"""Records of the environments in which the tests have passed: when, and how many tests.

`tested_<version>.json` beside this file holds one entry for each Spark, Python and Java. The doctor and
`docs/compatibility.md` show them; `make test-sparks RECORD=1` and `make test-matrix RECORD=1` record those that they
run in.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class PassedTests:
    """Tests that ran on a day, none of which failed. What was skipped is about something that this Spark does not
    have."""

    date: str
    passed: int | None = None  # None: not counted
    skipped: int = 0
    of: int = 0
    """Number of tests, run or not."""

    def __str__(self) -> str:
        if self.passed is None:
            return self.date
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        return f"{self.date}: {self.passed:,} of {self.of:,}{skipped}"


@dataclass(frozen=True)
class Environment:
    """One environment: Python and Java by their first numbers (3.11, 17), packages by name."""

    spark: str
    python: str
    java: str
    packages: dict[str, str]
    smoke: PassedTests | None = None
    """Outcome of `tests/versions`: every shape, type, action and placement."""
    others: PassedTests | None = None
    """Outcome of all other tests, or of those that were run."""

    @property
    def key(self) -> tuple[str, str]:
        return self.python, self.java

    def as_row(self) -> dict[str, str]:
        """The cells of a table for users, as text, by heading."""
        return {
            "Spark": self.spark,
            "Python": self.python,
            "Java": self.java,
            "Packages": ", ".join(f"{name} {version}" for name, version in self.packages.items()),
            "tests/versions": str(self.smoke or ""),
            "Other tests": str(self.others or ""),
        }

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@lru_cache(maxsize=1)
def environments() -> tuple[Environment, ...]:
    """Every environment, by Spark, Python and Java."""
    return _sorted(each for path in FOLDER.glob("tested_*.json") for each in read(path))


def read(path: Path) -> list[Environment]:
    """The environments in one file; none if there is no such file."""
    return [_environment(entry) for entry in json.loads(path.read_text())] if path.is_file() else []


def add(folder: Path, version: str, environment: Environment) -> None:
    """Record it in place of the entry for this Spark, Python and Java. Tests that were not run now keep their record
    only if all versions are the same."""
    path = folder / f"tested_{version}.json"
    known = read(path)
    for before in known:
        if replace(before, smoke=None, others=None) == replace(environment, smoke=None, others=None):
            environment = replace(
                environment, smoke=environment.smoke or before.smoke, others=environment.others or before.others
            )
    kept = [each for each in known if each.key != environment.key]
    path.write_text(json.dumps([each.as_dict() for each in _sorted([*kept, environment])], indent=1) + "\n")


def _environment(entry: dict[str, Any]) -> Environment:
    outcomes = {name: PassedTests(**entry[name]) for name in ("smoke", "others") if entry[name] is not None}
    return Environment(**{**entry, **outcomes})


def _sorted(environments: Iterable[Environment]) -> tuple[Environment, ...]:
    return tuple(sorted(environments, key=lambda each: [_numbers(text) for text in (each.spark, *each.key)]))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split("."))
