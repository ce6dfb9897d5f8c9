"""A suite in one line per engine: how many queries it touched, took whole, won and lost against plain Spark.

The suite is the first word of a case's name. Only cases that both engines measured are compared; the geometric mean is
over all of them, touched or not, as a user of the whole suite meets them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from math import exp, log

from sundog.benchmarks.engines.catalog import plain_spark_beside
from sundog.benchmarks.results import Measurement, Results, Status, Taken

NOTICEABLE = 1.1
"""Times faster or slower that count as such; all between is the same."""


@dataclass(frozen=True)
class SuiteSummary:
    """`touched` and `whole` are None for engines other than sundog, the ratios where nothing could be compared."""

    suite: str
    engine: str
    queries: int
    touched: int | None
    whole: int | None
    compared: int
    faster: int
    slower: int
    geometric_mean: float | None
    worst: float | None
    worst_case: str | None
    not_answered: int
    differing: int

    def as_json(self) -> dict[str, object]:
        return asdict(self)


def summarize(results: Results) -> list[SuiteSummary]:
    """Every engine but plain Spark on every suite, in the order of the results."""
    suites = dict.fromkeys(case.split("/")[0] for case in results.cases)
    engines = [engine for engine in results.engines if engine != plain_spark_beside(engine)]
    return [
        _summary(suite, engine, found, results)
        for suite in suites
        for engine in engines
        if (found := [m for m in results.measurements if m.engine == engine and m.case.split("/")[0] == suite])
    ]


def _summary(suite: str, engine: str, found: list[Measurement], results: Results) -> SuiteSummary:
    ratios = dict(_ratios(found, results))
    taken = [m.taken for m in found if m.taken is not None]
    worst = min(ratios, key=ratios.__getitem__, default=None)
    return SuiteSummary(
        suite=suite,
        engine=engine,
        queries=len(found),
        touched=sum(each is not Taken.SPARK for each in taken) if taken else None,
        whole=sum(each is Taken.WHOLE for each in taken) if taken else None,
        compared=len(ratios),
        faster=sum(ratio >= NOTICEABLE for ratio in ratios.values()),
        slower=sum(ratio <= 1 / NOTICEABLE for ratio in ratios.values()),
        geometric_mean=exp(sum(map(log, ratios.values())) / len(ratios)) if ratios else None,
        worst=None if worst is None else ratios[worst],
        worst_case=worst,
        not_answered=sum(m.status is not Status.OK for m in found),
        differing=sum(m.agrees is False for m in found),
    )


def _ratios(found: list[Measurement], results: Results) -> Iterator[tuple[str, float]]:
    """Times faster than plain Spark, by case. A probe's time may be zero or less, and is no ratio."""
    for measurement in found:
        ratio = speed_up(results, measurement.case, measurement.engine)
        if ratio is not None:
            yield measurement.case, ratio


def speed_up(results: Results, case: str, engine: str) -> float | None:
    """Times faster than plain Spark in the same interpreter; None if one of them has no time above zero."""
    base, measured = results.of(case, plain_spark_beside(engine)), results.of(case, engine)
    times = [m.median for m in (base, measured) if m is not None and m.median is not None and m.median > 0]
    return times[0] / times[1] if len(times) == 2 else None


def summary_rows(summaries: Iterable[SuiteSummary]) -> list[dict[str, str]]:
    """As the cells of a table, without the columns that nobody has a word in."""
    rows = [_cells(one) for one in summaries]
    used = {name for row in rows for name, text in row.items() if text}
    return [{name: text for name, text in row.items() if name in used} for row in rows]


def _cells(one: SuiteSummary) -> dict[str, str]:
    return {
        "suite": one.suite,
        "engine": one.engine,
        "queries": str(one.queries),
        "touched": _count(one.touched),
        "whole": _count(one.whole),
        "faster": _count(one.faster if one.compared else None),
        "slower": _count(one.slower if one.compared else None),
        "geomean": "" if one.geometric_mean is None else f"{one.geometric_mean:.2f}",
        "worst": "" if one.worst is None else f"{one.worst:.2f} ({one.worst_case})",
        "not answered": _count(one.not_answered or None),
        "differing": _count(one.differing or None),
    }


def _count(number: int | None) -> str:
    return "" if number is None else str(number)
