"""A real standalone Spark cluster on this machine: a master and its workers, each a process of its own on loopback."""

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
from pathlib import Path

import pyspark

ROOT = Path(__file__).parent.parent.parent
# Drivers and workers import sundog from this checkout, whatever is installed, and faults from these tests.
PYTHON_PATH = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
START_SECONDS = 60
STOP_SECONDS = 20
_PR_SET_PDEATHSIG = 1
_DAEMON_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # a cluster of tests lives for a minute


@contextmanager
def standalone_cluster(folder: Path, cores: int = 2, memory: str = "1g", workers: int = 1) -> Iterator[str]:
    """Start a master and `workers` workers of `cores` cores, give the master's address.

    At the end, also after an error, no process of the cluster is left: not the executors, nor their Python workers.
    """
    started: list[subprocess.Popen[bytes]] = []
    (folder / "local").mkdir()
    try:
        master = _start(
            folder, "master", "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0",
            "--webui-port", "0",
        )  # fmt: skip
        started.append(master)
        address = _wait_for(folder / "master.log", r"Starting Spark master at (spark://\S+)", master)
        for number in range(workers):
            host = f"127.0.0.{number + 1}"  # Spark starts no copy of a slow task on the same one
            started.append(
                _start(
                    folder, f"worker{number}", "org.apache.spark.deploy.worker.Worker", "--host", host,
                    "--webui-port", "0", "--cores", str(cores), "--memory", memory, "--work-dir", str(folder / "work"),
                    address,
                )
            )  # fmt: skip
        for number, worker in enumerate(started[1:]):
            _wait_for(folder / f"worker{number}.log", r"(Successfully registered with master)", worker)
        yield address
    finally:
        _stop(reversed(started))
        _kill_rest(folder)


def _start(folder: Path, name: str, *command: str) -> subprocess.Popen[bytes]:
    spark_class = Path(pyspark.__file__).parent / "bin" / "spark-class"
    environment = dict(
        os.environ, SPARK_HOME=str(Path(pyspark.__file__).parent), SPARK_LOCAL_IP=command[command.index("--host") + 1]
    )
    environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_DAEMON_MEMORY": "256m", "PYTHONPATH": PYTHON_PATH}
    environment["SPARK_LOCAL_DIRS"] = str(folder / "local")  # so that tests see what is left there
    environment["SPARK_DAEMON_JAVA_OPTS"] = _DAEMON_JAVA
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [str(spark_class), *command], stdout=log, stderr=subprocess.STDOUT, env=environment, start_new_session=True,
            preexec_fn=_end_with_parent,
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
    """End the processes and their children, gently if they can be."""
    for process in processes:
        for kind in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, kind)
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=STOP_SECONDS)
                break


def _kill_rest(folder: Path) -> None:
    """Kill what works in `folder` still: a Python worker is in a process group of its own, and ends with its JVM."""
    deadline = time.monotonic() + STOP_SECONDS
    while (left := processes_in(folder)) and time.monotonic() < deadline:
        time.sleep(0.1)
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def processes_in(folder: Path) -> list[int]:
    """Processes, of this user, whose working directory is inside `folder`."""
    return [pid for pid, place in _processes() if place.startswith(f"{folder}/")]


def left_behind(folder: Path) -> list[str]:
    """Files of sundog's in the local folders of executors, an application's being removed when it ends."""
    deadline = time.monotonic() + STOP_SECONDS
    while (left := _files_of_sundog(folder)) and time.monotonic() < deadline:
        time.sleep(0.2)
    return left


def _files_of_sundog(folder: Path) -> list[str]:
    found = [*Path(folder, "local").rglob("sundog-*"), *Path(folder, "work").rglob("sundog-*")]
    return [str(path) for path in found if path.suffix != ".zip"]


def _processes() -> Iterator[tuple[int, str]]:
    """Id and working directory of each process that may be asked."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                yield int(entry.name), os.readlink(entry / "cwd")
