"""The counts of shadow mode: actions that sundog would have taken, whether it agreed with Spark, and the time it would
have saved.

With `spark.sundog.mode=shadow` Spark answers every action. sundog runs those that it would take afterwards, and the
answers are compared (`answers.py` defines what counts as the same). `sundog.shadow_report(spark)` has all that a team
needs to know before it switches sundog on; each difference is also logged when it is found.
"""

from __future__ import annotations

import copy
import logging
import threading
from collections import Counter
from dataclasses import dataclass, field
from html import escape

from pyspark.sql import SparkSession

from sundog.actions.connect.session import classic_session
from sundog.front.session.identity import session_id
from sundog.shadow_mode.answers import RowPair

log = logging.getLogger("sundog")
_lock = threading.Lock()
_reports: dict[str, ShadowReport] = {}
_MAX_DIFFERENCES = 100
_MAX_PLAN_CHARS = 4000


@dataclass(frozen=True)
class Difference:
    """An action that sundog would have answered differently."""

    action: str
    query: str  # Spark's analysed plan
    plan: str  # sundog's plan
    confs: dict[str, str]
    rows: tuple[RowPair, ...]  # (Spark's, sundog's), the first that differ; None where one has no such row
    note: str = ""

    def __str__(self) -> str:
        rows = [f"  Spark: {theirs}\n  sundog: {ours}" for theirs, ours in self.rows]
        parts = [
            f"{self.action}{': ' + self.note if self.note else ''}",
            "Rows that differ:\n" + "\n".join(rows),
            f"Query:\n{self.query[:_MAX_PLAN_CHARS].rstrip()}",
            f"Plan of sundog:\n{self.plan[:_MAX_PLAN_CHARS]}",
            "Settings: " + ", ".join(f"{key}={value}" for key, value in sorted(self.confs.items())),
        ]
        return "\n".join(parts)


@dataclass
class ShadowReport:
    """The counts of a session in shadow mode. Times are of the compared actions alone."""

    actions: int = 0
    eligible: int = 0  # sundog would have taken them, or a part of them
    compared: int = 0
    agreed: int = 0
    differed: list[Difference] = field(default_factory=list)  # the first hundred
    skipped: Counter[str] = field(default_factory=Counter)  # eligible and not compared: reason -> actions
    failed: Counter[str] = field(default_factory=Counter)  # bugs of sundog's own: error -> actions
    spark_seconds: float = 0.0
    sundog_seconds: float = 0.0

    @property
    def seconds_saved(self) -> float:
        return self.spark_seconds - self.sundog_seconds

    def __str__(self) -> str:
        lines = [
            f"Shadow mode: {self.actions} actions, of which sundog would take {self.eligible}.",
            f"{self.compared} compared: {self.agreed} agreed, {self.compared - self.agreed} differed. "
            f"{self.skipped.total()} not compared, {self.failed.total()} failed on sundog.",
            f"The compared ones took {self.spark_seconds:.2f} s on Spark and {self.sundog_seconds:.2f} s on sundog: "
            f"{self.seconds_saved:.2f} s saved.",
        ]
        lines += [f"  not compared, {count} x: {reason}" for reason, count in self.skipped.most_common()]
        lines += [f"  failed, {count} x: {error}" for error, count in self.failed.most_common()]
        for number, difference in enumerate(self.differed, 1):
            lines.append(f"Difference {number}: " + str(difference).replace("\n", "\n  "))
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """How a notebook shows it."""
        cells = {
            "actions": self.actions,
            "eligible": self.eligible,
            "compared": self.compared,
            "agreed": self.agreed,
            "differed": self.compared - self.agreed,
            "not compared": self.skipped.total(),
            "failed": self.failed.total(),
            "Spark, s": f"{self.spark_seconds:.2f}",
            "sundog, s": f"{self.sundog_seconds:.2f}",
            "saved, s": f"{self.seconds_saved:.2f}",
        }
        head = "".join(f"<th>{escape(name)}</th>" for name in cells)
        body = "".join(f"<td>{escape(str(value))}</td>" for value in cells.values())
        notes = [f"not compared, {count} x: {reason}" for reason, count in self.skipped.most_common()]
        notes += [f"failed, {count} x: {error}" for error, count in self.failed.most_common()]
        items = "".join(f"<li>{escape(note)}</li>" for note in notes)
        differing = "".join(f"<pre>{escape(str(difference))}</pre>" for difference in self.differed)
        return f"<table><tr>{head}</tr><tr>{body}</tr></table><ul>{items}</ul>{differing}"


def shadow_report(spark: SparkSession) -> ShadowReport:
    """The counts of this session in shadow mode up to now."""
    with _lock:
        return copy.deepcopy(_reports.get(session_id(classic_session(spark)), ShadowReport()))


class Tally:
    """The counter of the actions of one session."""

    def __init__(self, session: SparkSession) -> None:
        self._id = session_id(session)

    def _change(self) -> ShadowReport:
        return _reports.setdefault(self._id, ShadowReport())

    def count_action(self, eligible: bool) -> None:
        with _lock:
            report = self._change()
            report.actions += 1
            report.eligible += eligible

    def skip(self, reason: str) -> None:
        with _lock:
            self._change().skipped[reason] += 1

    def fail(self, error: str) -> None:
        with _lock:
            self._change().failed[error] += 1

    def compare(self, difference: Difference | None, spark_seconds: float, sundog_seconds: float) -> None:
        with _lock:
            report = self._change()
            report.compared += 1
            report.spark_seconds += spark_seconds
            report.sundog_seconds += sundog_seconds
            if difference is None:
                report.agreed += 1
            elif len(report.differed) < _MAX_DIFFERENCES:
                report.differed.append(difference)
        if difference is not None:
            log.warning("sundog and Spark differ in shadow mode. %s", difference)
