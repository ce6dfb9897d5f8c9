"""Partial groups on disk, cut by hash, so that a GROUP BY larger than memory is finished one cut after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sundog.operators.aggregate.grouping.buckets import spread_chunks
from sundog.operators.aggregate.grouping.states import Chunk, StateLayout
from sundog.operators.context import TaskContext
from sundog.operators.spill_files import CUTS, SpillFiles


class SpilledChunks:
    """The cuts of one level. A cut of the next level holds a part of one of these, by further bits of the hash."""

    def __init__(self, layout: StateLayout, context: TaskContext, level: int, name: str) -> None:
        self._layout = layout.written
        self._level = level
        self._files = SpillFiles(context, name)

    def write(self, chunks: Sequence[Chunk]) -> None:
        for cut, piece in spread_chunks(self._layout, chunks, self._level, CUTS):
            for batch in self._layout.to_batches(piece):
                self._files.write(cut, batch)

    def finish_writing(self) -> list[int]:
        """The cuts that hold anything."""
        return self._files.finish_writing()

    def read(self, cut: int) -> Iterator[Chunk]:
        """A cut's chunks; its file is removed after the last."""
        for batch in self._files.read(cut):
            yield self._layout.from_batch(batch)
