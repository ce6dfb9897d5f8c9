"""Runtime filters that Spark adds to one side of a join from the keys of the other: ignored here.

    Filter (isnotnull(sold_date) AND dynamicpruning [sold_date] AND might_contain(subquery, xxhash64(item)))

Dynamic partition pruning and runtime Bloom filters only drop rows that the join above drops anyway: Spark itself plans
them as `true` if they do not pay. Neither has a name in SQL, so only Spark's optimiser can have put them there; a Bloom
filter is recognised by the whole form that the optimiser gives it. They are ignored as parts of a conjunction only.
Anywhere else they are expressions that sundog does not compute.
"""

from __future__ import annotations

from sundog.front.catalyst_json import Node

_WITH_A_PLAN = ("plan", "buildQuery")  # fields in which Catalyst's expressions hold the plan of a subquery


def without_runtime_filters(condition: Node) -> Node | None:
    """The condition of a Filter without Spark's runtime filters; None if nothing is left."""
    kept = [part for part in conjunct_nodes(condition) if not _is_hint(part)]
    if not kept:
        return None
    result = kept[0]
    for part in kept[1:]:
        result = Node("And", {"left": 0, "right": 1}, (result, part))
    return result


def conjunct_nodes(condition: Node) -> list[Node]:
    """`a AND (b AND c)` as [a, b, c]."""
    found: list[Node] = []
    waiting = [condition]
    while waiting:
        part = waiting.pop()
        if part.name == "And":
            waiting.extend(reversed(part.children))
        else:
            found.append(part)
    return found


def reads_subquery(expression: Node) -> bool:
    """Whether its value needs another plan to have run."""
    return any(key in part.fields for part in expression.walk() for key in _WITH_A_PLAN)


def _is_hint(part: Node) -> bool:
    return part.name == "DynamicPruningSubquery" or _is_bloom_filter(part)


def _is_bloom_filter(part: Node) -> bool:
    """`might_contain((SELECT bloom_filter_agg(xxhash64(key)) …), xxhash64(key))`; the subquery may be a merged one."""
    if part.name != "BloomFilterMightContain" or len(part.children) != 2:
        return False
    made, value = part.children
    if made.name == "GetStructField":
        made = made.child
    plan = made.get("plan") if made.name == "ScalarSubquery" and not made.children else None
    return _is_hash(value) and isinstance(plan, Node) and _makes_bloom_filter(plan)


def _makes_bloom_filter(plan: Node) -> bool:
    while plan.name == "Project":
        plan = plan.child
    if plan.name != "Aggregate" or plan["groupingExpressions"]:
        return False
    parts = [part for tree in plan["aggregateExpressions"] for part in tree.walk()]
    return any(part.name == "BloomFilterAggregate" and _is_hash(part.child_at(0)) for part in parts)


def _is_hash(expression: Node) -> bool:
    return expression.name == "XxHash64" and len(expression.children) == 1
