"""The second phase: merge all partial groups of one hash partition, in memory or, if they do not fit, cut by cut.

What comes in waits until all of it is there, since the whole is grouped best at once, in buckets of cache size. When
memory runs out before that, what is there is merged. If that halves it, it stays; otherwise it goes to disk by hash, and
each cut is merged on its own at the end, and cut again if it must be. A key that cannot be cut (one hot key) is always
halved by merging, so the recursion ends.
"""

from __future__ import annotations

from collections.abc import Iterator

from sundog.operators.aggregate.grouping import PART_LEVEL, SPILL_LEVEL, Grouped, merge_chunks, spread_chunks
from sundog.operators.aggregate.pending import Pending
from sundog.operators.aggregate.spill import SpillFiles
from sundog.operators.aggregate.states import Chunk, StateLayout
from sundog.operators.context import TaskContext

_PART_ROWS = 1 << 21
MERGED_AT_ONCE = 3 * _PART_ROWS // 4  # rows of a partition that is merged in one part, though it is not an even one
_MOST_PARTS = 64
_DEEPEST_LEVEL = SPILL_LEVEL + 8


class StateMerger:
    """Takes in partial groups and gives them back merged, a part of the keys at a time."""

    def __init__(
        self, layout: StateLayout, context: TaskContext, level: int = SPILL_LEVEL, name: str = "spill"
    ) -> None:
        self._layout = layout
        self._context = context
        self._level = level
        self._name = name
        self._pending = Pending(context)
        self._spilled: SpillFiles | None = None

    def take_in(self, chunk: Chunk) -> None:
        self._context.check_cancelled()
        if chunk.length == 0:
            return
        self._pending.add(chunk)
        if self._pending.too_much_to_merge:
            self._relieve()

    def finish(self) -> Iterator[Grouped]:
        """Every group once. Without keys there is one group, also where nothing came in."""
        if self._spilled is None:
            yield from self._merged()
            return
        self._spilled.write(self._pending.drain())
        for cut in self._spilled.finish_writing():
            merger = StateMerger(self._layout, self._context, self._level + 1, f"{self._name}-{cut}")
            for chunk in self._spilled.read(cut):
                merger.take_in(chunk)
            yield from merger.finish()

    def _merged(self) -> Iterator[Grouped]:
        return merge_in_parts(self._layout, self._pending.drain(), self._context)

    def _relieve(self) -> None:
        before = self._pending.nbytes
        for grouped in list(self._merged()):
            self._pending.add(grouped.states().compact())
        if 2 * self._pending.nbytes <= before or not self._layout.keys or self._level >= _DEEPEST_LEVEL:
            return
        if self._spilled is None:
            self._spilled = SpillFiles(self._layout, self._context, self._level, self._name)
        self._spilled.write(self._pending.drain())


def merge_in_parts(layout: StateLayout, chunks: list[Chunk], context: TaskContext) -> Iterator[Grouped]:
    """Merge any number of partial groups, so many of the keys at a time that buckets of them fit the caches."""
    parts = min(_MOST_PARTS, sum(chunk.length for chunk in chunks) // _PART_ROWS + 1)
    if parts == 1 or not layout.keys:
        yield merge_chunks(layout, chunks)
        return
    pieces = spread_chunks(layout, chunks, PART_LEVEL, parts)
    while pieces:
        context.check_cancelled()
        yield merge_chunks(layout, [pieces.pop()[1]])
