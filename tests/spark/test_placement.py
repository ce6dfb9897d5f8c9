"""Where `auto` runs a query: by the bytes that it reads, and twice as many where a WHERE drops rows as they are
read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sundog

pytestmark = pytest.mark.spark

ROWS = 20_000


@pytest.fixture(scope="module")
def session(enabled: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("placed") / "rows.parquet"
    pq.write_table(pa.table({"v": np.arange(ROWS)}), path, use_dictionary=False, compression="none")
    enabled.read.parquet(str(path)).createOrReplaceTempView("placed")
    enabled.conf.set("spark.sundog.placement", "auto")
    yield enabled
    enabled.conf.unset("spark.sundog.driver.maxBytes")


@pytest.mark.parametrize(
    ("query", "limit", "placement"),
    [
        ("SELECT v % 10, count(*) FROM placed GROUP BY v % 10", "50k", "driver"),
        ("SELECT v % 10, count(*) FROM placed GROUP BY v % 10", "30k", "executors"),
        ("SELECT v % 10, count(*) FROM placed WHERE v % 3 = 0 GROUP BY v % 10", "25k", "driver"),
        ("SELECT v % 10, count(*) FROM placed WHERE v % 3 = 0 GROUP BY v % 10", "15k", "executors"),
        ("SELECT sum(v) OVER (ORDER BY v) FROM placed WHERE v % 3 = 0", "100k", "executors"),
    ],
)
def test_placement(session: Any, query: str, limit: str, placement: str) -> None:
    session.conf.set("spark.sundog.driver.maxBytes", limit)
    session.sql(query).collect()
    run = sundog.last_run()
    assert run.accelerated, run.fallback_reasons
    assert run.placement == placement
