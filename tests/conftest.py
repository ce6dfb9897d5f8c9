"""One Spark session for all tests that carry the marker `spark`, on whatever Java there is or the wheel's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# How fast examples are drawn is no property of sundog, and depends on what else the machine does.
settings.register_profile("sundog", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("sundog")

# Longest first: `make test` gives whole files to two processes, and the last ones of each should be short.
LONG_FILES = (
    "tests/spark/test_queries.py",
    "tests/versions/test_connect.py",
    "tests/benchmarks/test_tpc_answers.py",
    "tests/spark/test_cluster.py",
    "tests/spark/test_joins.py",
    "tests/spark/test_subqueries.py",
)


@pytest.hookimpl(tryfirst=True)  # before pytest looks at the markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {name: place for place, name in enumerate(LONG_FILES)}
    items.sort(key=lambda item: places.get(item.nodeid.partition("::")[0], len(places)))
    mark_left_out(items)


def mark_left_out(items: list[pytest.Item]) -> None:
    """`thin(n)`: of the cases of one test function the first of every n is part of `make test`, each of `make
    test-matrix`."""
    seen: Counter[str] = Counter()
    for item in items:
        thin = item.get_closest_marker("thin")
        if thin is not None:
            function = item.nodeid.partition("[")[0]
            if seen[function] % thin.args[0]:
                item.add_marker("matrix")
            seen[function] += 1


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from sundog.environment.java import session
    from sundog.versions import spark_version

    # Off by default in 3.5. Tests are about ANSI unless they say otherwise; those in tests/versions are about defaults.
    ansi = {"spark.sql.ansi.enabled": "true"} if spark_version().name == "3.5" else {}
    spark = session(
        "sundog-tests",
        "local[2]",
        {
            "spark.driver.memory": "2g",
            "spark.sql.shuffle.partitions": "4",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),  # several processes test at once
            "spark.sundog.onInternalError": "raise",  # so that no bug of ours hides behind a fallback
            "spark.sundog.learn": "false",  # so that what is accelerated does not depend on how fast the machine is
            # Each sort, hash table and join of each task takes a page of memory; of a heap of 2 GiB it would be 32 MiB.
            # To clear and collect those was a fifth of the JVM's processor time.
            "spark.buffer.pageSize": "1m",
            **ansi,
        },
    )
    give_names_of_newer_versions()
    yield spark
    spark.stop()


def give_names_of_newer_versions() -> None:
    """`toArrow`, which the tests compare by, for a pyspark that has none yet. And `getCondition` of an error, which was
    `getErrorClass`. What failed in a task is Java's own exception in 3.5: it has the condition of its cause."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException
    from pyspark.errors.exceptions.captured import CapturedException
    from pyspark.sql import DataFrame

    from sundog.versions import spark_version

    if not hasattr(DataFrame, "toArrow"):
        DataFrame.toArrow = lambda self: spark_version().to_arrow(self)
    if not hasattr(PySparkException, "getCondition"):
        PySparkException.getCondition = lambda self: self.getErrorClass()  # that of its own class
        Py4JJavaError.getCondition = lambda self: cause_of(self).getErrorClass()
        Py4JJavaError.getMessageParameters = lambda self: cause_of(self).getMessageParameters()
        Py4JJavaError.getSqlState = lambda self: cause_of(self).getSqlState()
        CapturedException.getQueryContext = lambda self: list(self._origin.getQueryContext())
        Py4JJavaError.getQueryContext = lambda self: cause_of(self).getQueryContext()


def cause_of(error: Any) -> Any:
    """The first SparkThrowable with a condition among a Py4JJavaError and its causes, as the exception that later
    Sparks raise; the error itself if there is none."""
    from pyspark.errors.exceptions.captured import CapturedException, convert_exception

    cause = error.java_exception
    while cause is not None:
        captured = convert_exception(cause)
        if captured.getErrorClass() is not None:
            return captured
        cause = cause.getCause()
    return CapturedException(origin=error.java_exception)


@pytest.fixture(scope="module")
def enabled(spark: Any) -> Iterator[Any]:
    """The session with sundog on; afterwards, none of the settings that a module made in it."""
    import sundog
    from sundog.front.session.session_conf import keys_set

    sundog.enable(spark)
    yield spark
    sundog.disable(spark)
    for key in keys_set(spark._jvm, spark._jconf):
        if key.startswith("spark.sundog.") and key not in ("spark.sundog.onInternalError", "spark.sundog.learn"):
            spark.conf.unset(key)
