"""`UNION ALL` of inputs that sundog can compute.

Catalyst has given the children the same types, by position. Its output has the columns of the first child, so the
others are renamed to them.
"""

from __future__ import annotations

from collections.abc import Sequence

from sundog.expr.calls import NamedExpr
from sundog.expr.nodes import Column
from sundog.front.catalyst_json import Node
from sundog.plan.logical import LogicalPlan, Project, Union
from sundog.support import Code, Declined


def match_union(node: Node, children: Sequence[tuple[LogicalPlan, list[str]]]) -> Union:
    """`children`: each with the output names of Catalyst's node, in its order."""
    first, names = children[0]
    if len(set(names)) != len(names) or not all(set(own) <= set(plan.schema.names) for plan, own in children):
        raise Declined.because(Code.UNSUPPORTED_TYPE, "a Union of columns that sundog cannot carry", node.name)
    types = [first.schema.field(name).type for name in names]
    if any([plan.schema.field(name).type for name in own] != types for plan, own in children):
        raise Declined.because(Code.UNSUPPORTED_TYPE, "a Union of columns of different types", node.name)
    return Union(tuple(_renamed(plan, own, names) for plan, own in children))


def _renamed(plan: LogicalPlan, own: list[str], names: list[str]) -> LogicalPlan:
    """The child's columns in the order of the union, under the names of its first child."""
    columns = [Column(name, plan.schema.field(name).type) for name in own]
    return Project(plan, tuple(NamedExpr(name, column) for name, column in zip(names, columns, strict=True)))
