"""All cases, and the cases that a pattern names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from difflib import get_close_matches
from fnmatch import fnmatchcase

from sundog.benchmarks.cases import aggregate, clickbench, h2o, overhead, sort, topk, tpc, window
from sundog.benchmarks.cases.model import Case
from sundog.errors import SundogError

CASES: tuple[Case, ...] = (
    *topk.CASES,
    *window.CASES,
    *sort.CASES,
    *aggregate.CASES,
    *clickbench.CASES,
    *h2o.CASES,
    *tpc.CASES,
    *overhead.CASES,
)


GROUPS: dict[str, tuple[str, ...]] = {
    "main": (
        *("topk/q[1-4]", "topk/single-q[1-4]", "topk/where", "topk/unsorted", "topk/unsorted-wide", "topk/two-keys"),
        *("topk/offset", "topk/limit-where", "topk/hits-narrow", "topk/hits-wide"),
        *("window/hits-range-10s", "window/hits-range-600s", "window/hits-range-600s-min", "window/h2o-q8"),
        *("aggregate/hits-users", "aggregate/hits-pairs", "aggregate/hits-unique", "aggregate/hits-hot-key"),
        *("aggregate/hits-few", "aggregate/h2o-q10"),
    )
}
"""Names for several patterns. `main` are the 26 cases by which versions of Spark are compared. They are all of top-k
but a growing table, sums and minima over short and long frames, and aggregates of nine thousand groups up to one per
row."""


class UnknownCaseError(SundogError, ValueError):
    """A pattern names no case. `sundog bench --list` shows what there is."""

    @classmethod
    def of(cls, pattern: str) -> UnknownCaseError:
        near = get_close_matches(pattern, [*GROUPS, *(name for case in CASES for name in case.names)], n=1)
        hint = f"Did you mean {near[0]}?" if near else "`sundog bench --list` shows them."
        return cls(f"No benchmark case matches {pattern!r}. {hint}")

    @classmethod
    def only_large(cls, pattern: str) -> UnknownCaseError:
        return cls(f"{pattern!r} matches only cases that need much disk and time. Add --large to run them.")


def select(patterns: Iterable[str], *, large: bool = False) -> list[Case]:
    """The cases that any pattern or group names, in the order of the catalogue, each once.

    A case found by an alias carries the alias as its name. Large cases need `large` or their full name.
    """
    wanted = [each for pattern in patterns for each in GROUPS.get(pattern, (pattern,))]
    chosen = [
        _named(case, name)
        for case in CASES
        if (name := _matching_name(case, wanted)) and (large or not case.large or name in wanted)
    ]
    for pattern in wanted:
        if not any(fnmatchcase(name, pattern) for case in CASES for name in case.names):
            raise UnknownCaseError.of(pattern)
        if not any(fnmatchcase(name, pattern) for case in chosen for name in case.names):
            raise UnknownCaseError.only_large(pattern)
    return chosen


def find_case(name: str) -> Case:
    """The case of this name or alias."""
    return select([name])[0]


def _matching_name(case: Case, patterns: list[str]) -> str | None:
    return next((name for name in case.names if any(fnmatchcase(name, pattern) for pattern in patterns)), None)


def _named(case: Case, name: str) -> Case:
    return replace(case, name=name, aliases=tuple(other for other in case.names if other != name))
