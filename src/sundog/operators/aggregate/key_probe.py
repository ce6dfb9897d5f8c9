"""`ProbeKeys`: estimates from a few rows, before the query runs, how much grouping reduces them.

The planner chooses by it between exchange, gather and shares (`plan/lower/aggregate.py`): few groups are merged on the
driver. If keys hardly repeat and tasks are few, reading the rows again is cheaper than moving the groups. While the
query runs, `skip_probe.py` measures the same inside each task.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from sundog.columns.key_layout import KeyLayout
from sundog.expr.calls import NamedExpr
from sundog.operators.aggregate.inputs import evaluate_rows, sized_batches
from sundog.operators.aggregate.keys.group_table import GroupTable
from sundog.operators.aggregate.skip_probe import SkipProbe
from sundog.operators.base import Operator
from sundog.operators.context import TaskContext
from sundog.operators.costs import GroupingCosts


@dataclass(frozen=True)
class ProbeKeys(Operator):
    """One row: whether the partial aggregation would be skipped for these keys, how many keys occurred, and the share
    of the last rows that had a new key. Reads the first rows of each batch.
    """

    keys: tuple[NamedExpr, ...]
    costs: GroupingCosts

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([("gives_up", pa.bool_()), ("groups", pa.int64()), ("new_share", pa.float64())])

    def run(self, batches: Iterator[pa.RecordBatch], context: TaskContext) -> Iterator[pa.RecordBatch]:
        table = GroupTable(KeyLayout.of([key.expr.dtype for key in self.keys]), self.costs)
        probe = SkipProbe(self.costs)
        new_share = 1.0
        for batch in sized_batches(batches, self.costs):
            rows = evaluate_rows(self.keys, (), batch.slice(0, self.costs.skip_probe_rows))
            before = table.count
            table.assign(rows.keys, rows.length)
            probe.grouped(rows.length, table.count - before, table.cheap)
            new_share = (table.count - before) / rows.length
            if probe.skipping:
                break
        answer = {"gives_up": probe.skipping, "groups": table.count, "new_share": new_share}
        yield pa.RecordBatch.from_pylist([answer], self.schema)

    name = "ProbeKeys"

    @property
    def details(self) -> str:
        return f"[{', '.join(key.name for key in self.keys)}]"
