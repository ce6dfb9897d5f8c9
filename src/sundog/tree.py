"""Walks, rewrites, equality and pickling for trees of frozen dataclasses: expressions and logical plans.

A child is any field that is a node of the same family, or a tuple that (possibly through inner tuples) holds such
nodes. So a node class declares its fields and gets traversal for free, and a rewrite cannot forget a child.

Trees may be deep: `a + b + c + …` nests once for each term, and Python's stack ends at a thousand calls. So nothing
here recurses into children. Walks and rewrites keep their own stack, and so do equality, hash and pickling, which
dataclasses and pickle would do recursively.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from math import copysign
from typing import Any, TypeVar


class TreeNode:
    """Marker base: families derive one root class from it (`Expr`, `LogicalPlan`)."""

    __slots__ = ()
    family: type[TreeNode]

    def __init_subclass__(cls) -> None:
        """Set equality and hash. `dataclass` writes its own, but not over those that a class already has."""
        cls.__eq__ = TreeNode.__eq__  # type: ignore[method-assign]
        cls.__hash__ = TreeNode.__hash__  # type: ignore[method-assign]

    @property
    def children(self) -> tuple[Any, ...]:
        return _children(self)

    def __eq__(self, other: object) -> bool:
        """Same classes and same values all the way down. Unlike for numbers, 0.0 is not -0.0, and NaN is NaN."""
        if self.__class__ is not other.__class__:
            return NotImplemented
        waiting: list[tuple[Any, Any]] = [(self, other)]
        while waiting:
            one, two = waiting.pop()
            if one is two:
                continue
            if isinstance(one, TreeNode):
                if one.__class__ is not two.__class__ or _known_to_differ(one, two):
                    return False
                waiting.extend((getattr(one, name), getattr(two, name)) for name in _names(one))
            elif isinstance(one, tuple):
                if one.__class__ is not two.__class__ or len(one) != len(two):
                    return False
                waiting.extend(zip(one, two, strict=True))
            elif not _same(one, two):
                return False
        return True

    def __hash__(self) -> int:
        for node in children_first(self, lambda node: _HASH in node.__dict__):
            values = tuple(_hashable(getattr(node, name)) for name in _names(node))
            node.__dict__[_HASH] = hash((node.__class__, values))
        known: int = self.__dict__[_HASH]
        return known

    def __reduce__(self) -> tuple[Any, ...]:
        """As a list of nodes, children first, each with the positions of its children in the list."""
        places: dict[int, int] = {}
        program: list[tuple[type[TreeNode], tuple[Any, ...]]] = []
        for node in children_first(self):
            values = tuple(_with_places(getattr(node, name), node.family, places) for name in _names(node))
            places[id(node)] = len(program)
            program.append((node.__class__, values))
        return _rebuilt, (program,)


N = TypeVar("N", bound=TreeNode)
# Computed once, in a node's `__dict__`; not part of its fields or pickles.
_HASH, _HEIGHT, _CHILDREN = "_hash", "_height", "_children"
_FIELD_NAMES: dict[type, tuple[str, ...]] = {}


@dataclass(frozen=True, slots=True)
class _ChildReference:
    """Stands for a child in a pickled node."""

    index: int


def _rebuilt(program: list[tuple[type[TreeNode], tuple[Any, ...]]]) -> TreeNode:
    nodes: list[TreeNode] = []
    for node_class, values in program:
        node = object.__new__(node_class)
        node.__dict__.update(zip(_names(node), (_with_nodes(value, nodes) for value in values), strict=True))
        nodes.append(node)
    return nodes[-1]


def _with_places(value: Any, family: type[TreeNode], places: dict[int, int]) -> Any:
    if isinstance(value, family):
        return _ChildReference(places[id(value)])
    if type(value) is tuple:
        return tuple(_with_places(item, family, places) for item in value)
    return value


def _with_nodes(value: Any, nodes: list[TreeNode]) -> Any:
    if isinstance(value, _ChildReference):
        return nodes[value.index]
    if type(value) is tuple:
        return tuple(_with_nodes(item, nodes) for item in value)
    return value


def _names(node: TreeNode) -> tuple[str, ...]:
    names = _FIELD_NAMES.get(node.__class__)
    if names is None:
        names = tuple(field.name for field in fields(node))  # type: ignore[arg-type]
        _FIELD_NAMES[node.__class__] = names
    return names


def _same(one: Any, two: Any) -> bool:
    if isinstance(one, float) and isinstance(two, float):
        return (one == two and copysign(1, one) == copysign(1, two)) or (one != one and two != two)
    return bool(one == two)


def _known_to_differ(one: TreeNode, two: TreeNode) -> bool:
    hashes = one.__dict__.get(_HASH), two.__dict__.get(_HASH)
    return None not in hashes and hashes[0] != hashes[1]


def _hashable(value: Any) -> Any:
    """A value with a hash, equal for equal values; nodes below have their hashes already."""
    if isinstance(value, TreeNode):
        return hash(value)
    if type(value) is tuple:
        return tuple(map(_hashable, value))
    return "NaN" if isinstance(value, float) and value != value else value


def _nodes_in(value: Any, family: type[TreeNode]) -> Iterator[Any]:
    if isinstance(value, family):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _nodes_in(item, family)


def _children(node: TreeNode) -> tuple[Any, ...]:
    """The children. Cached: planning walks each tree dozens of times, and finding them took a third of its Python."""
    known: tuple[Any, ...] | None = node.__dict__.get(_CHILDREN)
    if known is None:
        known = tuple(child for name in _names(node) for child in _nodes_in(getattr(node, name), node.family))
        node.__dict__[_CHILDREN] = known
    return known


def walk(node: N) -> Iterator[N]:
    """The node and everything below it, parents first."""
    waiting = [node]
    while waiting:
        current = waiting.pop()
        yield current
        waiting.extend(reversed(_children(current)))


def children_first(root: N, is_done: Callable[[N], bool] = lambda node: False) -> Iterator[N]:
    """Each node once, the root last, even if several nodes share it; without done nodes, and what only these lead
    to."""
    seen: set[int] = set()
    waiting: list[tuple[N, bool]] = [(root, False)]
    while waiting:
        node, is_ready = waiting.pop()
        if is_ready:
            yield node
        elif id(node) not in seen and not is_done(node):
            seen.add(id(node))
            waiting.append((node, True))
            waiting.extend((child, False) for child in reversed(_children(node)))


def height(node: TreeNode) -> int:
    """Levels of the tree: 1 for a leaf."""
    for current in children_first(node, lambda each: _HEIGHT in each.__dict__):
        current.__dict__[_HEIGHT] = 1 + max((child.__dict__[_HEIGHT] for child in _children(current)), default=0)
    known: int = node.__dict__[_HEIGHT]
    return known


def transform_up(node: N, rule: Callable[[N], N]) -> N:
    """Rewrite the leaves first. `rule` returns its argument itself if it changes nothing."""
    done: dict[int, N] = {}
    for current in children_first(node):
        done[id(current)] = rule(map_children(current, lambda child: done[id(child)]))
    return done[id(node)]


def transform_down(node: N, rule: Callable[[N], N]) -> N:
    """Rewrite the node, then the children of the result."""
    done: dict[int, N] = {}
    kept: list[N] = []  # keeps nodes alive, so that no `id` is used again
    waiting: list[tuple[N, N | None]] = [(node, None)]
    while waiting:
        current, changed = waiting.pop()
        if changed is not None:
            done[id(current)] = map_children(changed, lambda child: done[id(child)])
        elif id(current) not in done:
            changed = rule(current)
            kept.append(changed)
            waiting.append((current, changed))
            waiting.extend((child, None) for child in reversed(_children(changed)))
    return done[id(node)]


def map_children(node: N, function: Callable[[N], N]) -> N:
    """The same node with `function` applied to each child; the same object if no child changed."""
    changed: dict[str, Any] = {}
    for name in _names(node):
        old = getattr(node, name)
        new = _map_value(old, node.family, function)
        if new is not old:
            changed[name] = new
    return replace(node, **changed) if changed else node  # type: ignore[type-var]


def _map_value(value: Any, family: type[TreeNode], function: Callable[[Any], Any]) -> Any:
    if isinstance(value, family):
        return function(value)
    if isinstance(value, tuple):
        mapped = tuple(_map_value(item, family, function) for item in value)
        if any(new is not old for new, old in zip(mapped, value, strict=True)):
            return mapped
    return value
