"""A plugin of pytest that writes down on which Spark, Python and Java `tests/versions` has passed.

    .venvs/4.1/bin/python -m pytest tests/versions -p tests.versions.record

Only a whole run counts: no test failed, was skipped or was not chosen.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "src" / "sundog" / "versions"  # that of the repository, whatever is installed

_left_out: list[str] = []


def pytest_deselected(items: list[pytest.Item]) -> None:
    _left_out.extend(item.nodeid for item in items)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped:
        _left_out.append(report.nodeid)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if exitstatus != 0 or _left_out or session.config.args != ["tests/versions"]:
        return
    import pyspark

    from sundog.environment.java import ensure_java, major_version
    from sundog.versions import short_name
    from sundog.versions.tested import Environment, add

    python = ".".join(map(str, sys.version_info[:2]))
    environment = Environment(pyspark.__version__, python, str(major_version(ensure_java().version)))
    add(FOLDER, short_name(pyspark.__version__), environment)
