"""Values of scalar subqueries in a plan: where they stand, and the plan with constants in their places."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

from sundog.expr.calls import AggregateCall, JoinKey, NamedExpr, WindowCall
from sundog.expr.nodes import Expr, Literal, SubqueryValue
from sundog.expr.ordering import SortKey
from sundog.plan.logical import Aggregate, Limit, LogicalPlan, Project
from sundog.tree import transform_up, walk

Values = Mapping[int, tuple[Any, ...] | None]
"""Number of a subquery -> the values of its only row, as `Literal` takes them; None if it has no row."""

_HOLDERS = (NamedExpr, AggregateCall, WindowCall, SortKey, JoinKey)  # what in a node holds expressions in its fields


def two_rows_at_most(plan: LogicalPlan) -> LogicalPlan:
    """A subquery's plan that stops where its error is certain: two rows are as wrong as a million."""
    below = plan
    while isinstance(below, Project):
        below = below.child
    return plan if isinstance(below, Aggregate) and not below.keys else Limit(plan, 2)


def subqueries_in(plan: LogicalPlan) -> list[int]:
    """The numbers of the subqueries that a plan reads, each once, in the order in which they stand there."""
    found = (node.subquery for each in _expressions(plan) for node in walk(each) if isinstance(node, SubqueryValue))
    return list(dict.fromkeys(found))


def plans_read(plan: LogicalPlan, subqueries: Mapping[int, LogicalPlan]) -> list[LogicalPlan]:
    """The plan and those of the subqueries that it reads, also of subqueries in subqueries."""
    found, numbers = [plan], subqueries_in(plan)
    for number in numbers:  # grows meanwhile
        found.append(subqueries[number])
        numbers += (inner for inner in subqueries_in(subqueries[number]) if inner not in numbers)
    return found


def with_values(plan: LogicalPlan, values: Values) -> LogicalPlan:
    """The plan with a constant for each value of a subquery that is known."""

    def constant(node: Expr) -> Expr:
        if not isinstance(node, SubqueryValue) or node.subquery not in values:
            return node
        row = values[node.subquery]
        return Literal(None if row is None else row[node.column], node.dtype)

    def of_node(node: LogicalPlan) -> LogicalPlan:
        changed = {}
        for each in fields(node):  # type: ignore[arg-type]
            old = getattr(node, each.name)
            new = _mapped(old, constant)
            if new is not old:
                changed[each.name] = new
        return replace(node, **changed) if changed else node  # type: ignore[type-var]

    return transform_up(plan, of_node)


def _mapped(value: Any, constant: Callable[[Expr], Expr]) -> Any:
    """A field of a node with its expressions rewritten; the same object if none of them changes."""
    if isinstance(value, Expr):
        return transform_up(value, constant)
    if isinstance(value, tuple):
        items = tuple(_mapped(item, constant) for item in value)
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    if not isinstance(value, _HOLDERS):
        return value
    changed = {each.name: _mapped(getattr(value, each.name), constant) for each in fields(value)}
    return replace(value, **changed) if any(new is not getattr(value, name) for name, new in changed.items()) else value


def _expressions(plan: LogicalPlan) -> Iterator[Expr]:
    for node in walk(plan):
        waiting = [getattr(node, each.name) for each in fields(node)]  # type: ignore[arg-type]
        while waiting:
            value = waiting.pop(0)
            if isinstance(value, Expr):
                yield value
            elif isinstance(value, tuple):
                waiting[:0] = value
            elif isinstance(value, _HOLDERS):
                waiting[:0] = [getattr(value, each.name) for each in fields(value)]
