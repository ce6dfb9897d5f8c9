"""Functions of dates and times at the ends of their types, where Spark raises, wraps or goes on, each in its own
way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sundog.types import TIMESTAMP, TIMESTAMP_NTZ
from tests.spark.against_spark import check

pytestmark = pytest.mark.spark

DAY = 86_400_000_000
TIMES = [-(2**63), -(2**63) + DAY, -(2**63) + 900 * DAY, 2**63 - 1, 2**63 - 1 - 900 * DAY]
DAYS = [-(2**31), -(2**31) + 100, -(2**31) + 900, 2**31 - 1, 2**31 - 900]
UNITS = ("year", "week", "day", "hour", "second", "millisecond")


@pytest.fixture(scope="module")
def session(enabled: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = Path(tmp_path_factory.mktemp("ends"))
    times = pa.array(TIMES, pa.int64())
    table = pa.table(
        {
            "id": range(5),
            "t": times.view(TIMESTAMP),
            "u": times.view(TIMESTAMP_NTZ),
            "d": pa.array(DAYS, pa.int32()).view(pa.date32()),
        }
    )
    pq.write_table(table, folder / "a.parquet")
    enabled.read.parquet(str(folder)).createOrReplaceTempView("ends")
    return enabled


def grouped(expression: str, row: int) -> str:
    """An aggregate over the expression, as text: Python has no such years."""
    return (
        f"SELECT cast(x AS string) FROM (SELECT {expression} x, count(*) FROM ends WHERE id = {row} GROUP BY "
        f"{expression})"
    )


@pytest.mark.parametrize("row", [0, 1, 2, 3])
def test_truncating_raises_and_wraps_where_spark_does(session: Any, row: int) -> None:
    for unit in UNITS if row < 2 else ("year", "week"):
        check(session, grouped(f"date_trunc('{unit}', t)", row), accelerated=None)
    for unit in ("year", "quarter", "week"):
        check(session, grouped(f"trunc(d, '{unit}')", row), accelerated=None)


@pytest.mark.parametrize("row", [0, 3])
def test_parts_and_casts_of_the_ends_are_spark_s(session: Any, row: int) -> None:
    parts = (
        "year(d), quarter(d), month(d), day(d), dayofweek(d), dayofyear(d), weekofyear(d), year(t), hour(t), second(u)"
    )
    check(session, f"SELECT {parts}, count(*) FROM ends WHERE id = {row} GROUP BY {parts}", accelerated=None)
    for expression in (
        "t + INTERVAL '1' DAY",
        "u - INTERVAL '1' SECOND",
        "cast(d AS timestamp)",
        "cast(t AS date)",
        "d + 1",
    ):
        check(session, grouped(expression, row), accelerated=None)
