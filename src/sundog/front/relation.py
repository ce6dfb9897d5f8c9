"""A file relation of Spark's plan -> the list of Parquet files, their columns and what may change their meaning.

Spark has already listed the files (and keeps the listing in the relation), so its own partition pruning applies: the
conjuncts of a WHERE that name partition columns only are handed back to `listFiles`. For a table without partitions one
call brings all paths. Sizes and times of local files are taken from the file system at each query, not from the
listing: a file that was rewritten since must not be answered from an old footer.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from sundog.front.catalyst_json import Node
from sundog.front.jvm import CatalystPlan, jexpression
from sundog.front.large_text import json_of
from sundog.parquet.relation import DataFile, FileColumn, PartitionColumn, ReadOptions, Relation
from sundog.support import Code, Declined, Reason
from sundog.types import arrow_type

PARQUET_FORMAT = "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat"
FILE_INDEXES = {"InMemoryFileIndex", "PrunedInMemoryFileIndex", "CatalogFileIndex"}
HADOOP_SETTINGS = {"s3a": "fs.s3a.", "gs": "fs.gs.", "abfss": "fs.azure.", "hdfs": "dfs."}

ConfReader = Callable[[str, str], str]


def read_relation(plan: CatalystPlan, leaf: Node, condition: Node | None, conf: ConfReader, jvm: Any) -> Relation:
    """The relation behind `leaf`; `condition` is the WHERE directly above it, if any. Declines with reasons."""
    source: _V1Source | _V2Source
    if leaf.name == "LogicalRelation":
        source = _V1Source(plan.jnode(leaf.path))
    elif leaf.name == "DataSourceV2ScanRelation":
        source = _V2Source(plan.jnode(leaf.path))
    else:
        raise Declined.because(Code.SOURCE, f"{leaf.name} is not a Parquet file relation", leaf.name)
    _check_conf(conf)
    partition_fields = json.loads(source.partition_schema().json())["fields"]
    file_columns, partition_columns = _columns(leaf, partition_fields, conf("spark.sql.caseSensitive", "false"))
    if partition_fields:
        wanted = _partition_filters(plan, leaf, condition, {column.name for column in partition_columns})
        files = _list_directories(source, wanted, partition_fields, jvm)
    else:
        files = _list_plain(source, jvm)
    options = source.options()
    return Relation(
        files=files,
        file_columns=file_columns,
        partition_columns=partition_columns,
        options=_read_options(options, conf),
        filesystem=_filesystem_settings(files, jvm),
        label=_label(files),
    )


class _V1Source:
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

    def partition_schema(self) -> Any:
        return self._relation.partitionSchema()

    def options(self) -> dict[str, str]:
        return _options_of(self._relation.options())


class _V2Source:
    """`DataSourceV2ScanRelation(ParquetScan)`: the same files behind Spark's newer reader interface."""

    def __init__(self, jleaf: Any) -> None:
        scan = jleaf.scan()
        if scan.getClass().getSimpleName() != "ParquetScan":
            raise Declined.because(Code.SOURCE, f"{scan.getClass().getSimpleName()} is not a Parquet scan")
        if scan.pushedAggregate().isDefined():
            raise Declined.because(Code.SOURCE, "Spark answers this aggregate from file footers itself")
        self._scan = scan
        self.location = _known_index(scan.fileIndex())

    def partition_schema(self) -> Any:
        return self.location.partitionSchema()

    def options(self) -> dict[str, str]:
        options = self._scan.options().asCaseSensitiveMap()
        return {str(key).lower(): str(options.get(key)) for key in options.keySet()}


def _known_index(location: Any) -> Any:
    name = location.getClass().getSimpleName()
    if name not in FILE_INDEXES:
        raise Declined.because(Code.SOURCE, f"the files are listed by {name}, which sundog does not know")
    return location


def _options_of(jmap: Any) -> dict[str, str]:
    keys = jmap.keys().toSeq()
    return {str(keys.apply(i)).lower(): str(jmap.apply(keys.apply(i))) for i in range(keys.size())}


