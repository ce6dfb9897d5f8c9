"""The outcomes of the demo's queries, on plain Spark and on sundog, for its table, JSON and the report."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sundog.demo.events import DemoQuery
from sundog.report.headline import row_groups
from sundog.report.html import Section, Timing, write_report
from sundog.report.wording import count_text, ratio_text, seconds_text
from sundog.run import Run

MAX_REPETITIONS = 3
ENOUGH_SECONDS = 2.0
PLACEMENTS = ("auto", "driver", "executors")


@dataclass
class Attempt:
    """sundog's run of a query under one placement."""

    placement: str
    seconds: float
    run: Run
    difference: str | None

    @property
    def accelerated(self) -> bool:
        return self.run.accelerated


@dataclass
class Outcome:
    """One query on all engines."""

    query: DemoQuery
    spark_seconds: float
    answer_rows: int
    attempts: list[Attempt] = field(default_factory=list)

    @property
    def differences(self) -> list[str]:
        return [f"{each.placement}: {each.difference}" for each in self.attempts if each.difference]

    @property
    def shown(self) -> Attempt:
        """The run whose figures are shown: the placement that sundog chose by itself, if it ran."""
        return next((each for each in self.attempts if each.accelerated), self.attempts[0])

    def ratio(self, attempt: Attempt) -> float:
        return self.spark_seconds / max(attempt.seconds, 1e-9)


def exit_code(outcomes: list[Outcome]) -> int:
    """0 if all answers are equal and sundog took at least one query, else 1."""
    is_equal = not any(outcome.differences for outcome in outcomes)
    return 0 if is_equal and any(each.accelerated for outcome in outcomes for each in outcome.attempts) else 1


def table_rows(outcomes: list[Outcome]) -> list[tuple[str, list[str]]]:
    """The demo's table, line by line; a line that says nothing for any query is left out."""

    def by_metric(name: str) -> list[str]:
        return [_metric(outcome.shown, name) for outcome in outcomes]

    lines = [("plain Spark", [seconds_text(outcome.spark_seconds) for outcome in outcomes])]
    for index, placement in enumerate(PLACEMENTS):
        lines.append((f"sundog, {placement}", [_time(outcome.attempts[index]) for outcome in outcomes]))
    lines += [
        ("times as fast", [ratio_text(o.ratio(o.shown)) if o.shown.accelerated else "" for o in outcomes]),
        ("auto ran on", [o.attempts[0].run.placement or "Spark" for o in outcomes]),
        ("row groups read", [_row_groups(outcome.shown)[0] for outcome in outcomes]),
        ("row groups pruned", [_row_groups(outcome.shown)[1] for outcome in outcomes]),
        ("ranges", by_metric("ranges")),
        ("halo rows", by_metric("halo_rows")),
        ("groups", by_metric("groups")),
        ("answers equal", ["NO" if outcome.differences else "yes" for outcome in outcomes]),
    ]
    return [(label, cells) for label, cells in lines if any(cells)]


def _time(attempt: Attempt) -> str:
    if attempt.accelerated:
        return seconds_text(attempt.seconds)
    return f"not taken: {attempt.run.reasons[0].code.name}" if attempt.run.reasons else "not taken"


def _metric(attempt: Attempt, name: str) -> str:
    value = attempt.run.metrics.get(name)
    return "" if value is None else f"{value:,.0f}"


def _row_groups(attempt: Attempt) -> tuple[str, str]:
    if not attempt.run.metrics.get("row_groups_total"):
        return "", ""
    read, unread = row_groups(attempt.run.metrics)
    return f"{read:,}", f"{unread:,}"


def write_outcomes(report: Path, rows: int, outcomes: list[Outcome]) -> None:
    sections = []
    for outcome in outcomes:
        timings = [Timing("plain Spark", outcome.spark_seconds)]
        timings += [Timing(f"sundog, {each.placement}", each.seconds) for each in outcome.attempts if each.accelerated]
        query = outcome.query
        intro = f"Plain Spark {query.spark_does}. sundog {query.sundog_does}."
        title = f"{query.name.capitalize()}: {query.question}"
        sections.append(Section(outcome.shown.run, title, intro, query.sql, tuple(timings)))
    verdict = "differ" if any(outcome.differences for outcome in outcomes) else "are equal"
    intro = (
        f"Three queries over {count_text(rows)} events, each on plain Spark and on sundog. "
        f"The answers were compared and {verdict}."
    )
    write_report(report, sections, "sundog demo", intro)


def as_json_object(rows: int, outcomes: list[Outcome], report: Path) -> dict[str, Any]:
    return {
        "rows": rows,
        "report": str(report),
        "ok": exit_code(outcomes) == 0,
        "queries": [
            {
                "name": outcome.query.name,
                "sql": outcome.query.sql,
                "answer_rows": outcome.answer_rows,
                "answers_equal": not outcome.differences,
                "spark_seconds": outcome.spark_seconds,
                "sundog": {
                    each.placement: {
                        "accelerated": each.accelerated,
                        "seconds": each.seconds,
                        "ratio": outcome.ratio(each),
                        "placement": each.run.placement,
                        "fallback_reasons": each.run.fallback_reasons,
                        "difference": each.difference,
                        "metrics": each.run.metrics,
                    }
                    for each in outcome.attempts
                },
            }
            for outcome in outcomes
        ],
    }
