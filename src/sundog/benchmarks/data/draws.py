"""Random numbers as a function of the row, so that rows do not depend on the task that made them.

A stream generator (NumPy's) would have to draw all rows before row 7 million to make that one. Here every value is a
hash of (seed, table, column, row number), so any chunk can be made anywhere, in any order, by pyarrow threads or Spark
tasks, and is the same chunk. The hash is the SplitMix64 finaliser over a Weyl sequence: a few array operations a
column.

Skew is a power law: `rank = domain * u ** exponent`. The expected number of rows of a rank depends only on rows /
domain. So the share of distinct values is the same at every size, and a small table can stand for a large one.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Indexes = NDArray[np.int64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


def mix(words: Words) -> Words:
    """A bijection of 64-bit words in which every output bit depends on every input bit."""
    mixed = words ^ (words >> np.uint64(30))
    mixed *= _MIX_1
    mixed ^= mixed >> np.uint64(27)
    mixed *= _MIX_2
    mixed ^= mixed >> np.uint64(31)
    return mixed


def key_of(*parts: object) -> int:
    """64 bits that name a stream; unlike `hash`, the same in every process."""
    return int.from_bytes(blake2b("/".join(map(str, parts)).encode(), digest_size=8).digest(), "little")


@dataclass(frozen=True)
class Draws:
    """The random columns of one table. Two columns of one row, or one column of two rows, share nothing."""

    seed: int
    table: str

    def bits(self, column: str, rows: Indexes) -> Words:
        key = np.uint64(key_of(self.seed, self.table, column))
        return mix(rows.astype(np.uint64) * _GOLDEN + key)

    def uniform(self, column: str, rows: Indexes) -> NDArray[np.float64]:
        """In [0, 1), with all 53 bits of a double."""
        return (self.bits(column, rows) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def integers(self, column: str, rows: Indexes, low: int, high: int) -> Indexes:
        """In [low, high]."""
        return low + np.floor(self.uniform(column, rows) * (high - low + 1)).astype(np.int64)

    def ranks(self, column: str, rows: Indexes, domain: int, exponent: float) -> Indexes:
        """In [0, domain), rank 0 the most frequent; exponent 1 is uniform, more is more skewed."""
        drawn = np.floor(domain * self.uniform(column, rows) ** exponent).astype(np.int64)
        return np.minimum(drawn, domain - 1)

    def flags(self, column: str, rows: Indexes, share: float) -> NDArray[np.bool_]:
        return self.uniform(column, rows) < share


def permute(values: Indexes, domain: int, key: int) -> Indexes:
    """A bijection of [0, domain): unique numbers that look random, without holding a permutation in memory.

    Xor-shift and odd multiplication are bijections of k-bit numbers; what falls outside the domain is sent round again
    ("cycle walking"), less than twice on average since 2**(k-1) < domain.
    """
    bits = max(1, (domain - 1).bit_length())
    mask = np.uint64((1 << bits) - 1)
    shift = np.uint64(bits // 2 + 1)
    odd_1, odd_2 = (np.uint64(key_of(key, name) | 1) & mask for name in ("first", "second"))
    offset = np.uint64(key_of(key, "offset")) & mask

    def step(words: Words) -> Words:
        words = words ^ (words >> shift)
        words = (words * odd_1 + offset) & mask
        words = words ^ (words >> shift)
        words = (words * odd_2) & mask
        return words ^ (words >> shift)

    walked = step(values.astype(np.uint64))
    outside = np.flatnonzero(walked >= np.uint64(domain))
    while outside.size:
        walked[outside] = step(walked[outside])
        outside = outside[walked[outside] >= np.uint64(domain)]
    return walked.astype(np.int64)
