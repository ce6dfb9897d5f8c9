"""The inputs of tasks that do not come from another stage: files, or batches in memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from sundog.operators.base import Described, Operator
from sundog.operators.context import TaskContext, counted


class Source(ABC):
    """The input of one task; picklable where tasks run on executors."""

    @property
    def steps(self) -> tuple[Described, ...]:
        """Its steps, the last step first. The context of `read` is that of the first of these (`at_step`)."""
        return ()

    @abstractmethod
    def read(self, context: TaskContext) -> Iterator[pa.RecordBatch]: ...


class BatchSource(Source):
    """Batches in memory. Each is released as it is read, so that memory shrinks as the task proceeds."""

    def __init__(self, batches: Sequence[pa.RecordBatch]) -> None:
        self._batches = list(batches)

    def read(self, context: TaskContext) -> Iterator[pa.RecordBatch]:
        self._batches.reverse()
        while self._batches:
            yield self._batches.pop()


class ChainedSources(Source):
    """Several sources, one after the other."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = tuple(sources)

    def read(self, context: TaskContext) -> Iterator[pa.RecordBatch]:
        for source in self._sources:
            yield from source.read(context)


class HeldBatches(Source):
    """Batches in memory that stay there, to be read several times."""

    def __init__(self, batches: Sequence[pa.RecordBatch]) -> None:
        self._batches = tuple(batches)

    def read(self, context: TaskContext) -> Iterator[pa.RecordBatch]:
        yield from self._batches


@dataclass(frozen=True)
class LocalRead(Source, Described):
    """Rows that are part of the query: its only task carries them."""

    name = "LocalRows"

    batch: pa.RecordBatch

    @property
    def details(self) -> str:
        return f"rows={self.batch.num_rows}, columns=[{', '.join(self.batch.schema.names)}]"

    @property
    def steps(self) -> tuple[Described, ...]:
        return (self,)

    def read(self, context: TaskContext) -> Iterator[pa.RecordBatch]:
        if self.batch.num_rows:
            yield self.batch


@dataclass(frozen=True)
class OperatedSource(Source):
    """A source with operators, at least one: a branch of a union."""

    source: Source
    operators: tuple[Operator, ...]

    @property
    def steps(self) -> tuple[Described, ...]:
        return (*reversed(self.operators), *self.source.steps)

    def read(self, context: TaskContext) -> Iterator[pa.RecordBatch]:
        batches = self.source.read(context.at_step(len(self.operators)))
        for place, operator in enumerate(self.operators):
            step = len(self.operators) - place
            batches = operator.run(counted(batches, context.step(step)), context.at_step(step - 1))
        return batches
