"""The demo is the first thing that a newcomer runs: it must work, tell the truth, and leave nothing behind."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from sundog import demo
from sundog.demo import Attempt, Outcome, differing, exit_code, run_demo, table_rows
from sundog.demo_events import queries, write_events
from sundog.front.support import Code, Reason
from sundog.run import Run
from tests.report.samples import topk_run, window_run


def outcome(*attempts: Attempt, index: int = 0) -> Outcome:
    return Outcome(queries(1000, "events")[index], 2.0, 20, list(attempts))


def attempts(run: Run, difference: str | None = None) -> list[Attempt]:
    return [Attempt(placement, 0.05, run, difference) for placement in demo.PLACEMENTS]


def declined(code: Code = Code.COLLATION) -> Run:
    return Run(reasons=[Reason(code, "a [bold]strange[/] column")])


def test_success_needs_equal_answers_and_something_accelerated() -> None:
    fine = outcome(*attempts(topk_run()))
    wrong = outcome(*attempts(topk_run(), "column 0: 1 values differ"))
    not_taken = outcome(*attempts(declined()))
    assert exit_code([fine, fine]) == 0
    assert exit_code([fine, not_taken]) == 0, "leaving a query to Spark is no error"
    assert exit_code([not_taken, not_taken]) == 1
    assert exit_code([fine, wrong]) == 1


def test_answers_are_compared_by_name_type_row_and_order() -> None:
    answer = pa.table({"a": [1, 2], "b": [0.1, None]})
    assert differing(answer, answer, ordered=True) is None
    nearly = pa.table({"a": [1, 2], "b": [0.1 + 1e-14, None]})
    assert differing(answer, nearly, ordered=True) is None
    turned = answer.take([1, 0])
    assert differing(answer, turned, ordered=False) is None
    assert "differ" in (differing(answer, turned, ordered=True) or "")
    assert "instead of" in (differing(answer, answer.rename_columns(["a", "c"]), ordered=True) or "")
    assert "instead of" in (
        differing(answer, answer.cast(pa.schema({"a": "int32", "b": "double"})), ordered=True) or ""
    )
    assert "1 rows, not 2" in (differing(answer, answer.slice(1), ordered=True) or "")
    assert differing(answer, pa.table({"a": [1, 2], "b": [0.2, None]}), ordered=True) is not None
    assert differing(answer, pa.table({"a": [1, 2], "b": [None, 0.1]}), ordered=True) is not None


def test_the_table_has_a_column_per_query_and_no_empty_lines() -> None:
    lines = dict(table_rows([outcome(*attempts(topk_run())), outcome(*attempts(window_run()), index=1)]))
    assert lines["plain Spark"] == ["2.00 s", "2.00 s"]
    assert lines["sundog, driver"] == ["50 ms", "50 ms"]
    assert lines["times as fast"] == ["40×", "40×"]
    assert lines["auto ran on"] == ["driver", "executors"]
    assert lines["row groups read"] == ["3", ""]
    assert lines["row groups pruned"] == ["17", ""]
    assert lines["halo rows"] == ["", "36"]
    assert lines["answers equal"] == ["yes", "yes"]
    assert "groups" not in lines, "no query here has groups"


def test_a_query_that_was_not_taken_shows_why_instead_of_a_ratio() -> None:
    lines = dict(table_rows([outcome(*attempts(declined()))]))
    assert lines["sundog, auto"] == ["not taken: COLLATION"]
    assert lines["auto ran on"] == ["Spark"]
    assert "times as fast" not in lines


def test_one_placement_that_fails_does_not_hide_the_others() -> None:
    mixed = outcome(
        Attempt("auto", 0.1, topk_run(), None),
        Attempt("driver", 0.1, topk_run(), None),
        Attempt("executors", 2.0, declined(Code.EXECUTION), None),
    )
    lines = dict(table_rows([mixed]))
    assert lines["sundog, executors"] == ["not taken: EXECUTION"]
    assert lines["times as fast"] == ["20×"]


@pytest.mark.parametrize("rows", [1, 64, 10_000, 5_000_000, 10**10])
def test_queries_are_made_for_any_size(rows: int) -> None:
    made = queries(rows, "events")
    assert [query.name for query in made] == ["top-k", "window", "group-by"]
    assert all("FROM events" in query.sql for query in made)


def test_command_says_at_once_that_the_report_cannot_be_written(tmp_path: Path) -> None:
    app = typer.Typer()
    demo.register(app)
    result = CliRunner().invoke(app, ["--report", str(tmp_path / "no" / "such" / "report.html")])
    assert result.exit_code == 1
    assert "is not a folder" in str(result.exception)


def test_command_refuses_no_rows(tmp_path: Path) -> None:
    app = typer.Typer()
    demo.register(app)
    assert CliRunner().invoke(app, ["--rows", "0"]).exit_code == 2


@pytest.mark.spark
def test_data_is_what_the_demo_says(spark: Any, tmp_path: Path) -> None:
    write_events(spark, 20_000, tmp_path / "events")
    files = sorted((tmp_path / "events").glob("*.parquet"))
    assert len(files) == 8
    assert [pq.read_metadata(file).num_row_groups for file in files] == [8] * 8
    table = pq.read_table(tmp_path / "events")
    assert table.num_columns >= 12
    assert table.num_rows == 20_000
    times = table["event_time"].combine_chunks()
    assert len(times.unique()) == 20_000, "with ties a top-k would have more than one right answer"
    spans = [
        (group.column(0).statistics.min, group.column(0).statistics.max)
        for file in files
        for group in (pq.read_metadata(file).row_group(index) for index in range(8))
    ]
    assert spans == sorted(spans), "row groups follow each other in time"
    assert not times.equals(times.sort()), "rows do not"
    users = table["user_id"].value_counts().field("counts").to_pylist()
    assert max(users) > 5 * (sum(users) / len(users)), "customers are skewed"


@pytest.fixture
def screen() -> Console:
    return Console(file=io.StringIO(), width=100, highlight=False, force_terminal=False)


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_the_demo_end_to_end(spark: Any, tmp_path: Path, screen: Console) -> None:
    data = tmp_path / "scratch"
    data.mkdir()
    code = run_demo(20_000, data, tmp_path / "report.html", screen, session=spark)
    said = " ".join(screen.file.getvalue().split())  # type: ignore[attr-defined]
    assert code == 0, said
    assert list(data.iterdir()) == [], "its data is gone"
    assert said.count("The answers are equal") == 3
    for shape in ("top-k", "window", "group-by"):
        assert shape in said
    assert "to warm up, which does not count" in said
    assert "row groups pruned" in said
    assert "not taken" not in said, "all three shapes are taken, wherever they run"
    report = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert report.count('<section class="run"') == 3
    assert "plain Spark" in report
    assert spark.conf.get("spark.sundog.placement", None) is None, "settings are as they were"


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_the_demo_as_json(spark: Any, tmp_path: Path, screen: Console, capsys: pytest.CaptureFixture[str]) -> None:
    code = run_demo(5_000, tmp_path, tmp_path / "report.html", screen, as_json=True, session=spark)
    found = json.loads(screen.file.getvalue())  # type: ignore[attr-defined]
    assert code == 0
    assert found["ok"] is True
    assert found["rows"] == 5_000
    assert [query["name"] for query in found["queries"]] == ["top-k", "window", "group-by"]
    for query in found["queries"]:
        assert query["answers_equal"] is True
        assert set(query["sundog"]) == {"auto", "driver", "executors"}
        assert query["sundog"]["driver"]["placement"] == "driver"
        assert query["sundog"]["executors"]["placement"] == "executors"
    assert "The answers are equal" in capsys.readouterr().err, "people are still told"


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_a_wrong_answer_fails_the_demo(
    spark: Any, tmp_path: Path, screen: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if sundog had lost a row: every comparison is told of one row less."""

    def one_row_less(expected: pa.Table, actual: pa.Table, ordered: bool) -> str | None:
        return differing(expected, actual.slice(1), ordered)

    monkeypatch.setattr(demo, "differing", one_row_less)
    code = run_demo(2_000, tmp_path, tmp_path / "report.html", screen, session=spark)
    assert code == 1
    assert "The answers differ" in screen.file.getvalue()  # type: ignore[attr-defined]
