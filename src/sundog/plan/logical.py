"""The logical plan: what a query means, not how or where it runs.

Trees of any arity: `Scan`, `Foreign` and `LocalRows` are the leaves, `Join` has two children, `Union` any number.
Columns carry internal names (`name#exprId`), unique in the whole query, so no node needs to qualify or rename.
The names that the user sees are put on once, at the top, by position.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields

import pyarrow as pa

from sundog.expr.calls import AggregateCall, JoinKey, JoinKind, NamedExpr, WindowCall
from sundog.expr.dynamic_filters.key_set import KeyFilter
from sundog.expr.nodes import BOOL, Expr, SubqueryValue
from sundog.expr.ordering import SortKey
from sundog.tables.table import Table
from sundog.tree import TreeNode, walk


class LogicalPlan(TreeNode):
    """Any node. `schema` is its output: internal names, Arrow types."""

    __slots__ = ()

    @property
    def schema(self) -> pa.Schema:
        raise NotImplementedError


LogicalPlan.family = LogicalPlan
EXPRESSION_HOLDERS = (NamedExpr, AggregateCall, WindowCall, SortKey, JoinKey)
"""Parts of a node that hold expressions in their fields."""


def expressions_of(node: LogicalPlan) -> Iterator[Expr]:
    """The expressions that a node evaluates, in the order of its fields."""
    waiting = [getattr(node, each.name) for each in fields(node)]  # type: ignore[arg-type]
    while waiting:
        value = waiting.pop(0)
        if isinstance(value, Expr):
            yield value
        elif isinstance(value, tuple):
            waiting[:0] = value
        elif isinstance(value, EXPRESSION_HOLDERS):
            waiting[:0] = [getattr(value, each.name) for each in fields(value)]


@dataclass(frozen=True)
class Scan(LogicalPlan):
    """Reads `columns` (internal names) of the table's rows where `predicate` is true.

    Rows that do not pass `filters` may be left out: a join above has no partner for them.
    """

    table: Table
    columns: tuple[str, ...]
    predicate: Expr | None = None
    filters: tuple[KeyFilter, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        types = {c.name: c.dtype for c in self.table.file_columns}
        types |= {c.name: c.dtype for c in self.table.partition_columns}
        return pa.schema([(name, types[name]) for name in self.columns])


@dataclass(frozen=True)
class RowsEstimate:
    """What Spark's statistics say of a subtree: it reads `rows` rows, and `conditions` filters keep some of them.

    `counted`: Spark has counted the rows; else it estimated them from bytes.
    """

    rows: float
    conditions: int = 0
    counted: bool = False


@dataclass(frozen=True)
class Foreign(LogicalPlan):
    """Any Spark subtree; `handle` finds its DataFrame again at run time. `fields` are (internal name, type).

    `estimate`: None if nothing is known of the number of rows. `moves_rows`: the subtree has an exchange, so that
    getting its first rows means computing most of it. `collected`: Spark runs it once and its rows come to the driver,
    as the build side of a join; else executors hand them over.
    """

    handle: int
    fields: tuple[tuple[str, pa.DataType], ...]
    label: str = "Spark"
    estimate: RowsEstimate | None = None
    moves_rows: bool = True
    collected: bool = False

    @property
    def schema(self) -> pa.Schema:
        return pa.schema(list(self.fields))


@dataclass(frozen=True)
class LocalRows(LogicalPlan):
    """Rows that are in the query's text, or that Catalyst computed while it optimised. At least one column."""

    batch: pa.RecordBatch

    @property
    def schema(self) -> pa.Schema:
        return self.batch.schema


@dataclass(frozen=True)
class Filter(LogicalPlan):
    child: LogicalPlan
    predicate: Expr

    @property
    def schema(self) -> pa.Schema:
        return self.child.schema


@dataclass(frozen=True)
class Project(LogicalPlan):
    child: LogicalPlan
    exprs: tuple[NamedExpr, ...]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(e.name, e.expr.dtype) for e in self.exprs])


@dataclass(frozen=True)
class Expand(LogicalPlan):
    """Each row once for each projection: Catalyst's form of GROUPING SETS and of DISTINCT over several lists."""

    child: LogicalPlan
    projections: tuple[tuple[Expr, ...], ...]
    names: tuple[str, ...]

    @property
    def schema(self) -> pa.Schema:
        types = [expr.dtype for expr in self.projections[0]]
        return pa.schema(list(zip(self.names, types, strict=True)))


@dataclass(frozen=True)
class Union(LogicalPlan):
    """UNION ALL: the rows of all children, whose columns have the same names and types, in the same order."""

    inputs: tuple[LogicalPlan, ...]

    @property
    def schema(self) -> pa.Schema:
        return self.inputs[0].schema


