"""`HashPartition`: sends each partial group to the task that owns its key.

The hash is of the key's values alone, so tasks agree without communicating. Rows of one target are contiguous; a target
is a slice. Batches are collected until there are some thousand rows for each target. Without that, a hundred million
rows in batches of a row group, sent to 67 targets, were 50,000 pieces, and handing them over took half of the query's
time.

Where tasks share the process of an executor, their groups are split as in one process, and then merged target by
target: a group that several of them have travels once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from sundog.columns.key_words import EXCHANGE_LEVEL
from sundog.functions.table import order_decides
from sundog.operators.aggregate.grouping.buckets import spread_chunks
from sundog.operators.aggregate.grouping.state_merger import estimated_share, merge_in_parts
from sundog.operators.aggregate.grouping.states import Chunk, StateLayout
from sundog.operators.base import Partitioner
from sundog.operators.context import TaskContext
from sundog.operators.costs import GroupingCosts

_WAITING_SHARE = 16  # the task's memory over the groups that are collected before a split, which copies them


@dataclass(frozen=True)
class HashPartition(Partitioner):
    """Partial groups by the hash of their keys. `merges`: `layout` is the layout inside a process; groups are merged
    and written out when they leave it. `to_driver`: the driver gathers them, and the targets only divide the merging
    among the threads of a process."""

    layout: StateLayout
    partitions: int
    costs: GroupingCosts
    merges: bool = False
    to_driver: bool = False
    joinable = True

    @property
    def ordered(self) -> bool:
        return any(order_decides(call) for call in self.layout.calls)

    @property
    def schema(self) -> pa.Schema:
        return self.layout.written.exchange_schema if self.merges else self.layout.exchange_schema

    @property
    def combines(self) -> bool:
        return self.merges

    def for_driver(self, targets: int) -> HashPartition:
        """The same groups, merged in each process and gathered by the driver."""
        return replace(self, partitions=targets, merges=True, to_driver=True)

    def combine(self, batches: Sequence[pa.RecordBatch], context: TaskContext) -> Iterator[pa.RecordBatch]:
        chunks, written = [self.layout.from_batch(batch) for batch in batches], self.layout.written
        if estimated_share(self.layout, chunks, self.costs) < self.costs.max_combined_share:
            chunks = [each.states() for each in merge_in_parts(self.layout, chunks, context, self.costs)]
        return (batch for chunk in chunks for batch in written.to_batches(chunk))

    def split(self, batches: Iterator[pa.RecordBatch], context: TaskContext) -> Iterator[tuple[int, pa.RecordBatch]]:
        targets = min(self.partitions, self.costs.scatter_targets)
        pieces = self.costs.exchange_piece_rows * targets
        enough = max(pieces, min(self.costs.max_exchange_pieces * pieces, self.costs.exchange_batch_rows))
        most_bytes = context.memory.limit // _WAITING_SHARE
        waiting: list[Chunk] = []
        rows = nbytes = 0
        for batch in batches:
            context.check_cancelled()
            if not self.layout.keys:
                yield 0, batch
                continue
            waiting.append(self.layout.from_batch(batch))
            rows += batch.num_rows
            nbytes += waiting[-1].nbytes
            if rows >= enough or nbytes >= most_bytes:
                yield from self._pieces(waiting, context)
                waiting, rows, nbytes = [], 0, 0
        yield from self._pieces(waiting, context)

    def _pieces(self, chunks: list[Chunk], context: TaskContext) -> list[tuple[int, pa.RecordBatch]]:
        with context.metrics.timed("exchange_seconds"):
            return [
                (target, batch)
                for target, piece in spread_chunks(self.layout, chunks, EXCHANGE_LEVEL, self.partitions)
                for batch in self.layout.to_exchange(piece)
            ]

    name = "HashExchange"

    @property
    def details(self) -> str:
        keys = ", ".join(name for name, _ in self.layout.keys)
        return f"keys=[{keys}]{', merged per executor' if self.merges else ''}"
