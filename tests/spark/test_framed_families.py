"""bit_*, max_by, min_by, covar_*, corr and regr_* over frames give Spark's answers: NULL, NaN, infinities, ties."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sundog
from sundog.versions import spark_version
from tests.oracle.needs import HAS_FILTERED_FRAMES
from tests.spark.against_spark import check

pytestmark = [pytest.mark.spark, pytest.mark.thin(3)]

ROWS = 1200
FRAMES = {
    "few rows": "ORDER BY id ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING",
    "wide rows": "ORDER BY id ROWS BETWEEN 70 PRECEDING AND 5 PRECEDING",
    "range": "ORDER BY id RANGE BETWEEN 40 PRECEDING AND 30 FOLLOWING",
    "growing": "ORDER BY id",
    "to the end": "ORDER BY id ROWS BETWEEN 3 FOLLOWING AND UNBOUNDED FOLLOWING",
    "whole": "ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    "by key": "PARTITION BY k ORDER BY id DESC ROWS BETWEEN 50 PRECEDING AND CURRENT ROW",
}
BITS = ("bit_and(n)", "bit_or(b)", "bit_xor(n)", "bit_xor(b) FILTER (WHERE n > 3)", "bit_and(cast(NULL AS int))")
PICKS = (
    "max_by(id, n)",
    "min_by(id, n)",
    "max_by(s, x)",
    "min_by(s, x)",
    "max_by(x, s)",
    "min_by(id, dec)",
    "max_by(id, d) FILTER (WHERE n > 2)",
    "min_by(id, flag)",
)
if not HAS_FILTERED_FRAMES:
    BITS, PICKS = (tuple(call for call in calls if "FILTER" not in call) for calls in (BITS, PICKS))
PAIRS = ("covar_pop(x, y)", "covar_samp(y, x)", "regr_slope(x, y)", "regr_intercept(y, x)", "regr_r2(x, y)")
PAIRS += ("regr_sxy(x, y)", "regr_sxx(x, y)", "regr_syy(x, y)")
CORRELATIONS = ("corr(x, y)", "corr(y, y)")
TIES = "ORDER BY k RANGE BETWEEN 1 PRECEDING AND CURRENT ROW"


@pytest.fixture(scope="module", params=[False, True], ids=["finite", "infinities"])
def session(request: Any, enabled: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Rows that do not lie in order, with NULLs and NaN, and long stretches in which a variable does not vary."""
    random, folder = np.random.default_rng(5), Path(tmp_path_factory.mktemp("families"))
    ids = random.permutation(ROWS)
    x, y = np.round(random.normal(size=ROWS) * 100, 1), np.round(random.normal(size=ROWS) * 10, 1)
    x[(ids > 300) & (ids < 500)] = 2.5
    x[random.random(ROWS) < 0.004], y[random.random(ROWS) < 0.004] = np.nan, np.nan
    if request.param:
        x[random.random(ROWS) < 0.01], y[random.random(ROWS) < 0.003] = np.inf, -np.inf
    numbers = random.integers(0, 8, ROWS)
    table = pa.table(
        {
            "id": ids,
            "k": pa.array(random.integers(0, 4, ROWS), mask=random.random(ROWS) < 0.1),
            "n": pa.array(numbers, pa.int32(), mask=random.random(ROWS) < 0.2),
            "b": random.integers(-(2**62), 2**62, ROWS),
            "x": pa.array(np.where(numbers == 0, -0.0, x), mask=random.random(ROWS) < 0.1),
            "y": pa.array(y, mask=random.random(ROWS) < 0.1),
            "s": pa.array([f"text {number}" for number in numbers], mask=random.random(ROWS) < 0.1),
            "dec": pa.array(numbers, pa.int32()).cast(pa.decimal128(25, 2)),
            "d": pa.array(numbers.astype(np.int32), pa.int32()).cast(pa.date32()),
            "flag": pa.array(numbers > 4, mask=random.random(ROWS) < 0.5),
        }
    )
    for part in range(2):
        pq.write_table(table.slice(part * 700, 700), folder / f"{part}.parquet", row_group_size=200)
    enabled.read.parquet(str(folder)).createOrReplaceTempView("families")
    return enabled


@pytest.mark.parametrize("frame", FRAMES)
def test_over_a_unique_order(session: Any, frame: str) -> None:
    exact = ", ".join(f"{call} OVER w AS r{number}" for number, call in enumerate((*BITS, *PICKS)))
    check(session, f"SELECT id, {exact} FROM families WINDOW w AS ({FRAMES[frame]})")
    for calls, accelerated in ((PAIRS, True), (CORRELATIONS, not spark_version().corr_may_raise)):
        rounded = ", ".join(f"{call} OVER w AS r{number}" for number, call in enumerate(calls))
        query = f"SELECT id, {rounded} FROM families WINDOW w AS ({FRAMES[frame]})"
        check(session, query, accelerated=accelerated, tolerance=1e-9)


def test_over_ties(session: Any) -> None:
    """Which of equal rows `max_by` takes is up to their order; all else is not."""
    calls = ", ".join(f"{call} OVER w AS r{number}" for number, call in enumerate(BITS))
    check(session, f"SELECT id, {calls} FROM families WINDOW w AS ({TIES})")


def test_without_an_order(session: Any) -> None:
    check(session, "SELECT id, bit_xor(b) OVER (), bit_and(n) OVER () FROM families")
    session.sql("SELECT id, max_by(id, n) OVER () FROM families").collect()
    assert [reason.split(":")[0] for reason in sundog.last_run().fallback_reasons] == ["FRAME"]
