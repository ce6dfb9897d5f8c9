"""The results of a benchmark run: one JSON file from which a report, a comparison or a plot can be made."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from enum import Enum
from pathlib import Path
from statistics import median
from typing import Any

from sundog.errors import SundogError

SCHEMA_VERSION = 1


class ResultsError(SundogError, ValueError):
    """A file is not a result of `sundog bench --json`, or is one of another version."""

    @classmethod
    def not_results(cls, path: Path) -> ResultsError:
        return cls(f"{path} is not a result file of `sundog bench --json` (schema {SCHEMA_VERSION}).")


class Status(Enum):
    OK = "ok"
    SKIPPED = "skipped"
    FAILED = "failed"
    TIMEOUT = "timeout"


class Taken(Enum):
    """How much of a query sundog computed, most first."""

    WHOLE = "whole"
    """All of it: nothing was left to Spark but to hand out the result."""
    PART = "part"
    SPARK = "spark"
    """Nothing: Spark ran the query."""

    @classmethod
    def of(cls, accelerated: bool, whole: bool) -> Taken:
        return cls.SPARK if not accelerated else cls.WHOLE if whole else cls.PART


@dataclass(frozen=True)
class Measurement:
    """One case on one engine. `seconds` are the measured runs; `first_seconds` the first of all in its process.

    `agrees` is None where nothing was compared; `facts` is what sundog reported of its last run.
    """

    case: str
    engine: str
    status: Status
    note: str | None = None
    first_seconds: float | None = None
    first_cpu_seconds: float | None = None
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    rows: int | None = None
    peak_bytes: int | None = None
    peak_bytes_by_role: dict[str, int] = field(default_factory=dict)
    agrees: bool | None = None
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def median(self) -> float | None:
        return median(self.seconds) if self.seconds else None

    @property
    def median_cpu(self) -> float | None:
        return median(self.cpu_seconds) if self.cpu_seconds else None

    @property
    def taken(self) -> Taken | None:
        """How much sundog took; None for other engines, and for results of older versions."""
        return Taken(self.facts["taken"]) if "taken" in self.facts else None

    @property
    def best(self) -> float | None:
        return min(self.seconds, default=None)

    @property
    def spread(self) -> float | None:
        """From the fastest to the slowest run, as a share of the median; None with a single run."""
        middle = self.median
        if middle is None or middle == 0 or len(self.seconds) < 2:
            return None
        return (max(self.seconds) - min(self.seconds)) / abs(middle)

    def as_json(self) -> dict[str, Any]:
        summary = {"min_seconds": self.best, "median_seconds": self.median, "spread": self.spread}
        return {**asdict(self), "status": self.status.value, **summary}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Measurement:
        known = {name: value for name, value in values.items() if name in cls.__dataclass_fields__}
        return cls(**{**known, "status": Status(values["status"])})


@dataclass(frozen=True)
class Results:
    created: str
    command: str
    machine: dict[str, Any]
    settings: dict[str, Any]
    versions: dict[str, dict[str, str]]
    data: dict[str, str]
    unavailable: dict[str, str]
    interrupted: bool
    """Ended by its user before all was measured."""
    measurements: list[Measurement]

    def of(self, case: str, engine: str) -> Measurement | None:
        return next((m for m in self.measurements if m.case == case and m.engine == engine), None)

    @property
    def cases(self) -> list[str]:
        return list(dict.fromkeys(m.case for m in self.measurements))

    @property
    def engines(self) -> list[str]:
        return list(dict.fromkeys(m.engine for m in self.measurements))

    def as_json(self) -> dict[str, Any]:
        values = {"schema": SCHEMA_VERSION, **{name: getattr(self, name) for name in self.__dataclass_fields__}}
        return {**values, "measurements": [measurement.as_json() for measurement in self.measurements]}

    @classmethod
    def read(cls, path: Path) -> Results:
        try:
            values = json.loads(path.read_text())
        except (OSError, ValueError) as problem:
            raise ResultsError.not_results(path) from problem
        if not isinstance(values, dict) or values.get("schema") != SCHEMA_VERSION:
            raise ResultsError.not_results(path)
        values["measurements"] = [Measurement.from_json(entry) for entry in values["measurements"]]
        return cls(**{name: values[name] for name in cls.__dataclass_fields__})
