"""A container's limit counts, not the machine's size."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sundog import machine
from sundog.environment import java
from sundog.machine import usable_cores, usable_memory_bytes


def test_cores_are_those_that_this_process_may_use() -> None:
    assert 1 <= usable_cores() <= (os.cpu_count() or 1)


@pytest.mark.parametrize(
    ("limit", "expected"), [("4294967296\n", 4 << 30), ("max\n", 64 << 30), ("9223372036854771712", 64 << 30)]
)
def test_memory_is_the_smaller_of_machine_and_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, expected: int
) -> None:
    (tmp_path / "memory.max").write_text(limit)
    monkeypatch.setattr(machine, "_CGROUP_LIMITS", (str(tmp_path / "memory.max"), str(tmp_path / "missing")))
    monkeypatch.setattr(os, "sysconf", {"SC_PHYS_PAGES": 16 << 20, "SC_PAGE_SIZE": 4096}.__getitem__)
    assert usable_memory_bytes() == expected


def test_memory_that_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str) -> int:
        raise ValueError("unrecognized configuration name")

    monkeypatch.setattr(os, "sysconf", unknown)
    monkeypatch.setattr(machine, "_CGROUP_LIMITS", ())
    assert usable_memory_bytes() is None


@pytest.mark.parametrize(
    ("memory", "driver"), [(None, 1 << 30), (2 << 30, 1 << 30), (24 << 30, 6 << 30), (512 << 30, 8 << 30)]
)
def test_spark_gets_a_quarter_within_bounds(monkeypatch: pytest.MonkeyPatch, memory: int | None, driver: int) -> None:
    monkeypatch.setattr(java, "usable_memory_bytes", lambda: memory)
    assert java.default_driver_memory() == driver
