"""`sundog data` and `sundog bench` as a user types them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from sundog.benchmarks.cli import ArgumentError, parse_rows, register, rows_text
from sundog.benchmarks.data.catalog import DataSetError
from sundog.benchmarks.results import Results

app = typer.Typer()
register(app)


def sundog(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.mark.parametrize(
    ("text", "rows"), [("10m", 10_000_000), ("250k", 250_000), ("6_000_000", 6_000_000), ("7", 7), ("1.5M", 1_500_000)]
)
def test_rows_are_read(text: str, rows: int) -> None:
    assert parse_rows(text) == rows
    assert parse_rows(rows_text(rows)) == rows


@pytest.mark.parametrize("text", ["", "ten", "0", "-5", "1.5", "1mm"])
def test_wrong_rows_say_how_to_write_them(text: str) -> None:
    with pytest.raises(ArgumentError, match="250k or 10m"):
        parse_rows(text)


def test_data_is_made_once(tmp_path: Path) -> None:
    first = sundog("data", "hits", tmp_path / "h", "--rows", "1k", "--json")
    assert first.exit_code == 0, first.output
    assert json.loads(first.stdout)["made"] is True
    again = sundog("data", "hits", tmp_path / "h", "--rows", "1k", "--json")
    assert json.loads(again.stdout)["made"] is False
    other = sundog("data", "hits", tmp_path / "h", "--rows", "2k")
    assert isinstance(other.exception, DataSetError)
    replaced = sundog("data", "hits", tmp_path / "h", "--rows", "2k", "--overwrite", "--json")
    assert json.loads(replaced.stdout)["rows"] == 2000


def test_bench_makes_its_data_measures_and_writes_both_files(tmp_path: Path) -> None:
    run = sundog(
        "bench", "clickbench/q0[01]", "--engines", "decode", "--rows", "1k", "--repeat", 1, "--warmup", 0,
        "--data", tmp_path, "--json", tmp_path / "a.json", "--report", tmp_path / "a.md",
    )  # fmt: skip
    assert run.exit_code == 0, run.output
    assert Results.read(tmp_path / "a.json").cases == ["clickbench/q00", "clickbench/q01"]
    assert "| clickbench/q01 |" in (tmp_path / "a.md").read_text()
    assert (tmp_path / "hits-1k").is_dir()
    compared = sundog("bench", "--compare", tmp_path / "a.json", tmp_path / "a.json", "--json", "-")
    assert [one["verdict"] for one in json.loads(compared.stdout)] == ["same", "same"]


def test_an_engine_may_run_in_several_interpreters(tmp_path: Path) -> None:
    run = sundog(
        "bench", "clickbench/q00", "--engines", "decode,decode@other", "--python", f"other={sys.executable}",
        "--rows", "1k", "--repeat", 1, "--warmup", 0, "--data", tmp_path, "--json", tmp_path / "a.json",
    )  # fmt: skip
    assert run.exit_code == 0, run.output
    found = Results.read(tmp_path / "a.json")
    assert [(m.engine, m.status.value) for m in found.measurements] == [("decode", "ok"), ("decode@other", "ok")]


def test_the_main_cases_have_one_name() -> None:
    listed = json.loads(sundog("bench", "--list", "main", "--json", "-").stdout)["cases"]
    assert len(listed) == 26
    assert {case["name"].split("/")[0] for case in listed} == {"topk", "window", "aggregate"}


def test_list_shows_cases_and_engines() -> None:
    listed = json.loads(sundog("bench", "--list", "topk/q*", "--json", "-").stdout)
    assert [case["name"] for case in listed["cases"]] == ["topk/q1", "topk/q2", "topk/q3", "topk/q4"]
    assert "sundog-executors" in listed["engines"]
    assert "clickbench/q42" in sundog("bench", "--list").stdout


def test_a_failing_engine_gives_an_exit_code(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "broken.parquet").write_bytes(b"not parquet")
    run = sundog("bench", "clickbench/q01", "--engines", "decode", "--table", f"hits={tmp_path / 't'}", "--repeat", 1)
    assert run.exit_code == 1
    assert "ArrowInvalid" in run.output


@pytest.mark.parametrize(
    "arguments",
    [
        ("bench",),
        ("bench", "topk/q1", "--table", "lineitem"),
        ("bench", "topk/q1", "--engines", "spark@3.5", "--python", "3.6=python"),
        ("bench", "topk/q1", "--table", "lineitem=/nowhere"),
        ("data", "hits", "x", "--engine", "flink"),
        ("data", "hits", "x", "--scale", "1"),
        ("data", "tpch", "x", "--rows", "1k"),
        ("data", "tpcds", "x", "--engine", "spark"),
        ("data", "tpch", "x", "--scale", "0"),
        ("data", "tpch", "x", "--scale", "nan"),
    ],
)
def test_wrong_arguments_are_errors_of_ours(arguments: tuple[str, ...]) -> None:
    assert isinstance(sundog(*arguments).exception, ArgumentError)


def test_a_result_file_is_summarised(tmp_path: Path) -> None:
    sundog(
        "bench", "clickbench/q0[01]", "--engines", "decode", "--rows", "1k", "--repeat", 1, "--warmup", 0,
        "--data", tmp_path, "--json", tmp_path / "a.json",
    )  # fmt: skip
    (line,) = json.loads(sundog("bench", "--summary", tmp_path / "a.json", "--json", "-").stdout)
    assert (line["suite"], line["engine"], line["queries"], line["compared"]) == ("clickbench", "decode", 2, 0)
    assert "clickbench" in sundog("bench", "--summary", tmp_path / "a.json").stdout
