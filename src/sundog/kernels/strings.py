"""Strings as two words each, so that a string is grouped, moved and compared like any other fixed-width key.

    word 0   length in the low half, the first four bytes in the high half
    word 1   of a string of at most 12 bytes: its next eight bytes, zero-padded
             of a longer one: the number of the block that holds its bytes in the low half, the offset in the high half

That is Arrow's string_view, so such arrays need no conversion. `blocks` are the addresses of the blocks. A short
string is equal to another exactly if both words are; for a long one the bytes decide, and only when length and prefix
already agree. NULL is (0, 0); only its validity bit differs from the empty string.

The bytes of a short string are read as two overlapping loads where the buffer goes on for 16 bytes, else one by one:
Arrow pads its own buffers; a buffer from elsewhere may end with its last string.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sundog.kernels.compile import kernel
from sundog.kernels.pointers import copy_bytes, load_u8, load_u64, store_u64

MAX_INLINE = 12
WRITE_SLACK = 16
_MULTIPLIER = 0x9E3779B97F4A7C15


@kernel(inline=True)
def fold(state: Any, word: Any) -> Any:
    """One step of the hash: multiply and let the high half, where the multiplication mixes best, act on the low."""
    mixed = (state ^ word) * np.uint64(_MULTIPLIER)
    return mixed ^ (mixed >> np.uint64(32))


@kernel(inline=True)
def length_of(word0: int) -> int:
    return word0 & 0xFFFFFFFF


@kernel(inline=True)
def address_of(word1: int, blocks: Any) -> Any:
    """The address of a long string's bytes."""
    return blocks[word1 & 0xFFFFFFFF] + (word1 >> 32)


@kernel(inline=True)
def hash_bytes(state: Any, address: int, length: int) -> Any:
    """The hash goes on over a string longer than eight bytes; its last eight bytes may be folded in part twice."""
    for at in range(0, length - 8, 8):
        state = fold(state, load_u64(address + at))
    return fold(state, load_u64(address + length - 8))


@kernel(inline=True)
def hash_view(word0: int, word1: int, blocks: Any) -> Any:
    """The hash of one string, whatever comes before it in its key."""
    state = fold(np.uint64(0), np.uint64(word0))
    if length_of(word0) > MAX_INLINE:
        return hash_bytes(state, address_of(word1, blocks), length_of(word0))
    return fold(state, np.uint64(word1))


@kernel(inline=True)
def equal_bytes(left: int, right: int, length: int) -> bool:
    """Whether two strings of one length above eight bytes are the same."""
    for at in range(0, length - 8, 8):
        if load_u64(left + at) != load_u64(right + at):
            return False
    return bool(load_u64(left + length - 8) == load_u64(right + length - 8))


@kernel(inline=True)
def _low_bytes(count: int) -> Any:
    """A mask of the `count` low bytes of a word, 0 to 8 of them."""
    if count >= 8:
        return np.uint64(0xFFFFFFFFFFFFFFFF)
    return (np.uint64(1) << np.uint64(8 * count)) - np.uint64(1)


@kernel(inline=True)
def gather_bytes(address: int, count: int) -> Any:
    """Up to eight bytes as a word, read one by one."""
    word = np.uint64(0)
    for at in range(count):
        word |= np.uint64(load_u8(address + at)) << np.uint64(8 * at)
    return word


@kernel(inline=True)
def first_bytes(address: int, length: int, end: int) -> tuple[Any, Any]:
    """Word 0 of a string, and its next eight bytes, zero-padded; no byte from `end` on is touched."""
    head = min(length, 4)
    tail = min(length - head, 8)
    if address + 16 <= end:
        prefix = load_u64(address) & _low_bytes(head)
        rest = load_u64(address + 4) & _low_bytes(tail)
    else:
        prefix = gather_bytes(address, head)
        rest = gather_bytes(address + 4, tail)
    return np.int64(np.uint64(length) | (prefix << np.uint64(32))), np.int64(rest)


@kernel
def views_from_offsets(offsets: Any, base: int, size: int, valid: Any, views: Any) -> None:
    """Arrow's string layout: row i is the bytes offsets[i] to offsets[i + 1] of one block at `base`, of `size`
    bytes."""
    checked = valid.size > 0
    for row in range(views.shape[0]):
        if checked and valid[row] == 0:
            views[row, 0] = 0
            views[row, 1] = 0
            continue
        start: Any = np.int64(offsets[row])
        length: Any = np.int64(offsets[row + 1]) - start
        views[row, 0], rest = first_bytes(base + start, length, base + size)
        views[row, 1] = start << 32 if length > MAX_INLINE else rest


