"""The overhead of sundog where it does not help: before an eligible query runs, and on a query that it declines."""

from __future__ import annotations

from sundog.benchmarks.cases.model import Case, DataRef, Overhead

_PROBE_ONLY = "a measurement of sundog itself"
_OTHERS = dict.fromkeys(("spark", "duckdb", "datafusion", "polars", "sail", "decode"), _PROBE_ONLY)

CASES: list[Case] = [
    Case(
        "overhead/ineligible",
        DataRef("lineitem"),
        "select id, id + 1 as next from range(10)",
        overhead=Overhead.INELIGIBLE,
        unsupported=_OTHERS,
        about="a tiny query with nothing to accelerate, enabled and disabled in turn; extra seconds per action",
    ),
    Case(
        "overhead/planning",
        DataRef("lineitem"),
        "select l_orderkey, l_partkey, l_suppkey from lineitem order by l_orderkey desc limit 100",
        overhead=Overhead.PLANNING,
        unsupported=_OTHERS,
        about="`planning_seconds` of topk/q1",
    ),
]
