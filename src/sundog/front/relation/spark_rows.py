"""How many rows a subtree of Spark's plan may give, by Spark's own statistics: before anything is read.

sundog takes rows that only Spark can read where handing them over costs less than what is won, and both grow with their
number. A cached DataFrame that is in memory knows it exactly, a table that was analyzed too. Of other files Spark knows
the bytes, and takes a row to have the default width of its types. What neither is known of has no estimate: rows of an
RDD, of a database, of a function that gives any number of rows for each.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sundog.front.catalyst_json import Node
from sundog.front.jvm.plan import CatalystPlan
from sundog.front.shapes.runtime_filters import conjunct_nodes
from sundog.plan.logical import RowsEstimate

_MAX_KNOWN_BYTES = 1 << 60  # Spark's default for a relation of unknown size is the largest long
_ROW_OVERHEAD_BYTES = 8  # what Spark adds to the width of the columns
_AS_MANY = frozenset(["Project", "SubqueryAlias", "BatchEvalPython", "ArrowEvalPython", "Repartition"])
_AS_MANY |= frozenset(["RepartitionByExpression", "RebalancePartitions", "Sort"])


def estimate_rows(plan: CatalystPlan, node: Node) -> RowsEstimate | None:
    """The rows of a node of `plan`; None where nothing is known of them."""
    if not node.children:
        return _leaf_rows(plan.jnode(node.path))
    if node.name == "Union":
        parts = [estimate_rows(plan, child) for child in node.children]
        known = [part for part in parts if part is not None]
        return _sum(known) if len(known) == len(parts) else None
    if node.name not in _AS_MANY and node.name != "Filter":
        return None
    below = estimate_rows(plan, node.child)
    if below is None or node.name in _AS_MANY:
        return below
    selective = any(conjunct.name != "IsNotNull" for conjunct in conjunct_nodes(node["condition"]))
    return replace(below, conditions=below.conditions + selective)


def _sum(parts: list[RowsEstimate]) -> RowsEstimate:
    conditions, counted = min(part.conditions for part in parts), all(part.counted for part in parts)
    return RowsEstimate(sum(part.rows for part in parts), conditions, counted)


def _leaf_rows(jleaf: Any) -> RowsEstimate | None:
    statistics = jleaf.stats()
    if statistics.rowCount().isDefined():
        return RowsEstimate(float(str(statistics.rowCount().get())), counted=True)
    size = float(str(statistics.sizeInBytes()))
    if not 0 < size < _MAX_KNOWN_BYTES:
        return None
    output = jleaf.output()
    widths = (output.apply(index).dataType().defaultSize() for index in range(output.size()))
    return RowsEstimate(size / (_ROW_OVERHEAD_BYTES + sum(widths)))
