"""Rows of words -> hashes -> dense group numbers: one hash table for every combination of key types.

A row's key is `words[row]`, a few int64 words that are equal exactly if the keys are (`columns/key_words.py` makes them
so), but for the second word of a long string, where the bytes decide. So one machine code serves all keys. Hashes of
strings are expensive and are given; those of numbers are computed where they are needed, which is cheaper than storing,
moving and loading them (`hashes` is empty then).

The table has row numbers only, four bytes a slot: a group is represented by its first row, and nothing is copied. A
table for all rows starts small and grows with the groups, so that few groups stay in the first-level cache. Many groups
are given in buckets of cache size, whose table has its full size at once. Tried and slower on 5 million rows:
eight-byte slots that carry part of the hash (2 to 3 times, since the table no longer fits the cache); comparing the
hashes of numbers before the numbers (1.2 times; for strings it saves reading their bytes); allocating the table inside
the loop when it grows (5 times: the loop then counts references to it).

No hash is trusted: equality is always checked on the words and bytes themselves.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sundog.kernels.compile import kernel
from sundog.kernels.pointers import prefetch
from sundog.kernels.strings import MAX_INLINE, address_of, equal_bytes, fold, hash_view, length_of

PLAIN, STRING_TAIL = 0, 1  # what a word is: itself, or word 1 of a string (its word 0 comes just before)
_FIRST_SLOTS = 1 << 10
_FINISH_MULTIPLIER = 0xD6E8FEB86659FD93
_PREFETCH_ROWS = 16  # ahead of the row that is looked up
_CACHED_SLOTS = 1 << 15  # slots of a table that needs no prefetching: it is in the cache


@kernel(inline=True)
def _finish(state: Any) -> Any:
    state = (state ^ (state >> np.uint64(29))) * np.uint64(_FINISH_MULTIPLIER)
    return state ^ (state >> np.uint64(32))


@kernel(inline=True)
def _null_hash(state: Any, words: Any, row: int, null_words: int) -> Any:
    """NULL words count only where they are not zero, so that a key without NULLs has the same hash in a task that has
    seen a NULL and in one that has not."""
    values = words.shape[1] - null_words
    for at in range(null_words):
        if words[row, values + at] != 0:
            state = fold(state, ~np.uint64(words[row, values + at]) ^ np.uint64(at))
    return state


@kernel(inline=True)
def _plain_hash(words: Any, row: int, null_words: int) -> Any:
    """The hash of a key without strings."""
    state = np.uint64(0)
    for at in range(words.shape[1] - null_words):
        state = fold(state, np.uint64(words[row, at]))
    return _finish(_null_hash(state, words, row, null_words))


@kernel
def hash_rows(words: Any, kinds: Any, null_words: int, blocks: Any, hashes: Any) -> None:
    """A 64-bit hash of each row's key that depends on its values alone. The last `null_words` words tell the NULLs."""
    rows, width = words.shape
    for row in range(rows):
        state = np.uint64(0)
        at = 0
        while at < width - null_words:
            if at + 1 < width - null_words and kinds[at + 1] == STRING_TAIL:
                state = fold(state, hash_view(words[row, at], words[row, at + 1], blocks))
                at += 2
            else:
                state = fold(state, np.uint64(words[row, at]))
                at += 1
        hashes[row] = _finish(_null_hash(state, words, row, null_words))


@kernel
def fold_words(values: Any, valid: Any, hashes: Any) -> None:
    """One more word of all keys: the hashes of `hash_rows` column by column, from zeros to `finish_hashes`."""
    for row in range(values.size):
        word = np.uint64(values[row]) if valid.size == 0 or valid[row] != 0 else np.uint64(0)
        hashes[row] = fold(hashes[row], word)


@kernel
def fold_views(views: Any, valid: Any, blocks: Any, hashes: Any) -> None:
    """The same for a column of strings."""
    missing = hash_view(0, 0, blocks)
    for row in range(views.shape[0]):
        present = valid.size == 0 or valid[row] != 0
        hashes[row] = fold(hashes[row], hash_view(views[row, 0], views[row, 1], blocks) if present else missing)


@kernel
def fold_coded(entries: Any, codes: Any, valid: Any, hashes: Any) -> None:
    """The same for strings of a dictionary; `entries` holds the hash of each (`hash_views`)."""
    for row in range(codes.size):
        present = valid.size == 0 or valid[row] != 0
        hashes[row] = fold(hashes[row], entries[codes[row] if present else entries.size - 1])


