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
            "spark.sundog.onInternalError": "raise",  # so that no bug of ours hides behind a fallback
        },
    )
    yield spark
    spark.stop()


@pytest.fixture(scope="module")
def enabled(spark: Any) -> Iterator[Any]:
    """The session with sundog on; afterwards, none of the settings that a module made in it."""
    import sundog

    sundog.enable(spark)
    yield spark
    sundog.disable(spark)
    for key in spark.conf.getAll:
        if key.startswith("spark.sundog.") and key != "spark.sundog.onInternalError":
            spark.conf.unset(key)
