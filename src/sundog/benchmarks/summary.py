"""A suite in one line per engine: queries touched, taken whole, faster and slower than on plain Spark.

The suite is the first word of a case's name. Only cases that both engines measured are compared; the geometric mean is
over all of them, touched or not, as a user of the whole suite meets them. First runs are compared with Spark's first
runs: each engine's in a new process, where it reads footers, warms its caches and, if nothing was compiled before,
compiles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from math import exp, log

from sundog.benchmarks.engines.catalog import plain_spark_beside
from sundog.benchmarks.results import Measurement, Results, Status, Taken

Seconds = Callable[[Measurement], "float | None"]  # which of its times
NOTICEABLE = 1.1
"""Times faster or slower that count as such; all between is the same."""


@dataclass(frozen=True)
class Ratios:
    """Times faster than plain Spark, of all cases together; None where nothing could be compared."""

    compared: int
    faster: int
    slower: int
    geometric_mean: float | None
    worst: float | None
    worst_case: str | None

    @classmethod
    def of(cls, by_case: Mapping[str, float]) -> Ratios:
        ratios, worst = by_case.values(), min(by_case, key=by_case.__getitem__, default=None)
        return cls(
            compared=len(ratios),
            faster=sum(ratio >= NOTICEABLE for ratio in ratios),
            slower=sum(ratio <= 1 / NOTICEABLE for ratio in ratios),
            geometric_mean=exp(sum(map(log, ratios)) / len(ratios)) if ratios else None,
            worst=None if worst is None else by_case[worst],
            worst_case=worst,
        )


@dataclass(frozen=True)
class SuiteSummary:
    """`touched` and `whole` are None for engines other than sundog. `warm`: of the measured runs; `first`: of the first
    run of each case."""

    suite: str
    engine: str
    queries: int
    touched: int | None
    whole: int | None
    warm: Ratios
    first: Ratios
    not_answered: int
    differing: int

    def as_json(self) -> dict[str, object]:
        values = asdict(self)
        return {**values.pop("warm"), **values}


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
    taken = [m.taken for m in found if m.taken is not None]
    return SuiteSummary(
        suite=suite,
        engine=engine,
        queries=len(found),
        touched=sum(each is not Taken.SPARK for each in taken) if taken else None,
        whole=sum(each is Taken.WHOLE for each in taken) if taken else None,
        warm=_ratios(found, results, warm_seconds),
        first=_ratios(found, results, first_seconds),
        not_answered=sum(m.status is not Status.OK for m in found),
        differing=sum(m.agrees is False for m in found),
    )


def warm_seconds(measurement: Measurement) -> float | None:
    return measurement.median


def first_seconds(measurement: Measurement) -> float | None:
    return measurement.first_seconds


def _ratios(found: list[Measurement], results: Results, seconds: Seconds) -> Ratios:
    """The time of an overhead case may be zero or less, which has no ratio."""
    ratios = {m.case: speed_up(results, m.case, m.engine, seconds) for m in found}
    return Ratios.of({case: ratio for case, ratio in ratios.items() if ratio is not None})


def speed_up(results: Results, case: str, engine: str, seconds: Seconds = warm_seconds) -> float | None:
    """Times faster than plain Spark in the same interpreter; None if one of them has no time above zero."""
    both = results.of(case, plain_spark_beside(engine)), results.of(case, engine)
    times = [seconds(m) or 0.0 for m in both if m is not None]
    return times[0] / times[1] if len(times) == 2 and min(times) > 0 else None


def summary_rows(summaries: Iterable[SuiteSummary]) -> list[dict[str, str]]:
    """The rows of a table, without empty columns."""
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
        **_ratio_cells(one.warm),
        **{f"first {name}": text for name, text in _ratio_cells(one.first).items()},
        "not answered": _count(one.not_answered or None),
        "differing": _count(one.differing or None),
    }


def _ratio_cells(ratios: Ratios) -> dict[str, str]:
    return {
        "faster": _count(ratios.faster if ratios.compared else None),
        "slower": _count(ratios.slower if ratios.compared else None),
        "geomean": "" if ratios.geometric_mean is None else f"{ratios.geometric_mean:.2f}",
        "worst": "" if ratios.worst is None else f"{ratios.worst:.2f} ({ratios.worst_case})",
    }


def _count(number: int | None) -> str:
    return "" if number is None else str(number)
