"""Recorded plans hold constants as Catalyst prints them; this makes of them what `jvm/expression_details.py` brings.

All were recorded in UTC and hold no string that is not UTF-8, so that their texts say everything.
"""

from __future__ import annotations

import base64
import datetime as dt
import struct
from typing import Any

import pyarrow as pa

from sundog.front.catalyst_json import Node
from sundog.types import TIMESTAMP, arrow_type

_DAY_ZERO = dt.date(1970, 1, 1)


def complete_recorded(root: Node, mode: str = "ANSI") -> Node:
    """The plan or expression with internal values for its constants, and `mode` where the recording has none."""
    for node in root.walk():
        for expression in (node, *(each for tree in node.trees() for each in tree.walk())):
            _complete(expression, mode)
    return root


def _complete(expression: Node, mode: str) -> None:
    fields = expression.fields
    if expression.name == "Literal" and "value" in fields and "internal" not in fields:
        fields["internal"] = internal_of(fields["value"], fields.get("dataType"), printed=True)
    elif expression.name == "InSet" and isinstance(fields.get("hset"), list):
        dtype = expression.child_at(0).get("dataType")
        fields["hset"] = [internal_of(member, dtype, printed=False) for member in fields["hset"]]
    elif expression.name in ("Cast", "Average") and fields.get("evalMode", "") is None:
        fields["evalMode"] = mode
    elif expression.name == "Like" and fields.get("escapeChar", "") is None:
        fields["escapeChar"] = "\\"
    elif fields.get("evalContext", "") is None:
        fields["evalContext"] = mode


def internal_of(text: Any, spark_type: Any, *, printed: bool) -> Any:
    """`printed`: as `Literal.toString` does, dates and timestamps as text; else as they are inside."""
    dtype = arrow_type(spark_type)
    if text is None or (not isinstance(text, str) and not isinstance(text, dict)):
        return text
    if isinstance(text, dict):  # the bytes of a binary, or something that was put here to be unreadable
        return base64.b64encode(bytes.fromhex(text["hex"])).decode() if set(text) == {"hex"} else text
    if dtype is None:
        return int(text) if text.lstrip("-").isdigit() else text
    if pa.types.is_boolean(dtype):
        return text == "true"
    if pa.types.is_string(dtype):
        return base64.b64encode(text.encode()).decode()
    if pa.types.is_decimal(dtype):
        return text
    if pa.types.is_floating(dtype):
        whole, code = ("<q", "<d") if pa.types.is_float64(dtype) else ("<i", "<f")
        return struct.unpack(whole, struct.pack(code, float(text)))[0]
    if printed and pa.types.is_date32(dtype):
        return (dt.date.fromisoformat(text) - _DAY_ZERO).days
    if printed and dtype == TIMESTAMP:
        instant = dt.datetime.fromisoformat(text).replace(tzinfo=dt.timezone.utc)
        return (instant - dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)) // dt.timedelta(microseconds=1)
    return int(text)
