"""Results side by side: two files, or one engine in two interpreters.

For two files: is a difference real, or within the scatter of the runs? Means would hide that a machine was busy. Two
sets of runs count as different only if their ranges do not overlap and the medians are at least five per cent apart;
all other pairs count as the same.

For two interpreters: how much of a speed-up is left in another one, such as that of an older Spark?

    sundog bench main --engines spark,sundog,spark@3.5,sundog@3.5 --python 3.5=.venvs/3.5/bin/python

The speed-up of `sundog@3.5` is relative to `spark@3.5`, as another Spark has another speed. It is compared with the
speed-up of `sundog` relative to `spark`, both in the interpreter of the command itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from math import exp, log
from statistics import median

from sundog.benchmarks.engines.catalog import find_engine, label_of
from sundog.benchmarks.results import Results
from sundog.benchmarks.summary import speed_up

SMALLEST_CHANGE = 0.05
ENOUGH = 0.9
"""A case that keeps this share of its speed-up has kept it."""


class Verdict(Enum):
    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    UNSURE = "unsure"
    """Medians far apart, but one run only on a side, or overlapping runs."""


@dataclass(frozen=True)
class Comparison:
    case: str
    engine: str
    before: tuple[float, ...]
    after: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """Time after over time before: below 1 is faster."""
        return median(self.after) / median(self.before)

    @property
    def verdict(self) -> Verdict:
        if abs(self.ratio - 1) < SMALLEST_CHANGE:
            return Verdict.SAME
        if min(len(self.before), len(self.after)) < 2:
            return Verdict.UNSURE
        if max(self.after) < min(self.before):
            return Verdict.FASTER
        if min(self.after) > max(self.before):
            return Verdict.SLOWER
        return Verdict.UNSURE

    def as_json(self) -> dict[str, object]:
        return {**asdict(self), "ratio": self.ratio, "verdict": self.verdict.value}


def compare(before: Results, after: Results) -> list[Comparison]:
    """What both files measured, in the order of the first."""
    found = []
    for old in before.measurements:
        new = after.of(old.case, old.engine)
        if new is not None and old.seconds and new.seconds:
            found.append(Comparison(old.case, old.engine, tuple(old.seconds), tuple(new.seconds)))
    return found


def range_text(seconds: Sequence[float]) -> str:
    """`0.120 (0.118 – 0.131)`: median, fastest, slowest."""
    return f"{median(seconds):.4g} ({min(seconds):.4g} – {max(seconds):.4g})"


@dataclass(frozen=True)
class KeptSpeedUp:
    """One case of one engine with a label: times faster than plain Spark, there and without a label."""

    case: str
    engine: str
    here: float
    there: float

    @property
    def share(self) -> float:
        return self.there / self.here

    def as_json(self) -> dict[str, object]:
        return {**asdict(self), "share": self.share}


def kept_speed_ups(results: Results) -> list[KeptSpeedUp]:
    """Every case that was measured with and without a label, on its engine and on plain Spark."""
    return [
        KeptSpeedUp(case, engine, here, there)
        for engine in results.engines
        if label_of(engine)
        for case in results.cases
        if (there := speed_up(results, case, engine)) is not None
        and (here := speed_up(results, case, find_engine(engine).name)) is not None
        and find_engine(engine).family != "spark"
    ]


def kept_rows(kept: Sequence[KeptSpeedUp]) -> list[dict[str, str]]:
    """The rows of a table: cases, then for each engine the geometric mean and the number of cases that keep enough."""
    rows = [_cells(one.case, one.engine, one.here, one.there, one.share) for one in kept]
    for engine in dict.fromkeys(one.engine for one in kept):
        own = [one for one in kept if one.engine == engine]
        enough = sum(one.share >= ENOUGH for one in own)
        here, there = (_mean([getattr(one, side) for one in own]) for side in ("here", "there"))
        rows.append(_cells(f"{enough} of {len(own)} keep {ENOUGH:.0%}", engine, here, there, there / here))
    return rows


def _mean(values: Sequence[float]) -> float:
    return exp(sum(map(log, values)) / len(values))


def _cells(case: str, engine: str, here: float, there: float, share: float) -> dict[str, str]:
    return {
        "case": case,
        "engine": engine,
        "times faster": f"{there:.1f}",
        "without label": f"{here:.1f}",
        "kept": f"{share:.0%}",
    }
