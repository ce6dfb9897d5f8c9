"""Two result files side by side: is a difference real, or inside what the runs scatter anyway?

Means hide that a machine was busy. Two sets of runs count as different only if their ranges do not overlap and the
medians are at least five per cent apart; all else is called the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from statistics import median

from sundog.benchmarks.results import Results

SMALLEST_CHANGE = 0.05


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
