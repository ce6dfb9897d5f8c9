"""Which requests of a Spark Connect client sundog may plan: those whose relations only become Catalyst's plan.

The server's planner runs some relations while it plans them (statistics, `show`, catalog calls). Others are tied to the
request that it answers (observed metrics, models, checkpoints). Planning those here as well would run them twice, or
lose what they report. So relations that are known to be plans are listed, and a request with any other stays with
Connect.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from sundog.support import Code, Declined

_PLANS = {
    *("read", "sql", "local_relation", "cached_local_relation", "chunked_cached_local_relation", "range"),
    *("project", "filter", "join", "as_of_join", "lateral_join", "set_op", "sort", "limit", "offset", "tail", "sample"),
    *("aggregate", "deduplicate", "drop", "with_columns", "with_columns_renamed", "to_df", "to_schema", "unpivot"),
    *("drop_na", "fill_na", "replace", "hint", "subquery_alias", "repartition", "repartition_by_expression"),
    *("map_partitions", "group_map", "co_group_map", "with_relations"),
}
_WHY = {
    "collect_metrics": "observe() reports its metrics with the answer",
    "cached_remote_relation": "it reads a checkpoint or another DataFrame that the server keeps",
    "ml_relation": "it holds a model",
    "html_string": "notebooks get their HTML from the server",
    "catalog": "it asks the catalog",
}
_QUERY = re.compile(r"[\s(]*(select|with|values|from|table)\b", re.IGNORECASE)
_CHANGES = re.compile(r"\b(insert|update|delete|merge)\b", re.IGNORECASE)


def check_relation(relation: Any) -> None:
    """Decline a relation that is more than a plan."""
    for message in _messages(relation):
        if message.DESCRIPTOR.name == "Relation":
            _check_kind(message)


def holds_function(relation: Any) -> bool:
    """Whether it contains a user's function, which, like that of `foreach`, may have effects that must not come
    twice."""
    return any(message.DESCRIPTOR.name == "CommonInlineUserDefinedFunction" for message in _messages(relation))


def _messages(relation: Any) -> Iterator[Any]:
    """A protobuf message and all messages in it. Without recursion: relations nest as deep as a chain of calls is
    long."""
    waiting = [relation]
    while waiting:
        message = waiting.pop()
        yield message
        for field, value in message.ListFields():
            if field.message_type is None:
                continue
            if field.message_type.GetOptions().map_entry:
                waiting += [item for item in value.values() if hasattr(item, "ListFields")]
            elif hasattr(value, "ListFields"):
                waiting.append(value)
            else:
                waiting += value


def _check_kind(relation: Any) -> None:
    kind = relation.WhichOneof("rel_type") or "nothing"
    if kind not in _PLANS:
        why = _WHY.get(kind, "the server computes it while it plans")
        raise Declined.because(Code.CONNECT, why, kind)
    if kind == "sql":
        text = relation.sql.query
        if not _QUERY.match(text) or _CHANGES.search(text):
            raise Declined.because(Code.CONNECT, "the statement may be a command, which runs when it is planned", kind)


def asks_for_rows(plan: Any) -> bool:
    """Whether a request wants the rows of a query: not a command, nor a call of the catalog."""
    if plan.WhichOneof("op_type") == "compressed_operation":
        return bool(plan.compressed_operation.op_type == plan.CompressedOperation.OpType.OP_TYPE_RELATION)
    return bool(plan.WhichOneof("op_type") == "root") and bool(plan.root.WhichOneof("rel_type") != "catalog")


def check_uncompressed(plan: Any) -> None:
    if plan.WhichOneof("op_type") == "compressed_operation":
        raise Declined.because(Code.CONNECT, "the request is so large that the client compressed it")
