"""The bytes of a Parquet page -> which rows have a value, numbers, numbers of dictionary entries, strings.

Every kernel reads between two addresses and no byte beyond, whatever the page claims. Values that do not fit give
`BROKEN`, and the caller leaves the chunk to Arrow, which decodes or refuses it. All pages of a chunk are decoded by one
call, one after the other. `valid` has a byte for each row, and is empty if all of them have a value.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sundog.kernels.compile import kernel
from sundog.kernels.pointers import load_u8, load_u64
from sundog.kernels.strings import MAX_INLINE, first_bytes, gather_bytes

BROKEN = -1
# A page, decompressed: addresses of its levels (0: no row can be NULL), its values, and the block they lie in.
COUNT, IS_CODED, LEVELS, LEVELS_END, VALUES, VALUES_END, BLOCK, BLOCK_NUMBER = range(8)
PAGE_FIELDS = 8

_WIDEST_CODE = 31  # bits


@kernel(inline=True)
def load_up_to(address: int, end: int) -> Any:
    """Eight bytes, of which those from `end` on are zero."""
    return load_u64(address) if address + 8 <= end else gather_bytes(address, end - address)


@kernel(inline=True)
def _low_bits(count: int) -> Any:
    return (np.uint64(1) << np.uint64(count)) - np.uint64(1)


@kernel(inline=True)
def varint(start: int, end: int) -> tuple[Any, Any]:
    """A number in as many bytes as it needs, and the address after it; `BROKEN` for the address where it does not
    end."""
    number = np.uint64(0)
    address = start
    while address < end and address - start < 10:
        byte = np.uint64(load_u8(address))
        number |= (byte & np.uint64(127)) << np.uint64(7 * (address - start))
        address += 1
        if byte < 128:
            return number, address
    return number, BROKEN


@kernel
def _unpack_groups(address: int, width: int, groups: int, out: Any) -> None:
    mask = _low_bits(width)
    for group in range(groups):
        first = address + group * width
        for at in range(8):
            bit = at * width
            out[8 * group + at] = (load_u64(first + (bit >> 3)) >> np.uint64(bit & 7)) & mask


@kernel
def unpack_hybrid(start: int, end: int, width: int, count: int, out: Any) -> int:
    """`count` numbers of `width` bits from Parquet's mixture of runs and bit-packed groups of eight; 0 if all are
    there."""
    mask = _low_bits(width)
    address: Any = start
    done: Any = 0
    while done < count:
        header, address = varint(address, end)
        if address == BROKEN or header >> np.uint64(32):
            return BROKEN
        length: Any = np.int64(header >> np.uint64(1))
        if header & np.uint64(1):
            taken: Any = min(8 * length, count - done)
            if address + (taken * width + 7) // 8 > end:
                return BROKEN
            # Groups of which every number has the eight bytes to load that its bits are in.
            groups = max(0, min(taken // 8, (end - address - 7) // max(width, 1)))
            _unpack_groups(address, width, groups, out[done : done + 8 * groups])
            for at in range(8 * groups, taken):
                bit = at * width
                out[done + at] = (load_up_to(address + (bit >> 3), end) >> np.uint64(bit & 7)) & mask
            address += length * width
        else:
            stored = (width + 7) // 8
            if address + stored > end or length == 0:
                return BROKEN
            value = load_up_to(address, address + stored)
            if value > mask:
                return BROKEN
            taken = min(length, count - done)
            out[done : done + taken] = value
            address += stored
        done += taken
    return 0


@kernel
def _pick_hybrid(start: int, end: int, width: int, places: Any, out: Any) -> int:
    """The numbers at ascending places of such a mixture, 0 for a negative place; 0 if all are there."""
    mask = _low_bits(width)
    address: Any = start
    first: Any = 0
    at: Any = 0
    while at < places.size:
        if places[at] < 0:
            out[at] = 0
            at += 1
            continue
        header, address = varint(address, end)
        if address == BROKEN or header >> np.uint64(32):
            return BROKEN
        length: Any = np.int64(header >> np.uint64(1))
        if header & np.uint64(1):
            behind: Any = first + 8 * length
            while at < places.size and places[at] < behind:
                out[at] = 0
                if places[at] >= 0:
                    bit = (places[at] - first) * width
                    if address + ((bit + width + 7) >> 3) > end:
                        return BROKEN
                    out[at] = (load_up_to(address + (bit >> 3), end) >> np.uint64(bit & 7)) & mask
                at += 1
            address += length * width
        else:
            stored = (width + 7) // 8
            if address + stored > end or length == 0:
                return BROKEN
            value = load_up_to(address, address + stored)
            if value > mask:
                return BROKEN
            behind = first + length
            while at < places.size and places[at] < behind:
                out[at] = value if places[at] >= 0 else 0
                at += 1
            address += stored
        first = behind
    return 0


@kernel
def rows_with_values(start: int, end: int, valid: Any) -> Any:
    """A byte for each row of a page, 0 for NULL, by the page's levels; how many are NULL."""
    header, address = varint(start, end)
    count = valid.size
    if address == BROKEN:
        return BROKEN if count else 0
    if header & np.uint64(1) == 0 and header >> np.uint64(1) >= np.uint64(count) and address < end:
        level = load_u8(address)
        if level > 1:
            return BROKEN
        valid[:] = level  # a single run: so it is where no row is NULL, or every one
        return 0 if level else count
    levels = np.empty(count, np.uint32)
    width: Any = np.int64(1)  # not the literal, for which all would be compiled again
    if unpack_hybrid(start, end, width, count, levels) == BROKEN:
        return BROKEN
    missing: Any = 0
    for row in range(count):
        valid[row] = levels[row]
        missing += 1 - np.int64(valid[row])
    return missing


