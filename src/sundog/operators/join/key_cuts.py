"""Rows cut by the hash of their keys: between the tasks of an exchange, and between the files of a task that spills.

The hash is of the values alone, so rows of both sides with equal keys get the same cut, in whichever task.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from sundog.columns.arrow import from_arrow
from sundog.columns.key_layout import MAX_TARGETS, KeyLayout, Targets
from sundog.columns.key_words import SAMPLE_LEVEL, KeyEncoder
from sundog.columns.vectors import Ints
from sundog.expr.evaluate import evaluate
from sundog.expr.nodes import Expr


def key_targets(batch: pa.RecordBatch, keys: Sequence[Expr], level: int, count: int) -> tuple[Targets, Ints]:
    """The cut of each row, and the rows of each cut. `level`: which bits of the hash decide."""
    vectors = [from_arrow(evaluate(key, batch)) for key in keys]
    encoder = KeyEncoder.over(KeyLayout.of([key.dtype for key in vectors]), [vectors])
    rows = np.zeros(count, np.int64)
    targets = encoder.assign(encoder.encode(0, vectors, batch.num_rows), level, count, rows)
    return targets, rows


def cut_by_keys(
    batch: pa.RecordBatch, keys: Sequence[Expr], level: int, count: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The cuts of a batch that have rows, each with its number."""
    if batch.num_rows:
        yield from split(batch, *key_targets(batch, keys, level, count))


def split(batch: pa.RecordBatch, targets: Targets, rows: Ints) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each target. `rows`: how many each has."""
    in_order = batch.take(pa.array(np.argsort(targets, kind="stable")))
    starts = np.cumsum(rows) - rows
    for target in np.flatnonzero(rows).tolist():
        yield target, in_order.slice(int(starts[target]), int(rows[target]))


def have_one_key(batches: Sequence[pa.RecordBatch], keys: Sequence[Expr]) -> bool:
    """Whether all rows agree in 16 bits of their key's hash, so that cutting again would not separate them."""
    found: set[int] = set()
    for batch in batches:
        if batch.num_rows:
            targets, _ = key_targets(batch, keys, SAMPLE_LEVEL, MAX_TARGETS)
            found |= {int(targets.min()), int(targets.max())}
        if len(found) > 1:
            return False
    return True
