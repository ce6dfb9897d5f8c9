"""Estimated rows of a subtree of Spark's plan, by Spark's own statistics, before anything is read.

sundog takes foreign rows if handing them over costs less than it gains, and both grow with their number. The number is
exact for a cached DataFrame in memory and for an analyzed table. For other files Spark knows the bytes, and a row is
assumed to have the default width of its types. Rows of an RDD, of a database, or of a function that gives any number of
rows for each have no estimate.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sundog.front.catalyst_json import Node
from sundog.front.jvm.plan import CatalystPlan
from sundog.front.shapes.runtime_filters import conjunct_nodes
from sundog.plan.logical import RowsEstimate

_MAX_KNOWN_BYTES = 1 << 60  # Spark's default for a relation of unknown size is the largest long
_BROADCAST_BYTES = 10 << 20  # default of spark.sql.autoBroadcastJoinThreshold, assumed for a side with a hint
_ROW_OVERHEAD_BYTES = 8  # added by Spark to the width of the columns
_AS_MANY = frozenset(["Project", "SubqueryAlias", "BatchEvalPython", "ArrowEvalPython", "Repartition"])
_AS_MANY |= frozenset(["RepartitionByExpression", "RebalancePartitions", "Sort"])


def estimate_rows(plan: CatalystPlan, node: Node) -> RowsEstimate | None:
    """The estimated rows of a node of `plan`; None if nothing is known of them."""
    if not node.children:
        return rows_by_statistics(plan.jnode(node.path))
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


def rows_by_statistics(jnode: Any) -> RowsEstimate | None:
    """The rows of a node of the JVM's plan by Spark's statistics; for an inner node, too many rather than too few."""
    statistics = jnode.stats()
    if statistics.rowCount().isDefined():
        return RowsEstimate(float(str(statistics.rowCount().get())), counted=True)
    size = float(str(statistics.sizeInBytes()))
    if not 0 < size < _MAX_KNOWN_BYTES:
        return None
    return RowsEstimate(size / _row_bytes(jnode))


def _row_bytes(jnode: Any) -> float:
    output = jnode.output()
    widths = (output.apply(index).dataType().defaultSize() for index in range(output.size()))
    return float(_ROW_OVERHEAD_BYTES + sum(widths))


def rows_of_side(plan: CatalystPlan, node: Node) -> RowsEstimate | None:
    """The rows of one side of a join. If nothing is known of them, a BROADCAST hint of the user's counts as the size
    that Spark broadcasts without a hint."""
    found = estimate_rows(plan, node) or rows_by_statistics(plan.jnode(node.path))
    if found is not None:
        return found
    *above, side = node.path
    jhint = plan.jnode(tuple(above)).hint()
    jside = jhint.rightHint() if side else jhint.leftHint()
    strategy = jside.get().strategy() if jside.isDefined() else jside
    if not strategy.isDefined() or str(strategy.get()) != "broadcast":
        return None
    return RowsEstimate(_BROADCAST_BYTES / _row_bytes(plan.jnode(node.path)))


def words_of(plan: CatalystPlan, node: Node) -> str:
    """A subtree in Spark's words, top down: `Filter, BatchEvalPython, CSV`."""
    return ", ".join(_word(plan, each) for each in node.walk())


def _word(plan: CatalystPlan, node: Node) -> str:
    if node.name != "LogicalRelation":
        return node.name
    facts = plan.leaf(node)
    name = facts if isinstance(facts, str) else facts.format_class
    return name.rsplit(".", 1)[-1].rsplit("$", 1)[-1].removesuffix("FileFormat")
