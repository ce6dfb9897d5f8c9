"""Catalyst's expressions -> sundog's, or the reasons why not.

Catalyst has already resolved names, types, coercions and most simplifications. What is left is one table: the class
name of each expression that sundog computes exactly as Spark does, and how it is read. Expressions that are not in the
table are declined; those that are may still be declined for their types. All reasons of a tree are collected.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from sundog.expr.nodes import Expr
from sundog.expr.ordering import SortKey
from sundog.front.catalyst_json import Node, object_name
from sundog.front.expressions import casts, choices, leaves, logic, numbers, text, times
from sundog.front.expressions.reading import Entry, Scope, all_or_reasons, all_read, read_already
from sundog.front.partitioning import NONDETERMINISTIC
from sundog.support import Code, Declined, Reason


def translate(node: Node, scope: Scope) -> Expr:
    """The expression; raises `Declined` with all reasons of the tree.

    Trees may be deeper than Python's stack, so children are read before their parents, whose readers find them in
    `done`.
    """
    done: dict[int, Expr | Declined] = {}
    inner = replace(scope, done=done)
    for current in reversed(list(node.walk())):
        try:
            done[id(current)] = _read(current, inner)
        except Declined as declined:
            done[id(current)] = declined
    return read_already(node, inner)


def translate_all(nodes: Iterable[Node], scope: Scope) -> list[Expr]:
    """The expressions; raises `Declined` with the reasons of all that cannot be translated, each once."""
    return all_or_reasons(lambda node: translate(node, scope), nodes)


def translate_sort_key(tree: Node, scope: Scope) -> SortKey:
    """A `SortOrder` of ORDER BY; raises `Declined`."""
    if tree.name != "SortOrder":
        raise Declined.because(Code.PLAN_VERSION, f"a sort key is a {tree.name}", "Sort")
    direction, nulls = object_name(tree["direction"]), object_name(tree["nullOrdering"])
    if direction not in ("Ascending", "Descending") or nulls not in ("NullsFirst", "NullsLast"):
        raise Declined.because(Code.PLAN_VERSION, f"unknown order {direction} {nulls}", "Sort")
    return SortKey(translate(tree.child_at(0), scope), direction == "Descending", nulls == "NullsFirst")


def _read(node: Node, scope: Scope) -> Expr:
    entry = _TABLE.get(node.name)
    if entry is None:
        raise Declined(_unknown(node), *_reasons_below(node, scope))
    return entry.read(node, scope)


def _unknown(node: Node) -> Reason:
    if node.name in NONDETERMINISTIC:
        return Reason(Code.NONDETERMINISTIC, f"{node.name} gives another value in another run", node.name)
    if node.name in ("Collate", "ResolvedCollation"):
        return Reason(Code.COLLATION, "a string is compared under a collation", node.name)
    return Reason(Code.UNKNOWN_EXPRESSION, f"{node.name} is not computed by sundog", node.name)


def _reasons_below(node: Node, scope: Scope) -> tuple[Reason, ...]:
    try:
        all_read(node.children, scope)
    except Declined as declined:
        return declined.reasons
    return ()


_TABLE: dict[str, Entry] = {
    **leaves.ENTRIES,
    **logic.ENTRIES,
    **text.ENTRIES,
    **numbers.ENTRIES,
    **casts.ENTRIES,
    **choices.ENTRIES,
    **times.ENTRIES,
}

SUPPORTED_EXPRESSIONS: dict[str, str] = {name: entry.doc for name, entry in _TABLE.items()}
"""Catalyst's class name -> the SQL it comes from; `docs/compatibility.md` lists it."""
