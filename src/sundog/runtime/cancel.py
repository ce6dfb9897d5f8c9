"""Cancelling work on the driver's own threads, where there is no Spark job that Spark could cancel.

Spark cancels jobs by their marks: a job group, tags. Work on driver threads has the same marks, those of the thread
that called the action, and obeys the same requests:

    sc.cancelJobGroup("g")            the request is recorded (`request_cancel`) and passed on to Spark
      action on another thread        finds a new request, compares it with its own marks, stops its tasks

Requests are kept for a while with their time. So an action need not register, and one that is between two stages when a
request comes finds it later. Looking for requests compares two numbers; only if there is a new one does an action ask
Spark for its marks.

No lock is held while a request is recorded: Ctrl-C runs `cancelAllJobs` in a signal handler, whatever the main thread
was doing.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from time import monotonic

POLL_SECONDS = 0.1  # how often an action that waits for its tasks looks for requests
STOP_SECONDS = 0.7  # how long a cancelled action waits for its tasks to stop; they stop by themselves, between batches
_KEPT_REQUESTS = 1024

_requests: deque[CancelRequest] = deque(maxlen=_KEPT_REQUESTS)
_current = threading.local()


class CancelKind(Enum):
    """The kind of mark by which jobs are cancelled."""

    ALL = "all"
    GROUP = "group"
    TAG = "tag"


@dataclass(frozen=True)
class CancelRequest:
    kind: CancelKind
    name: str
    reason: str  # in Spark's words
    at: float


@dataclass(frozen=True)
class JobMarks:
    """The marks by which Spark would find the jobs of a thread."""

    group: str | None
    tags: frozenset[str]


class ActionCancelled(Exception):
    """The user cancelled this action. `actions/` turns it into Spark's own error."""


def request_cancel(kind: CancelKind, name: str, reason: str) -> None:
    """Record a request to stop whatever has this mark."""
    _requests.append(CancelRequest(kind, name, reason, monotonic()))


class CancelWatch:
    """Looks for requests that concern one action. For use on the action's own thread, whose marks they are."""

    def __init__(self, marks: Callable[[], JobMarks] | None) -> None:
        self._read_marks = marks
        self._marks: JobMarks | None = None
        self._started = monotonic()

    def check(self) -> None:
        """Raise ActionCancelled if this action was cancelled since it started."""
        if self._read_marks is None or not _requests or _requests[-1].at < self._started:
            return
        if self._marks is None:
            self._marks = self._read_marks()
        for request in list(_requests):
            if request.at >= self._started and _means(request, self._marks):
                raise ActionCancelled(request.reason)


def _means(request: CancelRequest, marks: JobMarks) -> bool:
    match request.kind:
        case CancelKind.GROUP:
            return request.name == marks.group
        case CancelKind.TAG:
            return request.name in marks.tags
        case _:
            return True


class WatchedEvent(threading.Event):
    """An event that a failing task or the cancelled action sets: for tasks that run on the action's own thread."""

    def __init__(self, watch: CancelWatch) -> None:
        super().__init__()
        self._watch = watch

    def is_set(self) -> bool:
        self._watch.check()
        return super().is_set()


_UNWATCHED = CancelWatch(None)


def current_watch() -> CancelWatch:
    """The watch of the action that this thread runs."""
    watch: CancelWatch = getattr(_current, "watch", _UNWATCHED)
    return watch


@contextmanager
def watching(marks: Callable[[], JobMarks]) -> Iterator[CancelWatch]:
    """Watch for requests while an action runs on this thread. `marks` returns its marks, if they are needed."""
    outer = getattr(_current, "watch", None)
    _current.watch = outer or CancelWatch(marks)
    try:
        yield _current.watch
    finally:
        if outer is None:
            del _current.watch
