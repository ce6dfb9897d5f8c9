"""Merging for the final aggregation: all partial groups of one hash partition, in memory, or spilled and cut by cut.

Partial groups are collected until the input ends, since grouping all of them at once, in buckets of cache size, is
fastest. If many are expected, they are collected in parts by hash: merging makes copies, which are then those of one
part only. If memory runs out earlier, the collected groups are merged. If that halves them, they stay in memory;
otherwise they are spilled by hash. At the end each cut is merged by itself, and cut again if it does not fit. A cut
that cannot be divided (one hot key) is always halved by merging, so the recursion ends.
"""

from __future__ import annotations

from collections.abc import Iterator

from sundog.columns.key_layout import MAX_TARGETS
from sundog.columns.key_words import PART_LEVEL, SAMPLE_LEVEL, SPILL_LEVEL, WAIT_LEVEL
from sundog.operators.aggregate.grouping.buckets import Grouped, merge_chunks, sample_chunks, spread_chunks
from sundog.operators.aggregate.grouping.pending import Pending
from sundog.operators.aggregate.grouping.spill import SpilledChunks
from sundog.operators.aggregate.grouping.states import Chunk, StateLayout
from sundog.operators.context import TaskContext
from sundog.operators.costs import GroupingCosts

# Rows that agree in the bits of the hash of all these levels of cuts are of one key, or nearly.
_DEEPEST_LEVEL = SPILL_LEVEL + 8


class StateMerger:
    """Takes partial groups and gives them back merged, a part of the keys at a time."""

    def __init__(
        self,
        layout: StateLayout,
        context: TaskContext,
        costs: GroupingCosts,
        parts: int = 1,
        level: int = SPILL_LEVEL,
        name: str = "spill",
    ) -> None:
        self._layout = layout
        self._context = context
        self._costs = costs
        self._level = level
        self._name = name
        self._parts = [Pending(context) for _ in range(parts if layout.keys else 1)]
        self._spilled: SpilledChunks | None = None

    def take_in(self, chunk: Chunk) -> None:
        self._context.check_cancelled()
        if chunk.length == 0:
            return
        self._wait(chunk)
        if any(part.too_much_to_merge for part in self._parts):
            self._relieve()

    def finish(self) -> Iterator[Grouped]:
        """Every group once. Without keys there is one group, even if nothing came in."""
        if self._spilled is None:
            yield from self._merged()
            return
        self._spill()
        for cut in self._spilled.finish_writing():
            merger = StateMerger(self._layout, self._context, self._costs, 1, self._level + 1, f"{self._name}-{cut}")
            for chunk in self._spilled.read(cut):
                merger.take_in(chunk)
            yield from merger.finish()

    def _wait(self, chunk: Chunk) -> None:
        if len(self._parts) == 1:
            self._parts[0].add(chunk)
            return
        for number, piece in spread_chunks(self._layout, [chunk], WAIT_LEVEL, len(self._parts)):
            self._parts[number].add(piece)

    def _merged(self) -> Iterator[Grouped]:
        for part in self._parts:
            yield from merge_in_parts(self._layout, part.drain(), self._context, self._costs)

    @property
    def _waiting_bytes(self) -> int:
        return sum(part.nbytes for part in self._parts)

    def _relieve(self) -> None:
        before = self._waiting_bytes
        for grouped in list(self._merged()):
            self._wait(grouped.states().compact())
        is_reduced = self._waiting_bytes <= before * self._costs.max_unspilled_share
        if is_reduced or not self._layout.keys or self._level >= _DEEPEST_LEVEL:
            return
        if self._spilled is None:
            self._spilled = SpilledChunks(self._layout, self._context, self._level, self._name)
        self._spill()

    def _spill(self) -> None:
        assert self._spilled is not None
        for part in self._parts:
            self._spilled.write(part.drain())


def merge_in_parts(
    layout: StateLayout, chunks: list[Chunk], context: TaskContext, costs: GroupingCosts
) -> Iterator[Grouped]:
    """Merge any number of partial groups in parts by hash, each so large that its buckets fit the caches."""
    parts = min(costs.scatter_targets, MAX_TARGETS, sum(chunk.length for chunk in chunks) // costs.merge_part_rows + 1)
    if parts == 1 or not layout.keys:
        yield merge_chunks(layout, chunks, costs)
        return
    pieces = spread_chunks(layout, chunks, PART_LEVEL, parts)
    while pieces:
        context.check_cancelled()
        yield merge_chunks(layout, [pieces.pop()[1]], costs)


def estimated_share(layout: StateLayout, chunks: list[Chunk], costs: GroupingCosts) -> float:
    """Estimated groups per row, from the keys of one of many hash parts."""
    if not layout.keys:
        return 0.0
    sample = sample_chunks(layout, chunks, SAMPLE_LEVEL, costs.sampled_parts)
    rows = sum(chunk.length for chunk in sample)
    return merge_chunks(layout, sample, costs).count / max(rows, 1)
