"""sundog on the executors of a real standalone cluster, and what becomes of a query whose executor is killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sundog.environment.java import ensure_java
from tests.oracle.tables import events, write_files
from tests.spark.cluster import standalone_cluster

pytestmark = pytest.mark.spark
ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    ensure_java()
    folder = tmp_path_factory.mktemp("cluster")
    write_files(events(20_000), folder / "events", files=4, row_group_size=1000)
    with standalone_cluster(folder) as master:
        yield master, folder


@pytest.mark.parametrize("mode", ["run", pytest.param("kill", marks=pytest.mark.slow)])
def test_executors_of_a_cluster_give_sparks_answer(cluster: tuple[str, Path], mode: str) -> None:
    master, folder = cluster
    environment = dict(os.environ, PYSPARK_PYTHON=sys.executable)  # the Python of the executors
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.cluster_job", master, str(folder), mode],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    answers = [line for line in done.stdout.splitlines() if line.startswith("ANSWER ")]
    assert answers, done.stderr[-3000:]
    answer: dict[str, Any] = json.loads(answers[0].removeprefix("ANSWER "))
    for name, result in answer.items():
        assert result["equal"], (name, result)
        assert result["accelerated"], (name, result)
        assert result["placement"] == "executors"
        assert result["rows"] > 0
        assert result["input_rows"] > 0
