"""A scan of a table as explain shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sundog.expr.dynamic_filters.key_set import KeyFilter
from sundog.expr.nodes import Expr
from sundog.expr.printing import render
from sundog.operators.base import Described
from sundog.parquet.prune.access_plan import ScannedTable


@dataclass(frozen=True)
class TableScan(Described):
    """What a task of a scan reads. `dynamic`: row groups may be pruned while it runs.

    `checks` are expressions that are evaluated for every row because they may raise. `readers`: tasks of which each
    reads all rows. `counted`: what planning and other tasks have counted of this scan.
    """

    name = "ParquetScan"

    table: ScannedTable
    columns: tuple[str, ...]
    predicate: Expr | None = None
    filters: tuple[KeyFilter, ...] = ()
    dynamic: bool = False
    checks: tuple[Expr, ...] = ()
    readers: int = 1
    counted: Mapping[str, float] = field(default_factory=dict)

    @property
    def details(self) -> str:
        parts = [self.table.label, f"files={self.table.files}"]
        if self.table.snapshot is not None:
            parts.append(f"snapshot={self.table.snapshot}")
        parts.append(f"columns=[{', '.join(self.columns)}]")
        if self.predicate is not None:
            parts.append(f"predicate={render(self.predicate)}")
        if self.filters:
            parts.append(f"join_filters=[{', '.join(each.describe() for each in self.filters)}]")
        if self.table.row_groups is not None:
            parts.append("{} row groups -> {}".format(*self.table.row_groups))
        if self.dynamic:
            parts.append("dynamic_rg_pruning=eligible")
        if self.checks:
            parts.append(f"must_see=[{', '.join(render(expr) for expr in self.checks)}]")
        if self.readers > 1:
            parts.append(f"read by each of {self.readers} tasks")
        return ", ".join(parts)

    @property
    def planned_metrics(self) -> Mapping[str, float]:
        return self.counted
