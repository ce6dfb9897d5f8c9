"""Walks and rewrites for every tree made of frozen dataclasses: expressions, logical and physical plans.

A child is any field that is a node of the same family, or a tuple that (possibly through inner tuples) holds such
nodes. So a node class declares its fields and gets traversal for free, and a rewrite cannot forget a child.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any, TypeVar


class TreeNode:
    """Marker base: families derive one root class from it (`Expr`, `LogicalPlan`)."""

    __slots__ = ()
    family: type[TreeNode]

    @property
    def children(self) -> tuple[Any, ...]:
        return tuple(_children(self))


N = TypeVar("N", bound=TreeNode)


def _nodes_in(value: Any, family: type[TreeNode]) -> Iterator[Any]:
    if isinstance(value, family):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _nodes_in(item, family)


def _children(node: TreeNode) -> Iterator[Any]:
    for field in fields(node):  # type: ignore[arg-type]
        yield from _nodes_in(getattr(node, field.name), node.family)


def walk(node: N) -> Iterator[N]:
    """The node and everything below it, parents first."""
    yield node
    for child in _children(node):
        yield from walk(child)


def transform_up(node: N, rule: Callable[[N], N]) -> N:
    """Rewrite the leaves first. `rule` returns its argument itself where it changes nothing."""
    return rule(map_children(node, lambda child: transform_up(child, rule)))


def transform_down(node: N, rule: Callable[[N], N]) -> N:
    """Rewrite the node, then the children of what came out."""
    return map_children(rule(node), lambda child: transform_down(child, rule))


def map_children(node: N, function: Callable[[N], N]) -> N:
    """The same node with `function` applied to each child; the same object if no child changed."""
    changed: dict[str, Any] = {}
    for field in fields(node):  # type: ignore[arg-type]
        old = getattr(node, field.name)
        new = _map_value(old, node.family, function)
        if new is not old:
            changed[field.name] = new
    return replace(node, **changed) if changed else node  # type: ignore[type-var]


def _map_value(value: Any, family: type[TreeNode], function: Callable[[Any], Any]) -> Any:
    if isinstance(value, family):
        return function(value)
    if isinstance(value, tuple):
        mapped = tuple(_map_value(item, family, function) for item in value)
        if any(new is not old for new, old in zip(mapped, value, strict=True)):
            return mapped
    return value
