"""Windows with no PARTITION BY over the events: frames of 10 and 600 seconds before each row.

In 600 seconds there are about 11,500 rows at 10 million, so an engine that adds up each frame anew shows it. The
db-benchmark windows are in `h2o.py`.
"""

from __future__ import annotations

from sundog.benchmarks.cases.model import Case, DataRef, Result, rolled_up

_HITS = DataRef("hits")


def _over(function: str, seconds: int) -> str:
    return f"{function} over (order by EventTime range between interval '{seconds}' second preceding and current row)"


def _pair(name: str, function: str, seconds: int, about: str) -> list[Case]:
    windowed = f"select {_over(function, seconds)} as w from hits"
    whole = f"select WatchID, EventTime, ResolutionWidth, {_over(function, seconds)} as w from hits"
    return [
        Case(f"window/{name}", _HITS, rolled_up(windowed, "w"), about=about),
        Case(f"window/{name}-rows", _HITS, whole, result=Result.DISCARDED, about=f"{about}; every row comes out"),
    ]


CASES: list[Case] = [
    *_pair("hits-range-10s", "sum(ResolutionWidth)", 10, "a sum over about 190 rows for each row"),
    *_pair("hits-range-600s", "sum(ResolutionWidth)", 600, "a sum over about 11,500 rows for each row"),
    *_pair("hits-range-600s-min", "min(ResolutionWidth)", 600, "a minimum over about 11,500 rows for each row"),
]
