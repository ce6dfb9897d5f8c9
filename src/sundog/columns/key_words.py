"""Key columns -> words -> hashes, partitions and dense group numbers: for GROUP BY, PARTITION BY and comparisons of
keys.

GROUP BY a, b with any types costs a general engine a comparison per type and row. Here every key is laid out in words
(`key_layout.py`), and one kernel does the rest for all types. The hash ignores words of NULL bits that are zero, so it
is the same in a task that has seen a NULL and in one that has not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sundog.columns.blocks import addresses, shared_blocks
from sundog.columns.key_layout import MAX_TARGETS, Hashes, KeyLayout, Targets, has_nulls
from sundog.columns.vectors import Blocks, Ints, Vector
from sundog.errors import InternalError
from sundog.kernels.groups.hash_groups import assign_partitions, group_rows, hash_rows
from sundog.types import is_text


@dataclass(frozen=True, eq=False)
class Encoded:
    """The keys of some rows as words; their hashes if the keys hold strings (else the kernel computes them)."""

    words: Ints
    hashes: Hashes


# Rows are cut by hash several times, each time within a part. Each cut takes other bits of the hash, so that the parts
# of a part are even again.
EXCHANGE_LEVEL, WAIT_LEVEL, PART_LEVEL, BUCKET_LEVEL, SAMPLE_LEVEL, SPILL_LEVEL = range(6)
NO_HASHES: Hashes = np.zeros(0, np.uint64)
_NO_WORDS: Ints = np.zeros((0, 1), np.int64)


def hash_words(layout: KeyLayout, words: Ints, null_mask: bool, blocks: Ints) -> Hashes:
    """The hashes of keys with strings; empty for other keys."""
    if not layout.has_text:
        return NO_HASHES
    hashes = np.empty(len(words), np.uint64)
    hash_rows(words, layout.kinds, layout.null_words(null_mask), blocks, hashes)
    return hashes


@dataclass(frozen=True, eq=False)
class KeyEncoder:
    """The keys of several chunks as words of one form: all with or all without NULL bits, and on shared blocks."""

    layout: KeyLayout
    null_mask: bool
    blocks: tuple[Blocks, ...]
    _first_blocks: tuple[tuple[int, ...], ...]

    @classmethod
    def over(cls, layout: KeyLayout, chunks: Sequence[Sequence[Vector]]) -> KeyEncoder:
        blocks: list[Blocks] = []
        firsts: list[tuple[int, ...]] = []
        used = 0
        for at, dtype in enumerate(layout.dtypes):
            if is_text(dtype):
                own, places = shared_blocks([keys[at] for keys in chunks])
                firsts.append(tuple(used + place for place in places))
                blocks.append(own)
                used += len(own)
            else:
                firsts.append((0,) * len(chunks))
                blocks.append(())
        return cls(layout, any(has_nulls(keys) for keys in chunks), tuple(blocks), tuple(firsts))

    @property
    def null_words(self) -> int:
        return self.layout.null_words(self.null_mask)

    @cached_property
    def addresses(self) -> Ints:
        return addresses([block for blocks in self.blocks for block in blocks])

    def encode(self, chunk: int, keys: Sequence[Vector], length: int, hashes: Hashes | None = None) -> Encoded:
        """The words of a chunk's keys. Known hashes are not computed again."""
        words = self.layout.encode(keys, length, self.null_mask, [firsts[chunk] for firsts in self._first_blocks])
        if hashes is None or not self.layout.has_text:
            hashes = hash_words(self.layout, words, self.null_mask, self.addresses)
        return Encoded(words, hashes)

    def scatter(self, chunks: Sequence[Sequence[Vector]], targets: Sequence[Targets], starts: Ints) -> Ints:
        """The words of all chunks' keys, each row in its partition."""
        firsts = [[places[at] for places in self._first_blocks] for at in range(len(chunks))]
        return self.layout.scatter(chunks, firsts, self.null_mask, targets, starts)

    def assign(self, encoded: Encoded, level: int, partitions: int, counts: Ints) -> Targets:
        """The partition of each row; adds the rows of each partition to `counts`."""
        target = _targets(len(encoded.words), partitions)
        assign_partitions(encoded.words, self.null_words, encoded.hashes, level, partitions, target, counts)
        return target

    def find_groups(self, encoded: Encoded, starts: Ints) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """The group of each row, and the first row of each group. Rows are sorted by buckets, which begin at
        `starts`."""
        length = len(encoded.words)
        ids = np.empty(length, np.int32)
        founders = np.empty(length, np.int32)
        count = group_rows(
            encoded.words, self.layout.kinds, self.null_words, self.addresses, encoded.hashes, starts, ids, founders
        )
        return ids, founders[: int(count)]

    def key(self, number: int, encoded: Encoded, rows: npt.NDArray[np.int32]) -> Vector:
        """A key column of the chosen rows."""
        blocks = tuple(block for own in self.blocks[: number + 1] for block in own) if self.blocks[number] else ()
        return self.layout.decode_key(number, encoded.words, rows, self.null_mask, blocks)


def assign_by_hash(hashes: Hashes, level: int, partitions: int, counts: Ints) -> Targets:
    """Like `KeyEncoder.assign`, for keys whose hashes are known."""
    target = _targets(len(hashes), partitions)
    assign_partitions(_NO_WORDS, 0, hashes, level, partitions, target, counts)
    return target


def _targets(length: int, partitions: int) -> Targets:
    if partitions > MAX_TARGETS:
        raise InternalError(f"{partitions:,} partitions, of which {MAX_TARGETS:,} can be numbered")
    return np.empty(length, np.uint16)


def key_numbers(keys: Sequence[Vector]) -> Ints:
    """A number for each row, the same for rows with equal keys: NULL equals NULL, NaN equals NaN, -0.0 equals 0.0."""
    encoder = KeyEncoder.over(KeyLayout.of([key.dtype for key in keys]), [keys])
    encoded = encoder.encode(0, keys, keys[0].length)
    ids, _ = encoder.find_groups(encoded, np.array([0, len(encoded.words)], np.int64))
    return ids.astype(np.int64)
