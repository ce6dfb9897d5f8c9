"""A side of a join that only Spark can compute: a CSV file, a cached DataFrame, the result of a UDF.

    SELECT … FROM fact JOIN csv ON fact.k = csv.k

If the other side reads tables, such a side may be the build side: Spark computes it once and the driver collects its
rows (`CollectedRows`). It must be a side that the join operator can build, with few rows by Spark's statistics
(`plan/spark_rows.py` decides).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sundog.front.catalyst_json import Node, object_name
from sundog.front.partitioning import NONDETERMINISTIC
from sundog.plan.logical import Foreign, LogicalPlan, Scan
from sundog.support import Code, Declined, Reason
from sundog.tree import walk

_LEFT, _RIGHT = 0, 1
_BUILT = {"Inner": (_LEFT, _RIGHT), "Cross": (_LEFT, _RIGHT), "RightOuter": (_LEFT,), "FullOuter": ()}
_SEEN_BY_OTHERS = frozenset(["ScriptTransformation", "CallMethodViaReflection", "TryReflect"])
_OF_ANOTHER_PLAN = frozenset(["OuterReference", "LateralSubquery", "ListQuery", "Exists"])


def sides_of_join(
    node: Node, convert: Callable[[Node], LogicalPlan], collect: Callable[[Node], Foreign]
) -> tuple[list[LogicalPlan], tuple[Reason, ...]]:
    """The plans of both sides, and why one of them is collected foreign rows, if it is.

    `convert` makes a plan of a side, `collect` the leaf for one that it declines. Raises all reasons if neither side
    can be computed, or the one that cannot is not one that can be built.
    """
    plans: list[LogicalPlan | Declined] = []
    for child in node.children:
        try:
            plans.append(convert(child))
        except Declined as declined:
            plans.append(declined)
    why = _reasons(plans)
    found = [each for each in plans if not isinstance(each, Declined)]
    if not why:
        return found, ()
    side = next(at for at, each in enumerate(plans) if isinstance(each, Declined))
    buildable = _BUILT.get(object_name(node["joinType"]), (_RIGHT,))
    if len(found) != 1 or side not in buildable or not any(isinstance(each, Scan) for each in walk(found[0])):
        raise Declined(*why)
    try:
        found.insert(side, collect(node.children[side]))
    except Declined as declined:
        raise Declined(*dict.fromkeys((*why, *declined.reasons))) from None
    return found, why


def _reasons(plans: Sequence[LogicalPlan | Declined]) -> tuple[Reason, ...]:
    """The reasons of all, each once."""
    return tuple(dict.fromkeys(reason for each in plans if isinstance(each, Declined) for reason in each.reasons))


def changed_by_running_twice(root: Node) -> Reason | None:
    """Why a side is not collected; None if running it twice makes no visible difference.

    Spark computes it once, as it would itself. But if its rows are too many, the query goes back to Spark, which
    computes it again. That is visible for a function that declares itself nondeterministic, or that reaches out of
    Spark. It is not for `rand(7)` and the like: their seed is already drawn.
    """
    for node in root.walk():
        parts = [node.name, *(part.name for tree in node.trees() for part in tree.walk())]
        found = next((name for name in parts if name in _SEEN_BY_OTHERS), None)
        if found is not None:
            return Reason(Code.NONDETERMINISTIC, f"{found} may be seen to run outside of Spark", found)
        found = next((name for name in parts if name in _OF_ANOTHER_PLAN), None)
        if found is not None:
            return Reason(Code.UNKNOWN_NODE, f"{found} reads rows of another part of the plan", found)
        if any(_is_nondeterministic_udf(part) for tree in node.trees() for part in tree.walk()):
            return Reason(Code.NONDETERMINISTIC, "a function that is not deterministic may be called again", node.name)
    return None


def _is_nondeterministic_udf(part: Node) -> bool:
    return part.get("udfDeterministic", True) is False and part.name not in NONDETERMINISTIC
