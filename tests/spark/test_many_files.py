"""Tables of many files: their footers are read by a Spark job, and plan and answer are as if the driver read them."""

from __future__ import annotations

import os
from pathlib import Path
from time import sleep
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sundog
from sundog.parquet.meta.footer import FOOTERS, SETTLED_NS
from sundog.parquet.prune.footer_tables import TABLES
from tests.oracle.plain_spark import plain_spark
from tests.spark.against_spark import answer

pytestmark = pytest.mark.spark

FILES = 1200
DISTINCT = 20
QUERY = "SELECT id, name FROM many WHERE id % 7 != 3 ORDER BY id DESC LIMIT 12"
PLANNED = ("files_total", "row_groups_total", "row_groups_pruned_statistics", "row_groups_pruned_initial_threshold")


@pytest.fixture(scope="module")
def session(enabled: Any) -> Any:
    return enabled


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Few files under many names, made long enough ago for their footers to be kept."""
    made, linked = tmp_path_factory.mktemp("made"), tmp_path_factory.mktemp("many")
    for number in range(DISTINCT):
        ids = list(range(100 * number, 100 * number + 40))
        table = pa.table({"id": ids, "name": [f"name {each}" for each in ids]})
        pq.write_table(table, made / f"{number}.parquet", row_group_size=20)
        stamp = 1_700_000_000
        os.utime(made / f"{number}.parquet", (stamp, stamp))
    for number in range(FILES):
        os.link(made / f"{number % DISTINCT}.parquet", linked / f"part-{number:05d}.parquet")
    sleep(SETTLED_NS / 1e9)  # a link counts as a change of the file
    return linked


def run(session: Any, folder: Path, placement: str) -> tuple[Any, dict[str, float]]:
    session.conf.set("spark.sundog.placement", placement)
    session.read.parquet(str(folder)).createOrReplaceTempView("many")
    found = answer(session, QUERY)
    last = sundog.last_run()
    assert last.accelerated, last.fallback_reasons
    return found, dict(last.metrics)


def forget() -> None:
    TABLES.clear()
    FOOTERS.clear()


def test_footers_of_many_files_are_read_by_executors(session: Any, folder: Path) -> None:
    forget()
    ours, metrics = run(session, folder, "auto")
    assert metrics["footers_read_executors"] == FILES
    assert any(stage.purpose == "Footers" for graph in sundog.last_run().graphs for stage in graph.stages)
    again, known = run(session, folder, "auto")
    assert "footers_read_executors" not in known
    forget()
    theirs, by_driver = run(session, folder, "driver")
    assert "footers_read_executors" not in by_driver
    assert ours.equals(again)
    assert ours.equals(theirs)
    for each in (known, by_driver):
        assert [each.get(name) for name in PLANNED] == [metrics.get(name) for name in PLANNED]
    with plain_spark(session):
        assert ours.equals(answer(session, QUERY))


def test_a_file_that_is_rewritten_is_seen(session: Any, folder: Path) -> None:
    forget()
    run(session, folder, "auto")
    path = folder / "part-01123.parquet"
    path.unlink()
    pq.write_table(pa.table({"id": [10**6], "name": ["the newest"]}), path)
    ours, metrics = run(session, folder, "auto")
    assert ours.column("name").to_pylist()[0] == "the newest"
    assert "footers_read_executors" not in metrics  # one file is the driver's to read
    with plain_spark(session):
        assert ours.equals(answer(session, QUERY))


def test_a_broken_file_is_sparks_to_judge(session: Any, folder: Path) -> None:
    forget()
    path = folder / "part-00777.parquet"
    path.unlink()
    path.write_bytes(b"nothing of Parquet, but long enough to look for a footer in it")
    session.conf.set("spark.sundog.placement", "auto")
    session.read.schema("id BIGINT, name STRING").parquet(str(folder)).createOrReplaceTempView("many")
    ours = answer(session, QUERY)
    assert not sundog.last_run().accelerated
    with plain_spark(session):
        assert ours == answer(session, QUERY)
