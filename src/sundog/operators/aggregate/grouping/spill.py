"""Partial groups on disk, cut by hash, so that a group-by larger than memory finishes one cut after the other.

Files are Arrow streams in the task's scratch folder, one per cut, appended to each time memory runs out and read back
once. The folder goes with the task, however it ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from sundog.operators.aggregate.grouping.buckets import spread_chunks
from sundog.operators.aggregate.grouping.states import Chunk, StateLayout
from sundog.operators.context import TaskContext

CUTS = 16


class SpillFiles:
    """The cuts of one level; deeper levels cut one of these again, by other bits of the hash."""

    def __init__(self, layout: StateLayout, context: TaskContext, level: int, name: str) -> None:
        self._layout = layout.written
        self._context = context
        self._level = level
        self._name = name
        self._writers: dict[int, pa.ipc.RecordBatchStreamWriter] = {}
        self._files: dict[int, pa.NativeFile] = {}

    def write(self, chunks: Sequence[Chunk]) -> None:
        for cut, piece in spread_chunks(self._layout, chunks, self._level, CUTS):
            if cut not in self._writers:
                self._files[cut] = pa.OSFile(str(self.path(cut)), "wb")
                self._writers[cut] = pa.ipc.new_stream(self._files[cut], self._layout.schema)
                self._context.metrics.add("spill_count")
            for batch in self._layout.to_batches(piece):
                self._writers[cut].write_batch(batch)

    def path(self, cut: int) -> Path:
        return self._context.scratch() / f"{self._name}-{cut}.arrow"

    def finish_writing(self) -> list[int]:
        """The cuts that hold anything."""
        for cut in self._writers:
            self._writers[cut].close()
            self._files[cut].close()
            self._context.metrics.add("spilled_bytes", self.path(cut).stat().st_size)
        return sorted(self._writers)

    def read(self, cut: int) -> Iterator[Chunk]:
        """A cut's chunks; the file is gone after the last."""
        with pa.OSFile(str(self.path(cut)), "rb") as file, pa.ipc.open_stream(file) as reader:
            for batch in reader:
                yield self._layout.from_batch(batch)
        self.path(cut).unlink()
