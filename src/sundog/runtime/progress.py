"""The interface through which runtimes report progress. They know nothing of terminals and notebooks.

sink.start("TopK search", tasks=8)
...                                            # sink.advance() whenever a task is done, from any thread
with spark_progress(session, sink, "Exchange"):
    ...                                        # Spark jobs of this thread
sink.finish()
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ASK_EVERY_SECONDS = 0.25


class ProgressSink(ABC):
    """A receiver of progress. All methods may be called from any thread, and cost next to nothing."""

    @abstractmethod
    def start(self, label: str, tasks: int) -> None:
        """A stage of `tasks` tasks begins; the one before it, if any, is over. 0: their number is not known yet."""

    @abstractmethod
    def advance(self, count: int = 1) -> None:
        """`count` more tasks of the stage are done."""

    @abstractmethod
    def finish(self) -> None:
        """The action is over, with or without success. May be called twice; `start` may follow and begins anew."""


class NullProgress(ProgressSink):
    """Progress that is not shown."""

    def start(self, label: str, tasks: int) -> None:
        pass

    def advance(self, count: int = 1) -> None:
        pass

    def finish(self) -> None:
        pass


NO_PROGRESS = NullProgress()


@contextmanager
def spark_progress(session: SparkSession, sink: ProgressSink, label: str) -> Iterator[None]:
    """Report the Spark tasks of all jobs that this thread starts inside the block.

    Spark runs them, so a thread asks its status tracker, four times a second. The jobs are found by a tag of their own:
    a job group would replace the user's.
    """
    if isinstance(sink, NullProgress):
        yield
        return
    context = session.sparkContext
    tag = f"sundog-{uuid4().hex}"
    stop = threading.Event()
    watcher = threading.Thread(
        target=_watch, args=(context, tag, sink, label, stop), name="sundog-progress", daemon=True
    )
    context.addJobTag(tag)
    sink.start(label, 0)
    watcher.start()
    try:
        yield
    finally:
        stop.set()
        watcher.join()
        context.removeJobTag(tag)


def _watch(context: Any, tag: str, sink: ProgressSink, label: str, stop: threading.Event) -> None:
    tracker = context._jsc.sc().statusTracker()
    known = (0, 0)
    while not stop.wait(_ASK_EVERY_SECONDS):
        seen = _tasks_of(tracker, tag)
        if seen[0] != known[0]:
            sink.start(label, seen[0])
            sink.advance(seen[1])
        elif seen[1] != known[1]:
            sink.advance(seen[1] - known[1])
        known = seen


def _tasks_of(tracker: Any, tag: str) -> tuple[int, int]:
    """Number of tasks, and of finished tasks, in the stages that Spark has started by now."""
    tasks = done = 0
    for job in tracker.getJobIdsForTag(tag):
        info = tracker.getJobInfo(job)
        for stage in info.get().stageIds() if info.isDefined() else ():
            found = tracker.getStageInfo(stage)
            if found.isDefined() and found.get().submissionTime() > 0:  # else it waits, or was skipped
                tasks += found.get().numTasks()
                done += found.get().numCompletedTasks()
    return tasks, done
