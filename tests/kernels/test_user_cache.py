"""The cache folder is private, or another one is used, or none."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sundog.kernels.cache.user_cache import user_cache

NOBODY = 65534
needs_root = pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can act as another user")


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SUNDOG_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()


def test_home_is_preferred_and_the_folder_is_closed_to_others(tmp_path: Path) -> None:
    found = user_cache()
    assert found.path == tmp_path / "home" / ".cache" / "sundog"
    assert found.writable
    assert found.path.stat().st_mode & 0o777 == 0o700


def test_variable_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUNDOG_CACHE_DIR", str(tmp_path / "mine"))
    assert user_cache().path == tmp_path / "mine"


def test_xdg_folder_is_respected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert user_cache().path == tmp_path / "xdg" / "sundog"


def test_home_that_cannot_be_written_falls_back_to_the_temporary_folder(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("not a folder")
    found = user_cache()
    assert found.path is not None
    assert found.path.parent == tmp_path / "tmp"
    assert "cannot be made" in found.problems[0]


@pytest.mark.parametrize("trap", ["open to all", "link"])
def test_folder_that_somebody_else_could_have_filled_is_refused(tmp_path: Path, trap: str) -> None:
    home = tmp_path / "home" / ".cache"
    home.mkdir(parents=True)
    if trap == "open to all":
        (home / "sundog").mkdir()
        (home / "sundog").chmod(0o777)
    else:
        (tmp_path / "elsewhere").mkdir()
        (home / "sundog").symlink_to(tmp_path / "elsewhere")
    found = user_cache()
    assert found.path is not None
    assert found.path.parent == tmp_path / "tmp"
    assert len(found.problems) == 1


def test_nowhere_to_write_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    (tmp_path / "tmp").rmdir()
    (tmp_path / "tmp").write_text("")
    found = user_cache()
    assert (found.path, found.writable, len(found.problems)) == (None, False, 2)


@pytest.fixture
def loose_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def test_every_folder_that_is_made_is_closed_to_others_under_a_loose_umask(tmp_path: Path, loose_umask: None) -> None:
    assert user_cache().writable
    for folder in (tmp_path / "home", tmp_path / "home" / ".cache", tmp_path / "home" / ".cache" / "sundog"):
        assert folder.stat().st_mode & 0o777 == 0o700


def test_named_folder_that_others_can_write_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    monkeypatch.setenv("SUNDOG_CACHE_DIR", str(tmp_path / "open"))
    found = user_cache()
    assert (found.path, found.writable) == (None, False)
    assert found.problems == (f"{tmp_path / 'open'} can be written by other users (mode 777)",)
    assert found.problems[0] in caplog.text


def test_named_folder_inside_one_that_everybody_can_write_is_refused_unless_that_is_sticky(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, mode in (("loose", 0o777), ("sticky", 0o1777)):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(mode)
        monkeypatch.setenv("SUNDOG_CACHE_DIR", str(tmp_path / name / "cache"))
        assert (user_cache().path is None) is (name == "loose")


@needs_root
def test_named_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "theirs").mkdir()
    os.chown(tmp_path / "theirs", NOBODY, NOBODY)
    monkeypatch.setenv("SUNDOG_CACHE_DIR", str(tmp_path / "theirs"))
    assert user_cache().problems == (f"{tmp_path / 'theirs'} belongs to another user (uid {NOBODY})",)
    assert user_cache().path is None


@needs_root
def test_named_folder_of_root_is_read_by_all_and_written_by_nobody_else(tmp_path: Path) -> None:
    """As it is in a container image."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))  # pytest's own is closed to other users
    try:
        folder.chmod(0o755)
        found = as_nobody(
            "from sundog.kernels.cache.user_cache import user_cache as u; print(u())", SUNDOG_CACHE_DIR=folder
        )
        assert found.startswith(f"UserCache(path=PosixPath('{folder}'), writable=False")
    finally:
        folder.rmdir()


def as_nobody(code: str, **environment: object) -> str:
    """What a Python program prints that runs as another user."""
    lines = f"import os, sys; sys.path[:0] = {sys.path!r}; import numba, sundog; os.setuid({NOBODY}); {code}"
    variables = {**os.environ, **{name: str(value) for name, value in environment.items()}}
    return subprocess.run(
        [sys.executable, "-c", lines], env=variables, text=True, capture_output=True, check=True
    ).stdout
