"""`PartialAggregate`: the partial aggregation, in each task of the scan.

    SELECT UserID, count(*), avg(width) FROM hits GROUP BY UserID

Plain Spark looks up every row in a JVM hash map and shuffles what is left row by row. Here a task turns its batches
into partial groups (`grouping/states.py`), and into ungrouped rows where grouping does not pay (`partial_grouping.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from sundog.columns.arrow import compact
from sundog.expr.calls import AggregateCall, NamedExpr
from sundog.expr.printing import call_text, named_text
from sundog.operators.aggregate.grouping.buckets import owned_rows
from sundog.operators.aggregate.grouping.states import StateLayout
from sundog.operators.aggregate.inputs import evaluate_rows, sized_batches
from sundog.operators.aggregate.partial_grouping import PartialGrouping
from sundog.operators.base import Operator
from sundog.operators.context import TaskContext
from sundog.operators.costs import GroupingCosts


@dataclass(frozen=True)
class PartialAggregate(Operator):
    """Rows -> partial groups. `in_process`: the final aggregation runs in this process, so that moving a row is cheap.

    `shares`: the number of tasks that each read all rows and take those of the keys that they own.
    """

    keys: tuple[NamedExpr, ...]
    aggregates: tuple[AggregateCall, ...]
    costs: GroupingCosts
    in_process: bool = False
    shares: int = 1

    @property
    def layout(self) -> StateLayout:
        return StateLayout.of(self.keys, self.aggregates, self.in_process)

    @property
    def schema(self) -> pa.Schema:
        return self.layout.schema

    def run(self, batches: Iterator[pa.RecordBatch], context: TaskContext) -> Iterator[pa.RecordBatch]:
        layout = self.layout
        phase = PartialGrouping(layout, context, self.costs)
        for batch in sized_batches(batches, self.costs):
            context.check_cancelled()
            with context.metrics.timed("compute_seconds"):
                rows = evaluate_rows(self.keys, self.aggregates, batch)
                if self.shares > 1:
                    rows = rows.take(owned_rows(layout, rows.keys, rows.length, self.shares, context.partition))
                    rows = replace(rows, keys=[compact(key) for key in rows.keys])
            made = (batch for chunk in phase.take_in(rows) for batch in layout.to_batches(chunk))
            yield from context.metrics.timed_each("compute_seconds", made)
        for chunk in phase.finish():
            yield from layout.to_batches(chunk)

    name = "Aggregate"

    @property
    def details(self) -> str:
        keys = ", ".join(named_text(key) for key in self.keys)
        calls = ", ".join(call_text(call) for call in self.aggregates)
        return f"mode=partial, keys=[{keys}], aggregates=[{calls}]"
