"""A real standalone Spark cluster on this machine: one master and one worker, each a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

START_SECONDS = 60


@contextmanager
def standalone_cluster(folder: Path, cores: int = 2, memory: str = "1g") -> Iterator[str]:
    """Start master and worker, give the master's address, stop both and every executor at the end."""
    master = _start(
        folder,
        "master",
        "org.apache.spark.deploy.master.Master",
        "--host",
        "127.0.0.1",
        "--port",
        "0",
        "--webui-port",
        "0",
    )
    worker: subprocess.Popen[bytes] | None = None
    try:
        address = _wait_for(folder / "master.log", r"Starting Spark master at (spark://\S+)", master)
        worker = _start(
            folder, "worker", "org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--webui-port", "0",
            "--cores", str(cores), "--memory", memory, "--work-dir", str(folder / "work"), address,
        )  # fmt: skip
        _wait_for(folder / "worker.log", r"(Successfully registered with master)", worker)
        yield address
    finally:
        for process in (worker, master):
            if process is not None:
                os.killpg(process.pid, signal.SIGTERM)
                process.wait(timeout=30)


def _start(folder: Path, name: str, *command: str) -> subprocess.Popen[bytes]:
    spark_class = Path(pyspark.__file__).parent / "bin" / "spark-class"
    environment = dict(os.environ, SPARK_HOME=str(Path(pyspark.__file__).parent), SPARK_LOCAL_IP="127.0.0.1")
    environment["PYSPARK_PYTHON"] = sys.executable
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [str(spark_class), *command], stdout=log, stderr=subprocess.STDOUT, env=environment, start_new_session=True
        )


def _wait_for(log: Path, pattern: str, process: subprocess.Popen[bytes]) -> str:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        found = re.search(pattern, log.read_text(errors="replace"))
        if found:
            return found[1]
        if process.poll() is not None:
            break
        time.sleep(0.1)
    raise RuntimeError(f"the cluster did not start:\n{log.read_text(errors='replace')[-2000:]}")


def executor_pids(worker_folder: Path) -> list[int]:
    """The JVMs of executors whose work directory lies in `worker_folder`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes().decode(errors="replace")
                folder = os.readlink(entry / "cwd")
            except OSError:
                continue
            if "CoarseGrainedExecutorBackend" in command and folder.startswith(str(worker_folder)):
                found.append(int(entry.name))
    return found
