"""Where the batches of a task come from, if not from another stage: files, or rows that are there already."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import pyarrow as pa

from sundog.operators.context import TaskContext


class Source(Protocol):
    """The input of one task; picklable where tasks run on executors."""

    def read(self, context: TaskContext) -> Iterator[pa.RecordBatch]: ...


class BatchSource:
    """Batches that are already here. Gives each away as it is read, so that memory goes down as work goes on."""

    def __init__(self, batches: Sequence[pa.RecordBatch]) -> None:
        self._batches = list(batches)

    def read(self, context: TaskContext) -> Iterator[pa.RecordBatch]:
        self._batches.reverse()
        while self._batches:
            yield self._batches.pop()


class ChainedSources:
    """Several sources, one after the other."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = tuple(sources)

    def read(self, context: TaskContext) -> Iterator[pa.RecordBatch]:
        for source in self._sources:
            yield from source.read(context)


class HeldBatches:
    """Batches that are already here and stay, to be read several times."""

    def __init__(self, batches: Sequence[pa.RecordBatch]) -> None:
        self._batches = tuple(batches)

    def read(self, context: TaskContext) -> Iterator[pa.RecordBatch]:
        yield from self._batches
