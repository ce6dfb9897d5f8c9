"""Spark's own list of the files of a scan: the result of `FileIndex.listFiles` for the plan that Spark would run.

The relation's index decides which names are hidden, which folders are partitions, which options filter paths or times,
and which statuses are cached, after the partition filters of the query. Nothing is listed or left out here. The whole
listing comes over as JSON:

    [[[uri, length, modification time], ...], ...]        the files of each folder
    [base64 of an UnsafeRow, ...]                         its partition values, if the table has partitions
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sundog.front.jvm.internal_rows import UnreadableValue, decode_row
from sundog.front.jvm.large_text import TextFunction
from sundog.front.jvm.method_handles import json_of, methods
from sundog.front.jvm.objects import once_per_jvm
from sundog.support import Code, Declined
from sundog.versions import spark_version

_DATASOURCES = "org.apache.spark.sql.execution.datasources"
_DIRECTORY = f"{_DATASOURCES}.PartitionDirectory"
_STATUS = f"{_DATASOURCES}.FileStatusWithMetadata"
_PATH = "org.apache.hadoop.fs.Path"
_ROW = "org.apache.spark.sql.catalyst.InternalRow"
_UNSAFE_ROW = "org.apache.spark.sql.catalyst.expressions.UnsafeRow"
_PROJECTION = "org.apache.spark.sql.catalyst.expressions.UnsafeProjection"
_SEQ = "scala.collection.Seq"


@dataclass(frozen=True)
class ListedFile:
    """A file as Spark's index lists it. Its status may be out of date."""

    uri: str
    size: int
    modified_ms: int
    partition_values: tuple[Any, ...]


def list_files(jvm: Any, directories: Any, jschema: Any, dtypes: Sequence[pa.DataType | None]) -> list[ListedFile]:
    """The files listed by a FileIndex.

    `jschema` is the partition schema, `dtypes` its types in sundog. Declines partition values that sundog cannot hold.
    """
    made = _functions(jvm)
    folders = json.loads(made.files(directories))
    rows = _rows(jvm, made, directories, jschema) if dtypes else [""] * len(folders)
    found: list[ListedFile] = []
    for row, files in zip(rows, folders, strict=True):
        values = _values(row, dtypes) if dtypes else ()
        found.extend(ListedFile(uri, size, modified, values) for uri, size, modified in files)
    return found


def list_all_files(jvm: Any, jleaf: Any) -> list[ListedFile]:
    """The files of a LogicalRelation without partition columns: one call."""
    folders = json.loads(_functions(jvm).all_files(jleaf))
    return [ListedFile(uri, size, modified, ()) for files in folders for uri, size, modified in files]


def row_bytes(jvm: Any, jrow: Any, jschema: Any) -> bytes:
    """An internal row of Catalyst as the bytes of an UnsafeRow."""
    return bytes(bytes_of_rows(jvm, jschema).apply(jrow))


def _values(row: str, dtypes: Sequence[pa.DataType | None]) -> tuple[Any, ...]:
    try:
        return decode_row(base64.b64decode(row), dtypes)
    except UnreadableValue as problem:
        raise Declined.because(Code.UNSUPPORTED_TYPE, f"a partition value is {problem}") from problem


def _rows(jvm: Any, made: _Functions, directories: Any, jschema: Any) -> list[str]:
    """Each folder's partition values, as the base64 of an UnsafeRow."""
    rows: list[str] = json.loads(json_of(jvm, made.rows.apply(directories).map(bytes_of_rows(jvm, jschema)).toArray()))
    return rows


def bytes_of_rows(jvm: Any, jschema: Any) -> Any:
    """A function from an internal row to the bytes of an UnsafeRow. It has a buffer, so each query needs its own."""
    projection = jvm.org.apache.spark.sql.catalyst.expressions.UnsafeProjection.create(jschema)
    return methods(jvm).function(_functions(jvm).row_bytes.bindTo(projection))


@dataclass(frozen=True)
class _Functions:
    files: TextFunction  # Seq[PartitionDirectory] -> the JSON of the files of each
    all_files: TextFunction  # LogicalRelation -> the same
    rows: Any  # function: Seq[PartitionDirectory] -> stream of the values of each
    row_bytes: Any  # handle: projection, row -> bytes


@once_per_jvm
def _functions(jvm: Any) -> _Functions:
    made = methods(jvm)
    path = made.virtual(_STATUS, "getPath", _PATH)
    uri = made.chain(
        path, made.virtual(_PATH, "toUri", "java.net.URI"), made.virtual("java.net.URI", "toString", "java.lang.String")
    )
    length = made.virtual(_STATUS, "getLen", "long")
    modified = made.virtual(_STATUS, "getModificationTime", "long")
    folder = made.virtual(_DIRECTORY, "files", spark_version().seq_class(jvm))
    files = made.array(made.mapped(folder, made.all_of([uri, length, modified])))
    row_bytes = made.chain(
        made.virtual(_PROJECTION, "apply", _UNSAFE_ROW, _ROW),
        made.virtual(_UNSAFE_ROW, "copy", _UNSAFE_ROW),
        made.virtual(_UNSAFE_ROW, "getBytes", "[B"),
    )
    of_each = made.array(made.mapped(made.identity(_SEQ), files))
    nothing = to_seq(jvm, [])
    listed = made.virtual(f"{_DATASOURCES}.FileIndex", "listFiles", *[spark_version().seq_class(jvm)] * 3)
    all_files = made.chain(
        made.getter(f"{_DATASOURCES}.LogicalRelation", "relation"),
        made.getter(f"{_DATASOURCES}.HadoopFsRelation", "location"),
        made.bind_last(made.bind_last(listed, nothing), nothing),
        of_each,
    )
    return _Functions(
        files=made.to_json(of_each),
        all_files=made.to_json(all_files),
        rows=made.function(made.mapped(made.identity(_SEQ), made.virtual(_DIRECTORY, "values", _ROW))),
        row_bytes=row_bytes,
    )


def to_seq(jvm: Any, values: list[Any]) -> Any:
    return jvm.PythonUtils.toSeq(values) if values else _empty_seq(jvm)


@once_per_jvm
def _empty_seq(jvm: Any) -> Any:
    return jvm.PythonUtils.toSeq([])
