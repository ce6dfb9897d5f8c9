"""The catalogue names every case once, finds it by glob and alias, and all of its SQL runs on plain Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sundog.benchmarks.cases.catalog import CASES, UnknownCaseError, find_case, select
from sundog.benchmarks.cases.model import Case, Result, SameKeys, SameTop
from sundog.benchmarks.data.catalog import DATA_SETS, find_data_set
from sundog.benchmarks.data.write import make_local
from sundog.benchmarks.engines.catalog import ENGINES, UnknownEngineError, find_engine
from sundog.benchmarks.engines.decode import needed_columns
from sundog.versions import spark_version

SQL_CASES = [case for case in CASES if case.data.name in DATA_SETS and case.overhead is None and case.data.scale == 1]


def test_names_and_aliases_are_unique() -> None:
    names = [name for case in CASES for name in case.names]
    assert len(names) == len(set(names))


def test_the_published_sets_are_complete() -> None:
    assert [case.name for case in select(["clickbench/*"])] == [f"clickbench/q{number:02d}" for number in range(43)]
    assert len(select(["h2o/groupby-*"])) == 10
    assert len(select(["h2o/window-q*"])) == 24
    assert [case.name for case in select(["tpch/*"])] == [f"tpch/q{number:02d}" for number in range(1, 23)]
    halves = {14, 23, 24, 39}
    parts = [(number, part) for number in range(1, 100) for part in (("a", "b") if number in halves else ("",))]
    assert [case.name for case in select(["tpcds/*"])] == [f"tpcds/q{number:02d}{part}" for number, part in parts]
    assert [case.name for case in select(["topk/q?"])] == ["topk/q1", "topk/q2", "topk/q3", "topk/q4"]


def test_a_glob_over_aliases_gives_the_alias_as_name() -> None:
    found = {case.name: case for case in select(["aggregate/*"])}
    for number in (8, 15, 16, 17, 18, 32, 33, 34):
        assert found[f"aggregate/hits-q{number:02d}"].sql == find_case(f"clickbench/q{number:02d}").sql
    assert found["aggregate/h2o-q5"].names == ("aggregate/h2o-q5", "h2o/groupby-q5")
    assert "window/h2o-q8" in {case.name for case in select(["window/*"])}


def test_overlapping_patterns_name_a_case_once() -> None:
    assert [case.name for case in select(["topk/q1", "topk/q*", "topk/q1"])][:2] == ["topk/q1", "topk/q2"]


def test_large_cases_are_run_only_when_asked_for() -> None:
    assert not any(case.large for case in select(["*"]))
    assert any(case.large for case in select(["*"], large=True))
    assert select(["topk/grow-16x-wide"])[0].data.scale == 16
    with pytest.raises(UnknownCaseError, match="--large"):
        select(["topk/grow-4x-*"])


def test_unknown_names_get_a_hint() -> None:
    with pytest.raises(UnknownCaseError, match="clickbench/q15"):
        select(["clickbench/q151"])
    with pytest.raises(UnknownEngineError, match="Did you mean duckdb"):
        find_engine("duckbd")


def test_unsupported_and_dialects_name_engine_families() -> None:
    families = {spec.family for spec in ENGINES.values()}
    for case in CASES:
        assert set(case.dialects) | set(case.unsupported) <= families


def test_needed_columns() -> None:
    columns = ["UserID", "URL", "URLHash"]
    assert needed_columns("select URL, count(*) as c from hits group by URL", columns) == ["URL"]
    assert needed_columns("select * from hits", columns) == columns
    assert needed_columns("select EventTime as t, * from hits", columns) == columns


def test_polars_queries_belong_to_cases() -> None:
    pytest.importorskip("polars")
    from sundog.benchmarks.engines.polar import QUERIES

    assert set(QUERIES) <= {case.name for case in CASES}


def test_polars_sorts_nulls_as_spark_does() -> None:
    pytest.importorskip("polars")
    from sundog.benchmarks.engines.polar import with_spark_nulls

    query = "select a, sum(b) over (order by c) from t order by a desc, coalesce(b, 1)"
    sorted_query = query.replace("a desc,", "a desc nulls last,") + " nulls first"
    assert with_spark_nulls(query) == sorted_query
    assert with_spark_nulls(f"{query}\nlimit 10\n") == f"{sorted_query}\nlimit 10\n"
    assert with_spark_nulls("select a from t order by\n  a") == "select a from t order by\n  a nulls first"
    for unsorted in ("select a from t", "select sum(b) over (order by c) as s from t"):
        assert with_spark_nulls(unsorted) == unsorted


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("data")
    for name, data_set in DATA_SETS.items():
        make_local(data_set, 1000, root / name)
    return {name: root / name for name in DATA_SETS}


@pytest.fixture(scope="module")
def tables(spark: Any, folders: dict[str, Path]) -> Iterator[Any]:
    """Call with a data set's name to make its tables the ones that queries see."""
    made: set[str] = set()

    def use(name: str) -> Any:
        for table, folder in find_data_set(name).folders(folders[name]).items():
            spark.read.parquet(str(folder)).createOrReplaceTempView(table)
            made.add(table)
        return spark

    yield use
    for table in made:
        spark.catalog.dropTempView(table)


@pytest.mark.spark
@pytest.mark.thin(5)
@pytest.mark.parametrize("case", SQL_CASES, ids=lambda case: case.name)
def test_every_case_runs_on_spark(tables: Any, case: Case) -> None:
    session = tables(case.data.name)
    ansi = session.conf.get("spark.sql.ansi.enabled")
    if "corr(" in case.sql and spark_version().corr_may_raise:
        session.conf.set("spark.sql.ansi.enabled", "false")  # a group of so few rows may not vary
    try:
        frame = session.sql(case.sql)
        columns = len(frame.schema)
        if isinstance(case.check, SameTop | SameKeys):
            assert max(case.check.keys) < columns
        if case.result is Result.FETCHED:
            assert frame.toArrow().num_columns == columns
    finally:
        session.conf.set("spark.sql.ansi.enabled", ansi)
