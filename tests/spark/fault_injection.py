"""Faults in the tasks of a stage, on demand, each of which leaves a mark that it happened.

    SparkRuntime makes a stage function ──► one with a `Fault` in it ──► a worker runs it, and meets the fault

The fault strikes after the first block that a task of the stage has put out: work has been done, and some of it sent.
"""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from pyspark import TaskContext as SparkTaskContext

from sundog.plan.stages import Stage
from sundog.runtime import spark as runtime
from sundog.runtime.blocks import StageFunction
from sundog.runtime.processes.stage import ProcessFunction

MAX_SLOW_SECONDS = 120
WAIT_SECONDS = 60


@dataclass(frozen=True)
class Fault:
    """`kind` is one of

    worker      a Python worker is killed
    executor    the JVM of an executor is killed, and its Python workers end with it
    fails       the first two attempts of one task raise an error
    slow        a task does not go on, until Spark gives it up for a copy that it has started elsewhere
    blocks      the shuffle files of all executors are deleted
    disk        no file may grow beyond a page, in the first task
    disk full   the same in all of them
    """

    kind: str
    marks: str

    @property
    def seen(self) -> bool:
        return any(Path(self.marks).iterdir())

    def strike(self) -> None:
        """After a task has put out its first block."""
        task = SparkTaskContext.get()
        attempt = 0 if task is None else task.attemptNumber()
        match self.kind:
            case "worker" if self._is_first("killed"):
                os.kill(os.getpid(), signal.SIGKILL)
            case "executor" if self._is_first("killed"):
                os.kill(_parent(os.getppid()), signal.SIGKILL)  # of the daemon that has forked this worker
                time.sleep(MAX_SLOW_SECONDS)
            case "fails" if task is not None and self._is_of(f"{task.stageId()}-{task.partitionId()}"):
                if attempt < 2:
                    Path(self.marks, f"attempt{attempt}").touch()
                    raise RuntimeError(f"fault in attempt {attempt}")
                self._wait_for("attempt1")  # a copy of the first attempt may still run, and would be killed
            case "slow" if self._is_first("slow"):
                time.sleep(MAX_SLOW_SECONDS)
            case "blocks" if self._is_first("lost"):
                for file in Path(os.environ["SPARK_LOCAL_DIRS"].split(",")[0]).parents[1].rglob("shuffle_*.data"):
                    file.unlink(missing_ok=True)

    @contextmanager
    def limits(self) -> Iterator[None]:
        """While a task runs."""
        if self.kind == "disk full" or (self.kind == "disk" and self._is_first("limited")):
            Path(self.marks, "limited").touch()
            soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
            try:
                yield
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        else:
            yield

    def _wait_for(self, name: str) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while not Path(self.marks, name).exists() and time.monotonic() < deadline:
            time.sleep(0.05)

    def _is_of(self, task: str) -> bool:
        """Whether the fault is this task's: the first that asks has it, in all of its attempts."""
        with suppress(FileExistsError):
            Path(self.marks, "task").symlink_to(task)
        return os.readlink(Path(self.marks, "task")) == task

    def _is_first(self, name: str) -> bool:
        try:
            os.close(os.open(Path(self.marks, name), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True


def _parent(process: int) -> int:
    status = Path(f"/proc/{process}/stat").read_text()
    return int(status.rpartition(")")[2].split()[1])


@dataclass(frozen=True)
class _Watched:
    """Notes process, cores of its task and stage in the name of a file in `notes`, and meets a fault if it has one."""

    notes: str = field(kw_only=True)
    fault: Fault | None = field(kw_only=True)
    number: int = field(kw_only=True)

    def met_by(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = SparkTaskContext.get()
        note = [self.number, os.getpid(), 0 if task is None else task.cpus()]
        Path(self.notes, "-".join(map(str, note)) + ".note").touch()  # in the name, which no kill cuts off
        if self.fault is None:
            yield from rows
            return
        with self.fault.limits():
            for number, row in enumerate(rows):
                yield row
                if number == 0:
                    self.fault.strike()


@dataclass(frozen=True)
class WatchedStage(StageFunction):
    watched: _Watched = field(kw_only=True)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self.watched.met_by(super().__call__(batches))


@dataclass(frozen=True)
class WatchedProcess(ProcessFunction):
    watched: _Watched = field(kw_only=True)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self.watched.met_by(super().__call__(batches))


class Injection:
    """Puts a fault into the stages that `at` names: by number, or by purpose, of which the first has it.

    `hit` is the stage that has had it. `marks` and `notes` are folders. `before`, if any, is called on the driver
    before that stage runs.
    """

    def __init__(self, marks: Path, notes: Path, kind: str | None, at: int | str | None, before: Any = None) -> None:
        self.fault = None if kind is None or before is not None else Fault(kind, str(marks))
        self._notes = notes
        self._at = at
        self._before = before
        self.hit: int | None = None
        self._stage: Stage | None = None

    @contextmanager
    def active(self) -> Iterator[None]:
        make = runtime.SparkRuntime._frame

        def frame(own: Any, stage: Stage, *args: Any, **named: Any) -> Any:
            self._stage = stage
            return make(own, stage, *args, **named)

        with (
            patch.object(runtime.SparkRuntime, "_frame", frame),
            patch.object(runtime, "StageFunction", self._maker(WatchedStage)),
            patch.object(runtime, "ProcessFunction", self._maker(WatchedProcess)),
        ):
            yield

    def _maker(self, kind: Any) -> Any:
        def function(**fields: Any) -> Any:
            stage = self._stage
            assert stage is not None
            is_hit = self._at in (stage.number, stage.purpose) and self.hit in (None, stage.number)
            if is_hit:
                if self.hit is None and self._before is not None:
                    self._before()
                self.hit = stage.number
            fault = self.fault if is_hit else None
            return kind(**fields, watched=_Watched(notes=str(self._notes), fault=fault, number=stage.number))

        return function
