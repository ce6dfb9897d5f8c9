"""What this process may use of the machine: in a container that is less than the machine has."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def usable_memory_bytes() -> int | None:
    """Physical memory or the container's limit, whichever is less; None where the system does not say."""
    sizes = []
    with suppress(ValueError, OSError, AttributeError):
        sizes.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for limit in _CGROUP_LIMITS:
        with suppress(ValueError, OSError):  # a cgroup without a limit says "max"
            sizes.append(int(Path(limit).read_text()))
    return min(sizes, default=None)
