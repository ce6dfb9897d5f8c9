"""One-line summary of a suite: counts, the geometric mean over the cases that both engines measured, and the worst
case."""

from __future__ import annotations

from math import isclose

from sundog.benchmarks.compare import kept_rows, kept_speed_ups
from sundog.benchmarks.results import Measurement, Results, Status
from sundog.benchmarks.summary import Ratios, SuiteSummary, summarize, summary_rows


def measured(case: str, engine: str, seconds: float | None, taken: str | None = None, **more: object) -> Measurement:
    facts = {} if taken is None else {"taken": taken, "accelerated": taken != "spark"}
    status = Status.FAILED if seconds is None else Status.OK
    return Measurement(case, engine, status, seconds=[] if seconds is None else [seconds], facts=facts, **more)  # type: ignore[arg-type]


def results(*measurements: Measurement) -> Results:
    return Results("", "", {}, {}, {}, {}, {}, False, list(measurements))


def summaries(*measurements: Measurement) -> list[SuiteSummary]:
    return summarize(results(*measurements))


def test_a_suite_is_counted_and_compared_with_spark() -> None:
    (one,) = summaries(
        *(measured(f"tpch/q{number}", "spark", 1.0) for number in range(5)),
        measured("tpch/q0", "sundog", 0.125, "whole"),
        measured("tpch/q1", "sundog", 2.0, "part", agrees=False),
        measured("tpch/q2", "sundog", 1.05, "spark"),
        measured("tpch/q3", "sundog", 0.5, "whole"),
        measured("tpch/q4", "sundog", None),
    )
    assert (one.suite, one.engine, one.queries, one.warm.compared) == ("tpch", "sundog", 5, 4)
    assert (one.touched, one.whole) == (3, 2)
    assert (one.warm.faster, one.warm.slower) == (2, 1)
    assert one.warm.geometric_mean is not None
    assert isclose(one.warm.geometric_mean, (8 * 0.5 * 2 / 1.05) ** 0.25)
    assert (one.warm.worst, one.warm.worst_case) == (0.5, "tpch/q1")
    assert (one.not_answered, one.differing) == (1, 1)


def test_first_runs_are_compared_with_sparks_first_runs() -> None:
    (one,) = summaries(
        measured("tpch/q1", "spark", 1.0, first_seconds=4.0),
        measured("tpch/q2", "spark", 1.0, first_seconds=2.0),
        measured("tpch/q3", "spark", 1.0),
        measured("tpch/q1", "sundog", 0.5, "whole", first_seconds=1.0),
        measured("tpch/q2", "sundog", 0.5, "whole", first_seconds=8.0),
        measured("tpch/q3", "sundog", 0.5, "whole", first_seconds=1.0),
    )
    assert one.first == Ratios(2, 1, 1, 1.0, 0.25, "tpch/q2")
    assert (one.warm.compared, one.warm.worst) == (3, 2.0)
    (row,) = summary_rows([one])
    cells = {name: text for name, text in row.items() if name.startswith("first ")}
    assert cells == {
        "first faster": "1",
        "first slower": "1",
        "first geomean": "1.00",
        "first worst": "0.25 (tpch/q2)",
    }
    assert one.as_json()["first"] == {
        "compared": 2,
        "faster": 1,
        "slower": 1,
        "geometric_mean": 1.0,
        "worst": 0.25,
        "worst_case": "tpch/q2",
    }


def test_suites_and_engines_have_lines_of_their_own() -> None:
    lines = summaries(
        measured("tpch/q1", "spark", 1.0),
        measured("tpcds/q1", "spark", 1.0),
        measured("tpch/q1", "duckdb", 0.5),
        measured("tpch/q1", "sundog", 0.5, "whole"),
        measured("tpcds/q1", "sundog", 0.5, "spark"),
    )
    assert [(one.suite, one.engine, one.touched) for one in lines] == [
        ("tpch", "duckdb", None),
        ("tpch", "sundog", 1),
        ("tpcds", "sundog", 0),
    ]


def test_without_spark_nothing_is_compared() -> None:
    (one,) = summaries(measured("tpch/q1", "sundog", 0.5, "whole"))
    assert one.warm == one.first == Ratios(0, 0, 0, None, None, None)
    assert summary_rows([one]) == [{"suite": "tpch", "engine": "sundog", "queries": "1", "touched": "1", "whole": "1"}]


def test_a_probe_that_measured_less_than_nothing_is_no_ratio() -> None:
    (one,) = summaries(measured("overhead/x", "spark", 1.0), measured("overhead/x", "sundog", -0.001, "spark"))
    assert one.warm.compared == 0


def test_an_engine_in_another_interpreter_is_compared_with_spark_there() -> None:
    found = results(
        measured("topk/q1", "spark", 8.0),
        measured("topk/q1", "sundog", 1.0, "whole"),
        measured("topk/q1", "spark@3.5", 12.0),
        measured("topk/q1", "sundog@3.5", 2.0, "whole"),
        measured("topk/q2", "spark", 4.0),
        measured("topk/q2", "sundog", 2.0, "whole"),
        measured("topk/q2", "spark@3.5", 4.0),
        measured("topk/q2", "sundog@3.5", 2.0, "whole"),
        measured("topk/q3", "spark", 4.0),
        measured("topk/q3", "sundog@3.5", 2.0, "whole"),
    )
    assert [(one.engine, one.warm.worst) for one in summarize(found)] == [("sundog", 2.0), ("sundog@3.5", 2.0)]
    kept = kept_speed_ups(found)
    assert [(one.case, one.engine, one.here, one.there, one.share) for one in kept] == [
        ("topk/q1", "sundog@3.5", 8.0, 6.0, 0.75),
        ("topk/q2", "sundog@3.5", 2.0, 2.0, 1.0),
    ]
    assert kept_rows(kept)[-1]["case"] == "1 of 2 keep 90%"
    assert kept_speed_ups(results(measured("topk/q1", "spark", 8.0), measured("topk/q1", "sundog", 1.0))) == []