@kernel
def renumber_blocks(views: Any, first_block: int, out: Any) -> None:
    """The same strings after their blocks have been put behind `first_block` others."""
    for row in range(views.shape[0]):
        out[row, 0] = views[row, 0]
        out[row, 1] = views[row, 1] + (first_block if length_of(views[row, 0]) > MAX_INLINE else 0)


@kernel
def total_length(views: Any, step: int) -> int:
    """The bytes of every `step`-th string."""
    total = 0
    for row in range(0, views.shape[0], step):
        total += length_of(views[row, 0])
    return total


@kernel
def long_bytes(words: Any, at: int) -> int:
    """The bytes of all long strings in the columns `at` and `at` + 1 of `words`."""
    total = 0
    for row in range(words.shape[0]):
        length = length_of(words[row, at])
        total += length if length > MAX_INLINE else 0
    return total


@kernel
def own_long_strings(words: Any, at: int, blocks: Any, target: int, number: int) -> None:
    """Copy them behind each other to the address `target`, which is that of block `number` from then on."""
    offset: Any = np.int64(0)
    for row in range(words.shape[0]):
        length = length_of(words[row, at])
        if length > MAX_INLINE:
            copy_bytes(target + offset, address_of(words[row, at + 1], blocks), length)
            words[row, at + 1] = (offset << 32) | number
            offset += length


@kernel
def write_strings(views: Any, blocks: Any, offsets: Any, target: int) -> None:
    """Lay the strings out one after the other at the address `target`, as Arrow's string layout wants them.

    A short string is written as 16 bytes, of which the next string overwrites what is too much: the caller provides
    `WRITE_SLACK` bytes more than the strings need.
    """
    position = 0
    for row in range(views.shape[0]):
        offsets[row] = position
        length = length_of(views[row, 0])
        if length > MAX_INLINE:
            copy_bytes(target + position, address_of(views[row, 1], blocks), length)
        else:
            rest = np.uint64(views[row, 1])
            store_u64(target + position, (np.uint64(views[row, 0]) >> np.uint64(32)) | (rest << np.uint64(32)))
            store_u64(target + position + 8, rest >> np.uint64(32))
        position += length
    offsets[views.shape[0]] = position


@kernel(inline=True)
def _big_endian(word: Any) -> Any:
    """Bytes reversed: comparing these as numbers compares the bytes in order."""
    word = ((word & np.uint64(0x00FF00FF00FF00FF)) << np.uint64(8)) | (
        (word >> np.uint64(8)) & np.uint64(0x00FF00FF00FF00FF)
    )
    word = ((word & np.uint64(0x0000FFFF0000FFFF)) << np.uint64(16)) | (
        (word >> np.uint64(16)) & np.uint64(0x0000FFFF0000FFFF)
    )
    return (word << np.uint64(32)) | (word >> np.uint64(32))


@kernel(inline=True)
def _bytes_4_to_12(word0: int, word1: int, blocks: Any) -> Any:
    return load_u64(address_of(word1, blocks) + 4) if length_of(word0) > MAX_INLINE else np.uint64(word1)


@kernel
def less_view(views: Any, left: int, right: int, blocks: Any) -> bool:
    """Whether the string of row `left` comes before that of row `right` by unsigned bytes.

    Zero padding does not change the order. Where padding meets a byte above zero, the padded string is the shorter
    prefix; where all twelve bytes agree, the shorter string has no byte that the longer lacks.
    """
    left_prefix = _big_endian(np.uint64(views[left, 0]) >> np.uint64(32))
    right_prefix = _big_endian(np.uint64(views[right, 0]) >> np.uint64(32))
    if left_prefix != right_prefix:
        return bool(left_prefix < right_prefix)
    left_next = _big_endian(_bytes_4_to_12(views[left, 0], views[left, 1], blocks))
    right_next = _big_endian(_bytes_4_to_12(views[right, 0], views[right, 1], blocks))
    if left_next != right_next:
        return bool(left_next < right_next)
    left_length, right_length = length_of(views[left, 0]), length_of(views[right, 0])
    shorter = min(left_length, right_length)
    if shorter > MAX_INLINE:
        left_bytes, right_bytes = address_of(views[left, 1], blocks), address_of(views[right, 1], blocks)
        for at in range(MAX_INLINE, shorter):
            left_byte, right_byte = load_u8(left_bytes + at), load_u8(right_bytes + at)
            if left_byte != right_byte:
                return bool(left_byte < right_byte)
    return bool(left_length < right_length)
