"""The bytes of a Parquet page -> which rows have a value, numbers of dictionary entries, strings.

Every kernel reads between two addresses and no byte beyond, whatever the page claims: what does not fit gives `BROKEN`,
and the caller leaves the page to Arrow, which knows what to say of it. A page is decoded whole; its rows are
`first` to `first + count` of the column, and `valid` is empty where all of them have a value.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sundog.kernels.compile import kernel
from sundog.kernels.pointers import load_u8, load_u64
from sundog.kernels.strings import MAX_INLINE, first_bytes, gather_bytes

BROKEN = -1


@kernel(inline=True)
def _load_up_to(address: int, end: int) -> Any:
    """Eight bytes, of which those from `end` on are zero."""
    return load_u64(address) if address + 8 <= end else gather_bytes(address, end - address)


@kernel(inline=True)
def _low_bits(count: int) -> Any:
    return (np.uint64(1) << np.uint64(count)) - np.uint64(1)


@kernel(inline=True)
def _run_header(start: int, end: int) -> tuple[Any, Any]:
    """A variable-length number and the address after it; `BROKEN` for the address where it does not end."""
    header = np.uint64(0)
    address = start
    while address < end and address - start < 5:
        byte = np.uint64(load_u8(address))
        header |= (byte & np.uint64(127)) << np.uint64(7 * (address - start))
        address += 1
        if byte < 128:
            return header, address
    return header, BROKEN


@kernel
def unpack_hybrid(start: int, end: int, width: int, count: int, out: Any) -> int:
    """`count` numbers of `width` bits from Parquet's mixture of runs and bit-packed groups of eight; 0 if all are there."""
    mask = _low_bits(width)
    address: Any = start
    done: Any = 0
    while done < count:
        header, address = _run_header(address, end)
        if address == BROKEN:
            return BROKEN
        length: Any = np.int64(header >> np.uint64(1))
        if header & np.uint64(1):
            room: Any = min(8 * length, count - done)
            if address + (room * width + 7) // 8 > end:
                return BROKEN
            easy = max(0, min(room, 8 * (end - 7 - address) // max(width, 1)))  # eight bytes are there to load
            for at in range(easy):
                bit = at * width
                out[done + at] = (load_u64(address + (bit >> 3)) >> np.uint64(bit & 7)) & mask
            for at in range(easy, room):
                bit = at * width
                out[done + at] = (_load_up_to(address + (bit >> 3), end) >> np.uint64(bit & 7)) & mask
            address += length * width
        else:
            stored = (width + 7) // 8
            if address + stored > end or length == 0:
                return BROKEN
            value = _load_up_to(address, address + stored) & mask
            room = min(length, count - done)
            for at in range(room):
                out[done + at] = value
            address += stored
        done += room
    return 0


@kernel
def spread_codes(packed: Any, valid: Any, first: int, count: int, entries: int, codes: Any) -> int:
    """The codes of a page's values to its rows, 0 for NULL; 0 if all of them are numbers of entries."""
    value = 0
    largest = -1
    for row in range(first, first + count):
        code = 0
        if valid.size == 0 or valid[row] != 0:
            code = packed[value]
            value += 1
            largest = max(largest, code)
        codes[row] = code
    return 0 if largest < entries else BROKEN


@kernel
def views_by_code(packed: Any, valid: Any, first: int, count: int, entries: Any, views: Any) -> int:
    """The same with the entry itself for each row, as a string of two words (`kernels/strings.py`)."""
    value = 0
    for row in range(first, first + count):
        views[row, 0] = 0
        views[row, 1] = 0
        if valid.size == 0 or valid[row] != 0:
            code = np.int64(packed[value])
            value += 1
            if code >= entries.shape[0]:
                return BROKEN
            views[row, 0] = entries[code, 0]
            views[row, 1] = entries[code, 1]
    return 0


@kernel
def views_of_plain(base: int, start: int, end: int, valid: Any, first: int, count: int, block: int, views: Any) -> int:
    """Strings that lie behind each other, each after its length: views into the block `block`, which begins at `base`."""
    address: Any = start
    for row in range(first, first + count):
        views[row, 0] = 0
        views[row, 1] = 0
        if valid.size > 0 and valid[row] == 0:
            continue
        if address + 4 > end:
            return BROKEN
        length: Any = np.int64(_load_up_to(address, end) & np.uint64(0xFFFFFFFF))
        address += 4
        if address + length > end:
            return BROKEN
        views[row, 0], rest = first_bytes(address, length, end)
        views[row, 1] = ((address - base) << 32) | block if length > MAX_INLINE else rest
        address += length
    return 0
