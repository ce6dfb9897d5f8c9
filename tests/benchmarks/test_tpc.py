"""TPC-H and TPC-DS: their tables come from TPC's generator, and their queries are compared by what SQL promises."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from sundog.benchmarks.cases.catalog import select
from sundog.benchmarks.cases.model import DataRef, SameOrder, SameRows, SameTop
from sundog.benchmarks.cases.tpc import CASES, check_of
from sundog.benchmarks.cli import register
from sundog.benchmarks.data.catalog import DataSetError, Note
from sundog.benchmarks.data.tpc import GENERATOR, TPCDS, TPCH, GeneratorError
from sundog.benchmarks.data.write import make_tpc

app = typer.Typer()
register(app)


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A generator of this body in place of the real one."""

    def make(body: str) -> None:
        scripts = tmp_path / "scripts"
        scripts.mkdir()
        program = scripts / GENERATOR
        program.write_text(f"#!{sys.executable}\nimport sys\nfrom pathlib import Path\n{dedent(body)}")
        program.chmod(0o755)
        monkeypatch.setattr("sundog.benchmarks.data.tpc.sysconfig.get_path", lambda name: str(scripts))

    return make


# --- data ------------------------------------------------------------------------------------------------------------


def test_tables_are_those_of_the_specification(tpc_folders: dict[DataRef, Path]) -> None:
    tpch, tpcds = (tpc_folders[DataRef(name)] for name in ("tpch", "tpcds"))
    rows = {table: pq.read_table(folder).num_rows for table, folder in TPCH.folders(tpch).items()}
    assert rows == {
        "lineitem": 60175,
        "orders": 15000,
        "partsupp": 8000,
        "customer": 1500,
        "part": 2000,
        "supplier": 100,
        "nation": 25,
        "region": 5,
    }
    assert {folder.name for folder in tpcds.iterdir() if folder.is_dir()} == set(TPCDS.tables)
    assert pq.read_table(tpcds / "date_dim").num_rows == 73049


def test_files_are_snappy_with_decimals_as_integers_and_dates(tpc_folders: dict[DataRef, Path]) -> None:
    file = pq.ParquetFile(tpc_folders[DataRef("tpch")] / "lineitem" / "part-00000.parquet")
    schema, columns = file.schema_arrow, file.metadata.row_group(0)
    assert schema.field("l_extendedprice").type == pa.decimal128(15, 2)
    assert schema.field("l_shipdate").type == pa.date32()
    assert {columns.column(place).compression for place in range(16)} == {"SNAPPY"}
    assert columns.column(5).physical_type == "INT64"
    sales = pq.ParquetFile(tpc_folders[DataRef("tpcds")] / "store_sales" / "part-00000.parquet").schema_arrow
    assert sales.field("ss_net_paid").type == pa.decimal128(7, 2)


@pytest.mark.usefixtures("tpc_folders")  # the generator is there
def test_files_of_a_table_are_numbered_in_the_order_of_its_rows(tmp_path: Path) -> None:
    replace(TPCH, tables={"orders": 1200}).make(0.01, tmp_path, threads=2)
    files = sorted((tmp_path / "orders").iterdir())
    assert [file.name for file in files] == [f"part-{place:05d}.parquet" for place in range(12)]
    keys = pa.concat_tables([pq.read_table(file, columns=["o_orderkey"]) for file in files])["o_orderkey"].to_pylist()
    assert keys == sorted(keys)


def test_large_tables_get_more_files_with_the_scale() -> None:
    assert TPCH.file_counts(10)["lineitem"] == 40
    assert TPCH.file_counts(0.01) == dict.fromkeys(TPCH.tables, 1)
    assert TPCDS.file_counts(100)["date_dim"] == 1


@pytest.mark.usefixtures("tpc_folders")
def test_the_command_makes_a_suite_once(tmp_path: Path) -> None:
    def made(*more: str) -> dict[str, Any]:
        run = CliRunner().invoke(app, ["data", "tpch", str(tmp_path / "t"), "--scale", "0.01", "--json", *more])
        assert run.exit_code == 0, run.output
        return dict(json.loads(run.stdout))

    assert (made()["made"], made()["made"]) == (True, False)
    assert made()["files"] == len(TPCH.tables)
    assert Note.read(tmp_path / "t") == Note.of_scale("tpch", 0.01)
    other = CliRunner().invoke(app, ["data", "tpch", str(tmp_path / "t"), "--scale", "0.02"])
    assert isinstance(other.exception, DataSetError)
    assert "tpch at scale 0.01" in str(other.exception)


def test_a_missing_generator_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sundog.benchmarks.data.tpc.sysconfig.get_path", lambda name: str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GeneratorError, match=r"pip install 'sundog\[bench\]'"):
        make_tpc(TPCH, 0.01, tmp_path / "t")


def test_a_failing_generator_says_so_and_leaves_no_finished_folder(tmp_path: Path, fake: Callable[[str], None]) -> None:
    fake('sys.exit("no space left")')
    with pytest.raises(GeneratorError, match="could not make tpcds: no space left"):
        make_tpc(TPCDS, 1, tmp_path / "t")
    assert Note.read(tmp_path / "t") is None


def test_a_folder_with_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(DataSetError, match="not empty"):
        make_tpc(TPCH, 0.01, tmp_path)


# --- queries ---------------------------------------------------------------------------------------------------------


def test_what_is_compared_follows_from_order_and_limit() -> None:
    assert check_of("select a from t order by a limit 100\n", (0,)) == SameTop((0,), 100)
    assert check_of("select a from (select a from t limit 100) order by a\n", (0,)) == SameOrder((0,))
    assert check_of("select sum(a) from t\n", ()) == SameRows()


def test_texts_are_spelled_for_all_engines() -> None:
    for case in CASES:
        outside_of_literals = "".join(case.sql.split("'")[::2])
        assert outside_of_literals == outside_of_literals.lower(), case.name
        assert not set(outside_of_literals) & set('`"\t;'), case.name


def sort_keys(spark: Any, sql: str) -> tuple[int, ...]:
    """The columns of the answer that the query's last ORDER BY names, up to the first that the answer does not show."""
    plan = spark.sql(sql)._jdf.queryExecution().analyzed()
    output = [plan.output().apply(place).exprId().id() for place in range(plan.output().size())]
    while plan.nodeName() in ("GlobalLimit", "LocalLimit", "Project", "WithCTE"):
        plan = plan.children().last()
    if plan.nodeName() != "Sort":
        return ()
    keys: list[int] = []
    for place in range(plan.order().size()):
        key = plan.order().apply(place).child()
        if key.nodeName() != "AttributeReference" or key.exprId().id() not in output:
            break
        keys.append(output.index(key.exprId().id()))
    return tuple(dict.fromkeys(keys))


@pytest.mark.spark
@pytest.mark.long
def test_spark_sorts_by_the_columns_that_are_compared_in_order(spark: Any, tpc_folders: dict[DataRef, Path]) -> None:
    for data_set in (TPCH, TPCDS):
        for table, folder in data_set.folders(tpc_folders[DataRef(data_set.name)]).items():
            spark.read.parquet(str(folder)).createOrReplaceTempView(table)
        for case in select([f"{data_set.name}/*"]):
            keys = () if isinstance(case.check, SameRows) else case.check.keys  # type: ignore[union-attr]
            assert (case.name, keys) == (case.name, sort_keys(spark, case.sql))
