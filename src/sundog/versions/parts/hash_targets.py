"""An exchange by partition id for a Spark that only shuffles by hash.

`repartition(n, column)` puts a row into the partition `hash(column) mod n`, and the hash is a fixed one (Murmur3 of 32
bits, seed 42), the same on every machine. So for each partition there is a number with that hash. These numbers are
searched once for each `n`; a row is then sent by the number for its partition in place of the partition's own number.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

_SEED = 42
_AT_ONCE = 1 << 14


@lru_cache(maxsize=64)
def keys_for(partitions: int) -> tuple[int, ...]:
    """A number for each of the partitions, in order, that Spark's hash puts into it."""
    keys = np.full(partitions, -1, np.int64)
    start = 0
    while (missing := keys < 0).any():
        candidates = np.arange(start, start + _AT_ONCE, dtype=np.int32)
        targets = np.mod(spark_hash(candidates).astype(np.int64), partitions)
        found, first = np.unique(targets, return_index=True)
        wanted = missing[found]
        keys[found[wanted]] = candidates[first[wanted]]
        start += _AT_ONCE
    return tuple(int(key) for key in keys)


def spark_hash(values: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """`hash(value)` of Spark SQL for integers of 32 bits: Murmur3 of one word."""
    with np.errstate(over="ignore"):
        word = values.view(np.uint32) * np.uint32(0xCC9E2D51)
        word = _rotated(word, 15) * np.uint32(0x1B873593)
        state = _rotated(np.uint32(_SEED) ^ word, 13) * np.uint32(5) + np.uint32(0xE6546B64)
        state = state ^ np.uint32(4)  # the length in bytes
        state = (state ^ (state >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        state = (state ^ (state >> np.uint32(13))) * np.uint32(0xC2B2AE35)
        mixed: npt.NDArray[np.uint32] = state ^ (state >> np.uint32(16))
    return mixed.view(np.int32)


def _rotated(words: npt.NDArray[np.uint32], places: int) -> npt.NDArray[np.uint32]:
    rotated: npt.NDArray[np.uint32] = (words << np.uint32(places)) | (words >> np.uint32(32 - places))
    return rotated
