"""The standalone cluster that tests run on: its executors import sundog and the injected faults from this checkout, and
no process or file may be left."""

from __future__ import annotations

import os
import time
from contextlib import AbstractContextManager
from pathlib import Path

from sundog.benchmarks.engines.cluster import STOP_SECONDS, Layout
from sundog.benchmarks.engines.cluster import standalone_cluster as start

ROOT = Path(__file__).parent.parent.parent
# Drivers and workers import sundog from this checkout, whatever is installed, and faults from these tests.
PYTHON_PATH = os.pathsep.join([str(ROOT / "src"), str(ROOT)])


def standalone_cluster(
    folder: Path, cores: int = 2, memory: str = "1g", workers: int = 1
) -> AbstractContextManager[str]:
    """A master and `workers` workers of `cores` cores; gives the master's address."""
    return start(folder, Layout(workers, cores), memory, PYTHON_PATH)


def left_behind(folder: Path) -> list[str]:
    """Files of sundog's in the local folders of executors, an application's being removed when it ends."""
    deadline = time.monotonic() + STOP_SECONDS
    while (left := _files_of_sundog(folder)) and time.monotonic() < deadline:
        time.sleep(0.2)
    return left


def _files_of_sundog(folder: Path) -> list[str]:
    found = [*Path(folder, "local").rglob("sundog-*"), *Path(folder, "work").rglob("sundog-*")]
    return [str(path) for path in found if path.suffix != ".zip"]
