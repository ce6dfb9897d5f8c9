"""Where sundog may keep files of its own between processes: machine code, and the Java folder made from a wheel.

Both are things that a process executes, so the folder must belong to the user and be closed to others: `/tmp` is where
anybody could have put a file of the right name first. An executor's Python often has no home, or one it may not
write to, and then the folder under `/tmp` serves; where that will not do either, there is no folder and the caller
does without.

`SUNDOG_CACHE_DIR` names the folder instead. It may be read-only (baked into a container image, say): what is in it
is used, and nothing is added. This module is here, and not beside `config`, because kernels import nothing of sundog.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ENVIRONMENT_VARIABLE = "SUNDOG_CACHE_DIR"


@dataclass(frozen=True)
class UserCache:
    """The folder, or none; and what was wrong with the better places that were tried first."""

    path: Path | None
    writable: bool
    problems: tuple[str, ...] = ()


def user_cache() -> UserCache:
    """The folder of this process's environment. Found once, unless the environment changes."""
    return _find(tuple(os.environ.get(name) for name in (ENVIRONMENT_VARIABLE, "XDG_CACHE_HOME", "HOME", "TMPDIR")))


@cache
def _find(environment: tuple[str | None, ...]) -> UserCache:
    chosen = environment[0]
    if chosen:
        path = Path(chosen).absolute()
        problem = _make_private(path) or _why_not_writable(path)
        if problem is None:
            return UserCache(path, writable=True)
        return UserCache(path if path.is_dir() else None, writable=False, problems=(problem,))
    problems: list[str] = []
    for path in _candidates(environment[1]):
        problem = _make_private(path) or _why_not_private(path) or _why_not_writable(path)
        if problem is None:
            return UserCache(path, writable=True, problems=tuple(problems))
        problems.append(problem)
    return UserCache(None, writable=False, problems=tuple(problems))


def _candidates(xdg_cache_home: str | None) -> Iterator[Path]:
    if xdg_cache_home and os.path.isabs(xdg_cache_home):
        yield Path(xdg_cache_home) / "sundog"
    with suppress(RuntimeError):  # no HOME, and a user id without an entry in the password file: usual in containers
        yield Path.home() / ".cache" / "sundog"
    yield Path(tempfile.gettempdir()) / f"sundog-{_user_id()}"


def _make_private(path: Path) -> str | None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        return f"{path} cannot be made: {error.strerror}"
    return None


def _why_not_private(path: Path) -> str | None:
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode):
        return f"{path} is not a folder"
    if hasattr(os, "getuid") and status.st_uid != os.getuid():
        return f"{path} belongs to another user"
    if os.name == "posix" and status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"{path} can be written by other users"
    return None


def _why_not_writable(path: Path) -> str | None:
    """Tried, not asked: a read-only mount says that its permissions are fine."""
    try:
        tempfile.TemporaryFile(dir=path).close()
    except OSError as error:
        return f"{path} cannot be written: {error.strerror}"
    return None


def _user_id() -> str:
    return str(os.getuid()) if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
