"""A hash table of keys that is kept from batch to batch.

Keys are words in one array. The bytes of long strings are copied once, when their key is new, into one block per batch,
so the table does not hold on to batches of the input.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.columns import text
from sundog.columns.blocks import addresses
from sundog.columns.key_layout import KeyLayout
from sundog.columns.vectors import Blocks, Ints, Vector
from sundog.kernels.groups.hash_groups import assign_groups, find_groups, hash_rows
from sundog.kernels.strings import long_bytes, own_long_strings
from sundog.types import is_text

_FIRST_SLOTS = 1 << 10
_SLOTS_PER_KEY = 2  # at least: a search ends at an empty slot
Ids = npt.NDArray[np.int32]


class KeyTable:
    """Numbers keys 0, 1, 2, ... batch by batch."""

    def __init__(self, layout: KeyLayout) -> None:
        self._layout = layout
        self._width = layout.value_words + layout.null_words(True)
        self._table = np.empty(_FIRST_SLOTS, np.int32)
        self._words = np.empty((0, self._width), np.int64)
        self._hashes = np.empty(0, np.uint64)
        self.clear()

    def clear(self) -> None:
        """Remove all keys, but keep their memory for the next ones."""
        self._slots = _FIRST_SLOTS
        self._table[:_FIRST_SLOTS] = -1
        self._blocks: Blocks = ()
        self.count = 0

    def look_up(self, keys: Sequence[Vector], length: int) -> Ids:
        """The number of each row's key; new keys get a new number."""
        self._reserve(length)
        known = len(self._blocks)
        words, blocks = self._encoded(keys, length)
        places = addresses(blocks)
        hashes = self._hashed(words, places)
        ids = np.empty(length, np.int32)
        before = self.count
        self._slots, self.count = assign_groups(
            words,
            self._layout.kinds,
            self._layout.null_words(True),
            places,
            hashes,
            self._table,
            self._slots,
            self.count,
            self._words,
            self._hashes,
            ids,
        )
        if len(blocks) > known and self.count > before:
            self._keep_strings(before, tuple(blocks))
        return ids

    def find(self, keys: Sequence[Vector], length: int) -> Ids:
        """The number of each row's key; -1 if it is not in the table. Safe for several threads at once."""
        words, blocks = self._encoded(keys, length)
        places = addresses(blocks)
        null_words = self._layout.null_words(True)
        hashes = self._hashed(words, places)
        ids = np.empty(length, np.int32)
        table = self._table[: self._slots]
        find_groups(words, self._layout.kinds, null_words, places, hashes, table, self._words, self._hashes, ids)
        return ids

    def _hashed(self, words: Ints, places: Ints) -> npt.NDArray[np.uint64]:
        """The hash of each row, also for numbers: slots of later rows can be prefetched only if hashes are computed."""
        hashes = np.empty(len(words), np.uint64)
        hash_rows(words, self._layout.kinds, self._layout.null_words(True), places, hashes)
        return hashes

    def _encoded(self, keys: Sequence[Vector], length: int) -> tuple[Ints, list[pa.Buffer]]:
        """The keys as words that point into the table's blocks and, after those, into their own."""
        firsts, blocks = [], list(self._blocks)
        for key in keys:
            firsts.append(len(blocks) if is_text(key.dtype) else 0)
            blocks += key.blocks if is_text(key.dtype) else ()
        return self._layout.encode(keys, length, True, firsts), blocks

    def group_keys(self) -> list[Vector]:
        """The key of each group."""
        rows = np.arange(self.count, dtype=np.int32)
        return self._layout.decode(self._words, rows, True, [self._blocks] * len(self._layout.dtypes))

    def trim(self) -> None:
        """Release the capacity for more keys: none will be added."""
        self._words, self._hashes = self._words[: self.count].copy(), self._hashes[: self.count].copy()
        self._table = self._table[: self._slots].copy()

    @property
    def nbytes(self) -> int:
        text: int = sum(block.size for block in self._blocks)
        return self.count * (8 * self._width + 8) + 4 * self._slots + text

    def _reserve(self, rows: int) -> None:
        needed = self.count + rows
        if needed > len(self._words):
            capacity = max(needed, 2 * len(self._words))
            words, hashes = np.empty((capacity, self._width), np.int64), np.empty(capacity, np.uint64)
            words[: self.count], hashes[: self.count] = self._words[: self.count], self._hashes[: self.count]
            self._words, self._hashes = words, hashes
        slots = _SLOTS_PER_KEY * needed
        if slots > len(self._table):
            table = np.empty(1 << (slots - 1).bit_length(), np.int32)
            table[: self._slots] = self._table[: self._slots]
            self._table = table

    def _keep_strings(self, first: int, blocks: Blocks) -> None:
        """Copy the long strings of the groups from `first` on, which are still in the blocks of their batch."""
        for place, dtype in zip(self._layout.places, self._layout.dtypes, strict=True):
            if is_text(dtype):
                self._own_strings(self._words[first : self.count], place.word, addresses(blocks))

    def _own_strings(self, words: Ints, at: int, blocks: Ints) -> None:
        """Copy them to a block, or to several if a view cannot address them all in one."""
        size = long_bytes(words, at)
        if size > text.LARGEST_STRING_BYTES and len(words) > 1:
            for half in np.array_split(words, 2):
                self._own_strings(half, at, blocks)
        elif size:
            own = pa.allocate_buffer(size)
            own_long_strings(words, at, blocks, own.address, len(self._blocks))
            self._blocks += (own,)
