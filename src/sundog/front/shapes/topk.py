"""`ORDER BY … LIMIT k [OFFSET n]`, as Catalyst leaves it.

    GlobalLimit k              the rows that leave
    +- Offset n                only with OFFSET
       +- LocalLimit k+n       per partition
          +- Project …         evaluated for the winners only (Spark: TakeOrderedAndProject)
             +- Sort …, global

What lies between the limit and the sort is evaluated after the rows are chosen, what lies below the sort before: an
error in a projection below the sort is raised for any row of the table, and must stay so.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from sundog.expr.ordering import SortKey
from sundog.front.catalyst_json import Node, object_name
from sundog.front.expressions.literals import literal_value
from sundog.front.expressions.reading import Scope
from sundog.front.expressions.translate import translate
from sundog.support import Code, Declined


@dataclass(frozen=True)
class LimitShape:
    """A recognised limit. `projects` are top first; `sort` is None for a LIMIT without ORDER BY."""

    limit: int
    offset: int
    projects: tuple[Node, ...]
    sort: Node | None
    child: Node


def match_limit(node: Node) -> LimitShape | None:
    """The shape that starts at `node`, or None where `node` starts no limit."""
    if node.name != "GlobalLimit":
        return None
    limit = _constant(node["limitExpr"])
    offset = 0
    inner = node.child
    if inner.name == "Offset":
        offset = _constant(inner["offsetExpr"])
        inner = inner.child
    if inner.name != "LocalLimit":
        raise Declined.because(Code.PLAN_VERSION, f"expected LocalLimit below GlobalLimit, found {inner.name}", "Limit")
    if _constant(inner["limitExpr"]) != limit + offset:
        raise Declined.because(Code.PLAN_VERSION, "LocalLimit and GlobalLimit do not belong together", "Limit")
    inner = inner.child
    below_limit = inner
    projects: list[Node] = []
    while inner.name == "Project":
        projects.append(inner)
        inner = inner.child
    if inner.name == "Sort" and inner["global"] is True:
        return LimitShape(limit, offset, tuple(projects), inner, inner.child)
    return LimitShape(limit, offset, (), None, below_limit)


def _constant(expression: Node) -> int:
    if expression.name != "Literal" or expression["dataType"] != "integer":
        raise Declined.because(Code.UNKNOWN_EXPRESSION, "LIMIT and OFFSET must be constants", "Limit")
    value: int | None = literal_value(expression, pa.int32())
    if value is None:
        raise Declined.because(Code.PLAN_VERSION, "LIMIT or OFFSET is NULL", "Limit")
    return value


def sort_key(tree: Node, scope: Scope) -> SortKey:
    """A key of Catalyst's Sort; declines an order that is not known."""
    if tree.name != "SortOrder":
        raise Declined.because(Code.PLAN_VERSION, f"a sort key is a {tree.name}", "Sort")
    direction, nulls = object_name(tree["direction"]), object_name(tree["nullOrdering"])
    if direction not in ("Ascending", "Descending") or nulls not in ("NullsFirst", "NullsLast"):
        raise Declined.because(Code.PLAN_VERSION, f"unknown order {direction} {nulls}", "Sort")
    return SortKey(translate(tree.child_at(0), scope), direction == "Descending", nulls == "NullsFirst")
