"""A join of two large sides: both are sent to the tasks that own their keys, and each task joins the rows it received.

    left  ──► hash of the keys ──┐
                                 ├──► task: build side first, then the probe side, then build rows without a partner
    right ──► hash of the keys ──┘

Rows with equal keys meet in one task, which therefore knows the build rows that have no partner at all, as a full outer
join must. A task whose build rows exceed its memory spills to disk (`spilling.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from sundog.columns.arrow import from_arrow
from sundog.columns.key_layout import KeyLayout
from sundog.columns.key_words import EXCHANGE_LEVEL, assign_by_hash
from sundog.columns.vectors import Ints
from sundog.expr.evaluate import evaluate
from sundog.expr.nodes import Expr
from sundog.expr.printing import render
from sundog.operators.base import Operator, Partitioner
from sundog.operators.context import TaskContext
from sundog.operators.join.hash_join import JoinSpec
from sundog.operators.join.hot_keys import NO_HOT_KEYS, HotKeys, row_salts
from sundog.operators.join.key_cuts import cut_by_keys, split
from sundog.operators.join.key_index import rows_with_null
from sundog.operators.join.spilling import SpillingJoin


@dataclass(frozen=True)
class JoinPartition(Partitioner):
    """Sends rows with equal keys to one task; the hash is of the values alone, so both sides of a join agree.

    A row of a `hot` key goes to one of several tasks if it is of the probe side, to each of them if of the build side.
    A row with a NULL in a key that `=` compares has no partner, and may go to any task.
    """

    input_schema: pa.Schema
    keys: tuple[Expr, ...]
    partitions: int
    null_safe: tuple[bool, ...]
    hot: HotKeys = NO_HOT_KEYS
    is_build: bool = False

    @property
    def schema(self) -> pa.Schema:
        return self.input_schema

    def split(self, batches: Iterator[pa.RecordBatch], context: TaskContext) -> Iterator[tuple[int, pa.RecordBatch]]:
        for batch in batches:
            context.check_cancelled()
            with context.metrics.timed("exchange_seconds"):
                pieces = list(self._pieces(batch, context)) if batch.num_rows else []
            yield from pieces

    def _pieces(self, batch: pa.RecordBatch, context: TaskContext) -> Iterator[tuple[int, pa.RecordBatch]]:
        vectors = [from_arrow(evaluate(key, batch)) for key in self.keys]
        with_null = rows_with_null(vectors, self.null_safe)
        if self.partitions == 1 or (with_null is None and not self.hot.hashes):
            yield from cut_by_keys(batch, self.keys, EXCHANGE_LEVEL, self.partitions)
            return
        hashes = KeyLayout.of([key.dtype for key in vectors]).hashes(vectors, batch.num_rows)
        counts = np.zeros(self.partitions, np.int64)
        targets = assign_by_hash(hashes, EXCHANGE_LEVEL, self.partitions, counts).astype(np.int64)
        hot = self.hot.find(hashes) if self.hot.hashes else np.full(batch.num_rows, -1)
        if with_null is not None:
            hot[with_null] = -1
            self._move(np.flatnonzero(with_null), np.int64(self.partitions), targets, batch, context)
        found = np.flatnonzero(hot >= 0)
        if self.is_build:
            yield from self._copies(batch, found, hot, targets, context)
        elif len(found):
            self._move(found, np.array(self.hot.fanouts)[hot[found]], targets, batch, context)
        counts = np.bincount(targets, minlength=self.partitions)
        yield from split(batch, targets.astype(np.uint16), counts)

    def _move(self, rows: Ints, fanouts: Any, targets: Ints, batch: pa.RecordBatch, context: TaskContext) -> None:
        """Send each of these rows to one of `fanouts` partitions, the first of which is that of its hash."""
        places = row_salts(batch, rows, context.partition).astype(np.int64) % fanouts
        targets[rows] = (targets[rows] + places) % self.partitions
        context.metrics.add("join_rows_spread", len(rows))

    def _copies(
        self, batch: pa.RecordBatch, rows: Ints, hot: Ints, targets: Ints, context: TaskContext
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Rows of hot keys for all partitions of their keys but the first."""
        for number in np.unique(hot[rows]).tolist():
            own = rows[hot[rows] == number]
            copy, first = batch.take(pa.array(own)), int(targets[own[0]])
            for copy_number in range(1, self.hot.fanouts[number]):
                context.metrics.add("join_rows_replicated", len(own))
                yield (first + copy_number) % self.partitions, copy

    name = "HashExchange"

    @property
    def details(self) -> str:
        hot = self.hot.describe("replicated to" if self.is_build else "spread over")
        return f"keys=[{', '.join(render(key) for key in self.keys)}]{hot}"


@dataclass(frozen=True)
class PartitionedJoin(Operator):
    """Joins the rows of two sides that came to this task. Batches of the build side come first and are recognised by
    their columns."""

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

    name = "PartitionedJoin"

    @property
    def details(self) -> str:
        return self.join.describe()
