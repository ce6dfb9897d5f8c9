"""`ORDER BY` without LIMIT, with all rows fetched: by a column in whose order the files nearly are, by a unique
number in no order, and by a string that many rows share.

Rows are fetched as Arrow, so the time holds what each engine takes to hand over ten million rows of two columns.
"""

from __future__ import annotations

from sundog.benchmarks.cases.model import Case, DataRef, SameOrder, SameRows

CASES: list[Case] = [
    Case(
        "sort/hits-time",
        DataRef("hits"),
        "select EventTime, WatchID from hits order by EventTime",
        SameOrder((0,)),
        about="a log by its time: row groups follow each other, rows within them nearly",
    ),
    Case(
        "sort/h2o-number",
        DataRef("h2o"),
        "select id3, v2 from large order by id3",
        SameRows(ordered=True),
        about="a unique number in random order",
    ),
    Case(
        "sort/hits-phrase",
        DataRef("hits"),
        "select SearchPhrase, EventTime from hits where SearchPhrase <> '' order by SearchPhrase, EventTime desc",
        SameOrder((0, 1)),
        about="a string that repeats, then the time",
    ),
]
