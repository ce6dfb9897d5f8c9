"""Plans as text, the same in pieces as in one, and lists of files, which come many at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sundog
from sundog.front.jvm import large_text
from sundog.front.jvm.functions import plan_json

pytestmark = pytest.mark.spark


def wide_plan(spark: Any) -> Any:
    columns = ", ".join(f"id AS `\u00e4\U0001f600 \n{number}`" for number in range(600))
    return spark.sql(f"SELECT {columns} FROM range(10)")._jdf.queryExecution().analyzed()


def test_a_long_text_is_the_same_in_pieces(spark: Any) -> None:
    jplan = wide_plan(spark)
    assert len(jplan.toJSON()) > 10 * large_text._PIECE
    assert plan_json(spark._jvm, jplan) == jplan.toJSON()


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
