"""What Catalyst's JSON leaves out of expressions, read from the JVM's objects.

`toJSON` writes `null` for everything that is neither a tree nor a plain value: the evaluation mode of arithmetic and
casts, the escape character of LIKE, the set of a long IN list, the bytes of a binary constant. Without them `a + b` and
`try_add(a, b)` look the same, so those nodes are looked up one by one and the fields are written into the parsed tree:

    Add, Sum, ...   evalContext   "ANSI", "LEGACY" or "TRY"; and dataType, the result type as JSON
    Cast            evalMode      the same three; Average likewise, with dataType
    Like            escapeChar    one character
    InSet           hset          a list of texts, None for NULL; dates and times as Catalyst's integers
    Literal         value         bytes, for a binary constant
"""

from __future__ import annotations

import json
import uuid
from typing import Any

from sundog.front.catalyst_json import Node


def is_incomplete(expression: Node) -> bool:
    """Whether the JSON left out something of this expression that its meaning depends on."""
    match expression.name:
        case "Cast" | "Average":
            return expression.get("evalMode") is None
        case "Like":
            return expression.get("escapeChar") is None
        case "InSet":
            return expression.get("hset") is None
        case "Literal":
            return expression.get("dataType") == "binary" and isinstance(expression.get("value"), str)
        case _:
            return "evalContext" in expression.fields and expression.fields["evalContext"] is None


def complete(expression: Node, jexpression: Any) -> None:
    """Write what was left out, read from the JVM's expression that the node stands for, into the node's fields."""
    fields = expression.fields
    match expression.name:
        case "Cast":
            fields["evalMode"] = jexpression.evalMode().toString()
        case "Average":
            fields["evalMode"] = jexpression.evalMode().toString()
            fields["dataType"] = json.loads(jexpression.dataType().json())
        case "Like":
            fields["escapeChar"] = str(jexpression.escapeChar())
        case "InSet":
            fields["hset"] = _set_texts(jexpression.hset())
        case "Literal":
            fields["value"] = bytes(jexpression.value())
        case _:
            fields["evalContext"] = jexpression.evalContext().evalMode().toString()
            fields["dataType"] = json.loads(jexpression.dataType().json())


def _set_texts(jset: Any) -> list[str | None]:
    """A set's members in one call, whatever they hold: the text between them is not in any of them."""
    separator = f"\x00{uuid.uuid4()}\x00"
    texts: list[str | None] = list(jset.mkString(separator).split(separator))
    if jset.contains(None):
        texts[texts.index("null")] = None
    return texts
