"""What a running operator is given, and the only way it touches the world around it.

The runtime makes one `TaskContext` per task, on a driver thread or in an executor's Python worker. An operator never
asks where it runs.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event

from sundog.metrics import Metrics, OperatorCounts

DEFAULT_MEMORY_BYTES = 1 << 30
_SCRATCH = "sundog-scratch-"


class TaskCancelled(Exception):
    """The query was cancelled or a sibling task failed; unwinds the task so that its clean-up runs."""


class MemoryBudget:
    """Bytes one task may hold. An operator reports what it holds and asks whether that is too much.

    It is accounting, not enforcement: the operator decides what to do when `exceeded` (emit early, spill). `sharers`:
    tasks that run in the same process at once, and share what is there once for all of them.
    """

    __slots__ = ("limit", "peak", "sharers", "used")

    def __init__(self, limit: int = DEFAULT_MEMORY_BYTES, sharers: int = 1) -> None:
        self.limit = limit
        self.sharers = max(1, sharers)
        self.used = 0
        self.peak = 0

    def resize(self, old: int, new: int) -> None:
        """An owner that held `old` bytes now holds `new`."""
        self.used += new - old
        self.peak = max(self.peak, self.used)

    @contextmanager
    def shared(self, nbytes: int) -> Iterator[None]:
        """While the tasks of this process use so many bytes together: each counts its share."""
        share = -(-nbytes // self.sharers)
        self.resize(0, share)
        try:
            yield
        finally:
            self.resize(share, 0)

    @property
    def exceeded(self) -> bool:
        return self.used > self.limit


class ScratchFolder:
    """A folder of one task's own, made when first asked for, in `root` or the system's temporary folder."""

    __slots__ = ("_path", "_root")

    def __init__(self, root: str | None) -> None:
        self._root = root
        self._path: Path | None = None

    def path(self) -> Path:
        if self._path is None:
            self._path = Path(tempfile.mkdtemp(prefix=f"{_SCRATCH}{os.getpid()}-", dir=self._root))
        return self._path

    def remove(self) -> None:
        if self._path is not None:
            shutil.rmtree(self._path, ignore_errors=True)
            self._path = None


@dataclass
class TaskContext:
    """One task's counters, memory, scratch folder and cancellation, as one of its operators sees them.

    `metrics` are the operator's own; everything else belongs to the task.
    """

    partition: int = 0
    metrics: Metrics = field(default_factory=Metrics)
    memory: MemoryBudget = field(default_factory=MemoryBudget)
    cancelled: Event = field(default_factory=Event)
    hints: set[str] = field(default_factory=set)  # what tasks of a stage tell each other; only speed may depend on it
    scratch_folder: ScratchFolder = field(default_factory=lambda: ScratchFolder(None))

    def check_cancelled(self) -> None:
        if self.cancelled.is_set():
            raise TaskCancelled

    def scratch(self) -> Path:
        """A folder of this task's own, made when first asked for and removed by `close`."""
        return self.scratch_folder.path()

    def counting_into(self, counts: OperatorCounts) -> TaskContext:
        """The same task, for one of its operators."""
        return replace(self, metrics=counts.metrics)

    def close(self) -> None:
        self.metrics.add("peak_memory_bytes", self.memory.peak)
        self.scratch_folder.remove()


def remove_abandoned_scratch(root: str) -> None:
    """Remove scratch folders in `root` whose processes are gone.

    Spark ends the Python worker of a cancelled task with SIGKILL, so that nothing in it can clean up; the next task on
    the same executor does. `root` must belong to one executor, whose processes see each other.
    """
    with suppress(OSError):  # what cannot be listed cannot be cleaned, and is no reason to fail a task
        for folder in os.scandir(root):
            found = re.fullmatch(rf"{_SCRATCH}(\d+)-.*", folder.name)
            if found is not None and not _is_alive(int(found[1])):
                shutil.rmtree(folder.path, ignore_errors=True)


def _is_alive(process: int) -> bool:
    if os.name != "posix":  # where signal 0 is not a question
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it is somebody else's
        return True
    return True
