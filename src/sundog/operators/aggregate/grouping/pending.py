"""Partial groups collected in memory until there are enough of them to be merged in one go."""

from __future__ import annotations

from sundog.operators.aggregate.grouping.states import Chunk
from sundog.operators.context import TaskContext

MERGE_COPIES = 3  # copies of the rows that merging holds at once


class Pending:
    """Collected chunks, accounted for in the task's memory budget."""

    def __init__(self, context: TaskContext) -> None:
        self._memory = context.memory
        self.chunks: list[Chunk] = []
        self.nbytes = 0
        self.rows = 0

    def add(self, chunk: Chunk) -> None:
        self.chunks.append(chunk)
        self.rows += chunk.length
        self._charge(self.nbytes + chunk.nbytes)

    def drain(self) -> list[Chunk]:
        chunks, self.chunks, self.rows = self.chunks, [], 0
        self._charge(0)
        return chunks

    def _charge(self, new: int) -> None:
        self._memory.resize(self.nbytes, new)
        self.nbytes = new

    @property
    def too_much_to_merge(self) -> bool:
        """Whether merging them, with its copies, would exceed the task's memory budget."""
        return self._memory.used + (MERGE_COPIES - 1) * self.nbytes > self._memory.limit
