"""Which subtrees of a plan mean the same rows, whatever their columns are called.

A CTE that is used twice is two subtrees in Catalyst's plan, and each has column ids of its own. So a column is named
here by what it is (which column of which files, which expression over which rows), and a node by its operation and the
numbers of its children: equal numbers, equal rows. Columns that a node only hides do not count.

A limit without an order has no equal: which rows it gives is chance. Nor have rows of Spark's.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    """`number` is the same for equal rows. `names`: what each column is, hidden ones too."""

    number: int
    names: Names


class EqualPlans:
    """Numbers for the subtrees of one plan."""

    def __init__(self, root: LogicalPlan) -> None:
        self._numbers: dict[Any, int] = {}
        self._tables: dict[int, int] = {}
        self._meanings: dict[int, Meaning] = {}
        self._root = root  # so that no id of a node is given away twice
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
                told = node.batch.rename_columns([str(at) for at in range(len(node.schema))])
                number = self._number("rows", told.serialize().to_pybytes(), tuple(node.schema.types))
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
                number = self._number("Window", below[0].number, order, frozenset(calls.values()))
                over = {name: self._name("over", below[0].number, order, call) for name, call in calls.items()}
                return Meaning(number, {**below[0].names, **over})
            case Join():
                return self._join(node, below[0], below[1])
            case Union():
                inputs = zip(below, node.inputs, strict=True)
                told = tuple((known.number, *(known.names[n] for n in child.schema.names)) for known, child in inputs)
                number = self._number("Union", told)
                return Meaning(number, self._by_place(node, number))
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
        return Meaning(self._number("Scan", table, read, _renamed(node.predicate, Meaning(0, names))), names)

    def _table(self, table: Table) -> int:
        """Its files as they are now and how they are read; columns are told apart by themselves."""
        if id(table) not in self._tables:
            told = (type(table), table.files, table.options, table.filesystem, table.label, table.snapshot)
            self._tables[id(table)] = self._number("table", told)
        return self._tables[id(table)]

    def _aggregate(self, node: Aggregate, below: Meaning) -> Meaning:
        keys = {key.name: _renamed(key.expr, below) for key in node.keys}
        calls = {call.name: _renamed(replace(call, name=""), below) for call in node.aggregates}
        number = self._number("Aggregate", below.number, frozenset(keys.values()), frozenset(calls.values()))
        names = {name: self._name("of group", number, expr) for name, expr in (*keys.items(), *calls.items())}
        return Meaning(number, names)

    def _join(self, node: Join, left: Meaning, right: Meaning) -> Meaning:
        """The sides may read one table: their columns are told apart by the side."""
        of_left = {name: self._name("left", known) for name, known in left.names.items()}
        of_right = {name: self._name("right", known) for name, known in right.names.items()}
        both = Meaning(0, {**of_left, **of_right})
        told = (node.kind, _renamed(node.keys, both), _renamed(node.condition, both))
        number = self._number("Join", left.number, right.number, *told)
        exists = {} if node.exists is None else {node.exists: self._name("exists", number)}
        return Meaning(number, {**of_left, **(of_right if node.kind.shows_right else {}), **exists})

    def _expression(self, expr: Expr, below: Meaning) -> str:
        return below.names[expr.name] if isinstance(expr, Column) else self._name("value", _renamed(expr, below))

    def _by_place(self, node: LogicalPlan, number: int) -> Names:
        return {name: self._name("of", number, at) for at, name in enumerate(node.schema.names)}


def _renamed(value: Any, below: Meaning) -> Any:
    """A field of a node with its columns named by what they are."""
    if isinstance(value, Expr):
        return transform_up(value, lambda e: Column(below.names[e.name], e.dtype) if isinstance(e, Column) else e)
    if isinstance(value, tuple):
        return tuple(_renamed(item, below) for item in value)
    if isinstance(value, EXPRESSION_HOLDERS):
        return replace(value, **{each.name: _renamed(getattr(value, each.name), below) for each in fields(value)})
    return value
