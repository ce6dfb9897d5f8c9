"""A control group of Linux that limits the memory of a program and all its processes: beyond the limit the system kills
one of them. Version 1 of the interface, below the group that the tests run in, whose own limits so still count.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup/memory")
_END_SECONDS = 60


@dataclass(frozen=True)
class MemoryGroup:
    folder: Path

    def add(self, process: int) -> None:
        """Move a process there; those that it starts are there too."""
        (self.folder / "cgroup.procs").write_text(str(process))

    def limit(self, nbytes: int | None) -> None:
        (self.folder / "memory.limit_in_bytes").write_text(str(-1 if nbytes is None else nbytes))

    def used_bytes(self) -> int:
        """What its processes hold, without pages of files that the system could drop."""
        (self.folder / "memory.force_empty").write_text("0")
        return self._number("memory.usage_in_bytes")

    def resident_bytes(self) -> dict[str, int]:
        """Of each of its processes, by name and number."""
        found = {}
        for process in (self.folder / "cgroup.procs").read_text().split():
            with suppress(OSError, KeyError):  # it has ended
                lines = Path("/proc", process, "status").read_text().splitlines()
                status = dict(line.split(":", 1) for line in lines)
                found[f"{status['Name'].strip()} {process}"] = int(status["VmRSS"].split()[0]) << 10
        return found

    @property
    def kills(self) -> int:
        lines = (self.folder / "memory.oom_control").read_text().splitlines()
        return int(dict(line.split() for line in lines)["oom_kill"])

    def _number(self, name: str) -> int:
        return int((self.folder / name).read_text())


@contextmanager
def memory_group(name: str) -> Iterator[MemoryGroup]:
    """A new group without a limit; raises OSError where none can be made. Its processes must have ended at the end."""
    folder = _own_group() / name
    folder.mkdir()
    try:
        yield MemoryGroup(folder)
    finally:
        deadline = time.monotonic() + _END_SECONDS
        while (folder / "cgroup.procs").read_text() and time.monotonic() < deadline:  # a JVM takes a while to end
            time.sleep(0.1)
        folder.rmdir()


def why_no_group() -> str | None:
    """Why tests cannot make such groups here; None if they can."""
    try:
        with memory_group(f"sundog-try-{os.getpid()}") as group:
            group.limit(1 << 30)
            group.limit(None)
            _ = group.kills
    except (OSError, KeyError, StopIteration) as error:
        return f"no control groups of version 1 for memory: {error!r}"
    return None


def _own_group() -> Path:
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    path = next(path for _, controllers, path in (line.split(":", 2) for line in lines) if controllers == "memory")
    return _GROUPS / path.strip().lstrip("/")
