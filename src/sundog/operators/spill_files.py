"""Rows on disk, in several cuts, for what exceeds a task's memory budget: written first, then read back cut by cut.

Files are Arrow streams in the task's scratch folder, one per cut, appended to each time memory runs out. The folder is
removed with the task, however the task ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from sundog.operators.context import TaskContext

CUTS = 16  # cuts by hash; a cut that does not fit either is cut again, by further bits


class SpillFiles:
    """The cuts of one level. All batches of a cut have one schema."""

    def __init__(self, context: TaskContext, name: str) -> None:
        self._context = context
        self._name = name
        self._writers: dict[int, pa.ipc.RecordBatchStreamWriter] = {}
        self._files: dict[int, pa.NativeFile] = {}

    def write(self, cut: int, batch: pa.RecordBatch) -> None:
        if cut not in self._writers:
            self._files[cut] = pa.OSFile(str(self._path(cut)), "wb")
            self._writers[cut] = pa.ipc.new_stream(self._files[cut], batch.schema)
            self._context.metrics.add("spill_count")
        self._writers[cut].write_batch(batch)

    def finish_writing(self) -> list[int]:
        """The cuts that hold anything."""
        for cut in self._writers:
            self._writers[cut].close()
            self._files[cut].close()
            self._context.metrics.add("spilled_bytes", self._path(cut).stat().st_size)
        return sorted(self._writers)

    def read(self, cut: int, again: bool = False) -> Iterator[pa.RecordBatch]:
        """The batches of a cut, in the order in which they were written. The file is removed after the last, unless it
        is to be read `again`."""
        if cut not in self._writers:
            return
        with pa.OSFile(str(self._path(cut)), "rb") as file, pa.ipc.open_stream(file) as reader:
            yield from reader
        if not again:
            self._path(cut).unlink()

    def _path(self, cut: int) -> Path:
        return self._context.scratch() / f"{self._name}-{cut}.arrow"
