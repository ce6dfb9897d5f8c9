"""A standalone Spark cluster on this machine: a master and its workers, each a process of its own on loopback.

For measurements and tests of what a local session does not have: several executors, each with its own Python workers.
All processes of a cluster work in its folder, so they are found by their working directory, even after the
process that started them was killed. This needs `/proc`, so Linux.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

START_SECONDS = 60
STOP_SECONDS = 20
_PR_SET_PDEATHSIG = 1
_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # master and workers only start executors


@dataclass(frozen=True)
class Layout:
    """Executors and the cores of each, written `2x4`. A worker has one executor."""

    executors: int
    cores: int

    @classmethod
    def parse(cls, text: str) -> Layout:
        found = re.fullmatch(r"([1-9]\d{0,2})x([1-9]\d{0,2})", text)
        if found is None:
            raise ValueError(f"{text!r} is not EXECUTORSxCORES, such as 2x4")
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.executors}x{self.cores}"

    @property
    def slots(self) -> int:
        return self.executors * self.cores


@contextmanager
def standalone_cluster(folder: Path, layout: Layout, memory: str, python_path: str) -> Iterator[str]:
    """Start a master and a worker of `memory` for each executor, give the master's address.

    At the end, also after an error, no process of the cluster is left: not the executors, nor their Python workers.
    """
    import pyspark  # here, so that the runner, which only ends clusters, does without it

    started: list[subprocess.Popen[bytes]] = []
    (folder / "local").mkdir()
    environment = {
        **os.environ,
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": python_path,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": _SHORT_LIVED,
        "SPARK_LOCAL_DIRS": str(folder / "local"),  # so that it is seen what is left there
    }
    try:
        master = _start(
            folder, environment, "master", "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1",
            "--port", "0", "--webui-port", "0",
        )  # fmt: skip
        started.append(master)
        address = _wait_for(folder / "master.log", r"Starting Spark master at (spark://\S+)", master)
        for number in range(layout.executors):
            host = f"127.0.0.{number + 1}"  # Spark starts no copy of a slow task on the same one
            started.append(
                _start(
                    folder, environment, f"worker{number}", "org.apache.spark.deploy.worker.Worker", "--host", host,
                    "--webui-port", "0", "--cores", str(layout.cores), "--memory", memory,
                    "--work-dir", str(folder / "work"), address,
                )
            )  # fmt: skip
        for number, worker in enumerate(started[1:]):
            _wait_for(folder / f"worker{number}.log", r"(Successfully registered with master)", worker)
        yield address
    finally:
        _stop(reversed(started))
        end_processes_in(folder)


def _start(folder: Path, environment: dict[str, str], name: str, *command: str) -> subprocess.Popen[bytes]:
    spark_class = Path(environment["SPARK_HOME"]) / "bin" / "spark-class"
    address = command[command.index("--host") + 1]
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [str(spark_class), *command], stdout=log, stderr=subprocess.STDOUT, cwd=folder, start_new_session=True,
            env={**environment, "SPARK_LOCAL_IP": address}, preexec_fn=_end_with_parent,
        )  # fmt: skip


def _end_with_parent() -> None:
    """Have Linux end this process when the one that started it is gone, even if that was killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


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


def _stop(processes: Iterator[subprocess.Popen[bytes]]) -> None:
    """End the processes and their children: by SIGTERM, then by SIGKILL."""
    for process in processes:
        for kind in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, kind)
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=STOP_SECONDS)
                break


def end_processes_in(folder: Path) -> None:
    """Kill the processes that still work in `folder`. Python workers have process groups of their own, and end with
    their JVM."""
    deadline = time.monotonic() + STOP_SECONDS
    while (left := processes_in(folder)) and time.monotonic() < deadline:
        time.sleep(0.1)
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def processes_in(folder: Path) -> list[int]:
    """Processes, of this user, whose working directory is `folder` or inside it."""
    return [pid for pid, place in _processes() if f"{place}/".startswith(f"{folder.resolve()}/")]


def _processes() -> Iterator[tuple[int, str]]:
    """Id and working directory of each process whose directory this user may read."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                yield int(entry.name), os.readlink(entry / "cwd")
