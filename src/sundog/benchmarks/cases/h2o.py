"""The db-benchmark (H2O): ten group-by questions over `x` and twelve window questions over `large`.

Group-by q10 has as many groups as rows and the window questions as many results as rows: their main form is rolled up
into one row (`cases/model.py` says why). The window questions as published are `…-rows`. Keys of ORDER BY in the window
questions are unique or their ties do not show, so all engines must agree.
"""

from __future__ import annotations

from sundog.benchmarks.cases.model import Case, DataRef, Result, rolled_up

_H2O = DataRef("h2o")

_GROUP_BY: dict[str, str] = {
    "q1": "select id1, sum(v1) as v1 from x group by id1",
    "q2": "select id1, id2, sum(v1) as v1 from x group by id1, id2",
    "q3": "select id3, sum(v1) as v1, avg(v3) as v3 from x group by id3",
    "q4": "select id4, avg(v1) as v1, avg(v2) as v2, avg(v3) as v3 from x group by id4",
    "q5": "select id6, sum(v1) as v1, sum(v2) as v2, sum(v3) as v3 from x group by id6",
    "q6": "select id4, id5, median(v3) as median_v3, stddev(v3) as sd_v3 from x group by id4, id5",
    "q7": "select id3, max(v1) - min(v2) as range_v1_v2 from x group by id3",
    "q8": "select id6, v3 as largest2_v3 from (select id6, v3, row_number() over (partition by id6 order by v3 desc) "
    "as order_v3 from x where v3 is not null) t where order_v3 <= 2",
    "q9": "select id2, id4, power(corr(v1, v2), 2) as r2 from x group by id2, id4",
    "q10": rolled_up(
        "select id1, id2, id3, id4, id5, id6, sum(v3) as v3, count(*) as c from x group by id1, id2, id3, id4, "
        "id5, id6",
        "v3",
        "c",
    ),
}

_LAG = "rows between 1 preceding and 1 preceding"
_LEAD = "rows between 1 following and 1 following"
_HUNDRED = "rows between 100 preceding and current row"
_RUNNING = "rows between unbounded preceding and current row"
_NEAR = "range between 3 preceding and current row"

_WINDOW: dict[str, dict[str, str]] = {
    "q1": {"total": "sum(v2) over ()"},
    "q2": {"first_v2": "first_value(v2) over (order by id3)", "place": "row_number() over (order by id3)"},
    "q3": {f"by_{key}": f"sum(v2) over (partition by {key})" for key in ("id1", "id2", "id3")},
    "q4": {"first_v2": "first_value(v2) over (partition by id2 order by id3)"},
    "q5": {
        "lagged": f"first_value(v2) over (order by id3 {_LAG})",
        "led": f"first_value(v2) over (order by id3 {_LEAD})",
    },
    "q6": {"moving": f"avg(v2) over (order by id3 {_HUNDRED})"},
    "q7": {"running": f"sum(v2) over (order by id3 {_RUNNING})"},
    "q8": {"near": f"sum(v2) over (order by v2 {_NEAR})"},
    "q9": {
        "lagged": f"first_value(v2) over (partition by id2 order by id3 {_LAG})",
        "led": f"first_value(v2) over (partition by id2 order by id3 {_LEAD})",
    },
    "q10": {"moving": f"avg(v2) over (partition by id2 order by id3 {_HUNDRED})"},
    "q11": {"running": f"sum(v2) over (partition by id2 order by id3 {_RUNNING})"},
    "q12": {"near": f"sum(v2) over (partition by id2 order by v2 {_NEAR})"},
}
_NO_PARTITION = ("q1", "q2", "q5", "q6", "q7", "q8")


def _window_cases(name: str, columns: dict[str, str]) -> list[Case]:
    computed = ", ".join(f"{expression} as {column}" for column, expression in columns.items())
    alias = (f"window/h2o-{name}",) if name in _NO_PARTITION else ()
    return [
        Case(f"h2o/window-{name}", _H2O, rolled_up(f"select {computed} from large", *columns), aliases=alias),
        Case(
            f"h2o/window-{name}-rows",
            _H2O,
            f"select id1, id2, id3, v2, {computed} from large",
            result=Result.DISCARDED,
        ),
    ]


CASES: list[Case] = [
    *(
        Case(f"h2o/groupby-{name}", _H2O, sql, aliases=(f"aggregate/h2o-{name}",) if name not in ("q6", "q8") else ())
        for name, sql in _GROUP_BY.items()
    ),
    *(case for name, columns in _WINDOW.items() for case in _window_cases(name, columns)),
]
