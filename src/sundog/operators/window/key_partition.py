"""PARTITION BY: each row is sent to the task that owns its key, and keys become numbers, so that sorting by them is
sorting by one word.

Spark shuffles and sorts by the values of the key, strings and all. That order is not needed: rows of one key must only
be contiguous. Here keys are hashed as those of GROUP BY are (`columns/key_layout.py`), and numbered within a task.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.columns.arrow import from_arrow
from sundog.columns.key_layout import KeyLayout
from sundog.columns.key_words import EXCHANGE_LEVEL, Encoded, KeyEncoder
from sundog.expr.evaluate import evaluate
from sundog.expr.nodes import Expr
from sundog.expr.printing import render
from sundog.operators.base import Partitioner
from sundog.operators.context import TaskContext
from sundog.operators.window.frames.range_columns import parts_by_owner

Longs = npt.NDArray[np.int64]


@dataclass(frozen=True)
class KeyPartition(Partitioner):
    """Sends rows with equal keys to one task. Every row is owned by exactly one, as in `RangeRepartition`."""

    input_schema: pa.Schema
    partition_by: tuple[Expr, ...]
    partitions: int

    @property
    def schema(self) -> pa.Schema:
        return self.input_schema

    def split(self, batches: Iterator[pa.RecordBatch], context: TaskContext) -> Iterator[tuple[int, pa.RecordBatch]]:
        for batch in batches:
            context.check_cancelled()
            context.metrics.add("window_input_rows", batch.num_rows)
            context.metrics.add("rows_routed", batch.num_rows)
            with context.metrics.timed("exchange_seconds"):
                pieces = list(self._pieces(batch)) if batch.num_rows else []
            yield from pieces

    def _pieces(self, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        encoder, encoded = _encoded([evaluate(expr, batch) for expr in self.partition_by])
        targets = encoder.assign(encoded, EXCHANGE_LEVEL, self.partitions, np.zeros(self.partitions, np.int64))
        yield from parts_by_owner(batch, targets.astype(np.int32), self.partitions)

    name = "HashExchange"

    @property
    def details(self) -> str:
        return f"keys=[{', '.join(render(key) for key in self.partition_by)}]"


def _encoded(keys: Sequence[pa.Array]) -> tuple[KeyEncoder, Encoded]:
    vectors = [from_arrow(key) for key in keys]
    encoder = KeyEncoder.over(KeyLayout.of([vector.dtype for vector in vectors]), [vectors])
    return encoder, encoder.encode(0, vectors, len(keys[0]))
