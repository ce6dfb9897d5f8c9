"""Which Spark, Python and Java were tested together: what `tests/versions` wrote down after it had passed there.

`tested_<version>.json` beside this file holds one entry for each environment. The doctor and `docs/compatibility.md`
show them; `make test-sparks RECORD=1` adds the environments that it runs in.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Environment:
    """One environment in which the tests of `tests/versions` passed. Python and Java by their first numbers: 3.11,
    17."""

    spark: str
    python: str
    java: str

    def as_dict(self) -> dict[str, str]:
        return asdict(self)


@lru_cache(maxsize=1)
def environments() -> tuple[Environment, ...]:
    """Every environment, by Spark, Python and Java."""
    return tuple(sorted((each for path in FOLDER.glob("tested_*.json") for each in read(path)), key=_in_order))


def read(path: Path) -> list[Environment]:
    """The environments in one file; none if there is no such file."""
    return [Environment(**entry) for entry in json.loads(path.read_text())] if path.is_file() else []


def add(folder: Path, version: str, environment: Environment) -> None:
    """Write it down, in place of one that differs in the patch release of Spark only."""
    path = folder / f"tested_{version}.json"
    kept = [each for each in read(path) if (each.python, each.java) != (environment.python, environment.java)]
    entries = sorted([*kept, environment], key=_in_order)
    path.write_text(json.dumps([each.as_dict() for each in entries], indent=1) + "\n")


def _in_order(environment: Environment) -> tuple[tuple[int, ...], ...]:
    return tuple(
        tuple(int(number) for number in text.split("."))
        for text in (environment.spark, environment.python, environment.java)
    )
