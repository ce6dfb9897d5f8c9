"""The archive for executors: it has everything that a stage can import, and no module that only users on the driver
run."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from sundog.environment.shipping import NOT_SENT, zip_of_this_package

IMPORT_ALL = """
import importlib, pkgutil, sundog
assert ".zip" in sundog.__file__
for module in pkgutil.walk_packages(sundog.__path__, "sundog."):
    assert importlib.import_module(module.name).__file__.endswith(".pyc"), f"{module.name} is compiled by each worker"
"""


@pytest.fixture(scope="module")
def archive() -> Path:
    return zip_of_this_package()


def test_benchmarks_demo_and_command_line_stay_at_home(archive: Path) -> None:
    sent = {Path(name).parts[1] for name in zipfile.ZipFile(archive).namelist()}
    assert sent.isdisjoint(NOT_SENT)
    assert sent >= {"operators", "functions", "columns", "parquet", "kernels", "expr", "runtime", "versions"}


def test_every_module_that_is_sent_imports_nothing_that_is_not(archive: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL],
        env={"PYTHONPATH": str(archive)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_they_stay_importable_on_the_driver() -> None:
    import sundog.benchmarks.cli
    import sundog.demo.run

    assert sundog.demo.run.register
    assert sundog.benchmarks.cli.register
