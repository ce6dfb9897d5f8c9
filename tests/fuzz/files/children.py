"""Tries in forked processes, so that a crash is a finding and does not end the campaign."""

from __future__ import annotations

import faulthandler
import mmap
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass

_SECONDS_PER_TRY = 20.0
_CHILD_BYTES = 8 << 30  # of addresses: a length that nobody checked is a MemoryError, not the end of the machine


@dataclass(frozen=True)
class Death:
    """The try in which a child ended, and how."""

    number: int
    how: str


def run_tries(attempt: Callable[[int], None], first: int, last: int) -> Death | None:
    """Tries `first` to `last` - 1 in one child; None if it came through all of them."""
    shared = mmap.mmap(-1, 8)
    shared[:] = first.to_bytes(8, "little")
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        _run_child(attempt, first, last, shared, write_end)
    os.close(write_end)
    status = _watch(child, shared)
    with os.fdopen(read_end, "rb") as pipe:
        text = pipe.read().decode("utf-8", "replace")
    number = int.from_bytes(shared[:], "little")
    if status == 0:
        return None
    if status is None:
        return Death(number, f"no end after {_SECONDS_PER_TRY:.0f} seconds")
    if os.WIFSIGNALED(status):
        return Death(number, signal.Signals(os.WTERMSIG(status)).name)
    return Death(number, text)


def _run_child(attempt: Callable[[int], None], first: int, last: int, shared: mmap.mmap, report: int) -> None:
    faulthandler.disable()  # how it ends is told by its status
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (_CHILD_BYTES, _CHILD_BYTES))
    code = 1
    try:
        for number in range(first, last):
            shared[:] = number.to_bytes(8, "little")
            attempt(number)
        code = 0
    except BaseException:
        os.write(report, traceback.format_exc()[-3500:].encode())
    finally:
        sys.stdout.flush()
        os._exit(code)


def _watch(child: int, shared: mmap.mmap) -> int | None:
    """The child's status; None if one try took too long, and the child was ended."""
    at, since = shared[:], time.monotonic()
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(0.02)
        if shared[:] != at:
            at, since = shared[:], time.monotonic()
        elif time.monotonic() - since > _SECONDS_PER_TRY:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None
