"""Grouping of whole chunks: rows or partial groups in, partial groups or results out. Every aggregation uses these
functions.

A hash table that grows with the data leaves the caches after a few hundred thousand groups, and each row then waits for
memory. Here the rows move instead: they are scattered by hash into buckets whose table, keys and states fit the second
cache level, and each bucket is grouped in one call. 5 million distinct keys cost 41 ns a row in one table and 6 ns in
64 buckets; moving a column costs 2 ns a row.

    rows ──► words, hashes ──► scatter into buckets ──► group numbers ──► accumulators
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sundog.columns.blocks import concat, on_blocks_behind, shared_blocks
from sundog.columns.key_layout import MAX_TARGETS, Hashes, KeyLayout, Targets
from sundog.columns.key_words import BUCKET_LEVEL, EXCHANGE_LEVEL, NO_HASHES, Encoded, KeyEncoder, assign_by_hash
from sundog.columns.vectors import NO_MASK, Blocks, Ints, Vector, empty_values, full_mask, nulls
from sundog.functions.grouped import Accumulator, Groups, one_group
from sundog.kernels.groups.partition import scatter, scatter_coded, scatter_pair, scatter_rows
from sundog.operators.aggregate.grouping.states import Chunk, StateLayout
from sundog.operators.costs import GroupingCosts
from sundog.types import is_text


@dataclass(frozen=True, eq=False)
class Grouped:
    """Merged groups: accumulators over all partial groups, and the keys as words.

    A key column is built from its words when it is read: some queries read the keys of a few groups only, or none.
    """

    layout: StateLayout
    accumulators: list[Accumulator]
    count: int
    _encoder: KeyEncoder | None = None
    _rows: Encoded | None = None
    _founders: npt.NDArray[np.int32] | None = None

    def key(self, number: int, groups: Ints | None = None) -> Vector:
        """A key column, of the given groups or of all."""
        if self._encoder is None or self._rows is None or self._founders is None:
            return nulls(self.layout.keys[number][1], 0)
        return self._encoder.key(number, self._rows, self._founders if groups is None else self._founders[groups])

    def states(self) -> Chunk:
        keys = [self.key(number) for number in range(len(self.layout.keys))]
        return Chunk(self.count, keys, [accumulator.state() for accumulator in self.accumulators])

    def results(self) -> list[Vector]:
        """The results of the calls, one vector each."""
        return [accumulator.evaluate() for accumulator in self.accumulators]


def merge_chunks(layout: StateLayout, chunks: Sequence[Chunk], costs: GroupingCosts) -> Grouped:
    """Partial groups merged. `chunks` may be empty; without keys the result is one group even then."""
    length = sum(chunk.length for chunk in chunks)
    if not layout.keys:
        return Grouped(layout, _merged(layout, _concat_states(layout, chunks), one_group(length)), 1)
    if length == 0:
        none = Groups(np.zeros(0, np.int32), 0)
        return Grouped(layout, _merged(layout, _concat_states(layout, chunks), none), 0)
    encoder = KeyEncoder.over(layout.key_layout, [chunk.keys for chunk in chunks])
    buckets = _buckets(encoder, chunks, length, costs)
    if buckets == 1:
        rows, starts = _joined(_encoded(encoder, chunks)), np.array([0, length], np.int64)
        states = _concat_states(layout, chunks)
    else:
        rows, spread = _in_buckets(encoder, chunks, buckets)
        starts = spread.starts
        states = spread.states(layout, chunks)
    ids, founders = encoder.find_groups(rows, starts)
    groups = Groups(ids, len(founders))
    return Grouped(layout, _merged(layout, states, groups), groups.count, encoder, rows, founders)


def _in_buckets(encoder: KeyEncoder, chunks: Sequence[Chunk], buckets: int) -> tuple[Encoded, Spread]:
    """Keys in the order of their buckets. Keys with strings carry hashes, so their words are written once, in place."""
    if not encoder.layout.has_text:
        encoded = _encoded(encoder, chunks)
        spread = Spread.of(encoder, encoded, BUCKET_LEVEL, buckets)
        return spread.encoded(encoded), spread
    hashes = _hashes(encoder.layout, chunks)
    spread = Spread.by_hash(hashes, BUCKET_LEVEL, buckets)
    words = encoder.scatter([chunk.keys for chunk in chunks], spread.targets, spread.starts)
    return Encoded(words, spread.hashes(hashes)), spread


def _encoded(encoder: KeyEncoder, chunks: Sequence[Chunk]) -> list[Encoded]:
    return [encoder.encode(at, c.keys, c.length, c.hashes) for at, c in enumerate(chunks)]


def _hashes(layout: KeyLayout, chunks: Sequence[Chunk]) -> list[Hashes]:
    """The hashes of keys with strings: those that the chunks carry, or else computed."""
    return [layout.hashes(c.keys, c.length) if c.hashes is None else c.hashes for c in chunks]


def _merged(layout: StateLayout, states: list[list[Vector]], groups: Groups) -> list[Accumulator]:
    accumulators = layout.accumulators()
    for accumulator, vectors in zip(accumulators, states, strict=True):
        accumulator.merge(vectors, groups)
    return accumulators


def grouped_bytes(rows: int, words: int) -> int:
    """Bytes that grouping touches: words, hashes, numbers and table."""
    return rows * (8 * words + 24)


def _buckets(encoder: KeyEncoder, chunks: Sequence[Chunk], length: int, costs: GroupingCosts) -> int:
    """Number of buckets that fit the cache; 1 if all groups are estimated to fit it.

    100 million rows of a million groups, in 64 partitions: 2.2 s in buckets, 1.6 to 1.9 s in one.
    """
    words = encoder.layout.value_words + encoder.null_words
    wanted = grouped_bytes(length, words) // costs.bucket_bytes
    if wanted <= 1:
        return 1
    if length >= costs.rows_per_sampled_row * costs.group_sample_rows:
        groups = _estimated_groups(encoder, chunks, length // costs.group_sample_rows)
        if grouped_bytes(groups, words) <= costs.unscattered_buckets * costs.bucket_bytes:
            return 1
    return min(costs.scatter_targets, MAX_TARGETS, 1 << (wanted - 1).bit_length())


def _estimated_groups(encoder: KeyEncoder, chunks: Sequence[Chunk], step: int) -> int:
    """Estimated number of groups, from one row in `step`. Chao's estimate: one frequent key does not hide the rare
    ones."""
    parts = []
    for at, chunk in enumerate(chunks):
        rows = np.arange(0, chunk.length, step | 1)
        hashes = None if chunk.hashes is None else chunk.hashes[rows]
        parts.append(encoder.encode(at, [key.take(rows) for key in chunk.keys], len(rows), hashes))
    sample = _joined(parts)
    ids, founders = encoder.find_groups(sample, np.array([0, len(sample.words)], np.int64))
    found = Groups(ids, len(founders))
    once, twice = (int(np.count_nonzero(found.sizes == times)) for times in (1, 2))
    return found.count + once * (once - 1) // (2 * (twice + 1))


def _joined(parts: Sequence[Encoded]) -> Encoded:
    if len(parts) == 1:
        return parts[0]
    return Encoded(np.concatenate([part.words for part in parts]), np.concatenate([part.hashes for part in parts]))


def _concat_states(layout: StateLayout, chunks: Sequence[Chunk]) -> list[list[Vector]]:
    if not chunks:
        return [[nulls(dtype, 0) for dtype in types] for types in layout.state_types]
    return [
        [concat([chunk.states[call][at] for chunk in chunks]) for at in range(len(types))]
        for call, types in enumerate(layout.state_types)
    ]


def _starts(counts: Ints) -> Ints:
    starts = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=starts[1:])
    return starts


@dataclass(frozen=True, eq=False)
class Spread:
    """The partition of each row of several chunks; moves columns there.

    Rows of one partition keep their order: chunk after chunk, and within a chunk as they were.
    """

    targets: list[Targets]
    starts: Ints

    @classmethod
    def of(cls, encoder: KeyEncoder, encoded: Sequence[Encoded], level: int, partitions: int) -> Spread:
        counts = np.zeros(partitions, np.int64)
        targets = [encoder.assign(part, level, partitions, counts) for part in encoded]
        return cls(targets, _starts(counts))

    @classmethod
    def by_hash(cls, hashes: Sequence[Hashes], level: int, partitions: int) -> Spread:
        counts = np.zeros(partitions, np.int64)
        targets = [assign_by_hash(part, level, partitions, counts) for part in hashes]
        return cls(targets, _starts(counts))

    @property
    def length(self) -> int:
        return int(self.starts[-1])

    def values(self, sources: Sequence[npt.NDArray[Any]], out: npt.NDArray[Any]) -> None:
        """Scatter arrays of one type into `out`. Kernels see integers of the same width only."""
        positions = self.starts[:-1].copy()
        move = scatter if out.ndim == 1 else scatter_rows
        width = f"i{out.dtype.itemsize}"
        for source, target in zip(sources, self.targets, strict=True):
            move(source.view(width), target, positions, out.view(width))

    def encoded(self, parts: Sequence[Encoded]) -> Encoded:
        words = np.empty((self.length, parts[0].words.shape[1]), np.int64)
        self.values([part.words for part in parts], words)
        return Encoded(words, self.hashes([part.hashes for part in parts]))

    def hashes(self, parts: Sequence[Hashes]) -> Hashes:
        if all(len(part) == 0 for part in parts):
            return NO_HASHES
        hashes = np.empty(self.length, np.uint64)
        self.values(parts, hashes)
        return hashes

    def vector(self, parts: Sequence[Vector]) -> Vector:
        dtype = parts[0].dtype
        if all(part.all_null for part in parts):
            return nulls(dtype, self.length)
        values = empty_values(dtype, self.length)
        blocks: Blocks = ()
        if is_text(dtype):
            blocks = self._texts(parts, values)
        else:
            self.values([part.values for part in parts], values)
        valid = None
        if any(part.all_null or part.valid is not None for part in parts):
            valid = np.empty(self.length, np.uint8)
            self.values([full_mask(part) for part in parts], valid)
        return Vector(dtype, self.length, values, valid, blocks)

    def _texts(self, parts: Sequence[Vector], values: Ints) -> Blocks:
        """Scatter strings, as views into blocks that all parts then share."""
        positions = self.starts[:-1].copy()
        blocks, firsts = shared_blocks(parts)
        for part, first, target in zip(parts, firsts, self.targets, strict=True):
            if part.coded is None:
                scatter_pair(part.values, NO_MASK, first, target, positions, values, 0)
            else:
                entries = on_blocks_behind(first, part.coded.entries.values)
                scatter_coded(entries, part.coded.codes, target, positions, values)
        return blocks

    def states(self, layout: StateLayout, chunks: Sequence[Chunk]) -> list[list[Vector]]:
        return [
            [self.vector([chunk.states[call][at] for chunk in chunks]) for at in range(len(types))]
            for call, types in enumerate(layout.state_types)
        ]

    def chunk(self, layout: StateLayout, chunks: Sequence[Chunk], hashes: Hashes) -> Chunk:
        keys = [self.vector([chunk.keys[at] for chunk in chunks]) for at in range(len(layout.keys))]
        return Chunk(self.length, keys, self.states(layout, chunks), hashes if len(hashes) else None)

    def pieces(self, whole: Chunk) -> list[tuple[int, Chunk]]:
        """The partitions that have rows, as slices of the chunk that `chunk` gave."""
        bounds = [(int(start), int(end)) for start, end in zip(self.starts[:-1], self.starts[1:], strict=True)]
        return [(number, whole.slice(start, end)) for number, (start, end) in enumerate(bounds) if end > start]


def spread_chunks(layout: StateLayout, chunks: Sequence[Chunk], level: int, partitions: int) -> list[tuple[int, Chunk]]:
    """Partial groups by hash of their keys: (partition, its rows) for each partition that has any."""
    if not chunks:
        return []
    spread, hashes = _spread(layout, chunks, level, partitions)
    return spread.pieces(spread.chunk(layout, chunks, spread.hashes(hashes)))


def _spread(
    layout: StateLayout, chunks: Sequence[Chunk], level: int, partitions: int
) -> tuple[Spread, Sequence[Hashes]]:
    """The partition of each row, and the hashes of keys that hold strings. Words are made only if there are no
    hashes."""
    if layout.key_layout.has_text:
        hashes = _hashes(layout.key_layout, chunks)
        return Spread.by_hash(hashes, level, partitions), hashes
    encoder = KeyEncoder.over(layout.key_layout, [chunk.keys for chunk in chunks])
    return Spread.of(encoder, _encoded(encoder, chunks), level, partitions), ()


def owned_rows(layout: StateLayout, keys: Sequence[Vector], length: int, shares: int, share: int) -> Ints:
    """The rows whose keys an exchange would bring to partition `share` of `shares`."""
    spread, _ = _spread(layout, [Chunk(length, keys, ())], EXCHANGE_LEVEL, shares)
    rows: Ints = np.flatnonzero(spread.targets[0] == share)
    return rows


def sample_chunks(layout: StateLayout, chunks: Sequence[Chunk], level: int, partitions: int) -> list[Chunk]:
    """The rows of the first of `partitions` hash partitions: all rows of a part of the keys."""
    spread, _ = _spread(layout, chunks, level, partitions)
    return [chunk.take(np.flatnonzero(target == 0)) for chunk, target in zip(chunks, spread.targets, strict=True)]
