"""The folder for sundog's own files between processes: machine code, and the Java folder made from a wheel.

Processes execute these files, so the folder must belong to the user and be closed to others: in `/tmp` itself, anybody
could have put a file of the right name first. An executor's Python often has no home, or one that it may not write;
then a private folder under `/tmp` is used. If that is impossible too, there is no folder and the caller does without.

`SUNDOG_CACHE_DIR` names the folder instead. It may be read-only (made by root in a container image, say): then its
files are used, and none is added. One that another user owns or can write is refused, without a replacement; `sundog
doctor` and a warning say why. This module is here, not beside `config`, because kernels import nothing of sundog.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sundog.kernels.cache.private_files import make_folders, why_not_private_folder

log = logging.getLogger("sundog")
ENVIRONMENT_VARIABLE = "SUNDOG_CACHE_DIR"


@dataclass(frozen=True)
class UserCache:
    """The folder, or none; and the problems of better folders that were tried first."""

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
        return _named(Path(os.path.realpath(chosen)))
    problems: list[str] = []
    for path in _candidates(environment[1]):
        problem = _make(path) or why_not_private_folder(path) or _why_not_writable(path)
        if problem is None:
            return UserCache(path, writable=True, problems=tuple(problems))
        problems.append(problem)
    return UserCache(None, writable=False, problems=tuple(problems))


def _named(path: Path) -> UserCache:
    """The folder that the user named: to read and write, to read only, or not at all."""
    cannot_make = _make(path)
    if not path.is_dir():
        return UserCache(None, writable=False, problems=(cannot_make or f"{path} is not a folder",))
    refused = why_not_private_folder(path)
    if refused is not None:
        log.warning("The cache folder is not used, and kernels are compiled in each process: %s", refused)
        return UserCache(None, writable=False, problems=(refused,))
    problem = cannot_make or _why_not_writable(path)
    return UserCache(path, writable=problem is None, problems=() if problem is None else (problem,))


def _candidates(xdg_cache_home: str | None) -> Iterator[Path]:
    if xdg_cache_home and os.path.isabs(xdg_cache_home):
        yield Path(xdg_cache_home) / "sundog"
    with suppress(RuntimeError):  # no HOME, and a user id without an entry in the password file: usual in containers
        yield Path.home() / ".cache" / "sundog"
    yield Path(tempfile.gettempdir()) / f"sundog-{_user_id()}"


def _make(path: Path) -> str | None:
    try:
        make_folders(path)
    except OSError as error:
        return f"{path} cannot be made: {error.strerror}"
    return None


def _why_not_writable(path: Path) -> str | None:
    """Whether it can be written, by writing: a read-only mount reports normal permissions."""
    try:
        tempfile.TemporaryFile(dir=path).close()
    except OSError as error:
        return f"{path} cannot be written: {error.strerror}"
    return None


def _user_id() -> str:
    return str(os.getuid()) if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