@kernel
def hash_views(views: Any, blocks: Any, hashes: Any) -> None:
    """The hash of each string, and in the last place that of NULL."""
    for row in range(views.shape[0]):
        hashes[row] = hash_view(views[row, 0], views[row, 1], blocks)
    hashes[views.shape[0]] = hash_view(0, 0, blocks)


@kernel
def finish_hashes(nulls: Any, hashes: Any) -> None:
    """`nulls` is empty, or holds the words that tell the NULLs of each key."""
    for row in range(hashes.size):
        state = hashes[row]
        for at in range(nulls.shape[1]):
            if nulls[row, at] != 0:
                state = fold(state, ~np.uint64(nulls[row, at]) ^ np.uint64(at))
        hashes[row] = _finish(state)


@kernel
def assign_partitions(
    words: Any, null_words: int, hashes: Any, level: int, partitions: int, target: Any, counts: Any
) -> None:
    """`target[row]` becomes a number below `partitions`; `counts` is raised by the rows of each.

    Every split in a group-by (between tasks, into buckets of cache size, into spill files) has its own `level`, which
    remixes the hash. Rows that one split has put together are spread again by the next.
    """
    for row in range(target.size):
        mixed = hashes[row] if hashes.size > 0 else _plain_hash(words, row, null_words)
        if level > 0:
            mixed = fold(mixed, np.uint64(level))
        number = ((mixed >> np.uint64(32)) * np.uint64(partitions)) >> np.uint64(32)
        target[row] = number
        counts[number] += 1


@kernel(inline=True)
def _same_key(words: Any, kinds: Any, blocks: Any, left: int, right: int) -> bool:
    for at in range(words.shape[1]):
        if words[left, at] != words[right, at]:
            if kinds[at] != STRING_TAIL:
                return False
            length = length_of(words[left, at - 1])
            if length <= MAX_INLINE:
                return False
            if not equal_bytes(address_of(words[left, at], blocks), address_of(words[right, at], blocks), length):
                return False
    return True


@kernel(inline=True)
def _fetch_strings(words: Any, kinds: Any, blocks: Any, row: int) -> None:
    """Have the bytes of the row's long strings brought to the cache: a million URLs are then grouped in 45 ms, not
    60."""
    for at in range(words.shape[1]):
        if kinds[at] == STRING_TAIL and length_of(words[row, at - 1]) > MAX_INLINE:
            address = address_of(words[row, at], blocks)
            prefetch(address)
            prefetch(address + 64)


@kernel(inline=True)
def _slots_for(rows: int) -> int:
    slots = _FIRST_SLOTS
    while slots < 2 * rows:
        slots *= 2
    return slots


@kernel
def group_rows(
    words: Any, kinds: Any, null_words: int, blocks: Any, hashes: Any, starts: Any, ids: Any, founders: Any
) -> int:
    """Number the distinct keys 0, 1, 2, ... in order of appearance, bucket after bucket; give back how many.

    Rows starts[b] to starts[b + 1] are bucket b, and no key is in two buckets. `ids[row]` becomes the row's group and
    `founders[group]` the first row of the group.
    """
    buckets = starts.size - 1
    single = words.shape[1] == 1 and hashes.size == 0
    largest = 0
    for bucket in range(buckets):
        largest = max(largest, starts[bucket + 1] - starts[bucket])
    table = np.empty(_slots_for(largest), np.int32)
    groups = 0
    for bucket in range(buckets):
        base, end = starts[bucket], starts[bucket + 1]
        first = groups
        slots = _slots_for(end - base) if buckets > 1 else _FIRST_SLOTS
        table[:slots] = -1
        mask = np.uint64(slots - 1)
        for row in range(base, end):
            if hashes.size > 0 and row + _PREFETCH_ROWS < words.shape[0]:
                _fetch_strings(words, kinds, blocks, row + _PREFETCH_ROWS)
            slot = (hashes[row] if hashes.size > 0 else _plain_hash(words, row, null_words)) & mask
            while True:
                entry = np.int64(table[slot])
                if entry < 0:
                    table[slot] = row - base
                    founders[groups] = row
                    ids[row] = groups
                    groups += 1
                    if 2 * (groups - first) > slots:
                        slots = min(4 * slots, table.size)
                        mask = np.uint64(slots - 1)
                        table[:slots] = -1
                        for group in range(first, groups):
                            founder = founders[group]
                            again = hashes[founder] if hashes.size > 0 else _plain_hash(words, founder, null_words)
                            slot = again & mask
                            while table[slot] >= 0:
                                slot = (slot + np.uint64(1)) & mask
                            table[slot] = founder - base
                    break
                if hashes.size > 0:
                    same = hashes[base + entry] == hashes[row]
                else:
                    same = words[base + entry, 0] == words[row, 0]
                if same and (single or _same_key(words, kinds, blocks, base + entry, row)):
                    ids[row] = ids[base + entry]
                    break
                slot = (slot + np.uint64(1)) & mask
    return groups


