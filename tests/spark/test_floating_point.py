"""`spark.sundog.floatingPoint = spark`: over a unique order key every bit of a sum of doubles is Spark's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sundog
from sundog.versions import spark_version
from tests.oracle.needs import needs_newest_spark
from tests.spark.against_spark import check

pytestmark = [pytest.mark.spark, pytest.mark.thin(2)]

FRAMES = {
    "growing": "ORDER BY id",
    "growing, from the other end": "ORDER BY id DESC",
    "growing, behind the row": "ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND 3 PRECEDING",
    "whole": "ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    "rows": "ORDER BY id ROWS BETWEEN 40 PRECEDING AND 2 FOLLOWING",
    "wide rows": "ORDER BY id ROWS BETWEEN 900 PRECEDING AND CURRENT ROW",
    "range": "ORDER BY id RANGE BETWEEN 300 PRECEDING AND 100 FOLLOWING",
    "by key": "PARTITION BY k ORDER BY id ROWS BETWEEN 30 PRECEDING AND CURRENT ROW",
}
CALLS = ("sum(x)", "avg(x)", "sum(f)", "avg(f)", "avg(big)", "avg(price)", "var_pop(x)", "stddev_samp(f)")
CALLS += ("covar_pop(x, f)", "covar_samp(f, x)", "regr_slope(x, f)", "regr_intercept(f, x)")
SEGMENT_TREES = "spark.sql.window.segmentTree.enabled"


@pytest.fixture(scope="module")
def strict(enabled: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Values of both signs and of sizes from 1e-8 to 1e16, with NULLs, in rows that do not lie in order."""
    random, folder, count = np.random.default_rng(11), Path(tmp_path_factory.mktemp("doubles")), 3000
    values = random.normal(size=count) * 10.0 ** random.integers(-8, 17, count)
    table = pa.table(
        {
            "id": random.permutation(count),
            "k": random.integers(0, 4, count),
            "x": pa.array(values, mask=random.random(count) < 0.1),
            "f": random.normal(size=count).astype(np.float32),
            "big": random.integers(-(2**62), 2**62, count),
            "price": pa.array(random.integers(0, 10**9, count), pa.int32()).cast(pa.decimal128(11, 0)),
        }
    )
    pq.write_table(table.slice(0, 1800), folder / "a.parquet", row_group_size=500)
    pq.write_table(table.slice(1800), folder / "b.parquet", row_group_size=500)
    enabled.read.parquet(str(folder)).createOrReplaceTempView("doubles")
    enabled.conf.set("spark.sundog.floatingPoint", "spark")
    yield enabled
    enabled.conf.unset("spark.sundog.floatingPoint")


@pytest.mark.parametrize("frame", FRAMES)
def test_sums_over_a_unique_key_are_spark_s_to_the_last_bit(strict: Any, frame: str) -> None:
    calls = ", ".join(f"{call} OVER w" for call in CALLS)
    check(strict, f"SELECT id, {calls} FROM doubles WINDOW w AS ({FRAMES[frame]})")
    correlation = f"SELECT id, corr(x, f) OVER w FROM doubles WINDOW w AS ({FRAMES[frame]})"
    check(strict, correlation, accelerated=not spark_version().corr_may_raise)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id, sum(x) OVER (ORDER BY id ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) FROM doubles",
        "SELECT id, avg(x) OVER () FROM doubles",
        "SELECT k, sum(x) FROM doubles GROUP BY k",
        "SELECT corr(x, f) FROM doubles",
    ],
)
def test_where_the_order_of_addition_is_not_ours_to_keep_the_query_is_spark_s(strict: Any, query: str) -> None:
    strict.sql(query).collect()
    code = "FUNCTION" if "corr(" in query and spark_version().corr_may_raise else "FLOATING_POINT"
    assert [reason.split(":")[0] for reason in sundog.last_run().fallback_reasons] == [code]


def test_segment_trees_add_up_in_another_order_and_stay_on_spark(strict: Any) -> None:
    """A Spark that does not know the setting adds up as always, whatever the session says."""
    has_segment_trees = strict.conf.isModifiable(SEGMENT_TREES)
    strict.conf.set(SEGMENT_TREES, "true")
    try:
        query = "SELECT id, sum(x) OVER (ORDER BY id ROWS 50 PRECEDING) FROM doubles"
        check(strict, query, accelerated=not has_segment_trees)
    finally:
        strict.conf.unset(SEGMENT_TREES)


@needs_newest_spark
def test_the_newest_spark_has_segment_trees(strict: Any) -> None:
    assert strict.conf.isModifiable(SEGMENT_TREES)


def test_what_no_order_changes_is_taken(strict: Any) -> None:
    check(strict, "SELECT k, sum(id), avg(cast(id AS int)), min(x), count(f) FROM doubles GROUP BY k")
