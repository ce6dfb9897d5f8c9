"""Files that a process executes belong to its user or to root, and nobody else may write them."""

from __future__ import annotations

import hashlib
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sundog.environment import java
from sundog.kernels.cache import code_cache
from sundog.kernels.cache.private_files import NotPrivate, make_folders_inside, publish_private, read_private
from sundog.kernels.compile import kernel
from sundog.operators.context import ScratchFolder, TaskContext, remove_abandoned_scratch

pytestmark = pytest.mark.skipif(os.name != "posix", reason="owners and modes are POSIX's")


@pytest.fixture(autouse=True)
def loose_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir(mode=0o700)
    return tmp_path / "root"


@pytest.fixture
def entry(root: Path) -> Path:
    make_folders_inside(root, root / "a" / "b")
    publish_private(root / "a" / "b" / "file", b"content")
    return root / "a" / "b" / "file"


def foreign(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if all that this process made belonged to somebody else."""
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    monkeypatch.setattr("sundog.kernels.cache.private_files._ROOT", 4712)


def test_what_is_made_is_closed_to_others_and_can_be_read(root: Path, entry: Path) -> None:
    assert read_private(root, entry) == b"content"
    assert entry.stat().st_mode & 0o777 == 0o600
    assert [folder.stat().st_mode & 0o777 for folder in (root / "a", root / "a" / "b")] == [0o700, 0o700]
    assert os.listdir(entry.parent) == ["file"]


@pytest.mark.parametrize("open_to_others", ["a/b/file", "a/b", "a", "."])
def test_what_others_can_write_is_not_read(root: Path, entry: Path, open_to_others: str) -> None:
    (root / open_to_others).chmod(0o770)
    with pytest.raises(NotPrivate, match="can be written by other users"):
        read_private(root, entry)


def test_what_belongs_to_another_user_is_not_read(root: Path, entry: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    foreign(monkeypatch)
    with pytest.raises(NotPrivate, match="belongs to another user"):
        read_private(root, entry)


@pytest.mark.parametrize("link", ["a/b/file", "a/b", "a"])
def test_links_are_not_followed(root: Path, entry: Path, tmp_path: Path, link: str) -> None:
    (root / link).rename(tmp_path / "moved")
    (root / link).symlink_to(tmp_path / "moved")
    with pytest.raises(OSError, match=r"symbolic links|Not a directory"):
        read_private(root, entry)


def test_a_pipe_is_not_waited_for(root: Path, entry: Path) -> None:
    entry.unlink()
    os.mkfifo(entry, 0o600)
    with pytest.raises(NotPrivate, match="no regular file"):
        read_private(root, entry)


def test_a_folder_that_others_could_fill_is_made_anew(root: Path, entry: Path) -> None:
    (root / "a").chmod(0o777)
    make_folders_inside(root, root / "a" / "b")
    assert (root / "a").stat().st_mode & 0o777 == 0o700
    assert not entry.exists()


def test_nothing_outside_of_the_private_folder_is_changed(root: Path, tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir(mode=0o777)
    with pytest.raises(ValueError, match="not in the subpath"):
        make_folders_inside(root, tmp_path / "shared" / "b")
    assert (tmp_path / "shared").stat().st_mode & 0o777 == 0o777


def test_scratch_folders_are_closed_to_others(tmp_path: Path) -> None:
    context = TaskContext(scratch_folder=ScratchFolder(str(tmp_path)))
    assert context.scratch().stat().st_mode & 0o777 == 0o700
    context.close()
    assert os.listdir(tmp_path) == []


def test_scratch_of_a_process_that_is_gone_is_removed_and_nothing_else(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    mine = TaskContext(scratch_folder=ScratchFolder(str(tmp_path)))
    mine.scratch()
    kept = {mine.scratch().name, "blocks", "sundog-scratch-x"}
    for name in (f"sundog-scratch-{gone.pid}-abc", "blocks", "sundog-scratch-x"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "rows").touch()
    remove_abandoned_scratch(str(tmp_path))
    assert set(os.listdir(tmp_path)) == kept
    remove_abandoned_scratch(str(tmp_path / "no such folder"))
    mine.close()


# --- poisoned entries ------------------------------------------------------------------------------------------------


class _Touch:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


@pytest.fixture
def cache(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SUNDOG_CACHE_DIR", str(root))
    return root


def fresh_kernel() -> Any:
    @kernel
    def twice(value: int) -> int:
        return value * 2

    return twice


def entry_of_kernel(cache: Path) -> Path:
    assert fresh_kernel()(21) == 42
    (entry,) = cache.rglob("*.code")
    return entry


def poison(entry: Path, proof: Path) -> None:
    """What a stranger would put in an entry's place: the checksum is right, for anybody can compute it."""
    payload = pickle.dumps(_Touch(proof))
    entry.write_bytes(code_cache._digest(entry, payload) + payload)


def test_entries_are_closed_to_others(cache: Path) -> None:
    entry = entry_of_kernel(cache)
    assert entry.stat().st_mode & 0o777 == 0o600
    assert {folder.stat().st_mode & 0o777 for folder in cache.rglob("*") if folder.is_dir()} == {0o700}


@pytest.mark.parametrize("trap", ["file open to others", "folder open to others", "link"])
def test_poisoned_entry_is_not_executed(
    cache: Path, tmp_path: Path, trap: str, caplog: pytest.LogCaptureFixture
) -> None:
    entry = entry_of_kernel(cache)
    poison(entry, tmp_path / "proof")
    if trap == "file open to others":
        entry.chmod(0o666)
    elif trap == "folder open to others":
        entry.parent.chmod(0o777)
    else:
        entry.rename(tmp_path / "elsewhere")
        entry.symlink_to(tmp_path / "elsewhere")
    assert fresh_kernel()(21) == 42
    assert not (tmp_path / "proof").exists()
    assert ("can be written by other users" in caplog.text) is (trap != "link")
    assert read_private(cache, entry)[32:] != pickle.dumps(_Touch(tmp_path / "proof")), "compiled and put in its place"


def test_the_trap_itself_works(cache: Path, tmp_path: Path) -> None:
    """Else the tests above would prove nothing."""
    entry = entry_of_kernel(cache)
    poison(entry, tmp_path / "proof")
    fresh_kernel()(21)
    assert (tmp_path / "proof").exists()


def test_poisoned_entry_of_another_user_is_not_executed(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = entry_of_kernel(cache)
    poison(entry, tmp_path / "proof")
    foreign(monkeypatch)
    assert fresh_kernel()(21) == 42
    assert not (tmp_path / "proof").exists()


def test_entry_under_the_name_of_another_is_not_loaded(cache: Path) -> None:
    entry = entry_of_kernel(cache)
    other = entry.with_name("other.code")
    entry.rename(other)
    assert code_cache._read(other) is None
    assert hashlib.sha256(other.read_bytes()[32:]).digest() != other.read_bytes()[:32]


def test_java_script_that_others_can_write_is_written_anew(root: Path) -> None:
    home = root / "java" / "x"
    java._publish(root, home, "#!/bin/sh\n")
    script = home / "bin" / "java"
    assert script.stat().st_mode & 0o777 == 0o700
    script.chmod(0o777)
    (root / "java").chmod(0o777)
    java._publish(root, home, "#!/bin/sh\n")
    assert script.stat().st_mode & 0o777 == 0o700
    assert (root / "java").stat().st_mode & 0o777 == 0o700
