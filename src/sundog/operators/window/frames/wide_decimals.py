"""Frame bounds on decimals of more than 18 digits, whose unscaled values take two words.

There is no 128-bit integer to compare, so keys and moved keys are sorted together once and replaced by their ranks;
ranks are words like any other.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.expr.buffers import decimal_words
from sundog.expr.calls import Bound
from sundog.operators.window.frames.order_key import unscaled

Longs = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
_LOW64 = 2**64 - 1


def moved_ranks(array: pa.Array, bound: Bound, descending: bool) -> tuple[Longs, Longs]:
    """Ranks of the keys and of the keys moved by the bound, comparable with each other, in the order of the rows."""
    lows, highs = decimal_words(array)
    offset = unscaled(bound.offset, array.type)
    moved_lows, moved_highs = add_constant(lows, highs, -offset if descending else offset)
    ranks = _ranks(np.concatenate([lows, moved_lows]), np.concatenate([highs, moved_highs]))
    if descending:
        ranks = ~ranks
    return ranks[: len(lows)], ranks[len(lows) :]


def add_constant(lows: Words, highs: Longs, constant: int) -> tuple[Words, Longs]:
    added: Words = lows + np.uint64(constant & _LOW64)
    carry = (added < lows).astype(np.int64)
    return added, highs + np.int64(constant >> 64) + carry


def _ranks(lows: Words, highs: Longs) -> Longs:
    order = np.lexsort((lows, highs))
    new = np.ones(len(order), np.bool_)
    new[1:] = (lows[order][1:] != lows[order][:-1]) | (highs[order][1:] != highs[order][:-1])
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.cumsum(new)
    return ranks
