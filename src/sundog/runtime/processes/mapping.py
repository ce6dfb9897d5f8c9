"""One copy of a large value for all Python workers of an application on a machine: they map one file into memory.

    driver: value ──► header (a small pickle) and buffers ──► broadcast variable
    worker: file of the buffers in a local folder of Spark's, written by the first worker, mapped by all ──► value

A build side of a join consists of arrays: columns, and the hash table over them. A worker that unpickles it has its own
copy, and an executor of 16 cores has 16. Here the arrays are in a file that all workers map, and the system keeps one
copy. Pages are mapped privately and never written to, though arrays count as writable (`columns/arrow.py`).

The folder is one that all executors of the application on this machine have, if it is known to be one: Spark's
standalone worker makes `executor-<uuid>` for an application, YARN `application_<number>`, and the block managers of
executors are inside. Both delete it when the application ends, as their executors' files. Elsewhere each executor has
its own, that of its block manager: a pod of Kubernetes has one executor, and in a local session the folder above may be
that of all users.

Each mapping holds a shared lock on its file, which ends with it, however the worker ends. A worker that writes a file
first removes those that none maps any more; the last ones go with Spark's local folder. Nothing in the file is
unpickled: the header comes with the broadcast variable. Without such a folder or lock, or if the file does not match, a
worker has its own copy.
"""

from __future__ import annotations

import mmap
import os
import pickle
import re
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

_PREFIX = "sundog-shared-"
_ALIGNMENT = 64
_OF_APPLICATION = re.compile(r"executor-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|application_\d+_\d+")


class Mapped:
    """A value in the form in which it is pickled. Unpickled, it is the value, mapped if that is possible."""

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
    """The file of this name in a local folder of Spark's, holding `data`; None if it cannot be mapped."""
    for folder in _folders() if fcntl is not None and data else ():
        try:
            with _locked(folder):
                return _map(folder / name, data)
        except OSError:  # no space, no such folder, not ours, no locks on this file system: the next, or a copy
            continue
    return None


def _folders() -> list[Path]:
    """The folder that executors of the application share, if there is one, and this executor's own.

    Spark gives an executor its folders on several disks in any order, so that of the application is the first by name.
    """
    own = [Path(each) for each in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if each]
    shared = sorted(folder.parent for folder in own if _OF_APPLICATION.fullmatch(folder.parent.name))
    return [*shared[:1], *own[:1]]


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """While no other worker writes or removes a file there. Others wait: one of them writes for all."""
    with open(folder / f"{_PREFIX}lock", "ab") as file:
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
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)  # duplicates the handle, which holds the lock


def _write(path: Path, data: bytes) -> None:
    """Written under another name, renamed when complete. A killed worker leaves the other name behind, unlocked."""
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
