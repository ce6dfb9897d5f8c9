"""The leaf of a plan that reads files, whichever of Spark's two interfaces it was made by."""

from __future__ import annotations

import json
from typing import Any, Protocol

from sundog.front.jvm.large_text import json_of
from sundog.front.jvm.objects import once_per_jvm
from sundog.support import Code, Declined
from sundog.versions import spark_version

PARQUET_FORMAT = "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat"
FILE_INDEXES = {"InMemoryFileIndex", "PrunedInMemoryFileIndex", "CatalogFileIndex"}


class RelationSource(Protocol):
    """What a leaf of the plan knows about its files, whichever of Spark's two interfaces it was made by."""

    location: Any

    def session(self) -> Any: ...

    def schema(self) -> Any: ...

    def partition_schema(self) -> Any: ...

    def partition_filters(self) -> Any | None:
        """Filters that the scan itself applies, as a Scala sequence; None where the plan still has them."""
        ...

    def data_filters(self, jvm: Any) -> Any: ...

    def options(self, jvm: Any) -> dict[str, str]:
        """Read options, by lower-case name."""
        ...

    def is_bucketed(self) -> bool: ...

    def hadoop_conf(self) -> Any:
        """Hadoop's settings as this scan would use them: the session's and the reader's."""
        ...


class V1Source:
    """`LogicalRelation(HadoopFsRelation(..., ParquetFileFormat))`."""

    def __init__(self, jleaf: Any) -> None:
        relation = jleaf.relation()
        if relation.getClass().getSimpleName() != "HadoopFsRelation":
            raise Declined.because(Code.SOURCE, f"{relation.getClass().getSimpleName()} is not a set of files")
        format_class = relation.fileFormat().getClass().getName()
        if format_class != PARQUET_FORMAT:
            raise Declined.because(Code.SOURCE, f"the file format is {format_class.rsplit('.', 1)[-1]}")
        self._relation = relation
        self.location = _known_index(relation.location())

    def session(self) -> Any:
        return self._relation.sparkSession()

    def schema(self) -> Any:
        return self._relation.schema()

    def partition_schema(self) -> Any:
        return self._relation.partitionSchema()

    def partition_filters(self) -> None:
        return None

    def data_filters(self, jvm: Any) -> Any:
        return to_seq(jvm, [])

    def options(self, jvm: Any) -> dict[str, str]:
        return _lower_keys(jvm, spark_version().as_java_map(jvm, self._relation.options()))

    def is_bucketed(self) -> bool:
        return bool(self._relation.bucketSpec().isDefined())

    def hadoop_conf(self) -> Any:
        return self._relation.sparkSession().sessionState().newHadoopConfWithOptions(self._relation.options())


class V2Source:
    """`DataSourceV2ScanRelation(ParquetScan)`: the same files behind Spark's newer reader interface.

    Filters on partition columns are in the scan and no longer in the plan: nothing but this listing applies them.
    """

    def __init__(self, jleaf: Any) -> None:
        scan = jleaf.scan()
        if scan.getClass().getSimpleName() != "ParquetScan":
            raise Declined.because(Code.SOURCE, f"{scan.getClass().getSimpleName()} is not a Parquet scan")
        if scan.pushedAggregate().isDefined():
            raise Declined.because(Code.SOURCE, "Spark answers this aggregate from file footers itself")
        self._scan = scan
        self.location = _known_index(scan.fileIndex())

    def session(self) -> Any:
        return self._scan.sparkSession()

    def schema(self) -> Any:
        return self._scan.readSchema()

    def partition_schema(self) -> Any:
        return self.location.partitionSchema()

    def partition_filters(self) -> Any:
        return self._scan.partitionFilters()

    def data_filters(self, jvm: Any) -> Any:
        return self._scan.dataFilters()

    def options(self, jvm: Any) -> dict[str, str]:
        return _lower_keys(jvm, self._scan.options().asCaseSensitiveMap())

    def is_bucketed(self) -> bool:
        return False

    def hadoop_conf(self) -> Any:
        return self._scan.hadoopConf()


def _known_index(location: Any) -> Any:
    name = location.getClass().getSimpleName()
    if name not in FILE_INDEXES:
        raise Declined.because(Code.SOURCE, f"the files are listed by {name}, which sundog does not know")
    return location


def _lower_keys(jvm: Any, jmap: Any) -> dict[str, str]:
    found: dict[str, str] = json.loads(json_of(jvm, jmap))
    return {key.lower(): value for key, value in found.items()}


def to_seq(jvm: Any, values: list[Any]) -> Any:
    return jvm.PythonUtils.toSeq(values) if values else _empty_seq(jvm)


@once_per_jvm
def _empty_seq(jvm: Any) -> Any:
    return jvm.PythonUtils.toSeq([])
