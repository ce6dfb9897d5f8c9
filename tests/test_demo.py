"""The demo, the first command that a newcomer runs: it works, its claims are true, and it leaves nothing behind."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from sundog.demo import run as demo
from sundog.demo.events import queries, write_events
from sundog.demo.outcomes import Attempt, Outcome, exit_code, table_rows
from sundog.demo.run import differing, in_order, run_demo
from sundog.run import Run
from sundog.support import Code, Reason
from sundog.versions import spark_version
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
    assert differing(answer, answer) is None
    nearly = pa.table({"a": [1, 2], "b": [0.1 + 1e-14, None]})
    assert differing(answer, nearly) is None
    turned = answer.take([1, 0])
    assert "differ" in (differing(answer, turned) or "")
    assert differing(answer, in_order(turned, ("a",))) is None
    assert in_order(turned, ()) is turned, "where a query promises an order it is part of the answer"
    assert "instead of" in (differing(answer, answer.rename_columns(["a", "c"])) or "")
    assert "instead of" in (differing(answer, answer.cast(pa.schema({"a": "int32", "b": "double"}))) or "")
    assert "1 rows, not 2" in (differing(answer, answer.slice(1)) or "")
    assert differing(answer, pa.table({"a": [1, 2], "b": [0.2, None]})) is not None
    assert differing(answer, pa.table({"a": [1, 2], "b": [None, 0.1]})) is not None


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
    per_file = 8 if spark_version().limits_rows_of_row_groups else 1
    rows = (1 << 19) // per_file  # a file is not smaller than the blocks within which rows are out of order
    write_events(spark, rows, tmp_path / "events")
    files = sorted((tmp_path / "events").glob("*.parquet"))
    assert [pq.read_metadata(file).num_row_groups for file in files] == [per_file] * (64 // per_file)
    table = pq.read_table(tmp_path / "events")
    assert table.num_columns >= 12
    assert table.num_rows == rows
    times = table["event_time"].combine_chunks()
    assert len(times.unique()) == rows, "with ties a top-k would have more than one right answer"
    groups = [pq.read_metadata(file).row_group(index) for file in files for index in range(per_file)]
    assert all(group.column(0).statistics.has_min_max for group in groups), "without, nothing can be pruned"
    ends = [end for file in files for end in pc.min_max(pq.read_table(file)["event_time"]).as_py().values()]
    assert ends == sorted(ends), "files follow each other in time"
    assert not times.equals(times.sort()), "rows do not"
    users = table["user_id"].combine_chunks().value_counts().field("counts").to_pylist()
    assert max(users) > 5 * (sum(users) / len(users)), "customers are skewed"
    assert spark.conf.get("spark.sql.parquet.outputTimestampType") == "INT96", "settings are as they were"


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


class Settings(dict[str, str]):
    """As much of a session as the demo's frame needs."""

    def __init__(self) -> None:
        super().__init__({"spark.sundog.placement": "driver"})
        self.conf = self.catalog = self

    def dropTempView(self, name: str) -> None:  # noqa: N802
        assert name.startswith("events")

    def set(self, key: str, value: str) -> None:
        self[key] = value

    def unset(self, key: str) -> None:
        self.pop(key, None)


def run_with(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, screen: Console, *runs: Run, **options: Any) -> int:
    """The demo around queries whose outcomes are given."""
    given = iter(runs)
    monkeypatch.setattr(demo.sundog, "disable", lambda spark: None)
    monkeypatch.setattr(demo, "_make_data", lambda spark, rows, data, stage: data.mkdir())

    def run_query(spark: Any, query: Any, warm_up: Any, stage: Any) -> Outcome:
        spark.conf.set("spark.sundog.placement", "executors")
        assert spark["spark.sundog.learn"] == "false", "each placement is measured, however slow"
        return Outcome(query, 2.0, 20, attempts(next(given), options.get("difference")))

    monkeypatch.setattr(demo, "_run_query", run_query)
    settings = Settings()
    as_json = options.get("as_json", False)
    code = run_demo(1000, tmp_path, tmp_path / "report.html", screen, as_json, session=settings)  # type: ignore[arg-type]
    assert settings == {"spark.sundog.placement": "driver"}, "settings are as they were"
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"], "its data is gone"
    return code


def test_the_demo_as_json(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, screen: Console, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run_with(monkeypatch, tmp_path, screen, topk_run(), window_run(), declined(), as_json=True)
    found = json.loads(screen.file.getvalue())  # type: ignore[attr-defined]
    assert code == 0
    assert found["ok"] is True
    assert found["rows"] == 1000
    assert [query["name"] for query in found["queries"]] == ["top-k", "window", "group-by"]
    assert [query["sundog"]["auto"]["accelerated"] for query in found["queries"]] == [True, True, False]
    assert found["queries"][2]["sundog"]["driver"]["fallback_reasons"] == ["COLLATION: a [bold]strange[/] column"]
    assert "The answers are equal" in capsys.readouterr().err, "people are still told"


def test_a_wrong_answer_fails_the_demo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, screen: Console) -> None:
    code = run_with(monkeypatch, tmp_path, screen, *[topk_run()] * 3, difference="19 rows, not 20")
    assert code == 1
    said = screen.file.getvalue()  # type: ignore[attr-defined]
    assert "The answers differ: auto: 19 rows, not 20" in said
    assert "The answers are equal" not in said
    assert "compared and differ" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_nothing_accelerated_fails_the_demo_with_the_reasons(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, screen: Console
) -> None:
    code = run_with(monkeypatch, tmp_path, screen, *[declined()] * 3)
    assert code == 1
    said = " ".join(screen.file.getvalue().split())  # type: ignore[attr-defined]
    assert "not taken: COLLATION: a [bold]strange[/] column" in said, "text of a query is never markup"
    assert "sundog took none of the queries" in said


def test_data_is_gone_after_a_failure_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, screen: Console) -> None:
    with pytest.raises(StopIteration):
        run_with(monkeypatch, tmp_path, screen)
    assert list(tmp_path.iterdir()) == []
