"""Machine code of kernels on disk, shared by processes that start at the same moment without communicating.

Every executor of a cluster starts its Python workers at once, on an empty folder, with the same kernels. numba's own
cache is not made for that. It keeps an index file per function that names numbered data files, and changes the two
one after the other:

- two processes that compile one function for different types both take number 1, so the index of one may name the code
  of the other, which is then called with arguments of other types;
- after an edit the new index is published before the new data, so a reader in between runs the *old* code;
- a damaged file raises `EOFError` in every later process;
- the source stamp covers the function's own file, not the helpers it calls from another;
- for a source inside a zip (sundog as sent by `addPyFile`) the folder is tried neither for access nor for ownership.

Here an entry is one file, named by a digest of everything that went into the code: source, argument types, Python,
numba, CPU with its features. There is no index, a file never changes its meaning, and it appears complete, by
`os.replace`. A digest over name and contents turns a damaged or renamed file into a miss. The source is read through
the module's loader, so it may be in a zip.

Loading an entry executes its content (a pickle of machine code). The digest does not prove who wrote it, as anybody can
compute it; the owner of file and folder does (`private_files`). A file that another user can have written is not
loaded: it is a miss, with a warning.

So that not all of those processes compile the same thing, a process that misses takes a lock file, looks again, and
compiles. The others wait a limited time. A lock that cannot be taken, or is never released, costs one superfluous
compilation; correctness does not depend on it.
"""

from __future__ import annotations

import hashlib
import linecache
import logging
import os
import pickle
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib.resources import files
from operator import itemgetter
from pathlib import Path
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import llvmlite
import numba
from numba.core import config
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.compiler_lock import global_compiler_lock
from numba.core.runtime import rtsys
from numba.core.serialize import dumps

from sundog.kernels.cache.private_files import NotPrivate, make_folders_inside, publish_private, read_private
from sundog.kernels.cache.user_cache import user_cache

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

try:
    import fcntl
except ImportError:  # not POSIX: no lock, and every process compiles for itself
    fcntl = None  # type: ignore[assignment]

log = logging.getLogger("sundog")
LONGEST_WAIT_SECONDS = 30.0
_KERNELS = "sundog.kernels"  # the package whose modules may call each other
_POLL_SECONDS = 0.02
_DIGEST_BYTES = hashlib.sha256().digest_size


def code_folder() -> Path | None:
    """Where this interpreter's machine code is kept, whether or not it exists yet; None where nothing can be kept."""
    root = user_cache().path
    python = f"py{sys.version_info.major}{sys.version_info.minor}{getattr(sys, 'abiflags', '')}"
    return None if root is None else root / "kernels" / f"{python}-numba{numba.__version__}"


def install_code_cache(dispatcher: Any) -> None:
    """Give a numba dispatcher this cache in place of its own."""
    code = CodeCache(dispatcher.py_func)
    compile_or_load = dispatcher.compile

    def compile_once(sig: Any) -> Any:
        with global_compiler_lock:
            try:
                return compile_or_load(sig)
            finally:
                code.release()  # also if the compilation failed and nothing was saved

    dispatcher._cache = code
    dispatcher.compile = compile_once


