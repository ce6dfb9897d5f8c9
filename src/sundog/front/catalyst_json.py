"""Catalyst's `TreeNode.toJSON` -> a plain tree. Knows the format, not the meaning.

The JSON of a plan is a list of nodes in pre-order; each says how many children follow. A field that holds expressions
is again such a list (one tree), a list of such lists (several trees) or, in Expand, a list of those. Fields that point at children are indexes,
which the tree replaces. Unknown classes and fields are kept as they are: whoever reads the tree decides.

What the JSON leaves out (`"evalContext": null`, `"relation": null`) is filled in by `front/jvm.py`, which walks the
JVM's tree by the same `path`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from sundog.support import Code, Declined


@dataclass(frozen=True)
class Node:
    """A plan or expression node. `name` is the simple class name: `Filter`, `AttributeReference`."""

    name: str
    fields: dict[str, Any]
    children: tuple[Node, ...] = ()
    path: tuple[int, ...] = field(default=(), compare=False)

    def __getitem__(self, key: str) -> Any:
        """A field: a Node where it holds one tree, a tuple of Nodes where it holds several, else the raw value."""
        if key not in self.fields:
            raise Declined.because(Code.PLAN_VERSION, f"{self.name} has no field {key!r}", self.name)
        return self.fields[key]

    def get(self, key: str, default: Any = None) -> Any:
        return self.fields.get(key, default)

    @property
    def child(self) -> Node:
        if len(self.children) != 1:
            raise Declined.because(Code.PLAN_VERSION, f"{self.name} has {len(self.children)} children", self.name)
        return self.children[0]

    def child_at(self, index: int) -> Node:
        if index >= len(self.children):
            raise Declined.because(Code.PLAN_VERSION, f"{self.name} has {len(self.children)} children", self.name)
        return self.children[index]

    def walk(self) -> Iterator[Node]:
        yield self
        for child in self.children:
            yield from child.walk()

    def trees(self) -> Iterator[Node]:
        """The expression trees that this plan node holds in its fields."""
        for _, _, tree in self.placed_trees():
            yield tree

    def placed_trees(self) -> Iterator[tuple[str, tuple[int, ...], Node]]:
        """The same with where they are: field, and index in it (two where the field holds lists of lists)."""
        for name, value in self.fields.items():
            yield from ((name, place, tree) for place, tree in _placed(value))


def _placed(value: Any) -> Iterator[tuple[tuple[int, ...], Node]]:
    if isinstance(value, Node):
        yield (), value
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from (((index, *place), tree) for place, tree in _placed(item))


def parse_plan(text: str) -> Node:
    """The plan that `toJSON` printed."""
    try:
        nodes = json.loads(text)
    except ValueError as problem:
        raise Declined.because(Code.PLAN_VERSION, f"the plan's JSON cannot be read: {problem}") from problem
    if not _is_tree(nodes):
        raise Declined.because(Code.PLAN_VERSION, "the plan's JSON is not a list of nodes")
    return _parse_tree(nodes)


def _is_tree(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict) and "num-children" in value[0]


def _parse_tree(nodes: list[dict[str, Any]]) -> Node:
    root, used = _parse_node(nodes, 0, ())
    if used != len(nodes):
        raise Declined.because(Code.PLAN_VERSION, f"{len(nodes) - used} nodes of the plan's JSON belong to no parent")
    return root


def _parse_node(nodes: list[dict[str, Any]], index: int, path: tuple[int, ...]) -> tuple[Node, int]:
    if index >= len(nodes):
        raise Declined.because(Code.PLAN_VERSION, "the plan's JSON ends in the middle of a tree")
    raw = nodes[index]
    children = []
    index += 1
    for number in range(int(raw["num-children"])):
        child, index = _parse_node(nodes, index, (*path, number))
        children.append(child)
    values = {key: _parse_value(value) for key, value in raw.items() if key not in ("class", "num-children")}
    name = str(raw["class"]).rsplit(".", 1)[-1].rstrip("$")
    return Node(name, values, tuple(children), path), index


def _parse_value(value: Any) -> Any:
    if _is_tree(value):
        return _parse_tree(value)
    if isinstance(value, list) and value and all(_is_tree(item) for item in value):
        return tuple(_parse_tree(item) for item in value)
    if isinstance(value, list) and value and all(isinstance(item, list) and _is_trees(item) for item in value):
        return tuple(tuple(_parse_tree(tree) for tree in item) for item in value)
    return value


def _is_trees(value: list[Any]) -> bool:
    return bool(value) and all(_is_tree(item) for item in value)


def object_name(value: Any) -> str:
    """`{"object": "...expressions.Descending$"}` -> `Descending`; a product class likewise; else the text."""
    if isinstance(value, dict):
        value = value.get("object") or value.get("product-class") or ""
    return str(value).rsplit(".", 1)[-1].rstrip("$")
