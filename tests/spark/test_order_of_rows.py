"""Functions whose answer depends on the order of rows: sundog processes rows in Spark's order.

A task of Spark's takes its rows as they lie in the files, and tasks are merged in their order; files go to tasks by
size, the largest first. So `first`, the ties of `max_by` and the sign of a smallest zero come out the same run after
run.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sundog
from tests.oracle.plain_spark import plain_spark
from tests.spark.against_spark import PLACEMENTS, check

pytestmark = [pytest.mark.spark, pytest.mark.thin(5)]

NAN = float("nan")


def rows(random: np.random.Generator, count: int, first: int) -> pa.Table:
    numbers = np.arange(first, first + count)
    return pa.table(
        {
            "k": random.integers(0, 5, count),
            "text": pa.array([f"k{i}" for i in random.integers(0, 5, count)]),
            "o": pa.array(random.integers(0, 4, count), mask=random.random(count) < 0.2),
            "d": pa.array(random.choice([0.0, -0.0, 1.0, NAN], count), mask=random.random(count) < 0.2),
            "zero": random.choice([0.0, -0.0], count),
            "f": pa.array(random.choice([0.0, -0.0, NAN], count).astype(np.float32)),
            "v": numbers,
            "s": pa.array([f"a long string that does not fit a view {i}" for i in numbers]),
        }
    )


@pytest.fixture(scope="module", params=["one file of many row groups", "files of several sizes"])
def picks(request: pytest.FixtureRequest, enabled: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    random, folder = np.random.default_rng(7), Path(tmp_path_factory.mktemp("picks"))
    sizes = [3000] if "one" in request.param else [300, 900, 100, 901, 50, 700, 20]
    for number, size in enumerate(sizes):
        pq.write_table(rows(random, size, number * 10_000), folder / f"part-{number}.parquet", row_group_size=64)
    enabled.read.parquet(str(folder)).createOrReplaceTempView("picks")
    return enabled


@pytest.fixture(params=PLACEMENTS)
def placement(request: pytest.FixtureRequest, enabled: Any) -> Iterator[str]:
    enabled.conf.set("spark.sundog.placement", request.param)
    yield request.param
    enabled.conf.unset("spark.sundog.placement")


BY = "max_by(v, o), min_by(v, o), max_by(v, d), min_by(v, d), max_by(s, text), min_by(v, cast(o AS decimal(25, 1)))"
OTHERS = "first(v), last(v), first(o), first(o) IGNORE NULLS, last(d, true), any_value(s)"
ZEROS = "min(zero), max(zero), min(d), max(d), min(f), max(f)"


@pytest.mark.parametrize("calls", [BY, OTHERS, ZEROS], ids=["by", "first and last", "zeros and NaN"])
@pytest.mark.parametrize("key", ["", "k", "text"])
def test_of_equals_the_same_one_is_picked(picks: Any, calls: str, key: str) -> None:
    query = f"SELECT {key}, {calls} FROM picks GROUP BY {key}" if key else f"SELECT {calls} FROM picks"
    check(picks, query)


SHAPES = {
    "top-k": "SELECT * FROM picks ORDER BY v DESC LIMIT 10",
    "limit": "SELECT * FROM picks WHERE v > 5 LIMIT 10",
    "aggregate": "SELECT sum(v) FROM picks",
    "window": "SELECT *, row_number() OVER (ORDER BY v) r FROM picks",
    "groups": "SELECT k, sum(v) FROM picks GROUP BY k",
}


@pytest.mark.parametrize("shape", SHAPES)
def test_what_lies_in_one_partition_is_written_as_one_file_in_order(
    picks: Any, shape: str, tmp_path: Path, placement: str
) -> None:
    picks.sql(SHAPES[shape]).write.parquet(str(tmp_path / "ours"))
    assert sundog.last_run().accelerated
    with plain_spark(picks):
        picks.sql(SHAPES[shape]).write.parquet(str(tmp_path / "theirs"))
    (ours,), (theirs,) = (list((tmp_path / side).glob("*.parquet")) for side in ("ours", "theirs"))
    if shape in ("top-k", "window", "limit"):
        assert pq.read_table(ours, columns=["v"]).equals(pq.read_table(theirs, columns=["v"]))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "shown", ["spark_partition_id()", "monotonically_increasing_id()", "rand(3)"], ids=lambda text: text.split("(")[0]
)
def test_what_shows_partitions_above_a_shape_sees_spark_s(picks: Any, shape: str, shown: str) -> None:
    order = " ORDER BY v" if shape == "window" else ""
    check(picks, f"SELECT *, {shown} shown FROM ({SHAPES[shape]}){order}", accelerated=None)


@pytest.mark.parametrize("shape", ["top-k", "aggregate"])
def test_a_sample_of_what_lies_in_one_partition_is_drawn_from_one(picks: Any, shape: str, placement: str) -> None:
    def drawn() -> list[Any]:
        return [row[-1] for row in picks.sql(SHAPES[shape]).sample(fraction=0.5, seed=3).collect()]

    ours = drawn()
    assert sundog.last_run().accelerated
    with plain_spark(picks):
        assert ours == drawn()


def test_a_seeded_sample_below_a_window_is_spark_s(picks: Any, placement: str) -> None:
    def drawn() -> list[Any]:
        sample = picks.table("picks").sample(fraction=0.2, seed=5)
        return sample.selectExpr("v", "row_number() OVER (ORDER BY v) r").collect()

    ours = drawn()
    assert sundog.last_run().accelerated
    with plain_spark(picks):
        assert ours == drawn()


def test_a_draw_over_rows_that_were_moved_stays_on_spark(picks: Any) -> None:
    moved = picks.table("picks").select("v", "k").repartition(3, "k")
    moved.selectExpr("v", "rand(1) r").selectExpr("r", "row_number() OVER (ORDER BY v)").collect()
    assert any(reason.startswith("NONDETERMINISTIC") for reason in sundog.last_run().fallback_reasons)
    assert not sundog.last_run().accelerated
