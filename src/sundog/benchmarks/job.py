"""The messages between the runner and a measuring process: the job, the start of each case, and results line by
line."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

NEXT_CASE = "next"


@dataclass(frozen=True)
class CaseJob:
    name: str
    tables: dict[str, str]
    answer_file: str
    """Where the first answer goes as Arrow IPC, to be compared with the other engines'."""


@dataclass(frozen=True)
class Job:
    engine: str
    cores: int
    warmup: int
    repeat: int
    enough_seconds: float
    """No further repetition of a case after this long; one measured run at least."""
    cases: list[CaseJob]
    cluster: str | None = None
    """Executors and cores of the cluster to start, such as 2x4; None for a local session."""
    cluster_folder: str = ""
    """An empty one, where the processes of the cluster work."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Job:
        values = json.loads(text)
        return cls(**{**values, "cases": [CaseJob(**case) for case in values["cases"]]})


@dataclass(frozen=True)
class Message:
    """`ready` with the versions, `unavailable` with why; per case `start`, then `done`, `skipped` or `failed`."""

    kind: str
    values: dict[str, Any]

    def to_line(self) -> str:
        return json.dumps({"kind": self.kind, "values": self.values}) + "\n"

    @classmethod
    def from_line(cls, line: str) -> Message:
        return cls(**json.loads(line))
