"""One copy of a large value for all Python workers of an executor: they map one file into their memory.

    driver: value ──► header (a small pickle) and buffers ──► broadcast variable
    worker: file of the buffers in the executor's local folder, written by whoever comes first, mapped by all ──► value

A build side of a join is some arrays: columns, and the hash table over them. A worker that unpickles it has a copy of
its own, and an executor of 16 cores has 16. Here the arrays lie in a file that all of them map, and the system keeps
one copy. Pages are mapped privately and never written to, so that arrays are writable on paper (`columns/arrow.py`).

Each mapping holds a shared lock on its file, which ends with it, however the worker ends. Whoever writes a file first
removes those that nobody maps any more; the last ones go with Spark's local folder. Nothing in the file is unpickled:
the header comes with the broadcast variable. Where there is no such folder or no such lock, or the file is not what it
should be, a worker has its own copy.
"""

from __future__ import annotations

import mmap
import os
import pickle
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

MIN_MAPPED_BYTES = 1 << 20  # below, a copy costs less than a file
_PREFIX = "sundog-shared-"
_ALIGNMENT = 64


class Mapped:
    """A value in the form in which it is pickled. What is unpickled is the value, mapped where that is possible."""

    def __init__(self, value: object) -> None:
        buffers: list[pickle.PickleBuffer] = []
        self._header = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
        parts = [buffer.raw() for buffer in buffers]
        self._sizes = tuple(part.nbytes for part in parts)
        self._data = b"".join(each for part in parts for each in (part, bytes(-part.nbytes % _ALIGNMENT)))
        self._name = _PREFIX + secrets.token_hex(16)

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return _unpacked, (self._name, self._header, self._sizes, self._data)


def _unpacked(name: str, header: bytes, sizes: tuple[int, ...], data: bytes) -> Any:
    memory = mapped_file(name, data)
    view = memoryview(bytearray(data) if memory is None else memory)
    buffers, first = [], 0
    for size in sizes:
        buffers.append(view[first : first + size])
        first += size + -size % _ALIGNMENT
    return pickle.loads(header, buffers=buffers)


def mapped_file(name: str, data: bytes) -> mmap.mmap | None:
    """The file of this name in the executor's local folder, which holds `data`; None where it cannot be mapped."""
    folder = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    if fcntl is None or not folder or not data:
        return None
    try:
        with _locked(folder):
            return _map(Path(folder, name), data)
    except OSError:  # no space, no such folder, no locks on this file system: a copy does as well
        return None


@contextmanager
def _locked(folder: str) -> Iterator[None]:
    """While no other worker of the executor writes or removes a file. They wait: one of them writes for all."""
    with open(Path(folder, f"{_PREFIX}lock"), "ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _map(path: Path, data: bytes) -> mmap.mmap | None:
    if not path.exists():
        _remove_unmapped(path.parent)
        _write(path, data)
    with path.open("rb") as file:
        found = os.fstat(file.fileno())
        if found.st_uid != os.getuid() or found.st_size != len(data):
            return None
        fcntl.flock(file, fcntl.LOCK_SH)
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)  # has a handle of its own, and so the lock


def _write(path: Path, data: bytes) -> None:
    """Under its name only when it is whole. A worker that is killed leaves the other name behind, unlocked."""
    handle, temporary = tempfile.mkstemp(prefix=f"{path.name}.", dir=path.parent)
    try:
        with open(handle, "wb") as file:
            file.write(data)
        Path(temporary).rename(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _remove_unmapped(folder: Path) -> None:
    for path in folder.glob(f"{_PREFIX}*"):
        if path.name == f"{_PREFIX}lock":
            continue
        with suppress(OSError), path.open("rb") as file:  # locked by a worker that maps it
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
