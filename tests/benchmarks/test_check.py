"""Comparing sundog's answers with Spark's: what counts as a difference, and how much of a query was taken."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import typer
from typer.testing import CliRunner

from sundog.benchmarks.cases.model import Case, DataRef
from sundog.benchmarks.check import PLACEMENTS, Checked, answers_differ, check_cases
from sundog.benchmarks.cli import register
from sundog.benchmarks.data.catalog import DATA_SETS
from sundog.benchmarks.data.write import make_local
from sundog.benchmarks.results import Taken

HITS = DataRef("hits")
CASE = Case("x/case", HITS, "select 1")

app = typer.Typer()
register(app)


def test_rows_types_and_errors_are_compared() -> None:
    one, other = pa.table({"v": [1]}), pa.table({"v": [2]})
    assert answers_differ(one, one, CASE) is None
    assert "column 0" in str(answers_differ(one, other, CASE))
    assert answers_differ(one, pa.table({"v": [1.0]}), CASE) is not None
    assert answers_differ("DIVIDE_BY_ZERO", "DIVIDE_BY_ZERO", CASE) is None
    assert answers_differ("DIVIDE_BY_ZERO", one, CASE) == "an answer, not DIVIDE_BY_ZERO"
    assert answers_differ(one, "INTERNAL_ERROR", CASE) == "INTERNAL_ERROR, not an answer"


@pytest.mark.spark
def test_each_case_says_how_much_was_taken_and_why_not_more(spark: Any, tmp_path: Path) -> None:
    make_local(DATA_SETS["hits"], 1000, tmp_path / "hits")
    grouped = "select RegionID, count(*) as c from hits group by RegionID"
    cases = [
        Case("x/whole", HITS, grouped),
        Case(
            "x/part", HITS, f"select *, monotonically_increasing_id() >= 0 as id from ({grouped} order by c, 1 limit 5)"
        ),
        Case("x/spark", HITS, "select UserID from hits where UserID = 1"),
        Case("x/error", HITS, "select RegionID, sum(1 / (UserID - UserID)) as s from hits group by RegionID"),
    ]
    checked = list(check_cases(spark, cases, {HITS: tmp_path / "hits"}))
    assert [one.placement for one in checked] == [*PLACEMENTS] * len(cases)
    taken = {one.case: one.taken for one in checked}
    assert (taken["x/whole"], taken["x/part"], taken["x/spark"]) == (Taken.WHOLE, Taken.PART, Taken.SPARK)
    assert [one.difference for one in checked] == [None] * len(checked)
    assert {one.reason is None for one in checked if one.case == "x/spark"} == {False}
    assert spark.conf.get("spark.sundog.placement", None) is None


def test_the_command_shows_every_case_and_fails_on_a_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Session:
        def stop(self) -> None:
            pass

    found = [
        Checked("clickbench/q00", "driver", Taken.WHOLE),
        Checked("clickbench/q00", "executors", Taken.SPARK, "no"),
    ]

    def checks(*_: object) -> Iterator[Checked]:
        return iter(found)

    def check() -> Any:
        command = ["bench", "clickbench/q00", "--check", "--rows", "1k", "--data", str(tmp_path), "--json", "-"]
        return CliRunner().invoke(app, command)

    monkeypatch.setattr("sundog.session", lambda *_, **__: Session())
    monkeypatch.setattr("sundog.benchmarks.check.check_cases", checks)
    same = check()
    assert same.exit_code == 0, same.output
    assert [(one["taken"], one["reason"]) for one in json.loads(same.stdout)] == [("whole", None), ("spark", "no")]
    found.append(Checked("clickbench/q01", "driver", Taken.WHOLE, difference="1 rows, not 2"))
    assert check().exit_code == 1
