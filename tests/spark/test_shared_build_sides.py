"""Two executors of one standalone worker map one file of a build side, in the folder that the worker made for their
application, and nothing is left when it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sundog.benchmarks.engines.cluster import processes_in
from sundog.environment.java import ensure_java
from tests.spark.cluster import PYTHON_PATH, ROOT, left_behind, standalone_cluster
from tests.spark.cluster_cases import write_tables

pytestmark = pytest.mark.spark


def test_executors_of_one_machine_share_a_build_side(tmp_path: Path) -> None:
    ensure_java()
    write_tables(tmp_path)
    with standalone_cluster(tmp_path, cores=4, memory="2g") as master:
        done = subprocess.run(
            [sys.executable, "-m", "tests.spark.sharing_job", master, str(tmp_path)],
            cwd=ROOT, env=dict(os.environ, PYSPARK_PYTHON=sys.executable, PYTHONPATH=PYTHON_PATH),
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        [line] = [line for line in done.stdout.splitlines() if line.startswith("ANSWER ")]
        answer = json.loads(line.removeprefix("ANSWER "))
        assert answer["equal"], answer
        assert answer["placement"] == "executors", answer
        folders = {Path(each) for each in answer["folders"]}
        assert len(folders) == 2, "one executor answered all"
        [application] = {folder.parent for folder in folders}
        assert {Path(each).parent for each in answer["files"]} == {application}
        assert len(answer["files"]) == 1, "one build side"
        assert left_behind(tmp_path) == []
    assert processes_in(tmp_path) == []
