"""Kernels as plain Python, over memory of which every access is checked.

`install` must run before anything of sundog is imported. It switches numba off, so that a coverage-guided fuzzer sees
the lines of a kernel, and puts functions in the place of `sundog.kernels.pointers` that raise `OutOfBounds` for an
address that is in no buffer: as an address sanitizer would. Buffers are those that Arrow allocates from then on (with
the bytes behind them that they were asked for, and no padding) and those that `allow` names.
"""

from __future__ import annotations

import ctypes
import os
import sys
from bisect import bisect_right
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa


class OutOfBounds(AssertionError):
    """A kernel touched an address that it must not touch."""


class _Memory:
    def __init__(self) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.kept: list[pa.Buffer] = []  # alive, or another buffer may get the same address

    def allow(self, buffer: pa.Buffer) -> pa.Buffer:
        if buffer.size:
            place = bisect_right(self.starts, buffer.address)
            self.starts.insert(place, buffer.address)
            self.ends.insert(place, buffer.address + buffer.size)
            self.kept.append(buffer)
        return buffer

    def check(self, address: int, size: int) -> int:
        address = int(address)
        place = bisect_right(self.starts, address) - 1
        if size and (place < 0 or address + size > self.ends[place]):
            raise OutOfBounds(f"{size} bytes at {address}")
        return address

    def clear(self) -> None:
        self.starts, self.ends, self.kept = [], [], []


MEMORY = _Memory()


def is_installed() -> bool:
    return getattr(sys.modules.get("sundog.kernels.pointers"), "is_checked", False)


def install() -> None:
    if "sundog" in sys.modules:
        raise RuntimeError("sundog is imported already")
    os.environ["NUMBA_DISABLE_JIT"] = "1"
    np.seterr(over="ignore")  # as compiled code does
    module: Any = ModuleType("sundog.kernels.pointers")
    module.is_checked = True
    for bits, dtype, kind in (
        (8, np.uint8, ctypes.c_uint8),
        (32, np.uint32, ctypes.c_uint32),
        (64, np.uint64, ctypes.c_uint64),
    ):
        setattr(module, f"load_u{bits}", _load(dtype, kind))
        setattr(module, f"store_u{bits}", _store(kind))
    module.copy_bytes = _copy
    module.prefetch = lambda address: None
    sys.modules["sundog.kernels.pointers"] = module
    allocate = pa.allocate_buffer
    pa.allocate_buffer = lambda *arguments, **options: MEMORY.allow(allocate(*arguments, **options))


def _load(dtype: Any, kind: Any) -> Any:
    size = ctypes.sizeof(kind)
    return lambda address: dtype(kind.from_address(MEMORY.check(address, size)).value)


def _store(kind: Any) -> Any:
    size = ctypes.sizeof(kind)

    def store(address: int, word: Any) -> None:
        kind.from_address(MEMORY.check(address, size)).value = int(word)

    return store


def _copy(target: int, source: int, count: int) -> None:
    count = int(count)
    if count < 0:
        raise OutOfBounds(f"{count} bytes to be copied")
    ctypes.memmove(MEMORY.check(target, count), MEMORY.check(source, count), count)
