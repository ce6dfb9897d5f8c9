"""Catalyst's `Join` -> sundog's. A join is not a shape by itself: it is taken below or above one.

    Join LeftOuter, ((a.k = b.k) AND (b.v <=> a.v) AND (a.x > b.y))

        Join: left outer, keys=[a.k = b.k, a.v <=> b.v], condition=(a.x > b.y)

A conjunct of the condition is a key if it is an equality of one expression over the left side and one over the right,
as in Spark's `ExtractEquiJoinKeys`. An equality with a constant is not a key. The other conjuncts are tested only for
pairs whose keys are equal: an expression that may raise is evaluated for the same pairs as in Spark.

A RIGHT join becomes a LEFT join with its sides exchanged: columns are found by name, so their order does not matter.
`x NOT IN (SELECT y …)` is an anti join with the condition `x = y OR (x = y) IS NULL`. As in Spark, one with a single
column is a kind of its own, since a hash table can answer it.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from sundog.expr.calls import JoinKey, JoinKind
from sundog.expr.nodes import (
    Compare,
    CompareOp,
    Expr,
    IsNull,
    Or,
    columns_of,
    conjunction,
    conjuncts,
    without_normalize,
)
from sundog.front.catalyst_json import Node, object_name
from sundog.front.expressions.reading import Scope
from sundog.front.expressions.translate import translate
from sundog.plan.logical import Join, LogicalPlan
from sundog.support import Code, Declined

_KINDS = {
    "Inner": JoinKind.INNER,
    "Cross": JoinKind.INNER,
    "LeftOuter": JoinKind.LEFT,
    "RightOuter": JoinKind.LEFT,
    "FullOuter": JoinKind.FULL,
    "LeftSemi": JoinKind.SEMI,
    "LeftAnti": JoinKind.ANTI,
    "ExistenceJoin": JoinKind.EXISTENCE,
}
_FIELDS = frozenset({"left", "right", "joinType", "hint"})  # and `condition`, which may be missing
_EQUALITIES = (CompareOp.EQ, CompareOp.NULL_SAFE_EQ)


def match_join(node: Node, left: LogicalPlan, right: LogicalPlan, scope: Scope) -> Join:
    """The join of two converted children; `scope` has the columns of both."""
    if set(node.fields) - {"condition"} != _FIELDS or len(node.children) != 2:
        raise Declined.because(Code.PLAN_VERSION, f"a Join with the fields {', '.join(sorted(node.fields))}", node.name)
    kind = _kind(node)
    common = sorted(set(left.schema.names) & set(right.schema.names))
    if common:
        raise Declined.because(Code.PLAN_VERSION, f"both sides of a join have the column {common[0]}", node.name)
    if object_name(node["joinType"]) == "RightOuter":
        left, right = right, left
    tests = conjuncts(translate(node["condition"], scope) if "condition" in node.fields else None)
    if kind is JoinKind.ANTI and len(tests) == 1:
        key = _null_aware_key(tests[0], left, right)
        if key is not None:
            return Join(left, right, JoinKind.NULL_AWARE_ANTI, (key,))
    keys, others = _split(tests, left, right)
    return Join(left, right, kind, keys, conjunction(others), exists=exists_name(node))


def _kind(node: Node) -> JoinKind:
    name = object_name(node["joinType"])
    if name not in _KINDS:
        raise Declined.because(Code.UNKNOWN_NODE, f"a {name} join stays on Spark", node.name)
    return _KINDS[name]


def exists_name(node: Node) -> str | None:
    """The internal name of the column that an existence join adds; None for other joins."""
    kind = node["joinType"]
    if object_name(kind) != "ExistenceJoin":
        return None
    match kind.get("exists"):
        case [{"name": str(name), "exprId": {"id": int(number)}}]:
            return f"{name}#{number}"
        case other:
            raise Declined.because(Code.PLAN_VERSION, f"an existence join adds {str(other)[:40]}", node.name)


def shows_right(node: Node) -> bool:
    """Whether a join puts out the columns of its right side."""
    return _kind(node).shows_right


def _split(tests: Sequence[Expr], left: LogicalPlan, right: LogicalPlan) -> tuple[tuple[JoinKey, ...], list[Expr]]:
    """The keys among the conjuncts, each once, and the other conjuncts."""
    keys: dict[JoinKey, None] = {}
    others = []
    for test in tests:
        key = _key(test, left, right)
        if key is None:
            others.append(test)
        else:
            keys[key] = None
    return tuple(keys), others


def _key(test: Expr, left: LogicalPlan, right: LogicalPlan) -> JoinKey | None:
    """The key of an equality of the two sides; None if the test is something else."""
    if not isinstance(test, Compare) or test.op not in _EQUALITIES:
        return None
    for one, two in ((test.left, test.right), (test.right, test.left)):
        if _reads(one, left) and _reads(two, right):
            return JoinKey(without_normalize(one), without_normalize(two), null_safe=test.op is CompareOp.NULL_SAFE_EQ)
    return None


def _reads(expr: Expr, side: LogicalPlan) -> bool:
    """Whether it reads columns of this side only, and at least one."""
    columns = columns_of(expr)
    return bool(columns) and columns <= set(side.schema.names)


def _null_aware_key(test: Expr, left: LogicalPlan, right: LogicalPlan) -> JoinKey | None:
    """The key of `x = y OR (x = y) IS NULL`; None if the test is something else.

    Spark compares keys of this join by their bits and does not normalise floats first, so that 0.0 is not -0.0.
    """
    if not isinstance(test, Or) or test.right != IsNull(test.left):
        return None
    key = _key(test.left, left, right)
    if key is None or key.null_safe:
        return None
    if pa.types.is_floating(key.left.dtype):
        raise Declined.because(Code.UNSUPPORTED_TYPE, "NOT IN over floating-point numbers", "Join")
    return key
