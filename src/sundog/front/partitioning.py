"""Nodes of Spark's plan whose result depends on how rows are spread over partitions, and on their order there.

`rand(3)`, `monotonically_increasing_id()`, a seeded `sample` or a function over whole partitions give the same result
in every run only because Spark spreads the rows in the same way in every run. Three things follow.

*Above* a part that sundog takes, they see sundog's partitions. These equal Spark's if Spark has only one: for a top-k,
a limit, an aggregate without keys. Below anything else that depends on partitions, a part stays on Spark.

*Below* a shape that reads all rows, `repartition` only moves rows: it is ignored.

*Below* a window over foreign rows, Spark evaluates them itself, once, over its own partitions. These are the plan's own
as long as nothing below moves rows; after an exchange, adaptive execution chooses the partitions anew for each plan.
"""

from __future__ import annotations

from sundog.front.catalyst_json import Node
from sundog.functions.table import order_decides
from sundog.plan.logical import Aggregate, Filter, Limit, LogicalPlan, Project, TopK
from sundog.support import Code, Declined, Reason
from sundog.tree import walk

NONDETERMINISTIC = frozenset(
    [
        "Rand",
        "Randn",
        "RandStr",
        "Uniform",
        "Uuid",
        "Shuffle",
        "MonotonicallyIncreasingID",
        "SparkPartitionID",
        "InputFileName",
        "InputFileBlockStart",
        "InputFileBlockLength",
        "CurrentBatchTimestamp",
    ]
)
_OVER_PARTITIONS = frozenset(
    ["Sample", "MapPartitions", "MapPartitionsInR", "MapPartitionsInRWithArrow", "MapInPandas", "MapInArrow"]
)
_MOVES_NOTHING = frozenset(["Project", "Filter", "Sample", "SubqueryAlias", "BatchEvalPython", "ArrowEvalPython"])


def shows_partitions(node: Node) -> Reason | None:
    """Why this plan node's result depends on partitions, whatever is below it; None if it does not."""
    if node.name in _OVER_PARTITIONS or _joins_partitions(node):
        return Reason(Code.NONDETERMINISTIC, f"{node.name} shows the partitions of what is below it", node.name)
    for tree in node.trees():
        for part in tree.walk():
            if part.name in NONDETERMINISTIC or part.get("udfDeterministic", True) is False:
                sentence = f"{part.name} depends on the partitions of what is below it"
                return Reason(Code.NONDETERMINISTIC, sentence, part.name)
    return None


def _joins_partitions(node: Node) -> bool:
    """Whether it is a `coalesce(n)` other than `coalesce(1)`: sundog's partitions may hold other rows than Spark's."""
    return node.name == "Repartition" and node.get("shuffle") is False and node.get("numPartitions") != 1


def check_repartition(node: Node) -> None:
    """Decline a `repartition` by anything but columns: Spark would evaluate it for each row, and may raise."""
    for tree in node.get("partitionExpressions") or ():
        key = tree.child_at(0) if tree.name == "SortOrder" else tree
        if key.name != "AttributeReference":
            raise Declined.because(Code.UNKNOWN_EXPRESSION, f"{node.name} by a {key.name}", node.name)


def drawn_over_moved_rows(root: Node) -> Reason | None:
    """Why a subtree of Spark's plan may give other rows when it is run by itself; None if it gives the same.

    It may if one of its expressions depends on partitions and one of its nodes moves rows between partitions.
    """
    drawing = next((reason for node in root.walk() if (reason := shows_partitions(node)) is not None), None)
    return drawing if moves_rows(root) else None


def moves_rows(root: Node) -> bool:
    """Whether a Spark plan may have an exchange."""
    return any(node.children and node.name not in _MOVES_NOTHING for node in root.walk())


def changed_by_running_alone(root: Node) -> Reason | None:
    """Why a Spark plan below a shape cannot be run by itself; None if that makes no visible difference."""
    if any(node.name == "CollectMetrics" for node in root.walk()):
        return Reason(Code.UNKNOWN_NODE, "observe() reports with the query that it is part of", "CollectMetrics")
    return drawn_over_moved_rows(root)


def depends_on_order(shape: LogicalPlan) -> Reason | None:
    """Why an aggregate of foreign rows may differ from Spark's: its result depends on the order in which they
    arrive."""
    calls = [call for node in walk(shape) if isinstance(node, Aggregate) for call in node.aggregates]
    shown = next((call for call in calls if order_decides(call)), None)
    if shown is None:
        return None
    return Reason(Code.NONDETERMINISTIC, f"{shown.function} of rows of Spark's depends on their order", "Aggregate")


def has_one_partition(plan: LogicalPlan) -> bool:
    """Whether the plan's rows are in one partition, in order, with Spark and with sundog at every place."""
    while isinstance(plan, Project | Filter):
        plan = plan.child
    return isinstance(plan, TopK | Limit) or (isinstance(plan, Aggregate) and not plan.keys)
