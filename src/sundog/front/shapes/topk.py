"""`ORDER BY … LIMIT k [OFFSET n]` in Catalyst's optimised plan.

    GlobalLimit k              the rows that leave
    +- Offset n                only with OFFSET
       +- LocalLimit k+n       per partition
          +- Project …         evaluated for the winners only (Spark: TakeOrderedAndProject)
             +- Sort …, global

Projections between the limit and the sort are evaluated after the rows are chosen, those below the sort before. So an
error in a projection below the sort is raised for any row of the table, and must still be.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from sundog.front.catalyst_json import Node
from sundog.front.expressions.literals import literal_value
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
    """The limit that starts at `node`, or None if none does."""
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
