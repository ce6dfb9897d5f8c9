"""Small operators and sources with known results, for the tests of the runtimes."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from sundog.operators.base import Operator, Partitioner
from sundog.operators.context import TaskContext
from sundog.operators.sources import Source

SCHEMA = pa.schema([("n", pa.int64())])


@dataclass(frozen=True)
class Numbers(Source):
    """The numbers start .. stop in batches of `step`."""

    start: int
    stop: int
    step: int = 10

    def read(self, context: TaskContext) -> Iterator[pa.RecordBatch]:
        for low in range(self.start, self.stop, self.step):
            values = np.arange(low, min(low + self.step, self.stop))
            context.metrics.add("input_rows", len(values))
            yield pa.RecordBatch.from_arrays([pa.array(values)], schema=SCHEMA)


@dataclass(frozen=True)
class ProcessId(Source):
    """The id of the process that reads it, again and again."""

    def read(self, context: TaskContext) -> Iterator[pa.RecordBatch]:
        while True:
            yield pa.RecordBatch.from_arrays([pa.array([os.getpid()])], schema=SCHEMA)


@dataclass(frozen=True)
class Sum(Operator):
    """One row: the sum of all."""

    @property
    def schema(self) -> pa.Schema:
        return SCHEMA

    def run(self, batches: Iterator[pa.RecordBatch], context: TaskContext) -> Iterator[pa.RecordBatch]:
        total = sum(int(np.sum(batch.column(0).to_numpy())) for batch in batches)
        yield pa.RecordBatch.from_arrays([pa.array([total])], schema=SCHEMA)

    name = "Sum"


@dataclass(frozen=True)
class FailAt(Operator):
    """Raises for a certain number."""

    number: int

    @property
    def schema(self) -> pa.Schema:
        return SCHEMA

    def run(self, batches: Iterator[pa.RecordBatch], context: TaskContext) -> Iterator[pa.RecordBatch]:
        (context.scratch() / "spill").write_bytes(b"x")
        for batch in batches:
            if self.number in batch.column(0).to_pylist():
                raise ValueError(f"met {self.number}")
            yield batch

    name = "FailAt"


@dataclass(frozen=True)
class Modulo(Partitioner):
    partitions: int

    @property
    def schema(self) -> pa.Schema:
        return SCHEMA

    def split(self, batches: Iterator[pa.RecordBatch], context: TaskContext) -> Iterator[tuple[int, pa.RecordBatch]]:
        for batch in batches:
            targets = batch.column(0).to_numpy() % self.partitions
            for target in range(self.partitions):
                yield target, batch.filter(pa.array(targets == target))

    name = "Modulo"

    @property
    def details(self) -> str:
        return str(self.partitions)


@dataclass(frozen=True)
class Slow(Source):
    """Reads what another source reads, after `seconds` in which it looks for cancellation as a scan does."""

    source: Any
    seconds: float
    begun: ClassVar[threading.Event] = threading.Event()  # of this process

    def read(self, context: TaskContext) -> Iterator[pa.RecordBatch]:
        self.begun.set()
        for _ in range(round(self.seconds / 0.05)):
            context.check_cancelled()
            time.sleep(0.05)
        yield from self.source.read(context)


@dataclass(frozen=True)
class Spills(Source):
    """Writes a file into its scratch folder, tells process and folder in the file `told`, and takes its time."""

    told: str

    def read(self, context: TaskContext) -> Iterator[pa.RecordBatch]:
        (context.scratch() / "rows").write_bytes(b"rows")
        unfinished = Path(f"{self.told}.unfinished")
        unfinished.write_text(f"{os.getpid()} {context.scratch()}")
        unfinished.rename(self.told)
        time.sleep(60)
        yield pa.RecordBatch.from_arrays([pa.array([1])], schema=SCHEMA)
