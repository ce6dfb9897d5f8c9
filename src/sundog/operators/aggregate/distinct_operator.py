"""`DistinctAggregate`: the operator between partial and final aggregation where a call has DISTINCT.

    SELECT region, count(DISTINCT user), sum(hits) FROM t GROUP BY region

    FinalAggregate      by region
      HashPartition     by region
        DistinctAggregate   merges by (region, user), so that each user is there once; then counts users and merges sums
                            by region: partial groups again
          HashPartition     by (region, user)
            PartialAggregate    by (region, user): only the sums

The first exchange is by keys and distinct values together, so that few or skewed keys, or none at all, keep every task
busy. Spark has one more exchange: it removes duplicates and counts in separate steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from sundog.expr.calls import AggregateCall, NamedExpr
from sundog.expr.nodes import Column
from sundog.expr.printing import named_text
from sundog.operators.aggregate.grouping.state_merger import StateMerger
from sundog.operators.aggregate.grouping.states import Chunk, StateLayout
from sundog.operators.aggregate.inputs import Arguments, Rows
from sundog.operators.aggregate.partial_grouping import PartialGrouping
from sundog.operators.base import Operator
from sundog.operators.context import TaskContext
from sundog.operators.costs import GroupingCosts


@dataclass(frozen=True)
class DistinctAggregate(Operator):
    """Partial groups by `keys` and `values` -> partial groups by `keys`. `values`: the arguments of the DISTINCT
    calls. `merged`: tasks share processes, and the groups by `keys` are merged before they leave one."""

    keys: tuple[NamedExpr, ...]
    values: tuple[NamedExpr, ...]
    aggregates: tuple[AggregateCall, ...]
    costs: GroupingCosts
    in_process: bool = False
    parts: int = 1  # hash parts in which a task collects partial groups before it merges them
    merged: bool = False

    @property
    def inner_keys(self) -> tuple[NamedExpr, ...]:
        return (*self.keys, *self.values)

    @property
    def inner_aggregates(self) -> tuple[AggregateCall, ...]:
        """The aggregates without DISTINCT, which are computed together with the distinct values."""
        return tuple(call for call in self.aggregates if not call.distinct)

    @property
    def outer_aggregates(self) -> tuple[AggregateCall, ...]:
        """All calls, over rows without duplicates."""
        columns = {value.expr: Column(value.name, value.expr.dtype) for value in self.values}
        return tuple(
            replace(call, distinct=False, args=tuple(columns[arg] for arg in call.args)) if call.distinct else call
            for call in self.aggregates
        )

    @property
    def layout(self) -> StateLayout:
        return StateLayout.of(self.keys, self.outer_aggregates, self.in_process or self.merged)

    @property
    def schema(self) -> pa.Schema:
        return self.layout.schema

    def run(self, batches: Iterator[pa.RecordBatch], context: TaskContext) -> Iterator[pa.RecordBatch]:
        inner = StateLayout.of(self.inner_keys, self.inner_aggregates, self.in_process)
        outer = self.layout
        merger = StateMerger(inner, context, self.costs, self.parts)
        for batch in batches:
            merger.take_in(inner.from_batch(batch))
        phase = PartialGrouping(outer, context, self.costs)
        for grouped in merger.finish():
            context.check_cancelled()
            for chunk in self._regroup(grouped.states(), phase):
                yield from outer.to_batches(chunk)
        for chunk in phase.finish():
            yield from outer.to_batches(chunk)

    def _regroup(self, found: Chunk, phase: PartialGrouping) -> Iterator[Chunk]:
        keys, values = found.keys[: len(self.keys)], found.keys[len(self.keys) :]
        by_expr = {value.expr: vector for value, vector in zip(self.values, values, strict=True)}
        states = iter(found.states)
        calls = [
            Arguments([by_expr[arg] for arg in call.args]) if call.distinct else Arguments(next(states), merging=True)
            for call in self.aggregates
        ]
        yield from phase.take_in(Rows(found.length, list(keys), calls))

    name = "Aggregate"

    @property
    def details(self) -> str:
        keys = ", ".join(key.name for key in self.keys)
        values = ", ".join(named_text(value) for value in self.values)
        return f"mode=distinct, keys=[{keys}], distinct=[{values}]"