@kernel
def _values_in(valid: Any) -> Any:
    count: Any = 0
    for row in range(valid.size):
        count += np.int64(valid[row])
    return count


@kernel
def unpack_codes(start: int, end: int, entries: int, codes: Any) -> int:
    """As many codes as `codes` holds; `BROKEN` if one of them is beyond the entries."""
    if codes.size == 0:
        return 0
    width: Any = np.int64(load_u8(start)) if start < end else _WIDEST_CODE + 1
    if width > _WIDEST_CODE or unpack_hybrid(start + 1, end, width, codes.size, codes) == BROKEN:
        return BROKEN
    return _codes_in(entries, codes)


@kernel
def pick_codes(start: int, end: int, entries: int, places: Any, codes: Any) -> int:
    """The codes at ascending places among those of a page, 0 for a negative place; `BROKEN` if one is beyond the
    entries."""
    if places.size == 0 or places.max() < 0:
        codes[:] = 0
        return 0
    width: Any = np.int64(load_u8(start)) if start < end else _WIDEST_CODE + 1
    if width > _WIDEST_CODE or _pick_hybrid(start + 1, end, width, places, codes) == BROKEN:
        return BROKEN
    return _codes_in(entries, codes)


@kernel(inline=True)
def _codes_in(entries: int, codes: Any) -> int:
    largest = np.uint32(0)
    for at in range(codes.size):
        largest = max(largest, codes[at])
    return 0 if np.int64(largest) < entries else BROKEN


@kernel(inline=True)
def _spread(values: Any, valid: Any, out: Any) -> None:
    value = 0
    for row in range(out.size):
        out[row] = 0
        if valid[row] != 0:
            out[row] = values[value]
            value += 1


@kernel
def pick_views(page: Any, places: Any, views: Any) -> int:
    """The strings at ascending places of such a page as `views_of_plain` reads, empty for a negative place. Those
    between are passed over by their lengths."""
    address: Any = page[VALUES]
    end = page[VALUES_END]
    passed: Any = 0
    start: Any = address
    length: Any = np.int64(0)
    for at in range(places.size):
        views[at, 0] = 0
        views[at, 1] = 0
        if places[at] < 0:
            continue
        while passed <= places[at]:
            if address + 4 > end:
                return BROKEN
            length = np.int64(load_up_to(address, end) & np.uint64(0xFFFFFFFF))
            start = address + 4
            address = start + length
            if address > end:
                return BROKEN
            passed += 1
        views[at, 0], rest = first_bytes(start, length, end)
        views[at, 1] = ((start - page[BLOCK]) << 32) | page[BLOCK_NUMBER] if length > MAX_INLINE else rest
    return 0


@kernel
def codes_of_pages(pages: Any, valid: Any, entries: int, codes: Any) -> int:
    """The number of each row's dictionary entry, 0 for NULL; 0 if all is there."""
    first = 0
    for page in pages:
        rows = slice(first, first + page[COUNT])
        first += page[COUNT]
        if valid.size == 0:
            outcome = unpack_codes(page[VALUES], page[VALUES_END], entries, codes[rows])
        else:
            packed = np.empty(_values_in(valid[rows]), np.uint32)
            outcome = unpack_codes(page[VALUES], page[VALUES_END], entries, packed)
            _spread(packed, valid[rows], codes[rows])
        if outcome == BROKEN:
            return BROKEN
    return 0


@kernel
def views_of_pages(pages: Any, valid: Any, entries: Any, views: Any) -> int:
    """The string of each row as two words (`kernels/strings.py`), which may point into a block; 0 if all is there."""
    first = 0
    for page in pages:
        part = views[first : first + page[COUNT]]
        present = valid[first : first + page[COUNT]]
        first += page[COUNT]
        if page[IS_CODED]:
            codes = np.empty(part.shape[0] if valid.size == 0 else _values_in(present), np.uint32)
            if unpack_codes(page[VALUES], page[VALUES_END], entries.shape[0], codes) == BROKEN:
                return BROKEN
            _views_by_code(codes, present, entries, part)
        elif views_of_plain(page, present, part) == BROKEN:
            return BROKEN
    return 0


@kernel
def _views_by_code(codes: Any, valid: Any, entries: Any, views: Any) -> None:
    value = 0
    for row in range(views.shape[0]):
        views[row, 0] = 0
        views[row, 1] = 0
        if valid.size == 0 or valid[row] != 0:
            code = np.uint64(codes[value])
            value += 1
            views[row, 0] = entries[code, 0]
            views[row, 1] = entries[code, 1]


@kernel
def views_of_plain(page: Any, valid: Any, views: Any) -> int:
    """Strings that lie behind each other in a page, each after its length."""
    address: Any = page[VALUES]
    end = page[VALUES_END]
    for row in range(views.shape[0]):
        views[row, 0] = 0
        views[row, 1] = 0
        if valid.size > 0 and valid[row] == 0:
            continue
        if address + 4 > end:
            return BROKEN
        length: Any = np.int64(load_up_to(address, end) & np.uint64(0xFFFFFFFF))
        address += 4
        if address + length > end:
            return BROKEN
        views[row, 0], rest = first_bytes(address, length, end)
        views[row, 1] = ((address - page[BLOCK]) << 32) | page[BLOCK_NUMBER] if length > MAX_INLINE else rest
        address += length
    return 0
