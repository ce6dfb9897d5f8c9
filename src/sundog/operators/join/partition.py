"""A join of two large sides: both are sent to the tasks that own their keys, and each task joins what it got.

    left  ──► hash of the keys ──┐
                                 ├──► task: build side first, then the probe side, then build rows without a partner
    right ──► hash of the keys ──┘

Rows with equal keys meet in one task, so a task can say of its build rows that they have no partner at all: that is
what a full outer join needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from sundog.columns.arrow import from_arrow
from sundog.columns.key_layout import KeyLayout
from sundog.columns.key_words import EXCHANGE_LEVEL, KeyEncoder
from sundog.expr.calls import JoinKind
from sundog.expr.evaluate import evaluate
from sundog.expr.nodes import Expr
from sundog.expr.printing import render
from sundog.operators.base import Operator, Partitioner
from sundog.operators.context import TaskContext
from sundog.operators.join.build_side import BuildSide
from sundog.operators.join.hash_join import JoinSpec
from sundog.operators.join.pairing import taken
from sundog.support import Code, Declined


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
                pieces = list(self._pieces(batch)) if batch.num_rows else []
            yield from pieces

    def _pieces(self, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        keys = [from_arrow(evaluate(key, batch)) for key in self.keys]
        encoder = KeyEncoder.over(KeyLayout.of([key.dtype for key in keys]), [keys])
        counts = np.zeros(self.partitions, np.int64)
        encoded = encoder.encode(0, keys, batch.num_rows)
        targets = encoder.assign(encoded, EXCHANGE_LEVEL, self.partitions, counts)
        sorted_rows = batch.take(pa.array(np.argsort(targets, kind="stable")))
        starts = np.cumsum(counts) - counts
        for target in np.flatnonzero(counts).tolist():
            yield target, sorted_rows.slice(int(starts[target]), int(counts[target]))

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
        built: list[pa.RecordBatch] = []
        probe: pa.RecordBatch | None = None
        for batch in batches:
            if batch.schema.names != self.build_schema.names:
                probe = batch
                break
            built.append(batch)
            self._hold(batch, context)
        build = self.join.build_side(built, self.build_schema)
        context.metrics.add("join_build_rows", build.rows)
        keeps_build = self.join.kind is JoinKind.FULL
        pairing = self.join.pairing(build)
        if keeps_build:
            pairing = replace(pairing, seen=np.zeros(build.rows, np.bool_))
        while probe is not None:
            context.check_cancelled()
            context.metrics.add("join_probe_rows", probe.num_rows)
            yield from pairing.join(probe, context)
            probe = next(batches, None)
        if pairing.seen is not None and not pairing.seen.all():
            yield self._lonely(build, np.flatnonzero(~pairing.seen).astype(np.int32))

    @staticmethod
    def _hold(batch: pa.RecordBatch, context: TaskContext) -> None:
        context.memory.resize(0, batch.nbytes)
        if context.memory.exceeded:
            limit = f"{context.memory.limit:,} bytes of a task"
            raise Declined.because(Code.COST, f"one side of a join does not fit the {limit}", "Join")

    def _lonely(self, build: BuildSide, rows: np.ndarray[tuple[int], np.dtype[np.int32]]) -> pa.RecordBatch:
        """Rows of the build side without a partner."""
        if not self.join.output.names:
            return pa.record_batch([pa.nulls(len(rows))], names=["rows"]).select([])
        columns = [
            taken(build.columns.column(field.name), rows)
            if field.name in self.build_schema.names
            else pa.nulls(len(rows), field.type)
            for field in self.join.output
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.join.output)

    def describe(self) -> str:
        return f"PartitionedJoin: {self.join.describe()}"
