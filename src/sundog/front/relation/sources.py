"""The leaf of a plan that reads files, through either of Spark's two interfaces."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import pyarrow as pa

from sundog.front.catalyst_json import Node
from sundog.front.jvm.method_handles import json_of, type_json
from sundog.front.jvm.plan import CatalystPlan
from sundog.front.relation.file_listing import ListedFile, list_all_files, list_files, to_seq
from sundog.front.session.identity import session_id
from sundog.support import Code, Declined

PARQUET_FORMAT = "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat"
FILE_INDEXES = {"InMemoryFileIndex", "PrunedInMemoryFileIndex", "CatalogFileIndex"}

PlanFilters = Callable[[], list[Any]]
"""The JVM's filters on partition columns above a leaf of the plan."""


class RelationSource(Protocol):
    """A leaf of the plan and its files, through either of Spark's two interfaces."""

    options: dict[str, str]
    """Read options, by lower-case name."""

    def is_of(self, session: Any) -> bool:
        """Whether the relation belongs to this SparkSession."""
        ...

    def schema_json(self) -> str: ...

    def schema(self) -> Any: ...

    def partition_schema_json(self) -> str: ...

    def files(self, filters: PlanFilters, partition_types: Sequence[pa.DataType | None]) -> list[ListedFile]:
        """The files that Spark would read, after the filters on partition columns."""
        ...

    def is_bucketed(self) -> bool: ...

    def hadoop_conf(self) -> Any:
        """Hadoop's settings for this scan: the session's and the reader's."""
        ...


class V1Source:
    """`LogicalRelation(HadoopFsRelation(..., ParquetFileFormat))`."""

    def __init__(self, plan: CatalystPlan, leaf: Node, session: Any) -> None:
        facts = plan.leaf(leaf)
        if isinstance(facts, str):
            raise Declined.because(Code.SOURCE, f"{_simple(facts)} is not a set of files")
        if facts.format_class != PARQUET_FORMAT:
            raise Declined.because(Code.SOURCE, f"the file format is {_simple(facts.format_class)}")
        _check_index(facts.index_class)
        self.options = _lower_keys(facts.options)
        self._facts = facts
        self._plan, self._leaf, self._session = plan, leaf, session

    @property
    def _relation(self) -> Any:
        return self._plan.jleaf(self._leaf).relation()

    def is_of(self, session: Any) -> bool:
        return self._facts.session == session_id(session)

    def schema_json(self) -> str:
        return self._facts.schema_json

    def schema(self) -> Any:
        return self._relation.schema()

    def partition_schema_json(self) -> str:
        return self._facts.partition_schema_json

    def files(self, filters: PlanFilters, partition_types: Sequence[pa.DataType | None]) -> list[ListedFile]:
        jvm, jleaf = self._session._jvm, self._plan.jleaf(self._leaf)
        if not partition_types:
            return list_all_files(jvm, jleaf)
        relation = jleaf.relation()
        found = relation.location().listFiles(to_seq(jvm, filters()), to_seq(jvm, []))
        return list_files(jvm, found, relation.partitionSchema(), partition_types)

    def is_bucketed(self) -> bool:
        return self._facts.is_bucketed

    def hadoop_conf(self) -> Any:
        return self._session._jsparkSession.sessionState().newHadoopConfWithOptions(self._relation.options())


class V2Source:
    """`DataSourceV2ScanRelation(ParquetScan)`: the same files behind Spark's newer reader interface.

    Filters on partition columns are in the scan, no longer in the plan: only this listing applies them.
    """

    def __init__(self, plan: CatalystPlan, leaf: Node, session: Any) -> None:
        scan = plan.jleaf(leaf).scan()
        if scan.getClass().getSimpleName() != "ParquetScan":
            raise Declined.because(Code.SOURCE, f"{scan.getClass().getSimpleName()} is not a Parquet scan")
        if scan.pushedAggregate().isDefined():
            raise Declined.because(Code.SOURCE, "Spark answers this aggregate from file footers itself")
        self._location = scan.fileIndex()
        _check_index(self._location.getClass().getName())
        self._scan = scan
        self._jvm = session._jvm
        self.options = _lower_keys(json.loads(json_of(self._jvm, scan.options().asCaseSensitiveMap())))

    def is_of(self, session: Any) -> bool:
        return bool(self._scan.sparkSession().equals(session._jsparkSession))

    def schema_json(self) -> str:
        return type_json(self._jvm, self.schema())

    def schema(self) -> Any:
        return self._scan.readSchema()

    def partition_schema_json(self) -> str:
        return type_json(self._jvm, self._location.partitionSchema())

    def files(self, filters: PlanFilters, partition_types: Sequence[pa.DataType | None]) -> list[ListedFile]:
        found = self._location.listFiles(self._scan.partitionFilters(), self._scan.dataFilters())
        return list_files(self._jvm, found, self._location.partitionSchema(), partition_types)

    def is_bucketed(self) -> bool:
        return False

    def hadoop_conf(self) -> Any:
        return self._scan.hadoopConf()


def _check_index(class_name: str) -> None:
    if _simple(class_name) not in FILE_INDEXES:
        raise Declined.because(
            Code.SOURCE, f"the files are listed by {_simple(class_name)}, which sundog does not know"
        )


def _simple(class_name: str) -> str:
    return class_name.rsplit(".", 1)[-1].rsplit("$", 1)[-1]


def _lower_keys(options: dict[str, str]) -> dict[str, str]:
    return {key.lower(): value for key, value in options.items()}
