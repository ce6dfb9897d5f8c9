"""One stage over one partition: the same function on a driver thread and in an executor's Python worker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import perf_counter

import pyarrow as pa

from sundog.metrics import OperatorCounts
from sundog.operators.base import Operator
from sundog.operators.context import TaskContext


def run_operators(
    batches: Iterator[pa.RecordBatch],
    operators: Sequence[Operator],
    task: TaskContext,
    counts: Sequence[OperatorCounts],
) -> Iterator[pa.RecordBatch]:
    """Chain the operators' generators over the batches; cancellation is seen between batches."""
    stream = _watched(_counted(batches, counts[0]), task)
    for operator, own in zip(operators, counts[1:], strict=False):
        stream = _counted(operator.run(stream, task.counting_into(own)), own)
    return stream


def _counted(batches: Iterator[pa.RecordBatch], counts: OperatorCounts) -> Iterator[pa.RecordBatch]:
    """The same batches. Two readings of the clock for each cost a ten-thousandth of decoding it."""
    source = iter(batches)
    while True:
        start = perf_counter()
        batch = next(source, None)
        counts.seconds += perf_counter() - start
        if batch is None:
            return
        counts.rows += batch.num_rows
        counts.bytes += batch.nbytes
        counts.batches += 1
        yield batch


def _watched(batches: Iterator[pa.RecordBatch], task: TaskContext) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        task.check_cancelled()
        yield batch
