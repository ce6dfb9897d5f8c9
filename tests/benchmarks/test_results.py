"""Results are written and read back unchanged, the report shows them, and a comparison reports only significant
changes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sundog.benchmarks.compare import Comparison, Verdict, compare
from sundog.benchmarks.report import markdown
from sundog.benchmarks.results import Measurement, Results, ResultsError, Status

MEASUREMENTS = [
    Measurement("topk/q1", "spark", Status.OK, first_seconds=3.0, seconds=[1.0, 1.2, 1.1], cpu_seconds=[2.0], rows=100),
    Measurement(
        "topk/q1",
        "sundog",
        Status.OK,
        first_seconds=0.5,
        seconds=[0.02, 0.021],
        rows=100,
        peak_bytes=1 << 30,
        peak_bytes_by_role={"jvm": 1 << 29, "driver": 1 << 29},
        agrees=True,
        facts={
            "accelerated": True,
            "taken": "part",
            "fallback_reason": "UNKNOWN_NODE: Join | stays on Spark",
            "placement": "driver",
            "planning_seconds": 0.01,
            "execution_seconds": 0.01,
            "metrics": {"row_groups_total": 60, "row_groups_scanned": 2},
        },
    ),
    Measurement("topk/q1", "duckdb", Status.OK, note="differs from spark: x | y", seconds=[0.01], agrees=False),
    Measurement("topk/q2", "spark", Status.TIMEOUT, note="over 600 s"),
    Measurement("topk/q2", "duckdb", Status.SKIPPED, note="not written"),
]


def results(measurements: list[Measurement]) -> Results:
    return Results(
        created="2026-01-01T00:00:00+00:00",
        command="sundog bench 'topk/*'",
        machine={"processor": "cpu", "cores_used": 2, "memory_bytes": 8 << 30},
        settings={"warmup": 1, "repeat": 3},
        versions={"spark": {"pyspark": "4.3.0"}},
        data={"lineitem": "lineitem-6m"},
        unavailable={"sail": "pysail is not installed"},
        interrupted=False,
        measurements=measurements,
    )


def test_results_survive_json(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text(json.dumps(results(MEASUREMENTS).as_json()))
    assert Results.read(path) == results(MEASUREMENTS)


def test_json_has_the_summary_that_a_plot_needs() -> None:
    values = results(MEASUREMENTS).as_json()
    assert values["schema"] == 1
    assert set(values) == {"schema", *Results.__dataclass_fields__}
    first = values["measurements"][0]
    assert set(first) == {*Measurement.__dataclass_fields__, "min_seconds", "median_seconds", "spread"}
    assert (first["min_seconds"], first["median_seconds"], first["status"]) == (1.0, 1.1, "ok")
    assert first["spread"] == pytest.approx(0.2 / 1.1)
    assert values["measurements"][3]["median_seconds"] is None


@pytest.mark.parametrize("content", ["", "[]", '{"schema": 99}', '{"a": 1}'])
def test_other_files_are_refused_with_their_name(tmp_path: Path, content: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(content)
    with pytest.raises(ResultsError, match=r"other\.json is not a result file"):
        Results.read(path)
    with pytest.raises(ResultsError):
        Results.read(tmp_path / "missing.json")


def test_the_report_shows_times_ratios_and_remarks() -> None:
    text = markdown(results(MEASUREMENTS))
    assert "| topk/q1 | 1.100 ±9% | 0.0205 ±2% | **0.0100 ≠** |" in text
    assert "| topk/q1 | 53.7 | 110.0 |" in text
    assert "| topk/q2 | timeout |  | skipped |" in text
    assert "1,024" in text
    assert "row_groups_total 60, row_groups_scanned 2" in text
    assert "sail is not available: pysail is not installed" in text
    assert "differs from spark: x \\| y" in text
    assert "duckdb skipped topk/q2: not written" in text


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        ((1.0, 1.1), (0.5, 0.6), Verdict.FASTER),
        ((1.0, 1.1), (1.5, 1.6), Verdict.SLOWER),
        ((1.0, 1.1), (1.02, 1.1), Verdict.SAME),
        ((1.0, 2.0), (1.2, 1.3), Verdict.UNSURE),
        ((1.0,), (0.5,), Verdict.UNSURE),
    ],
)
def test_verdicts(before: tuple[float, ...], after: tuple[float, ...], verdict: Verdict) -> None:
    assert Comparison("c", "e", before, after).verdict is verdict


def test_compare_takes_what_both_measured() -> None:
    later = [Measurement("topk/q1", "sundog", Status.OK, seconds=[0.01, 0.011]), *MEASUREMENTS[3:]]
    (one,) = compare(results(MEASUREMENTS), results(later))
    assert (one.case, one.engine, one.verdict) == ("topk/q1", "sundog", Verdict.FASTER)
    assert one.ratio == pytest.approx(0.0105 / 0.0205)
    assert one.as_json()["verdict"] == "faster"


def test_the_report_says_how_much_was_taken_and_the_first_reason_against_more() -> None:
    assert "| topk/q1 | sundog | part: UNKNOWN_NODE: Join \\| stays on Spark | driver |" in markdown(
        results(MEASUREMENTS)
    )


def test_the_report_has_a_line_for_each_engine_and_suite() -> None:
    text = markdown(results(MEASUREMENTS))
    assert (
        "| suite | engine | queries | touched | whole | faster | slower | geomean | worst "
        "| first faster | first slower | first geomean | first worst | not answered | differing |" in text
    )
    assert (
        "| topk | sundog | 1 | 1 | 0 | 1 | 0 | 53.66 | 53.66 (topk/q1) | 1 | 0 | 6.00 | 6.00 (topk/q1) |  |  |" in text
    )


def test_results_of_before_have_no_word_on_how_much_was_taken() -> None:
    assert Measurement("topk/q1", "sundog", Status.OK, facts={"accelerated": True}).taken is None
    assert Measurement("topk/q1", "duckdb", Status.OK).taken is None
