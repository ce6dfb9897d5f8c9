"""The interface between an engine and the process that measures it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from sundog.benchmarks.cases.model import Case


@dataclass(frozen=True)
class Answer:
    """The outcome of one execution. `table` is None if the rows were discarded; `facts` are what sundog reports of its
    run."""

    table: pa.Table | None = None
    rows: int | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    measured_seconds: float | None = None
    """Set by special cases that measure something else than the time from question to answer."""


class EngineUnavailable(Exception):
    """The engine cannot be started here; the message says what is missing."""


class NotForThisEngine(Exception):
    """The case cannot be run on this engine; the message is the note in the report."""


@dataclass(frozen=True)
class Cluster:
    """A standalone cluster of the engine's own, to be started in an empty folder; `layout` is such as 2x4."""

    layout: str
    folder: Path


class Engine(Protocol):
    """Made in a process of its own. Setting up and `use` are outside the measured time, `run` is inside."""

    def versions(self) -> dict[str, str]: ...

    def use(self, tables: Mapping[str, Path]) -> None:
        """Register the tables: names, and folders of Parquet files."""

    def run(self, case: Case) -> Answer: ...

    def close(self) -> None: ...
