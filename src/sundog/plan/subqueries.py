"""Values of scalar subqueries in a plan: where they are read, and the plan with constants in their places."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

from sundog.expr.nodes import Expr, Literal, SubqueryValue
from sundog.plan.logical import EXPRESSION_HOLDERS, Aggregate, Limit, LogicalPlan, Project, subqueries_in
from sundog.tree import transform_up

Values = Mapping[int, tuple[Any, ...] | None]
"""Number of a subquery -> the values of its only row, as `Literal` takes them; None if it has no row."""


def two_rows_at_most(plan: LogicalPlan) -> LogicalPlan:
    """A subquery's plan that stops at the second row: more than one row is an error, however many there are."""
    below = plan
    while isinstance(below, Project):
        below = below.child
    return plan if isinstance(below, Aggregate) and not below.keys else Limit(plan, 2)


def plans_read(plan: LogicalPlan, subqueries: Mapping[int, LogicalPlan]) -> list[LogicalPlan]:
    """The plan and those of the subqueries that it reads, also of subqueries in subqueries."""
    return [plan, *(subqueries[number] for number in subqueries_read(plan, subqueries))]


def subqueries_read(plan: LogicalPlan, subqueries: Mapping[int, LogicalPlan]) -> list[int]:
    """The numbers of the subqueries that a plan reads, also of subqueries in subqueries."""
    numbers = subqueries_in(plan)
    for number in numbers:  # the list grows in the loop
        numbers += (inner for inner in subqueries_in(subqueries[number]) if inner not in numbers)
    return numbers


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
    if not isinstance(value, EXPRESSION_HOLDERS):
        return value
    changed = {each.name: _mapped(getattr(value, each.name), constant) for each in fields(value)}
    return replace(value, **changed) if any(new is not getattr(value, name) for name, new in changed.items()) else value
