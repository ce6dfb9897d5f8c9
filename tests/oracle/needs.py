"""Marks of tests that an older Spark cannot pass, for reasons of its own."""

from __future__ import annotations

import pytest

from sundog.versions import spark_version

needs_ansi_by_default = pytest.mark.skipif(
    spark_version().name == "3.5", reason="ANSI is off by default, and errors of tasks are Py4J's; see tests/versions"
)
needs_session_tags = pytest.mark.skipif(
    not spark_version().has_session_tags, reason="a classic session of 3.5 has no tags and cannot be interrupted"
)
