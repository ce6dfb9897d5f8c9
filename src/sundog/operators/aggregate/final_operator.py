"""`FinalAggregate`: the final aggregation. One task owns each group, merges its states and evaluates the results.

    Aggregate(final)   ◄── HashPartition ◄── Aggregate(partial), on every task of the scan

Without GROUP BY there is exactly one row, even if no row came in: the plan gives such an aggregate one partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sundog.columns.arrow import from_arrow, to_arrow
from sundog.columns.text import text_bytes, writable_pieces
from sundog.columns.vectors import Ints, Vector
from sundog.expr.calls import AggregateCall, NamedExpr
from sundog.expr.ordering import SortKey
from sundog.expr.printing import render_order
from sundog.operators.aggregate.grouping.buckets import Grouped
from sundog.operators.aggregate.grouping.state_merger import StateMerger
from sundog.operators.aggregate.grouping.states import StateLayout
from sundog.operators.aggregate.inputs import sized_batches
from sundog.operators.base import Operator
from sundog.operators.context import TaskContext
from sundog.operators.costs import GroupingCosts, TopKCosts
from sundog.operators.topk.topk import TopKOperator

_GROUP = "#group"


@dataclass(frozen=True)
class BestGroups:
    """`ORDER BY aggregates LIMIT limit`: a task puts out at most that many groups, and builds the keys of those
    only."""

    order: tuple[SortKey, ...]
    limit: int
    costs: TopKCosts


@dataclass(frozen=True)
class FinalAggregate(Operator):
    """Partial groups -> results: the keys, then the aggregates, under their names.

    `hidden` keys are grouped by but not part of the result. `best`: only these groups are put out.
    """

    keys: tuple[NamedExpr, ...]
    aggregates: tuple[AggregateCall, ...]
    costs: GroupingCosts
    in_process: bool = False
    hidden: frozenset[str] = frozenset()
    best: BestGroups | None = None
    parts: int = 1  # hash parts in which a task collects partial groups before it merges them

    @property
    def layout(self) -> StateLayout:
        return StateLayout.of(self.keys, self.aggregates, self.in_process)

    @property
    def schema(self) -> pa.Schema:
        keys = [(key.name, key.expr.dtype) for key in self.keys if key.name not in self.hidden]
        return pa.schema([*keys, *self._results_schema])

    @property
    def _results_schema(self) -> pa.Schema:
        return pa.schema([(call.name, call.dtype) for call in self.aggregates])

    def run(self, batches: Iterator[pa.RecordBatch], context: TaskContext) -> Iterator[pa.RecordBatch]:
        layout = self.layout
        merger = StateMerger(layout, context, self.costs, self.parts)
        if not self.keys:  # a row of each task, as one batch
            batches = sized_batches(batches, self.costs)
        for batch in batches:
            merger.take_in(layout.from_batch(batch))
        for grouped in merger.finish():
            context.metrics.add("groups", grouped.count)
            if self.best is None:
                columns = [*self._keys(grouped), *grouped.results()]
                yield from self._batches(columns, grouped.count, self.schema)
            else:
                yield from self._best_of(grouped, self.best, context)

    def _keys(self, grouped: Grouped, groups: Ints | None = None) -> list[Vector]:
        shown = (number for number, key in enumerate(self.keys) if key.name not in self.hidden)
        return [grouped.key(number, groups) for number in shown]

    def _best_of(self, grouped: Grouped, best: BestGroups, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """The best groups. They are chosen by their results alone; only then are their keys built."""
        numbers = from_arrow(pa.array(np.arange(grouped.count)))
        narrow = self._results_schema.append(pa.field(_GROUP, pa.int64()))
        candidates = self._batches([*grouped.results(), numbers], grouped.count, narrow)
        for chosen in TopKOperator(narrow, best.order, best.limit, costs=best.costs).run(candidates, context):
            keys = self._keys(grouped, chosen.column(_GROUP).to_numpy())
            results = [from_arrow(chosen.column(call.name)) for call in self.aggregates]
            yield from self._batches([*keys, *results], chosen.num_rows, self.schema)

    def _batches(self, columns: Sequence[Vector], rows: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Batches of bounded rows and string bytes."""
        text = sum(text_bytes(column) for column in columns)
        pieces = max(-(-rows // self.costs.output_batch_rows), -(-text // self.costs.output_string_bytes))
        for piece in range(pieces):
            start, end = (rows * at // pieces for at in (piece, piece + 1))
            if end > start:
                for first, last in writable_pieces(columns, start, end):
                    arrays = [
                        to_arrow(column.slice(first, last), f.type) for column, f in zip(columns, schema, strict=True)
                    ]
                    yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    name = "Aggregate"

    @property
    def details(self) -> str:
        keys = ", ".join(key.name for key in self.keys)
        best = "" if self.best is None else f", fetch={self.best.limit}, order=[{render_order(self.best.order)}]"
        return f"mode=final, keys=[{keys}]{best}"
