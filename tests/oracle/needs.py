"""Marks of tests that an older Spark cannot pass, for reasons of its own."""

from __future__ import annotations

import pytest

from sundog.versions import NEWEST, spark_version

HAS_FILTERED_FRAMES = spark_version().name not in ("3.5", "4.0", "4.1")
"""Whether this Spark knows FILTER in a window: before 4.2 it is an error of the analysis."""

needs_errors_of_tasks = pytest.mark.skipif(
    spark_version().name == "3.5",
    reason="errors of tasks are Py4J's; see tests/versions",
)
needs_session_tags = pytest.mark.skipif(
    not spark_version().has_session_tags, reason="a classic session of 3.5 has no tags and cannot be interrupted"
)
needs_newest_spark = pytest.mark.skipif(
    spark_version() is not NEWEST, reason="about the newest Spark: the older ones lack some of it"
)
