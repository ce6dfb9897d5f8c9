"""What is known of a plan's input before anything is read: which row groups are left, how many bytes and rows they
hold."""

from __future__ import annotations

from dataclasses import dataclass

from sundog.operators.topk.row_group_search import Switches
from sundog.operators.topk.topk_plan import TopKPlan, plan_topk
from sundog.parquet.prune.access_plan import ParquetAccessPlan, plan_access
from sundog.plan.logical import Foreign, LogicalPlan, Scan, TopK
from sundog.tree import walk


@dataclass(frozen=True)
class Size:
    """Uncompressed bytes of the columns to decode, and rows, after everything that statistics can say."""

    column_bytes: int
    rows: int


class Facts:
    """The access plans of a plan's scans, each made once: footers are read and row groups pruned."""

    def __init__(self, dynamic_pruning: bool) -> None:
        self._dynamic_pruning = dynamic_pruning
        self._accesses: dict[Scan, ParquetAccessPlan] = {}
        self._searches: dict[TopK, TopKPlan] = {}

    def access(self, scan: Scan) -> ParquetAccessPlan:
        if scan not in self._accesses:
            self._accesses[scan] = plan_access(scan.table, scan.columns, scan.predicate)
        return self._accesses[scan]

    def search(self, topk: TopK, scan: Scan) -> TopKPlan:
        """The queue of row groups of a top-k right above its scan."""
        if topk not in self._searches:
            switches = Switches() if self._dynamic_pruning else Switches.static_only()
            k = topk.limit + topk.offset
            self._searches[topk] = plan_topk(self.access(scan), topk.order, k, topk.checks, switches)
        return self._searches[topk]

    def size(self, plan: LogicalPlan) -> Size | None:
        """What the scans below a node read; None where rows come from Spark, of which nobody knows how many."""
        column_bytes = rows = 0
        for node in walk(plan):
            if isinstance(node, Foreign):
                return None
            if isinstance(node, Scan):
                column_bytes += self.access(node).column_bytes()
                rows += self.access(node).rows()
            if isinstance(node, TopK) and isinstance(node.child, Scan):
                column_bytes += self.search(node, node.child).column_bytes()
                column_bytes -= self.access(node.child).column_bytes()
        return Size(column_bytes, rows)
