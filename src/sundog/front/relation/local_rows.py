"""The rows of a `LocalRelation`: VALUES, small local data, and rows that Catalyst computed or removed as it optimised.

They are Catalyst's own rows, read as the bytes of UnsafeRows in one call, never from the text in the plan's JSON.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from sundog.front.catalyst_json import Node
from sundog.front.jvm.internal_rows import UnreadableValue, decode_row
from sundog.front.jvm.method_handles import json_of, methods
from sundog.front.jvm.objects import once_per_jvm
from sundog.front.relation.file_listing import bytes_of_rows
from sundog.plan.logical import LocalRows
from sundog.support import Code, Declined
from sundog.types import arrow_type


def rows_without_columns(count: int, path: Sequence[int]) -> pa.RecordBatch:
    """A batch of `count` rows for a relation without columns, with one column of a unique name."""
    return pa.RecordBatch.from_pydict({f"row#{'.'.join(map(str, path))}": pa.array([True] * count, pa.bool_())})


def local_rows(node: Node) -> LocalRows:
    """The rows that `read_query.py` has written into the node; raises why they cannot be read."""
    rows = node["rows"]
    if isinstance(rows, Declined):
        raise rows
    return LocalRows(rows)


def read_local_rows(jvm: Any, jrelation: Any, path: Sequence[int] = ()) -> pa.RecordBatch | Declined:
    """The rows of the relation at `path` of the plan, under internal names, or why they cannot be read.

    Columns of types that sundog does not read are left out.
    """
    output, jschema = jrelation.output(), jrelation.schema()
    attributes = [output.apply(index) for index in range(output.size())]
    names = [f"{attribute.name()}#{attribute.exprId().id()}" for attribute in attributes]
    dtypes = [arrow_type(json.loads(attribute.dataType().json())) for attribute in attributes]
    known = [at for at, dtype in enumerate(dtypes) if dtype is not None]
    if not known:
        return rows_without_columns(jrelation.data().size(), path)
    if len(set(names)) < len(names):
        return _declined("names a column twice")
    encoded = json.loads(json_of(jvm, _stream(jvm).apply(jrelation.data()).map(bytes_of_rows(jvm, jschema)).toArray()))
    try:
        rows = [decode_row(base64.b64decode(row), _readable(dtypes)) for row in encoded]
    except UnreadableValue as problem:
        return _declined(f"holds {problem}")
    columns = [_array([row[at] for row in rows], dtypes[at]) for at in known]
    return pa.RecordBatch.from_arrays(columns, [names[at] for at in known])


def _readable(dtypes: list[pa.DataType | None]) -> list[pa.DataType]:
    """The types to decode by: a field of any other type is read as a word, whose value is not used."""
    return [pa.int64() if dtype is None else dtype for dtype in dtypes]


def _array(values: list[Any], dtype: pa.DataType | None) -> pa.Array:
    """An array of values in which dates, times and intervals are integers."""
    if dtype is None or not pa.types.is_temporal(dtype):
        return pa.array(values, dtype)
    return pa.array(values, pa.int32() if dtype.bit_width == 32 else pa.int64()).view(dtype)


def _declined(problem: str) -> Declined:
    return Declined.because(Code.SOURCE, f"a local collection {problem}", "LocalRelation")


@once_per_jvm
def _stream(jvm: Any) -> Any:
    """A function from a Scala sequence to the stream of its elements."""
    made = methods(jvm)
    return made.function(
        made.chain(made.as_list(), made.virtual("java.util.Collection", "stream", "java.util.stream.Stream"))
    )
