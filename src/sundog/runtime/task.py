"""One stage over one partition: the same function on a driver thread and in an executor's Python worker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import pyarrow as pa

from sundog.operators.base import Operator
from sundog.operators.context import TaskContext


class Source(Protocol):
    """Where a task's batches come from; picklable where tasks run on executors."""

    def read(self, context: TaskContext) -> Iterator[pa.RecordBatch]: ...


class BatchSource:
    """Batches that are already here. Gives each away as it is read, so that memory goes down as work goes on."""

    def __init__(self, batches: Sequence[pa.RecordBatch]) -> None:
        self._batches = list(batches)

    def read(self, context: TaskContext) -> Iterator[pa.RecordBatch]:
        self._batches.reverse()
        while self._batches:
            yield self._batches.pop()


class HeldBatches:
    """Batches that are already here and stay, to be read several times."""

    def __init__(self, batches: Sequence[pa.RecordBatch]) -> None:
        self._batches = tuple(batches)

    def read(self, context: TaskContext) -> Iterator[pa.RecordBatch]:
        yield from self._batches


def run_operators(
    batches: Iterator[pa.RecordBatch], operators: Sequence[Operator], context: TaskContext
) -> Iterator[pa.RecordBatch]:
    """Chain the operators' generators over the batches; cancellation is seen between batches."""
    stream = _watch(batches, context)
    for operator in operators:
        stream = operator.run(stream, context)
    return stream


def _watch(batches: Iterator[pa.RecordBatch], context: TaskContext) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        context.check_cancelled()
        yield batch