@kernel(inline=True)
def _same_group(words: Any, row: int, group_words: Any, group: Any, kinds: Any, blocks: Any) -> bool:
    for at in range(words.shape[1]):
        if words[row, at] != group_words[group, at]:
            if kinds[at] != STRING_TAIL:
                return False
            length = length_of(words[row, at - 1])
            if length <= MAX_INLINE:
                return False
            if not equal_bytes(address_of(words[row, at], blocks), address_of(group_words[group, at], blocks), length):
                return False
    return True


@kernel
def assign_groups(
    words: Any,
    kinds: Any,
    null_words: int,
    blocks: Any,
    hashes: Any,
    table: Any,
    slots: int,
    groups: int,
    group_words: Any,
    group_hashes: Any,
    ids: Any,
) -> tuple[int, int]:
    """The same for a table that lives from batch to batch: known keys get their number, new ones the next.

    The first `slots` entries of `table` are in use, for `groups` keys that `group_words` and `group_hashes` hold. Both
    arrays must have capacity for all rows to be new, and `table` twice as much. Returns the new `slots` and `groups`.

    A table that is larger than the cache, and the keys that it leads to, are prefetched.
    """
    mask = np.uint64(slots - 1)
    rows = words.shape[0]
    slots_at, words_at, hashes_at = table.ctypes.data, group_words.ctypes.data, group_hashes.ctypes.data
    for row in range(rows):
        if slots > _CACHED_SLOTS and hashes.size > 0 and row + 2 * _PREFETCH_ROWS < rows:
            prefetch(slots_at + 4 * np.int64(hashes[row + 2 * _PREFETCH_ROWS] & mask))
            soon = np.int64(table[hashes[row + _PREFETCH_ROWS] & mask])
            if soon >= 0:
                prefetch(hashes_at + 8 * soon)
                prefetch(words_at + 8 * words.shape[1] * soon)
        hashed = hashes[row] if hashes.size > 0 else _plain_hash(words, row, null_words)
        slot = hashed & mask
        while True:
            group = np.int64(table[slot])
            if group < 0:
                table[slot] = groups
                for at in range(words.shape[1]):
                    group_words[groups, at] = words[row, at]
                group_hashes[groups] = hashed
                ids[row] = groups
                groups += 1
                if 2 * groups > slots:
                    slots = min(4 * slots, table.size)
                    mask = np.uint64(slots - 1)
                    table[:slots] = -1
                    for known in range(groups):
                        slot = group_hashes[known] & mask
                        while table[slot] >= 0:
                            slot = (slot + np.uint64(1)) & mask
                        table[slot] = known
                break
            likely = hashes.size == 0 or group_hashes[group] == hashed
            if likely and _same_group(words, row, group_words, group, kinds, blocks):
                ids[row] = group
                break
            slot = (slot + np.uint64(1)) & mask
    return slots, groups


@kernel
def find_groups(
    words: Any,
    kinds: Any,
    null_words: int,
    blocks: Any,
    hashes: Any,
    table: Any,
    group_words: Any,
    group_hashes: Any,
    ids: Any,
) -> None:
    """The group of each row in a table that is not changed; -1 for an unknown key. All slots of `table` are used."""
    mask = np.uint64(table.size - 1)
    rows = words.shape[0]
    slots_at, words_at, hashes_at = table.ctypes.data, group_words.ctypes.data, group_hashes.ctypes.data
    for row in range(rows):
        if table.size > _CACHED_SLOTS and row + 2 * _PREFETCH_ROWS < rows:
            prefetch(slots_at + 4 * np.int64(hashes[row + 2 * _PREFETCH_ROWS] & mask))
            soon = np.int64(table[hashes[row + _PREFETCH_ROWS] & mask])
            if soon >= 0:
                prefetch(hashes_at + 8 * soon)
                prefetch(words_at + 8 * words.shape[1] * soon)
        slot = hashes[row] & mask
        ids[row] = -1
        while True:
            group = np.int64(table[slot])
            if group < 0:
                break
            if group_hashes[group] == hashes[row] and _same_group(words, row, group_words, group, kinds, blocks):
                ids[row] = group
                break
            slot = (slot + np.uint64(1)) & mask
