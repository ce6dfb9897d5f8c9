"""`WHERE predicate`: the rows for which it is true, not those for which it is false or NULL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.columns.arrow import compact, from_arrow, to_arrow
from sundog.columns.vectors import Ints
from sundog.expr.evaluation.where import where_mask
from sundog.expr.nodes import Expr
from sundog.expr.printing import render
from sundog.operators.base import Operator
from sundog.operators.context import TaskContext
from sundog.operators.costs import FilterCosts
from sundog.types import is_view


@dataclass(frozen=True)
class FilterOperator(Operator):
    input_schema: pa.Schema
    predicate: Expr
    costs: FilterCosts = field(repr=False)

    @property
    def schema(self) -> pa.Schema:
        return self.input_schema

    def run(self, batches: Iterator[pa.RecordBatch], context: TaskContext) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows == 0:
                continue
            kept = keep_rows(batch, where_mask(self.predicate, batch), self.costs)
            context.metrics.add("rows_filtered", batch.num_rows - kept.num_rows)
            if kept.num_rows:
                yield kept

    name = "Filter"

    @property
    def details(self) -> str:
        return render(self.predicate)


def keep_rows(batch: pa.RecordBatch, mask: npt.NDArray[np.bool_], costs: FilterCosts) -> pa.RecordBatch:
    """The rows where the mask is true. The batch itself if that is all of them."""
    count = int(np.count_nonzero(mask))
    if count == batch.num_rows:
        return batch
    if count == 0:
        return batch.slice(0, 0)
    if batch.num_columns == 0:
        return batch.slice(0, count)
    if any(is_view(column.type) for column in batch.columns):
        return _take_with_views(batch, np.flatnonzero(mask))
    if count * costs.rows_per_gathered_row < batch.num_rows:
        return batch.take(pa.array(np.flatnonzero(mask)))
    return batch.filter(pa.array(mask))


def _take_with_views(batch: pa.RecordBatch, rows: Ints) -> pa.RecordBatch:
    """`take` for batches with string_view arrays, which Arrow cannot take from. Few rows get bytes of their own, so
    that they do not hold on to the bytes of all."""
    indices = pa.array(rows)
    arrays = [
        to_arrow(compact(from_arrow(column).take(rows)), column.type) if is_view(column.type) else column.take(indices)
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)
