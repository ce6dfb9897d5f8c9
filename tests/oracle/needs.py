"""Marks of tests that an older Spark cannot pass, for reasons of its own."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JJavaError

from sundog.versions import NEWEST, spark_version

HAS_FILTERED_FRAMES = spark_version().name not in ("3.5", "4.0", "4.1")
"""Whether this Spark knows FILTER in a window: before 4.2 it is an error of the analysis."""


def of_tasks(kind: type[Exception]) -> tuple[type[Exception], ...]:
    """The classes of an error that is raised in a task, where later Sparks raise `kind`: 3.5 leaves it to Py4J."""
    return (kind, Py4JJavaError) if spark_version().name == "3.5" else (kind,)


needs_session_tags = pytest.mark.skipif(
    not spark_version().has_session_tags, reason="a classic session of 3.5 has no tags and cannot be interrupted"
)
needs_newest_spark = pytest.mark.skipif(
    spark_version() is not NEWEST, reason="about the newest Spark: the older ones lack some of it"
)
needs_profiles = pytest.mark.skipif(
    not spark_version().has_profiles,
    reason="mapInArrow of 3.5 takes no resource profile: a Python process for each slot",
)
