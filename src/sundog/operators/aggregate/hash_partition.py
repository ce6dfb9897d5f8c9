"""`HashPartition`: sends each partial group to the task that owns its key.

The hash is of the key's values alone, so tasks agree without knowing of each other. Rows of one target lie in one piece
of each batch; a target is a slice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from sundog.operators.aggregate.grouping import EXCHANGE_LEVEL, spread_chunks
from sundog.operators.aggregate.states import StateLayout
from sundog.operators.base import Partitioner
from sundog.operators.context import TaskContext


@dataclass(frozen=True)
class HashPartition(Partitioner):
    layout: StateLayout
    partitions: int

    @property
    def schema(self) -> pa.Schema:
        return self.layout.exchange_schema

    def split(self, batches: Iterator[pa.RecordBatch], context: TaskContext) -> Iterator[tuple[int, pa.RecordBatch]]:
        for batch in batches:
            context.check_cancelled()
            if not self.layout.keys:
                yield 0, batch
                continue
            with context.metrics.timed("exchange_seconds"):
                chunk = self.layout.from_batch(batch)
                pieces = [
                    (target, self.layout.to_exchange(piece))
                    for target, piece in spread_chunks(self.layout, [chunk], EXCHANGE_LEVEL, self.partitions)
                ]
            yield from pieces

    def describe(self) -> str:
        keys = ", ".join(name for name, _ in self.layout.keys)
        return f"HashPartition: [{keys}] into {self.partitions}"
