"""`ORDER BY` without LIMIT of rows that come to the driver: in one range or many, cut by statistics or by a sample."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sundog
from tests.costs import costs
from tests.oracle.compare import assert_same
from tests.oracle.plain_spark import plain_spark
from tests.spark.against_spark import check

pytestmark = pytest.mark.spark

ROWS = 6_000
DIRECTIONS = ["", " DESC", " ASC NULLS LAST", " DESC NULLS FIRST"]
KEYS = ["i", "d", "s", "b", "dec", "wide", "day", "ts", "flag", "tiny"]


def rows(clustered: bool) -> pa.Table:
    random = np.random.default_rng(3)
    numbers = np.arange(ROWS) // 5 if clustered else random.integers(0, ROWS // 5, ROWS)
    doubles = np.where(numbers % 50 == 0, np.nan, np.where(numbers % 7 == 0, -0.0, numbers / 7 - 80))
    doubles[numbers % 11 == 0] = 0.0
    nothing = random.random(ROWS) < 0.05

    def column(values: list[Any], dtype: pa.DataType) -> pa.Array:
        return pa.array([None if gone else value for gone, value in zip(nothing, values, strict=True)], dtype)

    whole = numbers.tolist()
    first_day = datetime.date(1969, 6, 1)
    return pa.table(
        {
            "id": pa.array(np.arange(ROWS)),
            "i": column([n - 500 for n in whole], pa.int64()),
            "d": pa.array(doubles, mask=nothing),
            "s": column([f"{'long common start ' * (n % 2)}{n % 97}é" for n in whole], pa.string()),
            "b": column([bytes([n % 256, 0, n % 3]) for n in whole], pa.binary()),
            "dec": column([Decimal(n - 300).scaleb(-2) for n in whole], pa.decimal128(9, 2)),
            "wide": column([Decimal(n - 300) * 10**30 for n in whole], pa.decimal128(38, 0)),
            "day": column([first_day + datetime.timedelta(n) for n in whole], pa.date32()),
            "ts": column(
                [datetime.datetime(1960, 1, 1) + datetime.timedelta(hours=n) for n in whole], pa.timestamp("us", "UTC")
            ),
            "flag": column([n % 2 == 0 for n in whole], pa.bool_()),
            "tiny": column([n % 100 - 50 for n in whole], pa.int8()),
        }
    )


@pytest.fixture(scope="module")
def tables(enabled: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    for name, clustered in (("clustered", True), ("scattered", False)):
        folder = tmp_path_factory.mktemp(name)
        table = rows(clustered)
        for part in range(3):
            share = table.slice(part * ROWS // 3, ROWS // 3)
            pq.write_table(share, folder / f"part-{part}.parquet", row_group_size=500)
        enabled.read.parquet(str(folder)).createOrReplaceTempView(name)
    enabled.sql("SELECT * FROM scattered WHERE id < 0").createOrReplaceTempView("empty")
    return enabled


@pytest.fixture(params=[4096, 64 << 20], ids=["many ranges", "one range"])
def task_bytes(tables: Any, request: pytest.FixtureRequest) -> Iterator[int]:
    with costs(tables, task_bytes=request.param):
        yield request.param


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("name", ["clustered", "scattered"])
def test_any_type_sorts_as_in_spark(tables: Any, task_bytes: int, name: str, key: str) -> None:
    direction = DIRECTIONS[(KEYS.index(key) + (name == "clustered")) % len(DIRECTIONS)]
    check(tables, f"SELECT * FROM {name} ORDER BY {key}{direction}, id", ordered=True)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_directions_and_places_of_nulls(tables: Any, task_bytes: int, direction: str) -> None:
    check(tables, f"SELECT id, i, d FROM clustered ORDER BY i{direction}, id DESC", ordered=True)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT s, id * 2 twice FROM scattered WHERE i > 100 ORDER BY -i, s DESC, twice",
        "SELECT id FROM clustered ORDER BY d + i, s, id",
        "SELECT i FROM (SELECT i, id FROM clustered UNION ALL SELECT tiny, id FROM scattered) ORDER BY i DESC",
        "SELECT * FROM empty ORDER BY s",
        "SELECT flag, id FROM clustered ORDER BY flag, id",
        "SELECT /*+ REPARTITION(7) */ i FROM scattered ORDER BY i",
        "SELECT i, count(*) c FROM scattered GROUP BY i ORDER BY c DESC, i",
    ],
)
def test_what_may_stand_around(tables: Any, task_bytes: int, query: str) -> None:
    check(tables, query, ordered=True)


def test_an_overflow_in_a_key_is_sparks_error(tables: Any, task_bytes: int) -> None:
    check(tables, "SELECT id FROM scattered ORDER BY tiny / (i - i), id", ordered=True, accelerated=None)


def test_ranges_are_read_by_statistics_or_cut_by_a_sample(tables: Any) -> None:
    with costs(tables, task_bytes=4096):
        clustered, scattered = (
            sundog.explain(tables.sql(f"SELECT * FROM {name} ORDER BY i")) for name in ("clustered", "scattered")
        )
        tables.sql("SELECT * FROM clustered ORDER BY i").collect()
        run = sundog.last_run()
    assert "RangeRead" in clustered
    assert "RangeRepartition" in scattered
    assert run.metrics["ranges"] > 1
    assert run.metrics["window_input_rows"] == run.metrics["window_rows"] == ROWS


def test_every_way_to_take_the_rows(tables: Any, tmp_path: Path) -> None:
    frame = tables.table("scattered").select("id", "i", "s").orderBy("i", "id")
    with plain_spark(tables):
        rows_, pandas, table = frame.collect(), frame.toPandas(), frame.toArrow()
        local = list(frame.toLocalIterator())
    with costs(tables, task_bytes=4096):
        assert frame.collect() == rows_
        assert sundog.last_run().accelerated
        assert frame.toPandas().equals(pandas)
        assert sundog.last_run().accelerated
        assert_same(frame.toArrow(), table, True)
        assert list(frame.toLocalIterator()) == local
        assert sundog.last_run().accelerated
        frame.write.parquet(str(tmp_path / "sorted"))
        assert not sundog.last_run().accelerated


def test_it_can_be_turned_off_and_says_why_not(tables: Any, tmp_path: Path) -> None:
    frame = tables.table("scattered").orderBy("i")
    tables.conf.set("spark.sundog.sort.enabled", "false")
    try:
        assert len(frame.collect()) == ROWS
        assert not sundog.last_run().accelerated
    finally:
        tables.conf.unset("spark.sundog.sort.enabled")
    lines = tmp_path / "lines.csv"
    lines.write_text("1\n2\n")
    tables.read.csv(str(lines)).orderBy("_c0").collect()
    assert [reason.split(":")[0] for reason in sundog.last_run().fallback_reasons] == ["SOURCE"]


def test_a_join_without_another_shape_stays_on_spark(tables: Any) -> None:
    query = "SELECT a.id FROM clustered a JOIN scattered b ON a.id = b.id ORDER BY a.id"
    check(tables, query, ordered=True, accelerated=False)
