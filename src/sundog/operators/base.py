"""The contract of operators: Arrow batches in, Arrow batches out, and nothing else.

An operator is a frozen, picklable *spec*, made on the driver from the plan. `run` is a generator over one task's
batches; whatever it keeps between batches lives in that generator, so a retried task starts from nothing. `name` and
`details` are its line in `explain`.

A *partitioner* ends a stage instead: it says to which of `partitions` tasks of the next stage each row goes, and may
send a row to several (the halo of a window). Batches of one target arrive there in any order, unless the partitioner
is `ordered`: then in the order of the producing tasks, which needs all of them in memory. Several small `joinable`
targets may become one task. A partitioner that `combines` merges the rows of a target that several tasks of one process
have, before they leave the process.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import pyarrow as pa

from sundog.operators.context import TaskContext


class Described(ABC):
    """Anything that has a line in explain."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The kind of step, e.g. `Filter`."""

    @property
    def details(self) -> str:
        """Its details as stable text, e.g. `(price#3 > 10)`; empty if the name says all."""
        return ""

    @property
    def planned_metrics(self) -> Mapping[str, float]:
        """Counts made by planning, once for all tasks of the step."""
        return {}

    def describe(self) -> str:
        """The whole line, e.g. `Filter: (price#3 > 10)`."""
        return f"{self.name}: {self.details}" if self.details else self.name


class Operator(Described):
    """Spec of one step. Subclasses are frozen dataclasses."""

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The schema of every batch that `run` yields."""

    @abstractmethod
    def run(self, batches: Iterator[pa.RecordBatch], context: TaskContext) -> Iterator[pa.RecordBatch]:
        """Consume one task's batches. Must work for no batch at all, empty batches and any cut into batches."""


class Partitioner(Described):
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
        """The rows that leave this process for one target, given those of all its tasks."""
        return iter(batches)

    @property
    def to_driver(self) -> bool:
        """Whether all targets are gathered by the driver, so that nothing is exchanged between tasks."""
        return False

    @property
    def summarizes(self) -> bool:
        """Whether `split` ends with a batch for partition number `partitions`, under a schema of its own: a summary,
        for the planner, of the rows that this task has sent."""
        return False

    @abstractmethod
    def split(self, batches: Iterator[pa.RecordBatch], context: TaskContext) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield (target partition, batch). The exchange coalesces small batches into blocks."""