def _check_conf(conf: ConfReader) -> None:
    reasons = [
        Reason(Code.READ_OPTION, f"{key} is {value}")
        for key, value in (
            ("spark.sql.parquet.fieldId.read.enabled", "true"),
            ("spark.sql.legacy.parquet.nanosAsLong", "true"),
        )
        if conf(key, "false") == value
    ]
    if reasons:
        raise Declined(*reasons)


def _columns(
    leaf: Node, partition_fields: list[dict[str, Any]], case_sensitive: str
) -> tuple[tuple[FileColumn, ...], tuple[PartitionColumn, ...]]:
    """Spark's output columns as file columns and partition columns.

    A column of a type or kind that sundog does not read is left out: a query that uses it finds no such column in scope
    and is declined then, while a query that does not is unaffected.
    """

    def fold(name: str) -> str:
        return name if case_sensitive == "true" else name.lower()

    partitions = {fold(field["name"]): index for index, field in enumerate(partition_fields)}
    file_columns: list[FileColumn] = []
    partition_columns: list[PartitionColumn] = []
    for attribute in leaf["output"]:
        dtype = arrow_type(attribute["dataType"])
        metadata = attribute.get("metadata") or {}
        if dtype is None or not is_plain_column(metadata):
            continue
        name = internal_name(attribute)
        if fold(attribute["name"]) in partitions:
            partition_columns.append(PartitionColumn(name, partitions[fold(attribute["name"])], dtype))
        else:
            file_columns.append(FileColumn(name, attribute["name"], dtype))
    return tuple(file_columns), tuple(partition_columns)


def is_plain_column(metadata: dict[str, Any]) -> bool:
    """Not a hidden metadata column, no default for old files, no CHAR padding: just what is in the file."""
    odd = ("__metadata_col", "__file_source_metadata_col", "EXISTS_DEFAULT")
    is_char = str(metadata.get("__CHAR_VARCHAR_TYPE_STRING", "")).startswith("char")
    return not is_char and not any(key in metadata for key in odd)


def internal_name(attribute: Node) -> str:
    """`price#12`: the name inside a sundog plan, unique in the whole query."""
    return f"{attribute['name']}#{attribute['exprId']['id']}"


def _partition_filters(plan: CatalystPlan, leaf: Node, condition: Node | None, partition_names: set[str]) -> list[Any]:
    """The JVM's expressions for those conjuncts of the WHERE that read partition columns only."""
    if condition is None or not partition_names:
        return []
    filter_path = leaf.path[:-1]
    jcondition = plan.jnode(filter_path).condition()
    wanted = []
    for conjunct in _conjuncts(condition):
        names = {internal_name(node) for node in conjunct.walk() if node.name == "AttributeReference"}
        if names and names <= partition_names:
            wanted.append(jexpression(jcondition, conjunct.path))
    return wanted


def _conjuncts(condition: Node) -> Iterable[Node]:
    if condition.name == "And":
        for child in condition.children:
            yield from _conjuncts(child)
    else:
        yield condition


def _list_plain(source: _V1Source | _V2Source, jvm: Any) -> tuple[DataFile, ...]:
    uris: list[str] = json.loads(json_of(jvm, source.location.inputFiles()))
    if any(not _is_local(uri) for uri in uris):
        return _list_directories(source, [], [], jvm)
    return tuple(file for uri in uris if (file := _local_file(uri, ())) is not None)


def _list_directories(
    source: _V1Source | _V2Source, filters: list[Any], fields: list[dict[str, Any]], jvm: Any
) -> tuple[DataFile, ...]:
    """Spark's own listing, after its partition pruning: a few calls for each folder and file."""
    to_seq = jvm.PythonUtils.toSeq
    directories = source.location.listFiles(to_seq(filters), to_seq([]))
    schema = source.partition_schema()
    types = [arrow_type(field["type"]) for field in fields]
    files: list[DataFile | None] = []
    for index in range(directories.size()):
        directory = directories.apply(index)
        row = directory.values()
        values = tuple(
            _partition_value(row.get(i, schema.apply(i).dataType()), dtype, fields[i]["name"])
            for i, dtype in enumerate(types)
        )
        jfiles = directory.files()
        for number in range(jfiles.size()):
            jfile = jfiles.apply(number)
            uri = str(jfile.getPath().toUri())
            files.append(
                _local_file(uri, values)
                if _is_local(uri)
                else DataFile(uri, int(jfile.getLen()), int(jfile.getModificationTime()), values)
            )
    return tuple(file for file in files if file is not None)


