"""Snappy, the default codec of Spark's and Arrow's Parquet writers.

Arrow's codec is as fast, but needs a call from Python for each page. Every such call releases the GIL and waits to get
it back, so that two threads that decompress pages of 100 kB are no faster than one.

A block is its length and then pieces: bytes to copy, or a length and a distance, which copy bytes already written. As
in `parquet_values.py`, nothing is read or written outside of the given bytes, and inconsistent input gives `BROKEN`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sundog.kernels.compile import kernel
from sundog.kernels.pages.parquet_values import BROKEN, load_up_to, varint
from sundog.kernels.pointers import copy_bytes, load_u8, load_u64, store_u64

SLACK = 16  # bytes that may be written behind a block, to copy short pieces by words
_SURE = 24  # bytes before the end of a block: a piece that begins before them can be read by words


@kernel
def unpack_snappy(start: int, end: int, out: int, size: int) -> int:
    """Write the block's `size` bytes to `out`, after which there are `SLACK` bytes more; 0 if it has as many."""
    length, at = varint(start, end)
    if at == BROKEN or length != np.uint64(size):
        return BROKEN
    out_end = out + size
    at, to = _unpack_sure(at, end, out, out_end)
    if at == BROKEN:
        return BROKEN
    while at < end:
        tag: Any = np.int64(load_u8(at))
        kind = tag & 3
        count: Any = (tag >> 2) + 1
        at += 1
        number_bytes = (max(count - 60, 0), 1, 2, 4)[kind]
        if number_bytes > end - at:
            return BROKEN
        number: Any = np.int64(load_up_to(at, end) & ((np.uint64(1) << np.uint64(8 * number_bytes)) - np.uint64(1)))
        at += number_bytes
        if kind == 0:
            if count > 60:
                count = number + 1
            if count > end - at or count > out_end - to:
                return BROKEN
            if count <= 16 and end - at >= 16:
                store_u64(to, load_u64(at))
                store_u64(to + 8, load_u64(at + 8))
            else:
                copy_bytes(to, at, count)
            at += count
        else:
            if kind == 1:
                count = ((tag >> 2) & 7) + 4
                number |= (tag >> 5) << 8
            if number == 0 or number > to - out or count > out_end - to:
                return BROKEN
            _repeat(to, number, count)
        to += count
    return 0 if to == out_end else BROKEN


@kernel(inline=True)
def _unpack_sure(start: int, end: int, out: int, out_end: int) -> tuple[Any, Any]:
    """The pieces that begin well before the end: where the next one begins and is written to, `BROKEN` for the first.

    A page of numbers in half of their width is two pieces of 3 to 5 bytes for each number: 4.7 to 5.5 ns for both,
    7.2 in the loop for all pieces. Distances of one and two bytes come in no order, so they are distinguished
    without a branch; with one it was 6.5. Bytes and distances distinguished without a branch as well: 6.4 to 7.0.
    """
    at: Any = start
    to: Any = out
    while at < end - _SURE:
        word: Any = np.int64(load_u64(at))
        tag = word & 255
        kind = tag & 3
        count: Any = (tag >> 2) + 1
        if kind == 0:
            at += 1
            if count <= 16 and count <= out_end - to:
                store_u64(to, load_u64(at))
                store_u64(to + 8, load_u64(at + 8))
            else:
                number_bytes = max(count - 60, 0)
                if number_bytes > 0:
                    count = ((word >> 8) & ((1 << (8 * number_bytes)) - 1)) + 1
                at += number_bytes
                if count > end - at or count > out_end - to:
                    return BROKEN, to
                copy_bytes(to, at, count)
            at += count
        else:
            if kind == 3:
                distance: Any = (word >> 8) & 0xFFFFFFFF
                at += 5
            else:
                count = ((tag >> 2) & 7) + 4 if kind == 1 else count
                distance = ((tag >> 5) << 8) | ((word >> 8) & 255) if kind == 1 else (word >> 8) & 0xFFFF
                at += kind + 1
            if distance == 0 or distance > to - out or count > out_end - to:
                return BROKEN, to
            _repeat(to, distance, count)
        to += count
    return at, to


@kernel(inline=True)
def _repeat(to: int, distance: int, count: int) -> None:
    """Copy what was written `distance` bytes ago, which may overlap with what is written now."""
    if distance >= 8:
        store_u64(to, load_u64(to - distance))
        store_u64(to + 8, load_u64(to + 8 - distance))
        for at in range(16, count, 8):
            store_u64(to + at, load_u64(to + at - distance))
    else:
        pattern = load_u64(to - distance) & ((np.uint64(1) << np.uint64(8 * distance)) - np.uint64(1))
        filled = distance
        while filled < 8:
            pattern |= pattern << np.uint64(8 * filled)
            filled *= 2
        step = 8 - 8 % distance  # whole repetitions of the pattern in a word
        for at in range(0, count, step):
            store_u64(to + at, pattern)
