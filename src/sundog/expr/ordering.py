"""Sort keys, and how rows compare under them.

Spark's order of one key: NULLs first or last as the key says, whatever its direction; among values NaN is the
greatest, -0.0 ties with 0.0, strings and binaries compare by unsigned bytes, false before true.

Rows are sorted by the digits of `order_words.py`, most significant first; each further digit sorts only rows that still
tie. One pass sorts a single array of plain numbers: the word's significant bits above, the row number below. That makes
it stable and lets numpy use its vectorised unstable sort: 2 million random 64-bit words took 0.06 s, against 0.25 s for
`argsort(kind="stable")` and 0.31 s for Arrow's `sort_indices`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sundog.expr.buffers import Bools, Indices, Words
from sundog.expr.nodes import Expr
from sundog.expr.order_words import Digit, digits


@dataclass(frozen=True)
class SortKey:
    """An entry of ORDER BY."""

    expr: Expr
    descending: bool = False
    nulls_first: bool = True


def sort_indices(arrays: Sequence[pa.Array], keys: Sequence[SortKey]) -> Indices:
    """The rows in the keys' order; rows that tie stay in input order. `arrays[i]` holds the values of `keys[i]`."""
    remaining = _all_digits(arrays, keys)
    leading = next(remaining, None)
    if leading is None:
        return np.arange(len(arrays[0]), dtype=np.int64)
    words = leading(None)
    order = _stable_argsort(words)
    ties: _Ties | None = None
    for digit in remaining:
        ties = _Ties.in_order(words[order]) if ties is None else ties
        if not len(ties.positions):
            break
        ties = ties.refine(order, digit)
    return order


def select_k(arrays: Sequence[pa.Array], keys: Sequence[SortKey], k: int) -> Indices:
    """The first `k` of `sort_indices`, without sorting the rest: each digit keeps rows that can still be among them."""
    count = len(arrays[0])
    if k >= count:
        return sort_indices(arrays, keys)
    if k <= 0:
        return np.zeros(0, np.int64)
    sure: list[Indices] = []
    missing = k
    candidates: Indices | None = None
    for digit in _all_digits(arrays, keys):
        words = digit(candidates)
        last = np.partition(words, missing - 1)[missing - 1]
        before = _rows(candidates, words < last)
        candidates = _rows(candidates, words == last)
        sure.append(before)
        missing -= len(before)
        if len(candidates) == missing:
            break
    ties = np.arange(missing, dtype=np.int64) if candidates is None else candidates[:missing]
    winners = np.sort(np.concatenate([*sure, ties]))
    taken = pa.array(winners)
    return winners[sort_indices([array.take(taken) for array in arrays], keys)]


def _all_digits(arrays: Sequence[pa.Array], keys: Sequence[SortKey]) -> Iterator[Digit]:
    for array, key in zip(arrays, keys, strict=True):
        yield from digits(array, key.descending, key.nulls_first)


def _rows(candidates: Indices | None, mask: Bools) -> Indices:
    return np.flatnonzero(mask) if candidates is None else candidates[mask]


@dataclass(frozen=True)
class _Ties:
    """The positions in the order that still tie: `positions`, and for each the number of its run of equal rows."""

    runs: Indices
    positions: Indices

    @classmethod
    def in_order(cls, words: Words) -> _Ties:
        return cls(np.zeros(len(words), np.int64), np.arange(len(words), dtype=np.int64)).equal_in(words)

    def equal_in(self, words: Words) -> _Ties:
        """The runs within these runs, now sorted by `words`, whose words are equal."""
        starts = np.ones(len(words) + 1, np.bool_)
        np.not_equal(words[1:], words[:-1], out=starts[1:-1])
        starts[1:-1] |= self.runs[1:] != self.runs[:-1]
        tied = ~(starts[:-1] & starts[1:])
        return _Ties(np.cumsum(starts[:-1][tied]), self.positions[tied])

    def refine(self, order: Indices, digit: Digit) -> _Ties:
        """Sort each run by the digit, in place in `order`."""
        rows = order[self.positions]
        words = digit(rows)
        by_word = _stable_argsort(words)
        if int(self.runs[-1]) > int(self.runs[0]):
            by_word = by_word[_stable_argsort(self.runs[by_word].view(np.uint64))]
        order[self.positions] = rows[by_word]
        return self.equal_in(words[by_word])


def _stable_argsort(words: Words) -> Indices:
    """Stable by packing the row number under the word; a word too wide for that is sorted in two passes."""
    count = len(words)
    if count < 2:
        return np.arange(count, dtype=np.int64)
    low = words.min()
    offsets = words - low
    row_bits = (count - 1).bit_length()
    cut = max(int(offsets.max()).bit_length() + row_bits - 64, 0)
    rows = np.arange(count, dtype=np.uint64)
    packed = np.sort((offsets >> np.uint64(cut)) << np.uint64(row_bits) | rows)
    order = (packed & np.uint64((1 << row_bits) - 1)).view(np.int64)
    if cut == 0:
        return order
    tops = packed >> np.uint64(row_bits)
    same = tops[1:] == tops[:-1]
    if not bool(same.any()):
        return order
    tied = np.append(same, False) | np.append(False, same)
    positions = np.flatnonzero(tied)
    runs = np.cumsum(~np.append(False, same))[positions].astype(np.uint64)
    below = offsets[order[positions]] & np.uint64((1 << cut) - 1)
    order[positions] = order[positions][_stable_argsort((runs - runs[0]) << np.uint64(cut) | below)]
    return order
