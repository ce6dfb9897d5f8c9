"""The cache folder is private, or another one is used, or none."""

from __future__ import annotations

from pathlib import Path

import pytest

from sundog.kernels.user_cache import user_cache


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
