"""The contract of operators: Arrow batches in, Arrow batches out, and nothing else.

An operator is a frozen, picklable *spec*, made on the driver from the plan. `run` is a generator over one task's
batches; whatever it keeps between batches lives in that generator, so a retried task starts from nothing. `describe`
is its line in `explain`.

A *partitioner* ends a stage instead: it says to which of `partitions` tasks of the next stage each row goes, and may
send a row to several (the halo of a window). Batches of one target arrive there in any order, unless the partitioner
sets `ordered`: then in the order of the producing tasks, at the price of holding them all. `joinable` targets are only
kept apart to be shared out: where they are small, one task may take several. One that `combines` makes the rows of a
target fewer before they leave a process in which several tasks have run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar

import pyarrow as pa

from sundog.operators.context import TaskContext


class Operator(ABC):
    """Spec of one step. Subclasses are frozen dataclasses."""

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The schema of every batch that `run` yields."""

    @abstractmethod
    def run(self, batches: Iterator[pa.RecordBatch], context: TaskContext) -> Iterator[pa.RecordBatch]:
        """Consume one task's batches. Must work for no batch at all, empty batches and any cut into batches."""

    @abstractmethod
    def describe(self) -> str:
        """One stable line for explain, e.g. `Filter: (price#3 > 10)`."""


class Partitioner(ABC):
    """Spec of how rows move to the next stage. Subclasses are frozen dataclasses."""

    partitions: int
    joinable: ClassVar[bool] = False

    @property
    def ordered(self) -> bool:
        """Whether the batches of a target must arrive in the order of the producing tasks."""
        return False

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The schema of every batch that `split` yields."""

    @property
    def combines(self) -> bool:
        """Whether what `split` yields goes through `combine` before it travels."""
        return False

    def combine(self, batches: Sequence[pa.RecordBatch], context: TaskContext) -> Iterator[pa.RecordBatch]:
        """What travels of the rows that several tasks of one process have for one target."""
        return iter(batches)

    @abstractmethod
    def split(self, batches: Iterator[pa.RecordBatch], context: TaskContext) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield (target partition, batch). The exchange coalesces small batches into blocks."""

    @abstractmethod
    def describe(self) -> str:
        """One stable line for explain."""
