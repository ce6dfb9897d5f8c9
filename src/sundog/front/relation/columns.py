"""The columns of a relation by the names of the plan: stored in the files, or the value of a partition."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sundog.front.catalyst_json import Node
from sundog.front.jvm.internal_rows import LONG_DIGITS, UnreadableValue, decode_row
from sundog.front.relation.file_listing import row_bytes
from sundog.front.relation.sources import RelationSource
from sundog.parquet.reading import FileColumn, PartitionColumn
from sundog.support import Code, Declined
from sundog.types import arrow_type

EXISTS_DEFAULT = "EXISTS_DEFAULT"  # key in a field's metadata: the value in files without the column


@dataclass(frozen=True)
class RelationSchema:
    """The relation's columns by the names of the plan's attributes."""

    fields: dict[str, dict[str, Any]]
    defaults: dict[str, Any]  # of columns that are missing in files written before they were added
    partition_indexes: dict[str, int]  # by folded name
    partition_types: tuple[pa.DataType | None, ...]
    case_sensitive: bool

    @classmethod
    def of(cls, jvm: Any, source: RelationSource, case_sensitive: bool) -> RelationSchema:
        fields = json.loads(source.schema_json())["fields"]
        partitions = json.loads(source.partition_schema_json())["fields"]
        has_defaults = any(EXISTS_DEFAULT in field["metadata"] for field in fields)
        return cls(
            fields={field["name"]: field for field in fields},
            defaults=_defaults(jvm, source.schema(), fields) if has_defaults else {},
            partition_indexes={_folded(field["name"], case_sensitive): index for index, field in enumerate(partitions)},
            partition_types=tuple(arrow_type(field["type"]) for field in partitions),
            case_sensitive=case_sensitive,
        )

    def partition_index(self, name: str) -> int | None:
        return self.partition_indexes.get(_folded(name, self.case_sensitive))


def _folded(name: str, case_sensitive: bool) -> str:
    return name if case_sensitive else name.lower()


def _defaults(jvm: Any, jschema: Any, fields: list[dict[str, Any]]) -> dict[str, Any]:
    """Values for columns that a file does not have, from `ALTER TABLE ADD COLUMN ... DEFAULT`, by name.

    They are the results of Spark's own evaluation of the defaults.
    """
    values = jvm.org.apache.spark.sql.catalyst.util.ResolveDefaultColumns.existenceDefaultValues(jschema)
    row = jvm.org.apache.spark.sql.catalyst.expressions.GenericInternalRow(values)
    dtypes = [arrow_type(field["type"]) if _is_readable(field) else None for field in fields]
    for index, dtype in enumerate(dtypes):
        if dtype is None:
            row.setNullAt(index)
    try:
        found = decode_row(row_bytes(jvm, row, jschema), dtypes)
    except UnreadableValue as problem:
        raise Declined.because(Code.UNSUPPORTED_TYPE, f"a column default is {problem}") from problem
    return {field["name"]: value for field, value in zip(fields, found, strict=True) if value is not None}


def _is_readable(field: dict[str, Any]) -> bool:
    """Whether it is not one of Spark's hidden columns, and Spark's reader does not fail on its default in old files.

    Spark's vectorised reader knows no binary defaults and reads decimals through a long. The padding of CHAR columns is
    an expression of the plan, not of the scan.
    an expression of the plan, not of the scan.
    """
    metadata, dtype = field["metadata"], arrow_type(field["type"])
    if dtype is None or "__metadata_col" in metadata or "__file_source_metadata_col" in metadata:
        return False
    is_wide = pa.types.is_decimal(dtype) and dtype.precision > LONG_DIGITS
    return EXISTS_DEFAULT not in metadata or not (is_wide or pa.types.is_binary(dtype))


def output_columns(leaf: Node, schema: RelationSchema) -> tuple[tuple[FileColumn, ...], tuple[PartitionColumn, ...]]:
    """Spark's output columns as file columns and partition columns.

    A column of a type or kind that sundog does not read is left out: a query that uses it does not find it in scope and
    is declined, while other queries are unaffected. An attribute that is not in the relation's schema is one of Spark's
    hidden columns (`_metadata`).
    """
    file_columns: list[FileColumn] = []
    partition_columns: list[PartitionColumn] = []
    for attribute in leaf["output"]:
        dtype = arrow_type(attribute["dataType"])
        original = attribute["name"]
        if dtype is None or original not in schema.fields or not _is_readable(schema.fields[original]):
            continue
        name = internal_name(attribute)
        index = schema.partition_index(original)
        if index is not None:
            partition_columns.append(PartitionColumn(name, index, dtype))
        else:
            file_columns.append(FileColumn(name, original, dtype, schema.defaults.get(original)))
    return tuple(file_columns), tuple(partition_columns)


def internal_name(attribute: Node) -> str:
    """`price#12`: the name inside a sundog plan, unique in the whole query."""
    return f"{attribute['name']}#{attribute['exprId']['id']}"
