"""Parses the JSON of Catalyst's `TreeNode.toJSON` into a plain tree, without interpreting it.

The JSON of a plan is a list of nodes in pre-order; each says how many children follow. A field that holds expressions
is again such a list (one tree), a list of such lists (several trees) or, in Expand, a list of those. Fields that point
at children are indexes, which the tree replaces. Unknown classes and fields are kept unchanged, for the reader of the
tree to judge.

What the JSON leaves out (`"evalContext": null`) or only prints (constants) is filled in by
`front/jvm/expression_details.py`.

Trees may be deep: `a + b + c + …` nests once for each term. So nothing here recurses into children, and a node has a
link to its parent's link; its path is made from these only for the few nodes that need it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sundog.support import Code, Declined
from sundog.versions.model import PlanNames

Link = tuple[Any, int] | None
"""The position of a node in its tree: its parent's link and its index among the children; None for the root."""

_NO_OTHER_NAMES = PlanNames()


@dataclass(frozen=True)
class Node:
    """A plan or expression node. `name` is the simple class name: `Filter`, `AttributeReference`."""

    name: str
    fields: dict[str, Any]
    children: tuple[Node, ...] = ()
    link: Link = field(default=None, compare=False, repr=False)

    def __getitem__(self, key: str) -> Any:
        """A field: a Node if it holds one tree, a tuple of Nodes if it holds several, else the raw value."""
        if key not in self.fields:
            raise Declined.because(Code.PLAN_VERSION, f"{self.name} has no field {key!r}", self.name)
        return self.fields[key]

    def get(self, key: str, default: Any = None) -> Any:
        return self.fields.get(key, default)

    def flag(self, key: str, default: bool | None = None) -> bool:
        """A boolean field; `default`, if given, where the field is missing."""
        value = self[key] if default is None else self.get(key, default)
        if not isinstance(value, bool):
            raise Declined.because(Code.PLAN_VERSION, f"{self.name}.{key} is {str(value)[:40]}", self.name)
        return value

    @property
    def child(self) -> Node:
        if len(self.children) != 1:
            raise Declined.because(Code.PLAN_VERSION, f"{self.name} has {len(self.children)} children", self.name)
        return self.children[0]

    def child_at(self, index: int) -> Node:
        if index >= len(self.children):
            raise Declined.because(Code.PLAN_VERSION, f"{self.name} has {len(self.children)} children", self.name)
        return self.children[index]

    @property
    def path(self) -> tuple[int, ...]:
        """The child indexes that lead from the root of the tree to this node."""
        indexes = []
        link = self.link
        while link is not None:
            link, index = link
            indexes.append(index)
        return tuple(reversed(indexes))

    def walk(self) -> Iterator[Node]:
        """The node and everything below it, parents first."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(node.children))

    def trees(self) -> Iterator[Node]:
        """The expression trees that this plan node holds in its fields, in the order of the JSON."""
        for value in self.fields.values():
            yield from _trees_in(value)


def _trees_in(value: Any) -> Iterator[Node]:
    if isinstance(value, Node):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _trees_in(item)


def replace_nodes(root: Node, make: Callable[[Node, Node | None], Node | None]) -> Node:
    """The tree with each node replaced by the result of `make` for it and its parent; None keeps the node and visits
    its children."""
    made: dict[int, Node] = {}
    waiting: list[tuple[Node, Node | None, bool]] = [(root, None, False)]
    while waiting:
        node, parent, is_ready = waiting.pop()
        if is_ready:
            made[id(node)] = replace(node, children=tuple(made[id(child)] for child in node.children))
            continue
        replacement = make(node, parent)
        if replacement is None and node.children:
            waiting.append((node, parent, True))
            waiting.extend((child, node, False) for child in reversed(node.children))
        else:
            made[id(node)] = node if replacement is None else replacement
    return made[id(root)]


def link_of(path: Sequence[int]) -> Link:
    """The inverse of `Node.path`."""
    link: Link = None
    for index in path:
        link = (link, index)
    return link


def parse_plan(text: str, names: PlanNames = _NO_OTHER_NAMES) -> Node:
    """The plan that `toJSON` printed. `names` maps names of an older Spark to those of the newest."""
    try:
        nodes = json.loads(text)
    except ValueError as problem:
        raise Declined.because(Code.PLAN_VERSION, f"the plan's JSON cannot be read: {problem}") from problem
    if not _is_tree(nodes):
        raise Declined.because(Code.PLAN_VERSION, "the plan's JSON is not a list of nodes")
    return _parse_tree(nodes, names)


def _is_tree(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict) and "num-children" in value[0]


@dataclass
class _Open:
    """A node whose children are still being read."""

    raw: dict[str, Any]
    link: Link
    missing: int
    children: list[Node] = field(default_factory=list)


def _parse_tree(nodes: list[dict[str, Any]], names: PlanNames) -> Node:
    unfinished: list[_Open] = []
    for number, raw in enumerate(nodes):
        above = unfinished[-1] if unfinished else None
        link = None if above is None else (above.link, len(above.children))
        unfinished.append(_Open(raw, link, int(raw["num-children"])))
        while unfinished[-1].missing == 0:
            node = _finished(unfinished.pop(), names)
            if not unfinished:
                return _only(node, len(nodes) - number - 1)
            unfinished[-1].children.append(node)
            unfinished[-1].missing -= 1
    raise Declined.because(Code.PLAN_VERSION, "the plan's JSON ends in the middle of a tree")


def _finished(entry: _Open, names: PlanNames) -> Node:
    raw = entry.raw
    values = {key: _parse_value(value, names) for key, value in raw.items() if key not in ("class", "num-children")}
    name = names.class_name(str(raw["class"]).rsplit(".", 1)[-1].rstrip("$"))
    return Node(name, names.renamed(name, values), tuple(entry.children), entry.link)


def _only(root: Node, left: int) -> Node:
    if left:
        raise Declined.because(Code.PLAN_VERSION, f"{left} nodes of the plan's JSON belong to no parent")
    return root


def _parse_value(value: Any, names: PlanNames) -> Any:
    if _is_tree(value):
        return _parse_tree(value, names)
    if isinstance(value, list) and value and all(_is_tree(item) for item in value):
        return tuple(_parse_tree(item, names) for item in value)
    if isinstance(value, list) and value and all(isinstance(item, list) and _is_trees(item) for item in value):
        return tuple(tuple(_parse_tree(tree, names) for tree in item) for item in value)
    return value


def _is_trees(value: list[Any]) -> bool:
    return bool(value) and all(_is_tree(item) for item in value)


def object_name(value: Any) -> str:
    """`{"object": "...expressions.Descending$"}` -> `Descending`; the same for a product class; else the text."""
    if isinstance(value, dict):
        value = value.get("object") or value.get("product-class") or ""
    return str(value).rsplit(".", 1)[-1].rstrip("$")
