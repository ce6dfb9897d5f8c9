"""`TaskContext`: counters, memory budget, scratch folder and cancellation of a task, as its operators see them.

The runtime makes one per task, on a driver thread or in an executor's Python worker. It is all that an operator knows
of its surroundings: none asks where it runs.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event
from time import perf_counter
from typing import TypeVar

import pyarrow as pa

from sundog.columns.narrow import NarrowCosts
from sundog.machine import Machine
from sundog.metrics import Metrics, OperatorCounts

DEFAULT_MEMORY_BYTES = 1 << 30
DEFAULT_BLOCK_BYTES = 4 << 20
MIN_TASK_BYTES = 16 << 20
MAX_WAITING_BYTES = 64 << 20  # of input of all threads of a process, and of output: some blocks for each thread
# What a Python process takes beside the budgets of its tasks. Code and kernels: 175 to 183 MB were measured, and 690 to
# 692 MB of address space under a limit of that.
CODE_BYTES = 192 << 20
CODE_ADDRESS_BYTES = 704 << 20
MIN_PYTHON_SHARE = 0.125  # of a machine: JVMs rarely fill their heaps, and several may be given more than it has
TASK_BYTES = 64 << 20  # decoded row groups, blocks in transit, scratch of kernels: 31 to 55 MB
EXCESS = 0.2  # of its budget, that a task may take beyond it
_SCRATCH = "sundog-scratch-"
T = TypeVar("T")


class TaskCancelled(Exception):
    """The query was cancelled or a sibling task failed; ends the task through its clean-up."""


def beyond_excess(budget: int) -> int:
    """Bytes that operators do not count and that exceed what a task may take beyond its budget."""
    return max(TASK_BYTES - int(EXCESS * budget), 0)


class MemoryBudget:
    """Bytes that one task may hold. An operator reports what it holds and asks whether that is too much.

    Nothing is enforced: the operator decides what to do when `exceeded` (emit early, spill). `sharers`: the number of
    tasks that run in the same process at once, among which memory that the process holds once is divided.
    """

    __slots__ = ("limit", "peak", "sharers", "used")

    def __init__(self, limit: int = DEFAULT_MEMORY_BYTES, sharers: int = 1) -> None:
        self.limit = limit
        self.sharers = max(1, sharers)
        self.used = 0
        self.peak = 0

    @classmethod
    def on_executor(cls, budget: int, sharers: int = 1) -> MemoryBudget:
        """Of a task with this budget, which takes more than its operators count: of a small budget they may count less,
        but at least half."""
        return cls(max(budget - beyond_excess(budget), budget // 2), sharers)

    def resize(self, old: int, new: int) -> None:
        """An owner that held `old` bytes now holds `new`."""
        self.used += new - old
        self.peak = max(self.peak, self.used)

    @contextmanager
    def holding(self, nbytes: int) -> Iterator[None]:
        """While this task holds `nbytes` more."""
        self.resize(0, nbytes)
        try:
            yield
        finally:
            self.resize(nbytes, 0)

    @contextmanager
    def shared(self, nbytes: int) -> Iterator[None]:
        """While the tasks of this process hold `nbytes` together: each counts its share."""
        with self.holding(-(-nbytes // self.sharers)):
            yield

    @property
    def exceeded(self) -> bool:
        return self.used > self.limit


def bytes_of_process(budget: int, tasks: int, code_bytes: int = CODE_BYTES) -> int:
    """Memory of a process that runs this number of tasks of this budget at once.

    Threads of one process have their queues, and rows of theirs for the same target wait together, up to one budget
    more.
    """
    alone = code_bytes + tasks * (budget + TASK_BYTES)
    return alone if tasks == 1 else alone + 2 * MAX_WAITING_BYTES + budget


def budget_of_task(process_bytes: int, tasks: int, code_bytes: int = CODE_BYTES) -> int:
    """The budget of each task of a process with this memory limit; less than 0 if not even its code fits."""
    budgets = 1 if tasks == 1 else tasks + 1
    return (process_bytes - bytes_of_process(0, tasks, code_bytes)) // budgets


@dataclass(frozen=True)
class ProcessShare:
    """What a Python process may have of its executor's machine.

    `tasks`: that it runs at once; `slots`: those of its executor, 0 if unknown. `jvm_bytes`: of an executor's JVM.
    `owns_container`: where there is a container, it is that of one executor.
    """

    tasks: int = 1
    slots: int = 0
    jvm_bytes: int = 0
    owns_container: bool = False

    def bytes_on(self, machine: Machine, machine_share: float) -> int | None:
        if self.owns_container and machine.container_bytes is not None:
            return (machine.container_bytes - self.jvm_bytes) * self.tasks // max(self.slots, self.tasks)
        if machine.memory_bytes is None:
            return None
        slots = max(machine.cores, self.slots, self.tasks)
        executors = slots // max(self.slots, self.tasks) if self.slots else 1
        most, least = (int(machine.memory_bytes * share) for share in (machine_share, MIN_PYTHON_SHARE))
        beside = max(machine.memory_bytes - executors * self.jvm_bytes, least)
        return min(most, beside) * self.tasks // slots


@dataclass(frozen=True)
class TaskLimits:
    """What a task on an executor may hold, and how it makes the blocks of an exchange. The planner sets them.

    `waiting_share`: of the memory, for blocks that wait for other blocks. `machine_share`: of a machine, for the Python
    processes of all its cores together. `narrowing`: which columns of a block are made narrower.
    """

    memory_bytes: int
    block_bytes: int
    waiting_share: float
    machine_share: float
    narrowing: NarrowCosts
    process: ProcessShare = ProcessShare()

    def waiting_bytes(self, memory: MemoryBudget) -> int:
        return int(memory.limit * self.waiting_share)

    @property
    def are_small(self) -> bool:
        """Whether what operators do not count may take a task beyond its budget by more than the excess."""
        return beyond_excess(self.memory_bytes) > 0

    def on_machine(self, machine: Machine) -> TaskLimits:
        """The limits there, which only the executor knows. Tasks of a smaller budget than the least would do nothing
        but spill."""
        sizes, tasks = [self.memory_bytes], self.process.tasks
        available = self.process.bytes_on(machine, self.machine_share)
        if available is not None:
            sizes.append(budget_of_task(available, tasks))
        if machine.address_bytes is not None:
            sizes.append(budget_of_task(machine.address_bytes, tasks, CODE_ADDRESS_BYTES))
        return replace(self, memory_bytes=max(min(sizes), min(self.memory_bytes, MIN_TASK_BYTES)))


class ScratchFolder:
    """A folder of one task's own, made at the first request, in `root` or the system's temporary folder."""

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

    `metrics` are the operator's own; everything else belongs to the task. An input that takes several steps counts each
    for itself: `at_step`.
    """

    partition: int = 0
    counts: OperatorCounts = field(default_factory=OperatorCounts)
    memory: MemoryBudget = field(default_factory=MemoryBudget)
    cancelled: Event = field(default_factory=Event)
    hints: set[str] = field(default_factory=set)  # shared by the tasks of a stage; may change speed, never an answer
    scratch_folder: ScratchFolder = field(default_factory=lambda: ScratchFolder(None))
    _first: OperatorCounts | None = None  # of the first step of an input, for one of the others
    _steps_above: int = 0

    @property
    def metrics(self) -> Metrics:
        return self.counts.metrics

    def check_cancelled(self) -> None:
        if self.cancelled.is_set():
            raise TaskCancelled

    def scratch(self) -> Path:
        """A folder of this task's own, made at the first request and removed by `close`."""
        return self.scratch_folder.path()

    def counting_into(self, counts: OperatorCounts) -> TaskContext:
        """The same task, for one of its operators."""
        return replace(self, counts=counts, _first=None, _steps_above=0)

    def step(self, number: int) -> OperatorCounts:
        """The counts of a step of this input, `number` steps below its first."""
        return (self._first or self.counts).inner(self._steps_above + number)

    def at_step(self, number: int) -> TaskContext:
        """The same task, for a step of this input, `number` steps below its first."""
        if not number:
            return self
        above = self._steps_above + number
        return replace(self, counts=self.step(number), _first=self._first or self.counts, _steps_above=above)

    def close(self) -> None:
        self.metrics.add("peak_memory_bytes", self.memory.peak)
        self.scratch_folder.remove()


