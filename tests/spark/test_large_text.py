"""Plans as text read in pieces: the same as in one piece, whatever their content, compressed or not. Lists of files,
read in batches."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sundog
from sundog.front.jvm import large_text, method_handles
from sundog.front.jvm.method_handles import json_of, plan_json

pytestmark = pytest.mark.spark


def wide_plan(spark: Any) -> Any:
    columns = ", ".join(f"id AS `\u00e4\U0001f600 \n{number}`" for number in range(600))
    return spark.sql(f"SELECT {columns} FROM range(10)")._jdf.queryExecution().analyzed()


def test_a_long_text_is_the_same_in_pieces(spark: Any) -> None:
    jplan = wide_plan(spark)
    assert len(jplan.toJSON()) > 10 * large_text._PIECE
    assert plan_json(spark._jvm, jplan) == jplan.toJSON()
    assert large_text.packing(spark._jvm).compresses


@pytest.mark.parametrize("length", [0, 1, large_text._PIECE, large_text._PIECE + 1, 50 * large_text._PIECE])
def test_a_text_of_any_length_is_the_same(spark: Any, length: int) -> None:
    text = ('\u00e4\U0001f600 \n"x' * length)[:length]
    values = spark._jvm.java.util.Collections.singletonList(text)
    assert json.loads(json_of(spark._jvm, values)) == [text]


def test_without_the_library_that_compresses_it_comes_as_it_is(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = replace(large_text.packing(spark._jvm), compresses=False)
    monkeypatch.setattr(method_handles, "packing", lambda jvm: plain)
    made = method_handles.Methods(spark._jvm)
    to_json = made.to_text(made.virtual("org.apache.spark.sql.catalyst.trees.TreeNode", "toJSON", "java.lang.String"))
    jplan = wide_plan(spark)
    assert not to_json.compressed
    assert to_json(jplan) == jplan.toJSON()


@pytest.mark.parametrize("count", [1, 30, 250])
def test_every_file_of_a_folder_is_read(enabled: Any, tmp_path: Path, count: int) -> None:
    folder = tmp_path / "files of\u00e4 folder"
    folder.mkdir()
    for number in range(count):
        pq.write_table(pa.table({"n": [number, -number]}), folder / f"part {number}%.parquet")
    found = enabled.read.parquet(str(folder)).orderBy("n").limit(1000).collect()
    assert sorted(row.n for row in found) == sorted([*range(count), *range(0, -count, -1)])
    assert sundog.last_run().accelerated
    assert sundog.last_run().metrics["files_total"] == count
