"""`LIMIT n OFFSET m` without an order: any n rows after any m.

The operator stops asking for batches as soon as it has enough, so a lazy scan below it stops reading.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from sundog.operators.base import Operator
from sundog.operators.context import TaskContext


@dataclass(frozen=True)
class LimitOperator(Operator):
    """Any `limit` rows after any `offset` rows."""

    input_schema: pa.Schema
    limit: int
    offset: int = 0

    @property
    def schema(self) -> pa.Schema:
        return self.input_schema

    def run(self, batches: Iterator[pa.RecordBatch], context: TaskContext) -> Iterator[pa.RecordBatch]:
        skip, left = self.offset, self.limit
        if left <= 0:
            return
        for batch in batches:
            if skip >= batch.num_rows:
                skip -= batch.num_rows
                continue
            part = batch.slice(skip, left)
            skip = 0
            left -= part.num_rows
            yield part
            if left == 0:
                return

    name = "Limit"

    @property
    def details(self) -> str:
        return f"fetch={self.limit}" + (f", skip={self.offset}" if self.offset else "")
