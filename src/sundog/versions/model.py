"""Small types that the versions share: names in a plan's JSON, and the arguments of an Arrow collection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class PlanNames:
    """Names in a version's plans that a newer version changed: `front` knows the newest only.

    `classes` maps an old class name to its new one; `fields` does the same for the fields of a class (by its new name).
    """

    classes: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def class_name(self, name: str) -> str:
        return self.classes.get(name, name)

    def renamed(self, class_name: str, values: dict[str, Any]) -> dict[str, Any]:
        """The fields of a node of `class_name` under their newest names."""
        names = self.fields.get(class_name)
        return values if names is None else {names.get(key, key): value for key, value in values.items()}


@dataclass(frozen=True)
class ArrowRequest:
    """The arguments of `DataFrame._collect_as_arrow`, in which toPandas and toArrow differ."""

    empty_list_if_no_rows: bool = True
    large_types: bool = False


@dataclass(frozen=True)
class ConnectClasses:
    """Classes of a Spark Connect server in the JVM that turn a client's relation into a logical plan of Catalyst."""

    service: str = "org.apache.spark.sql.connect.service.SparkConnectService$"
    session_key: str = "org.apache.spark.sql.connect.service.SessionKey"
    planner: str = "org.apache.spark.sql.connect.planner.SparkConnectPlanner"
    relation: str = "org.apache.spark.connect.proto.Relation"
    stream: str = "org.sparkproject.connect.protobuf.CodedInputStream"
