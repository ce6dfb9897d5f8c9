"""Files that a process executes, machine code and scripts, kept so that other users cannot change them.

A file is trusted if it and its folder belong to this user or to root and nobody else can write them. Both are opened
first, without following links, and the opened objects are checked: between checking a *path* and using it another user
could put something else there. New files are open to their owner only, whatever the umask.

Windows has neither owners nor modes in this form. There a user's cache folder is inside the user's profile, and nothing
is checked.
"""

from __future__ import annotations

import os
import shutil
import stat
import uuid
from contextlib import suppress
from pathlib import Path

_FOLDER_MODE = 0o700
_FILE_MODE = 0o600
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH
_ROOT = 0
IS_POSIX = os.name == "posix"
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _NO_LINK
_BINARY = getattr(os, "O_BINARY", 0)


class NotPrivate(OSError):
    """A file or folder that another user made or can change. The message names it and says what is wrong."""


def why_not_private(status: os.stat_result, path: Path | str) -> str | None:
    """What is wrong with a file or folder of this status, as a sentence; None if only this user and root can change
    it."""
    if not IS_POSIX:
        return None
    if status.st_uid not in (os.geteuid(), _ROOT):
        return f"{path} belongs to another user (uid {status.st_uid})"
    if status.st_mode & _OTHERS_MAY_WRITE:
        return f"{path} can be written by other users (mode {stat.S_IMODE(status.st_mode):o})"
    return None


def why_not_private_folder(path: Path) -> str | None:
    """The same for a folder by its path, and for the folders above it, where others could exchange it for their own.

    A sticky folder such as /tmp lets nobody rename what belongs to others. The owners of the folders above, and groups
    that may write them, are trusted: many homes hold a `.cache` that the user's own group may write.
    """
    try:
        status = path.lstat()
        if not stat.S_ISDIR(status.st_mode):
            return f"{path} is not a folder"
        problem = why_not_private(status, path)
        if problem is not None or not IS_POSIX:
            return problem
        for above in Path(os.path.realpath(path)).parents:
            mode = above.stat().st_mode
            if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
                return f"{path} is inside {above}, which every user can write (mode {stat.S_IMODE(mode):o})"
    except OSError as error:
        return f"{path} cannot be looked at: {error.strerror}"
    return None


def make_folders(path: Path) -> None:
    """Make the folder and those above it that are missing, each open to this user only."""
    missing = []
    for folder in (path, *path.parents):
        if folder.is_dir():
            break
        missing.append(folder)
    for folder in reversed(missing):
        with suppress(FileExistsError):  # another process was faster; the owner is checked before the folder is used
            folder.mkdir(mode=_FOLDER_MODE)
            if folder.lstat().st_mode & _FOLDER_MODE != _FOLDER_MODE:  # a umask that takes away the owner's own rights
                folder.chmod(_FOLDER_MODE)


def make_folders_inside(root: Path, folder: Path) -> None:
    """Make `folder` below `root`, which is private and holds only what can be made again.

    A folder of this user's that others can write, made by an older version under a loose umask, goes with all that is
    in it: another user may have put it there.
    """
    names = folder.relative_to(root).parts
    for depth in range(len(names) if IS_POSIX else 0):
        each = root.joinpath(*names[: depth + 1])
        with suppress(FileNotFoundError):
            status = each.lstat()
            if status.st_uid == os.geteuid() and stat.S_ISDIR(status.st_mode) and status.st_mode & _OTHERS_MAY_WRITE:
                shutil.rmtree(each)
    make_folders(folder)


def read_private(root: Path, path: Path) -> bytes:
    """The contents of a file below `root`; NotPrivate if another user can have put it there, or another OSError.

    Every folder from `root` on is opened inside the one before, and has to be private like the file itself.
    """
    if not IS_POSIX:
        return path.read_bytes()
    descriptors = [os.open(root, _FOLDER)]
    try:
        at = root
        for name in path.relative_to(root).parts:
            _check(descriptors[-1], at)
            at = at / name
            flags = os.O_RDONLY | os.O_NONBLOCK | _NO_LINK if at == path else _FOLDER
            descriptors.append(os.open(name, flags, dir_fd=descriptors[-1]))
        _check(descriptors[-1], path)
        if not stat.S_ISREG(os.fstat(descriptors[-1]).st_mode):
            raise NotPrivate(f"{path} is no regular file")
        with open(descriptors[-1], "rb", closefd=False) as file:
            return file.read()
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def publish_private(path: Path, content: bytes, mode: int = _FILE_MODE) -> None:
    """Put a file in its place whole, under a name that nobody can foresee until then, readable by this user only."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{uuid.uuid4().hex}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK | _BINARY, mode)
        with open(descriptor, "wb") as file:
            if IS_POSIX:
                os.fchmod(descriptor, mode)
            file.write(content)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _check(descriptor: int, path: Path) -> None:
    problem = why_not_private(os.fstat(descriptor), path)
    if problem is not None:
        raise NotPrivate(problem)
