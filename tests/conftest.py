"""One Spark session for all tests that carry the marker `spark`, on whatever Java there is or the wheel's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    from sundog.java import session

    spark = session(
        "sundog-tests",
        "local[2]",
        {
            "spark.driver.memory": "2g",
            "spark.sql.shuffle.partitions": "4",
            "spark.sql.session.timeZone": "UTC",
        },
    )
    yield spark
    spark.stop()
