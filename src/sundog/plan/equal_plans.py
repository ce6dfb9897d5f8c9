"""Which subtrees of a plan give the same rows, whatever their columns are called.

A CTE that is used twice is two subtrees in Catalyst's plan, and each has column ids of its own. So a column is
identified here by its meaning: which column of which files, or which expression over which rows. A node is identified
by its operation and the numbers of its children. Equal numbers mean equal rows.

What may differ:

- columns that a node does not put out. But a window puts out all columns below it, so windows over different columns
  are not equal: one that was read for one place may lack columns that another place needs.
- `IS NOT NULL` tests of columns that have no NULL. Catalyst adds such a test for the key of a join, and so in one place
  only.

A limit without an order equals nothing, since any rows may be its result. Foreign rows equal nothing either.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from sundog.expr.nodes import Column, Expr
from sundog.parquet.reading import FileColumn, PartitionColumn
from sundog.plan.logical import (
    EXPRESSION_HOLDERS,
    Aggregate,
    Expand,
    Filter,
    Join,
    LocalRows,
    LogicalPlan,
    Project,
    Scan,
    Shared,
    Sort,
    TopK,
    Union,
    Window,
)
from sundog.tables.table import Table
from sundog.tree import children_first, transform_up

Names = Mapping[str, str]


@dataclass(frozen=True)
class Meaning:
    """`number` is the same for equal rows. `names`: the meaning of each column, also of those that are not put out."""

    number: int
    names: Names


def own_predicate(scan: Scan) -> Expr | None:
    """The whole WHERE of a scan: all of it is needed if nothing is known of the rows."""
    return scan.predicate


class EqualPlans:
    """Numbers for the subtrees of one plan."""

    def __init__(self, root: LogicalPlan, predicate_of: Callable[[Scan], Expr | None] = own_predicate) -> None:
        """`predicate_of`: the WHERE of a scan without what holds for all of its rows."""
        self._numbers: dict[Any, int] = {}
        self._tables: dict[int, int] = {}
        self._meanings: dict[int, Meaning] = {}
        self._predicate_of = predicate_of
        self._root = root  # keeps the nodes alive, so that no `id` is used again
        for node in children_first(root):
            self._meanings[id(node)] = self._meaning(node)

    def of(self, node: LogicalPlan) -> Meaning:
        """The meaning of a node of the plan."""
        return self._meanings[id(node)]

    def _number(self, *key: Any) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def _name(self, *key: Any) -> str:
        return str(self._number(*key))

    def _meaning(self, node: LogicalPlan) -> Meaning:
        below = [self.of(child) for child in node.children]
        match node:
            case Scan() if not node.filters:
                return self._scan(node)
            case LocalRows():
                unnamed = node.batch.rename_columns([str(at) for at in range(len(node.schema))])
                number = self._number("rows", unnamed.serialize().to_pybytes(), tuple(node.schema.types))
                return Meaning(number, self._by_place(node, number))
            case Filter():
                number = self._number("Filter", below[0].number, _renamed(node.predicate, below[0]))
                return Meaning(number, below[0].names)
            case Project():
                names = {named.name: self._expression(named.expr, below[0]) for named in node.exprs}
                return Meaning(self._number("Project", below[0].number, frozenset(names.values())), names)
            case Aggregate():
                return self._aggregate(node, below[0])
            case Window():
                order = _renamed((node.partition_by, node.order_by), below[0])
                calls = {call.name: _renamed(replace(call, name=""), below[0]) for call in node.calls}
                shown = frozenset(below[0].names[name] for name in node.child.schema.names)
                number = self._number("Window", below[0].number, shown, order, frozenset(calls.values()))
                over = {name: self._name("over", below[0].number, order, call) for name, call in calls.items()}
                return Meaning(number, {**below[0].names, **over})
            case Join():
                return self._join(node, below[0], below[1])
            case Union():
                inputs = zip(below, node.inputs, strict=True)
                by_place = tuple(
                    (known.number, *(known.names[n] for n in child.schema.names)) for known, child in inputs
                )
                number = self._number("Union", by_place)
                return Meaning(number, self._by_place(node, number))
            case Shared():
                number = self._number("Shared", node.number)
                return Meaning(number, {name: self._name("of", number, source) for source, name in node.columns})
            case Expand():
                number = self._number("Expand", below[0].number, _renamed(node.projections, below[0]))
                return Meaning(number, self._by_place(node, number))
            case TopK() | Sort():
                parts = [_renamed(getattr(node, each.name), below[0]) for each in fields(node) if each.name != "child"]
                return Meaning(self._number(type(node).__name__, below[0].number, *parts), below[0].names)
            case _:
                number = self._number("itself", id(node))
                return Meaning(number, self._by_place(node, number))

    def _scan(self, node: Scan) -> Meaning:
        table = self._table(node.table)
        columns: list[FileColumn | PartitionColumn] = [*node.table.file_columns, *node.table.partition_columns]
        names = {each.name: self._name("column", table, replace(each, name="")) for each in columns}
        read = frozenset(names[name] for name in node.columns)
        predicate = _renamed(self._predicate_of(node), Meaning(0, names))
        return Meaning(self._number("Scan", table, read, predicate), names)

    def _table(self, table: Table) -> int:
        """The table's files as they are now, and how they are read; columns have meanings of their own."""
        if id(table) not in self._tables:
            identity = (type(table), table.files, table.options, table.filesystem, table.label, table.snapshot)
            self._tables[id(table)] = self._number("table", identity)
        return self._tables[id(table)]

    def _aggregate(self, node: Aggregate, below: Meaning) -> Meaning:
        keys = {key.name: _renamed(key.expr, below) for key in node.keys}
        calls = {call.name: _renamed(replace(call, name=""), below) for call in node.aggregates}
        number = self._number("Aggregate", below.number, frozenset(keys.values()), frozenset(calls.values()))
        names = {name: self._name("of group", number, expr) for name, expr in (*keys.items(), *calls.items())}
        return Meaning(number, names)

    def _join(self, node: Join, left: Meaning, right: Meaning) -> Meaning:
        """A join. Both sides may read one table, so a column's meaning includes the side that it comes from."""
        of_left = {name: self._name("left", known) for name, known in left.names.items()}
        of_right = {name: self._name("right", known) for name, known in right.names.items()}
        both = Meaning(0, {**of_left, **of_right})
        condition = (node.kind, _renamed(node.keys, both), _renamed(node.condition, both))
        number = self._number("Join", left.number, right.number, *condition)
        exists = {} if node.exists is None else {node.exists: self._name("exists", number)}
        return Meaning(number, {**of_left, **(of_right if node.kind.shows_right else {}), **exists})

    def _expression(self, expr: Expr, below: Meaning) -> str:
        return below.names[expr.name] if isinstance(expr, Column) else self._name("value", _renamed(expr, below))

    def _by_place(self, node: LogicalPlan, number: int) -> Names:
        return {name: self._name("of", number, at) for at, name in enumerate(node.schema.names)}


def _renamed(value: Any, below: Meaning) -> Any:
    """A field of a node in which columns are replaced by their meanings."""
    if isinstance(value, Expr):
        return transform_up(value, lambda e: Column(below.names[e.name], e.dtype) if isinstance(e, Column) else e)
    if isinstance(value, tuple):
        return tuple(_renamed(item, below) for item in value)
    if isinstance(value, EXPRESSION_HOLDERS):
        return replace(value, **{each.name: _renamed(getattr(value, each.name), below) for each in fields(value)})
    return value
