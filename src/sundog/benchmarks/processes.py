"""Memory and processor time of a process and all its descendants: JVM, Python workers, their helpers.

Read from `/proc`, so on Linux only; elsewhere there is nothing to report and the fields stay empty. Memory is resident
memory added up over processes, which counts pages that forked workers share more than once: an upper bound.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from threading import Event, Thread

from sundog.machine import usable_cores, usable_memory_bytes

_PROC = Path("/proc")
_SAMPLE_SECONDS = 0.05
_SAMPLES_PER_SEARCH = 20


def machine(cores: int) -> dict[str, object]:
    """The machine, for the results."""
    return {
        "system": platform.system(),
        "processor": _processor(),
        "python": platform.python_version(),
        "cores_used": cores,
        "cores_usable": usable_cores(),
        "memory_bytes": usable_memory_bytes(),
    }


def _processor() -> str:
    with suppress(OSError):
        for line in (_PROC / "cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


@dataclass(frozen=True)
class Process:
    pid: int
    parent: int
    role: str
    cpu_seconds: float


def process_tree(root: int) -> list[Process]:
    """The process and all of its descendants that are alive; empty where there is no `/proc`."""
    alive = [process for entry in _numbered(_PROC) if (process := _read(entry)) is not None]
    children: dict[int, list[Process]] = {}
    for process in alive:
        children.setdefault(process.parent, []).append(process)
    tree = [process for process in alive if process.pid == root]
    for process in tree:
        tree.extend(children.get(process.pid, ()))
    return tree


def cpu_seconds(root: int) -> float | None:
    """CPU time of the tree, with children that have ended and been waited for."""
    tree = process_tree(root)
    return sum(process.cpu_seconds for process in tree) if tree else None


class PeakMemory:
    """The highest memory of a tree between `start` and `stop`, in total and by role.

    Reading all of `/proc` takes milliseconds, which would disturb measurements on few cores. So the tree is searched
    once a second, and in between only the known processes are read.
    """

    def __init__(self, root: int) -> None:
        self._root = root
        self._roles: dict[int, str] = {}
        self._stop = Event()
        self._thread = Thread(target=self._watch, daemon=True)
        self.total_bytes: int | None = None
        self.by_role: dict[str, int] = {}

    def start(self) -> PeakMemory:
        self._thread.start()
        return self

    def stop(self) -> PeakMemory:
        self._stop.set()
        self._thread.join()
        self._search()
        self._sample()
        return self

    def _watch(self) -> None:
        for sample in count():
            if sample % _SAMPLES_PER_SEARCH == 0:
                self._search()
            self._sample()
            if self._stop.wait(_SAMPLE_SECONDS):
                return

    def _search(self) -> None:
        self._roles = {process.pid: process.role for process in process_tree(self._root)}

    def _sample(self) -> None:
        now: dict[str, int] = {}
        for pid, role in self._roles.items():
            now[role] = now.get(role, 0) + _resident_bytes(pid)
        if now:
            self.total_bytes = max(self.total_bytes or 0, sum(now.values()))
            self.by_role = {
                role: max(now.get(role, 0), self.by_role.get(role, 0)) for role in sorted({*now, *self.by_role})
            }


def _resident_bytes(pid: int) -> int:
    with suppress(OSError, ValueError):
        return int((_PROC / str(pid) / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _numbered(folder: Path) -> Iterable[Path]:
    return (entry for entry in folder.iterdir() if entry.name.isdigit()) if folder.is_dir() else ()


def _read(entry: Path) -> Process | None:
    with suppress(OSError, ValueError):  # it ended while we looked
        stat = (entry / "stat").read_text()
        fields = stat[stat.rindex(")") + 2 :].split()
        arguments = (entry / "cmdline").read_bytes().split(b"\0")
        return Process(
            pid=int(entry.name),
            parent=int(fields[1]),
            role=_role(arguments),
            cpu_seconds=sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK"),
        )
    return None


def _role(arguments: list[bytes]) -> str:
    if arguments[0].endswith(b"java"):
        return "jvm"
    if b"pyspark.daemon" in arguments or b"pyspark.worker" in arguments:
        return "python workers"
    return "driver" if b"sundog.benchmarks.worker" in arguments else "other"