def _is_local(uri: str) -> bool:
    return urlsplit(uri).scheme in ("file", "")


def _partition_value(value: Any, dtype: pa.DataType | None, name: str) -> Any:
    """What `pa.scalar(value, dtype)` takes, from the internal value of Catalyst's row."""
    if value is None:
        return None
    if dtype is None or pa.types.is_binary(dtype):
        raise Declined.because(Code.UNSUPPORTED_TYPE, f"partition column {name} has a type sundog does not read")
    if pa.types.is_string(dtype):
        return str(value.toString()) if hasattr(value, "toString") else str(value)
    if pa.types.is_decimal(dtype):
        return Decimal(str(value.toString()))
    return value


def _local_file(uri: str, values: tuple[Any, ...]) -> DataFile | None:
    """A file on a local disk, stated now; None for what Spark does not read (hidden, empty).

    A file that has vanished keeps its place, with size 0: the reader raises Spark's error for it, or skips it where
    `ignoreMissingFiles` says so.
    """
    path = unquote(urlsplit(uri).path)
    if os.path.basename(path).startswith(("_", ".")):
        return None
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return DataFile(path, -1, 0, values)
    if status.st_size == 0:
        return None
    return DataFile(path, status.st_size, status.st_mtime_ns // 1_000_000, values)


def _read_options(options: dict[str, str], conf: ConfReader) -> ReadOptions:
    def flag(option: str, key: str) -> bool:
        return options.get(option.lower(), conf(key, "false")).lower() == "true"

    def text(option: str, key: str) -> str:
        return options.get(option.lower(), conf(key, "CORRECTED")).upper()

    return ReadOptions(
        case_sensitive=conf("spark.sql.caseSensitive", "false") == "true",
        ignore_missing_files=flag("ignoreMissingFiles", "spark.sql.files.ignoreMissingFiles"),
        ignore_corrupt_files=flag("ignoreCorruptFiles", "spark.sql.files.ignoreCorruptFiles"),
        datetime_rebase_mode=text("datetimeRebaseMode", "spark.sql.parquet.datetimeRebaseModeInRead"),
        int96_rebase_mode=text("int96RebaseMode", "spark.sql.parquet.int96RebaseModeInRead"),
        decoder=conf("spark.sundog.decoder", "own").strip().lower(),
    )


def _filesystem_settings(files: tuple[DataFile, ...], jvm: Any) -> tuple[tuple[str, str], ...]:
    """Hadoop's fs.* settings for files that are not local; the Parquet layer knows which of them it can use."""
    schemes = {urlsplit(file.path).scheme for file in files} - {"", "file"}
    if not schemes:
        return ()
    unknown = schemes - set(HADOOP_SETTINGS)
    if unknown or len(schemes) > 1:
        raise Declined.because(Code.FILE_SYSTEM, f"files are on {', '.join(sorted(schemes))}")
    session = jvm.org.apache.spark.sql.SparkSession.active()
    hadoop = session.sparkContext().hadoopConfiguration()
    prefix = HADOOP_SETTINGS[schemes.pop()]
    found = hadoop.getPropsWithPrefix(prefix)
    return tuple(sorted((prefix + str(key), str(found.get(key))) for key in found.keySet()))


def _label(files: tuple[DataFile, ...]) -> str:
    """The last part of the folder that holds the first file, above any `key=value` folders."""
    if not files:
        return "empty"
    parts = files[0].path.split("/")[:-1]
    while len(parts) > 1 and "=" in parts[-1]:
        parts.pop()
    return parts[-1] or "/"