@dataclass(frozen=True)
class Join(LogicalPlan):
    """Pairs of rows whose keys are equal and for which `condition`, over columns of both sides, is true.

    No keys: all pairs. `exists` is the column that an existence join adds. `hidden` columns of the sides are compared
    and not put out.
    """

    left: LogicalPlan
    right: LogicalPlan
    kind: JoinKind
    keys: tuple[JoinKey, ...]
    condition: Expr | None = None
    exists: str | None = None
    hidden: frozenset[str] = frozenset()

    @property
    def schema(self) -> pa.Schema:
        sides = [*self.left.schema, *(self.right.schema if self.kind.shows_right else ())]
        fields = [field for field in sides if field.name not in self.hidden]
        if self.exists is not None:
            fields.append(pa.field(self.exists, BOOL))
        return pa.schema(fields)


@dataclass(frozen=True)
class TopK(LogicalPlan):
    """`ORDER BY order LIMIT limit OFFSET offset`: rows offset .. offset+limit of the sorted child.

    `checks` are expressions that Spark evaluates for every row of the child, so their errors must be raised.
    """

    child: LogicalPlan
    order: tuple[SortKey, ...]
    limit: int
    offset: int = 0
    checks: tuple[Expr, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        return self.child.schema


@dataclass(frozen=True)
class Sort(LogicalPlan):
    """`ORDER BY order` of a whole result that goes to the user."""

    child: LogicalPlan
    order: tuple[SortKey, ...]

    @property
    def schema(self) -> pa.Schema:
        return self.child.schema


@dataclass(frozen=True)
class Limit(LogicalPlan):
    """Any `limit` rows after skipping any `offset` rows."""

    child: LogicalPlan
    limit: int
    offset: int = 0

    @property
    def schema(self) -> pa.Schema:
        return self.child.schema


@dataclass(frozen=True)
class Aggregate(LogicalPlan):
    """GROUP BY keys. Without keys exactly one row, even for no input. DISTINCT: keys and no aggregates.

    `hidden` keys are grouped by and not put out.
    """

    child: LogicalPlan
    keys: tuple[NamedExpr, ...]
    aggregates: tuple[AggregateCall, ...]
    hidden: frozenset[str] = frozenset()

    @property
    def schema(self) -> pa.Schema:
        keys = [(k.name, k.expr.dtype) for k in self.keys if k.name not in self.hidden]
        return pa.schema([*keys, *((a.name, a.dtype) for a in self.aggregates)])


@dataclass(frozen=True)
class Window(LogicalPlan):
    """The child's columns and one more for each call; all calls share one PARTITION BY and ORDER BY."""

    child: LogicalPlan
    calls: tuple[WindowCall, ...]
    partition_by: tuple[Expr, ...]
    order_by: tuple[SortKey, ...]

    @property
    def schema(self) -> pa.Schema:
        fields = [(f.name, f.type) for f in self.child.schema]
        return pa.schema([*fields, *((c.name, c.dtype) for c in self.calls)])


@dataclass(frozen=True)
class Shared(LogicalPlan):
    """The rows of a subplan that occurs `readers` times in the plan; all with one `number` have the same child.

    `columns`: the names of the child's columns, each with its name here.
    """

    child: LogicalPlan
    number: int
    readers: int
    columns: tuple[tuple[str, str], ...]

    @property
    def schema(self) -> pa.Schema:
        below = self.child.schema
        return pa.schema([(name, below.field(source).type) for source, name in self.columns])


def subqueries_in(plan: LogicalPlan) -> list[int]:
    """The numbers of the subqueries that a plan reads, each once, in the order of their first use."""
    exprs = (expr for node in walk(plan) for expr in expressions_of(node))
    found = (part.subquery for expr in exprs for part in walk(expr) if isinstance(part, SubqueryValue))
    return list(dict.fromkeys(found))


def spark_has_one_partition(plan: LogicalPlan) -> bool:
    """Whether plain Spark would have all rows of this in one partition, in order."""
    while isinstance(plan, Project | Filter | Expand):
        plan = plan.child
    match plan:
        case Aggregate():
            return not plan.keys
        case Window():
            return not plan.partition_by
        case _:
            return isinstance(plan, TopK | Limit)


def title_of(plans: Iterable[LogicalPlan]) -> str:
    """The shapes and joins of some plans, from the top: `topk, aggregate, join`."""
    names = {Join: "join", Aggregate: "aggregate", Window: "window", TopK: "topk", Sort: "sort"}
    kinds = (type(node) for plan in plans for node in walk(plan))
    return ", ".join(dict.fromkeys(names[kind] for kind in kinds if kind in names)) or "scan"


def may_stop_early(plan: LogicalPlan) -> bool:
    """Whether a limit above a window may have enough before the window has given out all its rows."""
    limits = [node for node in walk(plan) if isinstance(node, Limit)]
    return any(isinstance(node, Window) for limit in limits for node in walk(limit))
