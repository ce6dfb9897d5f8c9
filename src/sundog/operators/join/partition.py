"""A join of two large sides: both are sent to the tasks that own their keys, and each task joins what it got.

    left  ──► hash of the keys ──┐
                                 ├──► task: build side first, then the probe side, then build rows without a partner
    right ──► hash of the keys ──┘

Rows with equal keys meet in one task, so a task can say of its build rows that they have no partner at all: that is
what a full outer join needs. A task whose build rows exceed its memory goes through the disk (`spilling.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa

from sundog.columns.key_words import EXCHANGE_LEVEL
from sundog.expr.nodes import Expr
from sundog.expr.printing import render
from sundog.operators.base import Operator, Partitioner
from sundog.operators.context import TaskContext
from sundog.operators.join.hash_join import JoinSpec
from sundog.operators.join.key_cuts import cut_by_keys
from sundog.operators.join.spilling import SpillingJoin


@dataclass(frozen=True)
class JoinPartition(Partitioner):
    """Sends rows with equal keys to one task; so do both sides of a join, since the hash is of the values alone."""

    input_schema: pa.Schema
    keys: tuple[Expr, ...]
    partitions: int

    @property
    def schema(self) -> pa.Schema:
        return self.input_schema

    def split(self, batches: Iterator[pa.RecordBatch], context: TaskContext) -> Iterator[tuple[int, pa.RecordBatch]]:
        for batch in batches:
            context.check_cancelled()
            with context.metrics.timed("exchange_seconds"):
                pieces = list(cut_by_keys(batch, self.keys, EXCHANGE_LEVEL, self.partitions))
            yield from pieces

    def describe(self) -> str:
        return f"HashExchange: keys=[{', '.join(render(key) for key in self.keys)}]"


@dataclass(frozen=True)
class PartitionedJoin(Operator):
    """Joins the rows of two sides that came to this task: batches of the build side first, told by their columns."""

    join: JoinSpec
    build_schema: pa.Schema

    @property
    def schema(self) -> pa.Schema:
        return self.join.output

    def run(self, batches: Iterator[pa.RecordBatch], context: TaskContext) -> Iterator[pa.RecordBatch]:
        first_probe: list[pa.RecordBatch] = []

        def build() -> Iterator[pa.RecordBatch]:
            for batch in batches:
                if batch.schema.names != self.build_schema.names:
                    first_probe.append(batch)
                    return
                context.metrics.add("join_build_rows", batch.num_rows)
                yield batch

        def probe() -> Iterator[pa.RecordBatch]:
            for batch in chain(first_probe, batches):
                context.metrics.add("join_probe_rows", batch.num_rows)
                yield batch

        yield from SpillingJoin(self.join, self.build_schema, context).run(build(), probe())

    def describe(self) -> str:
        return f"PartitionedJoin: {self.join.describe()}"
