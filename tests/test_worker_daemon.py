"""Python workers that are forked from a process with sundog loaded: they work, and draw different random numbers."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from pyspark.sql import SparkSession

FORKS = """
import json, os, sys
from sundog.environment.worker_daemon import preload
preload()
for _ in range(2):
    if os.fork() == 0:
        loaded = "pandas" in sys.modules and "sundog.operators.window.window_operator" in sys.modules
        import numpy as np, pyarrow as pa, pyarrow.compute as pc
        from sundog.kernels.compile import compile_check
        compile_check()
        table = pa.table({"n": pa.chunked_array([np.arange(100_000)] * 8)}).sort_by("n")  # on Arrow's threads
        product = float((np.ones((300, 300)) @ np.ones((300, 300))).sum())  # on those of OpenBLAS
        print(json.dumps([loaded, pc.sum(table["n"]).as_py(), product, np.random.random()]), flush=True)
        os._exit(0)
    os.wait()
"""


def test_forked_workers_compute_and_have_random_numbers_of_their_own() -> None:
    run = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, timeout=120, check=True)
    first, second = (json.loads(line) for line in run.stdout.splitlines())
    assert first[:3] == second[:3] == [True, 8 * sum(range(100_000)), 300.0**3]
    assert first[3] != second[3]


def test_what_is_printed_while_loading_stays_out_of_the_way_of_the_port() -> None:
    program = """
import pyspark.daemon, sundog.environment.worker_daemon as daemon
pyspark.daemon.manager = lambda: print("port", flush=True)
def preload():
    print("loaded")
    raise ImportError("no such package")
daemon.preload = preload
daemon.main()
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout == "port\n"
    assert "loaded" in run.stderr
    assert "no such package" in run.stderr


@pytest.mark.spark
def test_workers_of_a_local_session_are_forked_from_it(spark: SparkSession) -> None:
    def parent(_: object) -> list[str]:
        import os
        from pathlib import Path

        return [Path(f"/proc/{os.getppid()}/cmdline").read_text()]

    (command,) = spark.sparkContext.parallelize([0], 1).mapPartitions(parent).collect()
    assert "sundog.environment.worker_daemon" in command
