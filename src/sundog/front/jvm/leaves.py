"""The files that the leaves of a plan read: one call for all leaves, whatever their number.

Asking a query over nine tables for schema, options, classes and settings, relation by relation, took 800 calls of 0.1
ms. Here a function made of method handles goes through the leaves inside the JVM, and Jackson writes

    plan.collectLeaves().map(leaf => leaf.relation match {
      case r: HadoopFsRelation => [class, format, index, session, schema, partition schema, options, bucketed]
      case other               => class
    })

Leaves stand in the order of the plan's JSON, both in pre-order.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from sundog.front.jvm.large_text import TextFunction
from sundog.front.jvm.method_handles import methods
from sundog.front.jvm.objects import once_per_jvm
from sundog.versions import spark_version

_TREE_NODE = "org.apache.spark.sql.catalyst.trees.TreeNode"
_DATASOURCES = "org.apache.spark.sql.execution.datasources"
_LOGICAL_RELATION = f"{_DATASOURCES}.LogicalRelation"
_FILES = f"{_DATASOURCES}.HadoopFsRelation"


@dataclass(frozen=True)
class FileRelation:
    """A `HadoopFsRelation`: classes of its format and of its file index, its session, schemas as JSON, options."""

    format_class: str
    index_class: str
    session: str
    schema_json: str
    partition_schema_json: str
    options: dict[str, str]
    is_bucketed: bool


def read_leaves(jvm: Any, jplan: Any) -> list[FileRelation | str]:
    """For each leaf of the plan the files that it reads, or the class of its other source."""
    return [
        entry if isinstance(entry, str) else FileRelation(*entry) for entry in json.loads(_leaves_function(jvm)(jplan))
    ]


@once_per_jvm
def _leaves_function(jvm: Any) -> TextFunction:
    """Plan -> the JSON of its leaves."""
    made = methods(jvm)
    session = made.chain(
        made.getter(_FILES, "sparkSession"), made.getter(spark_version().session_class_name, "sessionUUID")
    )
    type_json = made.getter("org.apache.spark.sql.types.DataType", "json")
    files = made.all_of(
        [
            made.chain(made.getter(_FILES, "fileFormat"), made.class_name()),
            made.chain(made.getter(_FILES, "location"), made.class_name()),
            session,
            made.chain(made.getter(_FILES, "schema"), type_json),
            made.chain(made.getter(_FILES, "partitionSchema"), type_json),
            made.chain(made.getter(_FILES, "options"), made.as_map()),
            made.chain(made.getter(_FILES, "bucketSpec"), made.getter("scala.Option", "isDefined")),
        ]
    )
    of_relation = made.by_class({_FILES: files}, made.class_name())
    relation = made.chain(made.getter(_LOGICAL_RELATION, "relation"), of_relation)
    of_leaf = made.by_class({_LOGICAL_RELATION: relation}, made.class_name())
    return made.to_json(made.array(made.mapped(made.getter(_TREE_NODE, "collectLeaves"), of_leaf)))
