"""Write down that tests have passed in this environment: which, how many and when, from the reports of pytest.

    .venvs/4.1/bin/python -m pytest tests/versions --junitxml build/4.1.xml
    .venvs/4.1/bin/python -m tests.versions.record build/4.1.xml

Several reports, of several runs, count as one. A test that is in several of them counts once, as its latest run ended:
after a correction only its file need run again. Nothing is written down if a test has failed. `tests/versions` counts
only if all of it was run; of the other tests it is written down how many there are.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import redirect_stdout
from importlib import metadata
from io import StringIO
from pathlib import Path
from xml.etree import ElementTree

import pytest

from sundog.versions.tested import Environment, PassedTests, add

FOLDER = Path(__file__).parents[2] / "src" / "sundog" / "versions"  # that of the repository, whatever is installed
PACKAGES = ("pyarrow", "numpy", "pandas")
SMOKE = "tests.versions."


class NotPassedError(Exception):
    """A report says that a test failed, or that `tests/versions` was not run as a whole."""


class Collected:
    """A plugin of pytest: how many tests there are, of `tests/versions` and others."""

    def __init__(self) -> None:
        self.smoke = self.others = 0

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.smoke = sum(item.nodeid.startswith("tests/versions/") for item in session.items)
        self.others = len(session.items) - self.smoke


def collected() -> Collected:
    found = Collected()
    printed = StringIO()
    with redirect_stdout(printed):  # the name of every test
        code = pytest.main(["--collect-only", "-q", "tests"], plugins=[found])
    if code != pytest.ExitCode.OK:
        raise NotPassedError(f"the tests cannot be collected: {printed.getvalue()[-2000:]}")
    return found


def outcomes(reports: Iterable[Path], there: Collected) -> tuple[PassedTests | None, PassedTests | None]:
    """Of `tests/versions`, and of the others; None of what is in no report."""
    suites = [suite for report in reports for suite in ElementTree.parse(report).getroot().iter("testsuite")]
    suites.sort(key=lambda suite: suite.get("timestamp", ""))
    latest: dict[tuple[str, str], str] = {}
    for suite in suites:
        latest |= outcomes_by_test(suite)
    bad = ["::".join(test) for test, outcome in latest.items() if outcome == "failed"]
    smoke = Counter(outcome for (where, _), outcome in latest.items() if where.startswith(SMOKE))
    others = Counter(outcome for (where, _), outcome in latest.items() if not where.startswith(SMOKE))
    date = suites[-1].get("timestamp", "")[:10] if suites else ""
    if bad:
        raise NotPassedError(f"failed: {', '.join(bad)}")
    if smoke and smoke["passed"] != there.smoke:
        raise NotPassedError(f"of the {there.smoke} tests of tests/versions {smoke['passed']} have passed")
    return (
        PassedTests(date, smoke["passed"], 0, there.smoke) if smoke else None,
        PassedTests(date, others["passed"], others["skipped"], there.others) if others else None,
    )


def outcomes_by_test(suite: ElementTree.Element) -> dict[tuple[str, str], str]:
    """`passed`, `skipped` or `failed`, by module and name. A test whose tear-down fails is in the report twice."""
    found: dict[tuple[str, str], str] = {}
    for case in suite.iter("testcase"):
        tags = {child.tag for child in case}
        outcome = "failed" if tags & {"failure", "error"} else "skipped" if "skipped" in tags else "passed"
        test = case.get("classname", ""), case.get("name", "")
        if found.get(test) != "failed":
            found[test] = outcome
    return found


def here(smoke: PassedTests | None, others: PassedTests | None) -> Environment:
    from sundog.environment.java import ensure_java, major_version

    python = ".".join(map(str, sys.version_info[:2]))
    java = str(major_version(ensure_java().version))
    packages = {name: metadata.version(name) for name in PACKAGES}
    return Environment(metadata.version("pyspark"), python, java, packages, smoke, others)


def main(arguments: Sequence[str]) -> int:
    from sundog.versions import short_name

    try:
        smoke, others = outcomes(map(Path, arguments), collected())
    except NotPassedError as error:
        print(f"Nothing was written down: {error}", file=sys.stderr)
        return 1
    environment = here(smoke, others)
    add(FOLDER, short_name(environment.spark), environment)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