def clocked(items: Iterable[T], counts: OperatorCounts) -> Iterator[T]:
    """The same items; the time until each was there is counted."""
    source = iter(items)
    while True:
        start = perf_counter()
        item = next(source, None)
        counts.seconds += perf_counter() - start
        if item is None:
            return
        yield item


def counted(batches: Iterable[pa.RecordBatch], counts: OperatorCounts) -> Iterator[pa.RecordBatch]:
    """The same batches, counted. Reading the clock twice for each takes a ten-thousandth of the time of decoding it."""
    for batch in clocked(batches, counts):
        counts.add(batch.num_rows, batch.nbytes)
        yield batch


def remove_abandoned_scratch(root: str) -> None:
    """Remove scratch folders in `root` whose processes are gone.

    Spark ends the Python worker of a cancelled task with SIGKILL, so that it cannot clean up; the next task on the same
    executor does. `root` must belong to one executor, whose processes see each other.
    """
    with suppress(OSError):  # a folder that cannot be listed is left; no reason to fail a task
        for folder in os.scandir(root):
            found = re.fullmatch(rf"{_SCRATCH}(\d+)-.*", folder.name)
            if found is not None and not _is_alive(int(found[1])):
                shutil.rmtree(folder.path, ignore_errors=True)


def _is_alive(process: int) -> bool:
    if os.name != "posix":  # elsewhere signal 0 does not test for a process
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # the process belongs to another user, so it exists
        return True
    return True