class CodeCache(_Cache):  # type: ignore[misc]
    """One function's entries, in the form that numba's dispatcher asks for. It calls under numba's compiler lock."""

    def __init__(self, function: FunctionType) -> None:
        self._function = function
        self._source = _source_digest(function)
        self._enabled = function.__closure__ is None  # a closure's symbols are named alike in unlike processes
        self._locks: dict[Path, int] = {}

    @property
    def cache_path(self) -> str | None:
        folder = code_folder()
        return None if folder is None else str(folder)

    def enable(self) -> None:
        self._enabled = True

    def disable(self) -> None:
        self._enabled = False

    def flush(self) -> None:
        """Remove every entry of this function, of whatever source."""
        folder = code_folder()
        for path in [] if folder is None else folder.glob(f"{_readable_name(self._function)}-*.code"):
            path.unlink(missing_ok=True)

    def load_overload(self, sig: Any, target_context: Any) -> CompileResult | None:
        path = self._entry(sig, target_context.codegen())
        if path is None:
            return None
        parts = _read(path)
        if parts is None and user_cache().writable:
            self._lock(path)
            parts = _read(path)
        if parts is None:
            return None
        rtsys.initialize(target_context)  # the runtime that machine code calls; a compiler would need far more
        return CompileResult._rebuild(target_context, *parts)

    def save_overload(self, sig: Any, cres: Any) -> None:
        path = self._entry(sig, cres.codegen)
        if path is None or not user_cache().writable or cres.lifted or cres.library.has_dynamic_globals:
            return
        _publish(path, dumps(cres._reduce()))

    def release(self) -> None:
        """Let other processes continue: the entry exists, or will not."""
        for path, descriptor in self._locks.items():
            path.unlink(missing_ok=True)
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # closing is not enough: a child forked meanwhile has it open too
            os.close(descriptor)
        self._locks.clear()

    def _entry(self, sig: Any, codegen: Any) -> Path | None:
        folder = code_folder()
        if folder is None or self._source is None or not self._enabled:
            return None
        identity = (
            self._function.__module__,
            self._function.__qualname__,
            self._function.__code__.co_firstlineno,
            _code_identity(self._function.__code__),
            self._source,
            str(sig),
            codegen.magic_tuple(),
            (sys.version, numba.__version__, llvmlite.__version__),
            (config.OPT, config.BOUNDSCHECK, config.DEBUGINFO_DEFAULT),
        )
        digest = hashlib.sha256(repr(identity).encode()).hexdigest()[:40]
        return folder / f"{_readable_name(self._function)}-{digest}.code"

    def _lock(self, entry: Path) -> None:
        path = entry.with_suffix(".lock")
        if fcntl is None or path in self._locks:
            return
        try:
            make_folders_inside(_root(), path.parent)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError:
            return
        if _wait_for_lock(descriptor, until=time.monotonic() + LONGEST_WAIT_SECONDS):
            self._locks[path] = descriptor
        else:
            os.close(descriptor)


def _wait_for_lock(descriptor: int, until: float) -> bool:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > until:
                return False
            time.sleep(_POLL_SECONDS)
        except OSError:  # a file system without locks
            return False


def _read(path: Path) -> Any | None:
    try:
        content = read_private(_root(), path)
    except NotPrivate as problem:
        log.warning("A kernel is compiled again instead of being loaded: %s", problem)
        return None
    except OSError:
        return None
    digest, payload = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    return pickle.loads(payload) if _digest(path, payload) == digest else None


def _publish(path: Path, payload: bytes) -> None:
    """The file appears whole or not at all. A full disk is no reason to fail a query: the code is already in memory."""
    with suppress(OSError):
        make_folders_inside(_root(), path.parent)
        publish_private(path, _digest(path, payload) + payload)


def _root() -> Path:
    root = user_cache().path
    assert root is not None, "an entry has a path only where there is a folder"
    return root


def _digest(path: Path, payload: bytes) -> bytes:
    return hashlib.sha256(path.name.encode() + b"\0" + payload).digest()


def _readable_name(function: FunctionType) -> str:
    name = f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}"
    return "".join(letter if letter.isalnum() or letter in "._" else "_" for letter in name)


def _source_digest(function: FunctionType) -> str | None:
    """All that the function's code could have been made of: kernels call each other across this package's modules."""
    if function.__module__.startswith(f"{_KERNELS}."):
        return _PACKAGE_DIGEST
    source = linecache.getlines(function.__code__.co_filename, function.__globals__)
    return hashlib.sha256((_PACKAGE_DIGEST + "".join(source)).encode()).hexdigest() if source else None


def _code_identity(code: CodeType) -> tuple[object, ...]:
    constants = tuple(_code_identity(each) if isinstance(each, CodeType) else repr(each) for each in code.co_consts)
    return (code.co_code, code.co_names, constants)


def _modules(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, Traversable]]:
    for item in folder.iterdir():
        if item.is_dir():
            yield from _modules(item, f"{prefix}{item.name}/")
        elif item.name.endswith(".py"):
            yield f"{prefix}{item.name}", item


def _digest_of_package() -> str:
    digest = hashlib.sha256()
    for name, module in sorted(_modules(files(_KERNELS)), key=itemgetter(0)):
        digest.update(name.encode() + b"\0" + module.read_bytes())
    return digest.hexdigest()


# Taken at import, close to when Python read these files: an upgrade in place must not file the old code under the new.
_PACKAGE_DIGEST = _digest_of_package()
