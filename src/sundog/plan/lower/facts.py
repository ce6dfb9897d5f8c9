"""Facts about a plan's input before anything is read: which row groups are left, and their bytes and rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sundog.expr.nodes import Expr, columns_of
from sundog.operators.topk.row_group_search import Switches
from sundog.operators.topk.topk_plan import TopKPlan, plan_topk
from sundog.parquet.meta.table_footers import ReadTables, TableFooters, read_as_columns
from sundog.parquet.prune.access_plan import ParquetAccessPlan, plan_access
from sundog.parquet.prune.footer_tables import TABLES
from sundog.parquet.reading import DataFile, ReadSpec
from sundog.plan.costs import Costs
from sundog.plan.logical import Foreign, Join, LocalRows, LogicalPlan, Project, Scan, Sort, TopK, Window
from sundog.plan.spark_rows import row_bytes
from sundog.tree import walk


@dataclass(frozen=True)
class Size:
    """Uncompressed bytes of the columns to decode, and rows, after all pruning by statistics."""

    column_bytes: int
    rows: int


class QueryFooters:
    """The footers of a query's files: read once, however many scans of the query use them."""

    def __init__(self) -> None:
        self._known: list[TableFooters] = []

    def __call__(
        self,
        files: Sequence[DataFile],
        reading: ReadSpec,
        bounded: frozenset[str],
        read: ReadTables = read_as_columns,
    ) -> TableFooters:
        known = self._find(files, reading, bounded)
        if known is not None:
            return known
        found = TABLES.get(files, reading, bounded, read)
        self.know(found)
        return found

    def _find(self, files: Sequence[DataFile], reading: ReadSpec, bounded: frozenset[str]) -> TableFooters | None:
        for known in self._known:
            same = len(files) == len(known.paths) and all(
                file.path == path for file, path in zip(files, known.paths, strict=True)
            )
            if same and not known.lacks(reading, bounded):
                return known
        return None

    def unknown(self, files: Sequence[DataFile], reading: ReadSpec, bounded: frozenset[str]) -> list[DataFile]:
        """The files whose footers are not known yet."""
        is_known = self._find(files, reading, bounded) is not None
        return [] if is_known else TABLES.unknown(files, reading, bounded)

    def know(self, footers: TableFooters) -> None:
        """Use these as the footers of their files."""
        self._known.append(footers)


class Facts:
    """The access plans of a plan's scans, each made once: footers are read and row groups pruned.

    Nodes are compared by identity: comparing two scans would compare their files. `compared`: names of columns that
    rows are ordered or joined by, whose bounds will be needed.
    """

    def __init__(self, dynamic_pruning: bool, driver_costs: Costs, compared: frozenset[str] = frozenset()) -> None:
        self.footers = QueryFooters()
        self.compared = compared
        self._dynamic_pruning = dynamic_pruning
        self._driver_costs = driver_costs
        self._accesses: dict[int, tuple[Scan, ParquetAccessPlan]] = {}
        self._searches: dict[int, tuple[TopK, TopKPlan]] = {}
        self._sizes: dict[int, tuple[LogicalPlan, Size | None]] = {}

    def access(self, scan: Scan) -> ParquetAccessPlan:
        if id(scan) not in self._accesses:
            self._accesses[id(scan)] = (
                scan,
                plan_access(scan.table, scan.columns, scan.predicate, scan.filters, self.compared, self.footers),
            )
        return self._accesses[id(scan)][1]

    def tested_predicate(self, scan: Scan) -> Expr | None:
        """The WHERE of a scan without what, by statistics, all rows of the table fulfil anyway."""
        return self.access(scan).least_predicate

    def search(self, topk: TopK, scan: Scan) -> TopKPlan:
        """The queue of row groups of a top-k right above its scan."""
        if id(topk) not in self._searches:
            switches = Switches() if self._dynamic_pruning else Switches.static_only()
            k = topk.limit + topk.offset
            self._searches[id(topk)] = topk, plan_topk(self.access(scan), topk.order, k, topk.checks, switches)
        return self._searches[id(topk)][1]

    def size(self, plan: LogicalPlan) -> Size | None:
        """The size of what the scans below a node read; None if executors hand over foreign rows, of unknown number."""
        if id(plan) not in self._sizes:
            self._sizes[id(plan)] = plan, self._size(plan)
        return self._sizes[id(plan)][1]

    def _size(self, plan: LogicalPlan) -> Size | None:
        if isinstance(plan, Foreign):
            return _collected_size(plan, self._driver_costs)
        if isinstance(plan, LocalRows):
            return Size(plan.batch.nbytes, plan.batch.num_rows)
        if isinstance(plan, Scan):
            access = self.access(plan)
            return Size(access.column_bytes(), access.rows())
        if isinstance(plan, TopK) and isinstance(plan.child, Scan):
            return Size(self.search(plan, plan.child).column_bytes(), self.access(plan.child).rows())
        below = [self.size(child) for child in plan.children]
        known = [size for size in below if size is not None]
        if len(known) < len(below):
            return None
        return Size(sum(size.column_bytes for size in known), sum(size.rows for size in known))


def _collected_size(plan: Foreign, costs: Costs) -> Size | None:
    """The size of collected foreign rows, by Spark's statistics."""
    if not plan.collected or plan.estimate is None:
        return None
    rows = int(plan.estimate.rows)
    return Size(int(rows * row_bytes(plan.schema, costs)), rows)


def compared_columns(tree: LogicalPlan) -> frozenset[str]:
    """Columns that rows are ordered or joined by, also where a projection computes them. Better too many: bounds that
    were not read with the others must be read later."""
    names: set[str] = set()
    for node in walk(tree):  # parents first
        if isinstance(node, TopK):
            names = names.union(*(columns_of(key.expr) for key in node.order), *map(columns_of, node.checks))
        elif isinstance(node, Sort):
            names = names.union(*(columns_of(key.expr) for key in node.order))
        elif isinstance(node, Window):
            names = names.union(*(columns_of(key.expr) for key in node.order_by))
        elif isinstance(node, Join):
            names = names.union(*(columns_of(side) for key in node.keys for side in (key.left, key.right)))
        elif isinstance(node, Project):
            names = names.union(*(columns_of(each.expr) for each in node.exprs if each.name in names))
    return frozenset(names)
