"""The shape of a query: its plan without the values of its constants, as one short key.

Two runs of one query text have plans that differ in the ids of their expressions; those of a daily report differ in a
date as well. Both have one shape, by which a query that ran before is recognised. No answer depends on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b

from sundog.front.catalyst_json import Node


def query_shape(root: Node, tables: Iterable[str]) -> str:
    """The key of a plan that reads `tables`, whose names are not in the plan's JSON."""
    digest = blake2b(digest_size=12)
    for word in (*sorted(tables), *_words(root)):
        digest.update(word.encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()


def _words(root: Node) -> Iterator[str]:
    for node in root.walk():
        yield f"{node.name} {len(node.children)}"
        if node.name == "Literal":
            continue
        for field, value in node.fields.items():
            if isinstance(value, str | bool | int):
                yield f"{field}={value}"
            elif isinstance(value, dict) and "object" in value:  # a case object, such as a sort direction
                yield f"{field}={value['object']}"
        for tree in node.trees():
            yield from _words(tree)
