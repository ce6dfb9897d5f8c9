"""`FinalAggregate`: the operator of the second phase. One task owns each group, merges its states and evaluates.

    Aggregate(final)   ◄── HashPartition ◄── Aggregate(partial), on every task of the scan

Without GROUP BY there is exactly one row, also for no input: the plan gives such an aggregate one partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from sundog.expr.calls import AggregateCall, NamedExpr
from sundog.operators.aggregate.merging import StateMerger
from sundog.operators.aggregate.partial import describe_calls
from sundog.operators.aggregate.states import StateLayout
from sundog.operators.aggregate.vectors import Vector, is_text, to_arrow
from sundog.operators.base import Operator
from sundog.operators.context import TaskContext

OUTPUT_ROWS = 1 << 17
OUTPUT_STRING_BYTES = 1 << 26


@dataclass(frozen=True)
class FinalAggregate(Operator):
    """Partial groups -> results: the keys, then the aggregates, under their names."""

    keys: tuple[NamedExpr, ...]
    aggregates: tuple[AggregateCall, ...]
    in_process: bool = False

    @property
    def layout(self) -> StateLayout:
        return StateLayout.of(self.keys, self.aggregates, self.in_process)

    @property
    def schema(self) -> pa.Schema:
        keys = [(key.name, key.expr.dtype) for key in self.keys]
        return pa.schema([*keys, *((call.name, call.dtype) for call in self.aggregates)])

    def run(self, batches: Iterator[pa.RecordBatch], context: TaskContext) -> Iterator[pa.RecordBatch]:
        layout, schema = self.layout, self.schema
        merger = StateMerger(layout, context)
        for batch in batches:
            merger.take_in(layout.from_batch(batch))
        for grouped in merger.finish():
            context.metrics.add("groups", grouped.count)
            yield from output_batches(grouped.results(), grouped.count, schema)

    def describe(self) -> str:
        return f"FinalAggregate: {describe_calls(self.keys, self.aggregates)}"


def output_batches(columns: Sequence[Vector], rows: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Batches of moderate size, also where the strings are long."""
    text = sum(column.nbytes for column in columns if is_text(column.dtype))
    pieces = max(-(-rows // OUTPUT_ROWS), -(-text // OUTPUT_STRING_BYTES))
    for piece in range(pieces):
        start, end = (rows * at // pieces for at in (piece, piece + 1))
        if end > start:
            arrays = [to_arrow(column.slice(start, end), f.type) for column, f in zip(columns, schema, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)
