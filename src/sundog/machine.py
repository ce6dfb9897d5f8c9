"""Cores and memory that this process may use, which in a container are fewer than the machine has."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

_OWN_GROUPS, _GROUPS = "/proc/self/cgroup", "/sys/fs/cgroup"


@dataclass(frozen=True)
class Machine:
    """`memory_bytes`: usable ones. `container_bytes`: the limit of a container, which counts all its processes.
    `address_bytes`: the limit of this process alone. None: there is none, or the system does not say.
    """

    cores: int
    memory_bytes: int | None = None
    container_bytes: int | None = None
    address_bytes: int | None = None


def this_machine() -> Machine:
    return Machine(usable_cores(), usable_memory_bytes(), container_bytes(), address_limit_bytes())


def usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def usable_memory_bytes() -> int | None:
    """Physical memory or the container's limit, whichever is less; None if the system does not tell."""
    sizes = (_physical_bytes(), container_bytes())
    return min((size for size in sizes if size is not None), default=None)


def container_bytes() -> int | None:
    """The least limit of the control groups that this process is in, if it is less than the machine has."""
    physical = _physical_bytes()
    limit = min(_group_limits(), default=None)
    return None if limit is None or (physical is not None and limit >= physical) else limit


def address_limit_bytes() -> int | None:
    """The address space that this process may have, as Spark limits it by `spark.executor.pyspark.memory`."""
    if sys.platform == "win32":
        return None
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if soft == resource.RLIM_INFINITY else soft


def _physical_bytes() -> int | None:
    with suppress(ValueError, OSError, AttributeError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def _group_limits() -> Iterator[int]:
    """Of this process's group and of those around it. In a container the paths may be those outside of it: its own
    group is then the root of what can be seen here."""
    for folder, name in _groups():
        with suppress(ValueError, OSError):  # a group without a limit says "max", and the outermost has no such file
            yield int((folder / name).read_text())


def _groups() -> Iterator[tuple[Path, str]]:
    """The folders of the groups that limit memory, and the name of the file that says it, in both versions of Linux'
    interface."""
    lines = []
    with suppress(OSError):
        lines = Path(_OWN_GROUPS).read_text().splitlines()
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if ".." in PurePosixPath(path).parts:  # outside of what can be seen here
            path = "/"
        if not controllers:
            folder, name = Path(_GROUPS), "memory.max"
        elif "memory" in controllers.split(","):
            folder, name = Path(_GROUPS, "memory"), "memory.limit_in_bytes"
        else:
            continue
        inside = PurePosixPath(path.lstrip("/"))
        for group in (inside, *inside.parents):
            yield folder / group, name
