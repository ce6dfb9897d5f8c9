"""TPC-H's 22 queries and TPC-DS's 99, of which four come in two parts, as files of SQL in `queries/`.

The texts are the specifications' templates with fixed parameters, as Spark's own tests have them: TPC-H with the
validation parameters, TPC-DS in version 1.4. They are spelled so that the other engines read them too: plain names for
columns, `extract`, dates as dates, and a cast where Spark divides integers into a double. None depends on the scale, so
TPC-H's q11 finds fewer parts on a larger one.

ORDER BY leaves ties in many of them. `_ORDERED_BY` has the columns of the answer that each is sorted by, as far as the
answer shows them; `tests/benchmarks/test_tpc.py` compares it with Spark's analysis.
"""

from __future__ import annotations

import re
from importlib.resources import files

from sundog.benchmarks.cases.model import Case, Check, DataRef, SameOrder, SameRows, SameTop

_LIMIT = re.compile(r"\blimit (\d+)\s*$")

_ORDERED_BY: dict[str, tuple[int, ...]] = {
    "tpch/q01": (0, 1),
    "tpch/q02": (0, 2, 1, 3),
    "tpch/q03": (1, 2),
    "tpch/q04": (0,),
    "tpch/q05": (1,),
    "tpch/q07": (0, 1, 2),
    "tpch/q08": (0,),
    "tpch/q09": (0, 1),
    "tpch/q10": (2,),
    "tpch/q11": (1,),
    "tpch/q12": (0,),
    "tpch/q13": (1, 0),
    "tpch/q15": (0,),
    "tpch/q16": (3, 0, 1, 2),
    "tpch/q18": (4, 3),
    "tpch/q20": (0,),
    "tpch/q21": (1, 0),
    "tpch/q22": (0,),
    "tpcds/q01": (0,),
    "tpcds/q02": (0,),
    "tpcds/q03": (0, 3, 1),
    "tpcds/q04": (0, 1, 2, 3, 4, 5, 6),
    "tpcds/q05": (0, 1),
    "tpcds/q06": (1,),
    "tpcds/q07": (0,),
    "tpcds/q08": (0,),
    "tpcds/q10": (0, 1, 2, 4, 6, 8, 10, 12),
    "tpcds/q11": (0,),
    "tpcds/q12": (1, 2),
    "tpcds/q14a": (0, 1, 2, 3),
    "tpcds/q14b": (0, 1, 2, 3),
    "tpcds/q15": (0,),
    "tpcds/q16": (0,),
    "tpcds/q17": (0, 1, 2),
    "tpcds/q18": (1, 2, 3, 0),
    "tpcds/q19": (4, 1, 0, 2, 3),
    "tpcds/q20": (1, 2),
    "tpcds/q21": (0, 1),
    "tpcds/q22": (4, 0, 1, 2, 3),
    "tpcds/q23b": (0, 1, 2),
    "tpcds/q25": (0, 1, 2, 3),
    "tpcds/q26": (0,),
    "tpcds/q27": (0, 1),
    "tpcds/q29": (0, 1, 2, 3),
    "tpcds/q30": (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12),
    "tpcds/q31": (0,),
    "tpcds/q33": (1,),
    "tpcds/q34": (0, 1, 2, 3),
    "tpcds/q35": (0, 1, 2),
    "tpcds/q36": (3,),
    "tpcds/q37": (0,),
    "tpcds/q39a": (0, 1, 2, 3, 4, 7, 8, 9),
    "tpcds/q39b": (0, 1, 2, 3, 4, 7, 8, 9),
    "tpcds/q40": (0, 1),
    "tpcds/q41": (0,),
    "tpcds/q42": (3, 0, 1, 2),
    "tpcds/q43": (0, 1, 2, 3, 4, 5, 6, 7, 8),
    "tpcds/q44": (0,),
    "tpcds/q45": (0, 1),
    "tpcds/q46": (0, 1, 2, 3, 4),
    "tpcds/q49": (0, 3, 4),
    "tpcds/q50": (0, 1, 2, 3, 4, 5, 6, 7, 8, 9),
    "tpcds/q51": (0, 1),
    "tpcds/q52": (0, 3, 1),
    "tpcds/q53": (2, 1, 0),
    "tpcds/q54": (0, 1),
    "tpcds/q55": (2, 0),
    "tpcds/q56": (1,),
    "tpcds/q58": (0, 1),
    "tpcds/q59": (0, 1, 2),
    "tpcds/q60": (0, 1),
    "tpcds/q61": (0, 1),
    "tpcds/q62": (0, 1, 2),
    "tpcds/q63": (0, 2, 1),
    "tpcds/q64": (0, 1, 20),
    "tpcds/q65": (0, 1),
    "tpcds/q66": (0,),
    "tpcds/q67": (0, 1, 2, 3, 4, 5, 6, 7, 8, 9),
    "tpcds/q68": (0, 4),
    "tpcds/q69": (0, 1, 2, 4, 6),
    "tpcds/q70": (3,),
    "tpcds/q71": (4, 0),
    "tpcds/q72": (5, 0, 1, 2),
    "tpcds/q73": (5,),
    "tpcds/q74": (0,),
    "tpcds/q75": (8,),
    "tpcds/q76": (0, 1, 2, 3, 4),
    "tpcds/q77": (0, 1),
    "tpcds/q78": (0,),
    "tpcds/q79": (0, 1),
    "tpcds/q80": (0, 1),
    "tpcds/q81": (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
    "tpcds/q82": (0,),
    "tpcds/q83": (0, 1),
    "tpcds/q85": (0, 1, 2, 3),
    "tpcds/q86": (3,),
    "tpcds/q90": (0,),
    "tpcds/q91": (3,),
    "tpcds/q92": (0,),
    "tpcds/q93": (1, 0),
    "tpcds/q94": (0,),
    "tpcds/q95": (0,),
    "tpcds/q96": (0,),
    "tpcds/q98": (1, 2),
    "tpcds/q99": (0, 1, 2),
}


def check_of(sql: str, keys: tuple[int, ...]) -> Check:
    """What SQL promises of an answer that is ordered by the columns `keys` and cut where the query ends in LIMIT."""
    match = _LIMIT.search(sql)
    if match is not None:
        return SameTop(keys, int(match[1]))
    return SameOrder(keys) if keys else SameRows()


def _cases(suite: str) -> list[Case]:
    found = sorted(files("sundog.benchmarks").joinpath("queries", suite).iterdir(), key=lambda file: file.name)
    cases = []
    for file in found:
        name, sql = f"{suite}/{file.name.removesuffix('.sql')}", file.read_text()
        cases.append(Case(name, DataRef(suite), sql, check_of(sql, _ORDERED_BY.get(name, ()))))
    return cases


CASES: list[Case] = [*_cases("tpch"), *_cases("tpcds")]
