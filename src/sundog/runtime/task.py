"""One stage over one partition: the same function on a driver thread and in an executor's Python worker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from sundog.metrics import OperatorCounts
from sundog.operators.base import Operator
from sundog.operators.context import TaskContext, counted


def run_operators(
    batches: Iterator[pa.RecordBatch],
    operators: Sequence[Operator],
    task: TaskContext,
    counts: Sequence[OperatorCounts],
) -> Iterator[pa.RecordBatch]:
    """Chain the operators' generators over the batches; cancellation is checked between batches."""
    stream = _watched(counted(batches, counts[0]), task)
    for operator, own in zip(operators, counts[1:], strict=False):
        stream = counted(operator.run(stream, task.counting_into(own)), own)
    return stream


def _watched(batches: Iterator[pa.RecordBatch], task: TaskContext) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        task.check_cancelled()
        yield batch
