"""Memory and cores are the container's limits, not the machine's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sundog import machine
from sundog.environment import java
from sundog.machine import container_bytes, usable_cores, usable_memory_bytes


def test_cores_are_those_that_this_process_may_use() -> None:
    assert 1 <= usable_cores() <= (os.cpu_count() or 1)


GIB = 1 << 30
UNLIMITED = "9223372036854771712"  # as version 1 of the interface says it


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Groups:
    """A machine of 64 GiB, and its control groups."""
    monkeypatch.setattr(machine, "_OWN_GROUPS", str(tmp_path / "own"))
    monkeypatch.setattr(machine, "_GROUPS", str(tmp_path / "cgroup"))
    monkeypatch.setattr(os, "sysconf", {"SC_PHYS_PAGES": 16 << 20, "SC_PAGE_SIZE": 4096}.__getitem__)
    return Groups(tmp_path)


class Groups:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, own: str, **limits: str) -> None:
        """The lines of /proc/self/cgroup, and the texts of files that say limits, `__` for a slash."""
        (self._folder / "own").write_text(own)
        for name, text in limits.items():
            path = self._folder / "cgroup" / name.replace("__", "/")
            path = path.with_name(path.name.replace("memory_", "memory."))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


@pytest.mark.parametrize(
    ("own", "limits", "expected"),
    [
        ("0::/\n", {"memory_max": "4294967296\n"}, 4 * GIB),
        ("0::/\n", {"memory_max": "max\n"}, None),
        ("0::/\n", {}, None),
        ("0::/pod/box\n", {"pod__box__memory_max": "3221225472\n"}, 3 * GIB),
        # A group around it may be the narrower one.
        ("0::/pod/box\n", {"pod__box__memory_max": "max", "pod__memory_max": str(2 * GIB)}, 2 * GIB),
        ("0::/pod/box\n", {"pod__box__memory_max": str(GIB), "pod__memory_max": str(2 * GIB)}, GIB),
        # The path is that outside of a container, where only the container's own group is seen.
        ("0::/system/docker-1\n", {"memory_max": str(GIB)}, GIB),
        ("0::/../other\n", {"memory_max": str(GIB)}, GIB),
        ("9:name=systemd:/\n4:cpu,memory:/a/b\n0::/\n", {"memory__a__b__memory_limit_in_bytes": str(GIB)}, GIB),
        ("4:memory:/a/b\n", {"memory__a__memory_limit_in_bytes": str(5 * GIB)}, 5 * GIB),
        ("4:memory:/docker/x\n", {"memory__memory_limit_in_bytes": str(6 * GIB)}, 6 * GIB),
        ("4:memory:/\n", {"memory__memory_limit_in_bytes": UNLIMITED}, None),
        ("0::/\n", {"memory_max": str(65 * GIB)}, None),
    ],
)
def test_memory_is_the_smaller_of_machine_and_container(
    groups: Groups, own: str, limits: dict[str, str], expected: int | None
) -> None:
    groups.put(own, **limits)
    assert container_bytes() == expected
    assert usable_memory_bytes() == (expected or 64 * GIB)


def test_memory_that_nobody_knows(groups: Groups, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str) -> int:
        raise ValueError("unrecognized configuration name")

    monkeypatch.setattr(os, "sysconf", unknown)
    assert usable_memory_bytes() is None
    groups.put("0::/\n", memory_max=str(GIB))
    assert usable_memory_bytes() == GIB


def test_a_limit_of_the_address_space_is_that_of_this_process() -> None:
    program = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 33, 1 << 33));"
        "from sundog.machine import this_machine; print(this_machine().address_bytes)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(1 << 33)


@pytest.mark.parametrize(
    ("memory", "driver"), [(None, 1 << 30), (2 << 30, 1 << 30), (24 << 30, 6 << 30), (512 << 30, 8 << 30)]
)
def test_spark_gets_a_quarter_within_bounds(monkeypatch: pytest.MonkeyPatch, memory: int | None, driver: int) -> None:
    monkeypatch.setattr(java, "usable_memory_bytes", lambda: memory)
    assert java.default_driver_memory() == driver
