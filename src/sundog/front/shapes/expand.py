"""Catalyst's `Expand` -> sundog's. It is below an aggregate with ROLLUP, CUBE or GROUPING SETS, or with DISTINCT over
several lists of arguments."""

from __future__ import annotations

from itertools import chain, islice

from sundog.front.catalyst_json import Node
from sundog.front.expressions.reading import Scope
from sundog.front.expressions.translate import translate_all
from sundog.front.relation.columns import internal_name
from sundog.plan.logical import Expand, LogicalPlan
from sundog.support import Code, Declined


def match_expand(node: Node, child: LogicalPlan, scope: Scope) -> LogicalPlan:
    """The expansion of `child`; declines with all reasons."""
    names = tuple(internal_name(attribute) for attribute in node["output"])
    translated = iter(translate_all(chain.from_iterable(node["projections"]), scope))
    projections = [tuple(islice(translated, len(trees))) for trees in node["projections"]]
    types = {tuple(str(expr.dtype) for expr in exprs) for exprs in projections}
    if len(types) != 1 or any(len(exprs) != len(names) for exprs in projections):
        raise Declined.because(Code.PLAN_VERSION, "the projections of an expansion do not match", node.name)
    first = [names.index(name) for name in dict.fromkeys(names)]
    kept = tuple(tuple(exprs[place] for place in first) for exprs in projections)
    return Expand(child, kept, tuple(dict.fromkeys(names)))
