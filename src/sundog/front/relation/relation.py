"""A file relation of Spark's plan -> the list of Parquet files, their columns and what may change their meaning.

Everything comes from the objects that Spark's own scan would use: the files from the relation's index (`file_listing.py`),
after the partition filters of the plan (V1) or of the scan (V2, where the plan has them no more); partition values and
defaults as the exact internal values; metadata of columns from the relation's schema, since the plan's JSON has none.

Sizes of local files are those of now, not of the listing: a file that was rewritten since must not be answered from an old
footer. Spark reads the row groups whose middle lies within the size that it listed, so a file that has become larger is
left to Spark, and so is one that is empty now.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from sundog.front.catalyst_json import Node
from sundog.front.jvm.functions import methods, text_of, type_json
from sundog.front.jvm.internal_rows import LONG_DIGITS, UnreadableValue, decode_row
from sundog.front.jvm.large_text import json_of
from sundog.front.jvm.objects import once_per_jvm
from sundog.front.jvm.plan import CatalystPlan, jexpression
from sundog.front.relation.checksum_files import is_refused
from sundog.front.relation.file_listing import ListedFile, list_files, row_bytes
from sundog.front.session.conf_table import (
    HADOOP_OPTION_PREFIXES,
    LOCAL_FILE_SYSTEMS,
    READ_OPTIONS,
    Only,
    parquet_setting,
)
from sundog.front.session.session_conf import SessionConf
from sundog.parquet.paths import authority_of, is_local, plain_path, scheme_of
from sundog.parquet.relation import DataFile, FileColumn, PartitionColumn, ReadOptions, Relation, in_reading_order
from sundog.parquet.store_settings import PREFIXES, UnsupportedFileSystem, needed_settings
from sundog.support import Code, Declined, Reason
from sundog.types import arrow_type
from sundog.versions import spark_version

PARQUET_FORMAT = "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat"
FILE_INDEXES = {"InMemoryFileIndex", "PrunedInMemoryFileIndex", "CatalogFileIndex"}
EXISTS_DEFAULT = "EXISTS_DEFAULT"
REBASE_MODES = ("LEGACY", "CORRECTED", "EXCEPTION")
_BUCKET_NAME = re.compile(r".*_\d+(?:\.[^/]*)?", re.DOTALL)


def read_relation(
    plan: CatalystPlan, leaf: Node, condition: Node | None, conf: SessionConf, session: Any, decoder: str
) -> Relation:
    """The relation behind `leaf`; `condition` is the WHERE directly above it, if any. Declines with reasons.

    `session` is the DataFrame's SparkSession.
    """
    jvm = session._jvm
    source: _Source
    if leaf.name == "LogicalRelation":
        source = _V1Source(plan.jnode(leaf.path))
    elif leaf.name == "DataSourceV2ScanRelation":
        source = _V2Source(plan.jnode(leaf.path))
    else:
        raise Declined.because(Code.SOURCE, f"{leaf.name} is not a Parquet file relation", leaf.name)
    if not source.session().equals(session._jsparkSession):
        raise Declined.because(Code.SOURCE, "the relation belongs to another session, whose settings Spark would use")
    options = source.options(jvm)
    hadoop = source.hadoop_conf()
    _check_options(jvm, hadoop, options)
    case_sensitive = conf.flag("spark.sql.caseSensitive")
    schema = _Schema.of(jvm, source, case_sensitive)
    file_columns, partition_columns = _columns(leaf, schema)
    filters = source.partition_filters()
    if filters is None:
        filters = _to_seq(jvm, _partition_filters(plan, leaf, condition, {c.name for c in partition_columns}))
    listed = plan.listings.get(leaf.path)
    if listed is None:
        listed = plan.listings[leaf.path] = list_files(
            jvm, source.location, filters, source.data_filters(jvm), source.partition_schema(), schema.partition_types
        )
    if source.is_bucketed() and not all(_BUCKET_NAME.fullmatch(file.uri) for file in listed):
        raise Declined.because(Code.SOURCE, "a file of a bucketed table does not say which bucket it is")
    files = tuple(map(_current_file, listed))
    return Relation(
        files=in_reading_order(files),
        file_columns=file_columns,
        partition_columns=partition_columns,
        options=_read_options(options, conf, case_sensitive, decoder),
        filesystem=_filesystem_settings(files, hadoop, session),
        label=_label(files),
    )


class _Source(Protocol):
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

    def session(self) -> Any:
        return self._relation.sparkSession()

    def schema(self) -> Any:
        return self._relation.schema()

    def partition_schema(self) -> Any:
        return self._relation.partitionSchema()

    def partition_filters(self) -> None:
        return None

    def data_filters(self, jvm: Any) -> Any:
        return _to_seq(jvm, [])

    def options(self, jvm: Any) -> dict[str, str]:
        return _lower_keys(jvm, spark_version().as_java_map(jvm, self._relation.options()))

    def is_bucketed(self) -> bool:
        return bool(self._relation.bucketSpec().isDefined())

    def hadoop_conf(self) -> Any:
        return self._relation.sparkSession().sessionState().newHadoopConfWithOptions(self._relation.options())


class _V2Source:
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


def _to_seq(jvm: Any, values: list[Any]) -> Any:
    return jvm.PythonUtils.toSeq(values) if values else _empty_seq(jvm)


@once_per_jvm
def _empty_seq(jvm: Any) -> Any:
    return jvm.PythonUtils.toSeq([])


def _check_options(jvm: Any, hadoop: Any, options: dict[str, str]) -> None:
    """Decline options and Hadoop settings that the table does not know, or knows as changing a meaning."""
    reasons = [
        Reason(Code.READ_OPTION, f"the read option {name} is set, which sundog does not know")
        for name in options
        if name not in READ_OPTIONS and not name.startswith(HADOOP_OPTION_PREFIXES)
    ]
    file_system, parquet = json.loads(text_of(_hadoop_settings(jvm), hadoop))
    for key, value in parquet.items():
        answer = parquet_setting(key)
        if answer is None or (isinstance(answer, Only) and value.strip().lower() not in answer.values):
            doc = f": {answer.doc}" if isinstance(answer, Only) else ", which sundog does not know"
            reasons.append(Reason(Code.READ_OPTION, f"the Hadoop setting parquet.{key} is set{doc}"))
    if (file_system or "") not in LOCAL_FILE_SYSTEMS:
        reasons.append(Reason(Code.FILE_SYSTEM, f"fs.file.impl is {file_system}"))
    if reasons:
        raise Declined(*reasons)


@once_per_jvm
def _hadoop_settings(jvm: Any) -> Any:
    """A function from Hadoop's Configuration to the JSON of `[fs.file.impl, {what is set under parquet.}]`."""
    made = methods(jvm)
    owner, text = "org.apache.hadoop.conf.Configuration", "java.lang.String"
    get = made.bind_last(made.virtual(owner, "get", text, text), "fs.file.impl")
    under = made.bind_last(made.virtual(owner, "getPropsWithPrefix", "java.util.Map", text), "parquet.")
    return made.json_pieces(made.all_of([get, under]))


@dataclass(frozen=True)
class _Schema:
    """The relation's columns by the names that the plan's attributes have."""

    fields: dict[str, dict[str, Any]]
    defaults: dict[str, Any]  # of columns that files written before they were added do not hold
    partition_indexes: dict[str, int]  # by folded name
    partition_types: tuple[pa.DataType | None, ...]
    case_sensitive: bool

    @classmethod
    def of(cls, jvm: Any, source: _Source, case_sensitive: bool) -> _Schema:
        jschema = source.schema()
        fields = json.loads(type_json(jvm, jschema))["fields"]
        partitions = json.loads(source.partition_schema().json())["fields"]
        has_defaults = any(EXISTS_DEFAULT in field["metadata"] for field in fields)
        return cls(
            fields={field["name"]: field for field in fields},
            defaults=_defaults(jvm, jschema, fields) if has_defaults else {},
            partition_indexes={_folded(field["name"], case_sensitive): index for index, field in enumerate(partitions)},
            partition_types=tuple(arrow_type(field["type"]) for field in partitions),
            case_sensitive=case_sensitive,
        )

    def partition_index(self, name: str) -> int | None:
        return self.partition_indexes.get(_folded(name, self.case_sensitive))


def _folded(name: str, case_sensitive: bool) -> str:
    return name if case_sensitive else name.lower()


def _defaults(jvm: Any, jschema: Any, fields: list[dict[str, Any]]) -> dict[str, Any]:
    """`ALTER TABLE ADD COLUMN ... DEFAULT`: what Spark's reader gives for a column that a file does not hold, by name.

    The values are those of Spark's own evaluation of the default.
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
    """Not one of Spark's hidden columns, nor one with a default that Spark's own reader fails on for old files.

    Spark's vectorised reader knows no binary defaults and takes decimals through a long. The padding of CHAR columns is an
    expression of the plan, not of the scan.
    """
    metadata, dtype = field["metadata"], arrow_type(field["type"])
    if dtype is None or "__metadata_col" in metadata or "__file_source_metadata_col" in metadata:
        return False
    is_wide = pa.types.is_decimal(dtype) and dtype.precision > LONG_DIGITS
    return EXISTS_DEFAULT not in metadata or not (is_wide or pa.types.is_binary(dtype))


def _columns(leaf: Node, schema: _Schema) -> tuple[tuple[FileColumn, ...], tuple[PartitionColumn, ...]]:
    """Spark's output columns as file columns and partition columns.

    A column of a type or kind that sundog does not read is left out: a query that uses it finds no such column in scope
    and is declined then, while a query that does not is unaffected. An attribute that is not in the relation's schema is
    one of Spark's hidden columns (`_metadata`).
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
    waiting = [condition]
    while waiting:
        part = waiting.pop()
        if part.name == "And":
            waiting.extend(reversed(part.children))
        else:
            yield part


def _current_file(listed: ListedFile) -> DataFile:
    """A listed file; a local one with the size of now.

    A file that has vanished keeps its place, with size -1: the reader raises Spark's error for it, or skips it where
    `ignoreMissingFiles` says so.
    """
    if not is_local(listed.uri):
        return DataFile(listed.uri, listed.size, listed.modified_ms, listed.partition_values)
    path = plain_path(listed.uri)
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return DataFile(path, -1, 0, listed.partition_values)
    if status.st_size == 0 or status.st_size > listed.size:
        now = "empty" if status.st_size == 0 else "larger"
        raise Declined.because(
            Code.FILE_CHANGED, f"{os.path.basename(path)} is {now} now, and was not when Spark listed it"
        )
    if is_refused(path, status):
        raise Declined.because(Code.FILE_CHANGED, f"{os.path.basename(path)} is not what its checksum file says")
    return DataFile(path, status.st_size, status.st_mtime_ns // 1_000_000, listed.partition_values)


def _read_options(options: dict[str, str], conf: SessionConf, case_sensitive: bool, decoder: str) -> ReadOptions:
    def flag(option: str, key: str) -> bool:
        return _one_of(option, options.get(option.lower(), conf.text(key).strip()).lower(), ("true", "false")) == "true"

    def text(option: str, key: str) -> str:
        return _one_of(option, options.get(option.lower(), conf.text(key).strip().upper()), REBASE_MODES)

    if flag("ignoreCorruptFiles", "spark.sql.files.ignoreCorruptFiles"):
        sentence = "under ignoreCorruptFiles the rows before the damage count, as Spark's reader comes to them"
        raise Declined.because(Code.READ_OPTION, sentence)
    return ReadOptions(
        case_sensitive=case_sensitive,
        ignore_missing_files=flag("ignoreMissingFiles", "spark.sql.files.ignoreMissingFiles"),
        datetime_rebase_mode=text("datetimeRebaseMode", "spark.sql.parquet.datetimeRebaseModeInRead"),
        int96_rebase_mode=text("int96RebaseMode", "spark.sql.parquet.int96RebaseModeInRead"),
        widens=spark_version().widens_stored_types,
        int96_conversion=conf.flag("spark.sql.parquet.int96TimestampConversion"),
        decoder=decoder,
    )


def _one_of(option: str, value: str, values: tuple[str, ...]) -> str:
    """The value, if Spark takes it as well; it may raise for another one, or not, depending on the files."""
    if value not in values:
        raise Declined.because(Code.READ_OPTION, f"{option} is {value}, which is none of {', '.join(values)}")
    return value


def _filesystem_settings(files: tuple[DataFile, ...], hadoop: Any, session: Any) -> tuple[tuple[str, str], ...]:
    """How to open files that are not local, from Hadoop's settings as this scan has them; declines what is not understood."""
    remote = [file.path for file in files if not is_local(file.path)]
    if not remote:
        return ()
    schemes = {scheme_of(path) for path in remote}
    if len(schemes) > 1 or not schemes <= set(PREFIXES):
        raise Declined.because(Code.FILE_SYSTEM, f"files are on {', '.join(sorted(schemes))}")
    (scheme,) = schemes
    jvm, prefix = session._jvm, PREFIXES[scheme]
    found: dict[str, str] = json.loads(json_of(jvm, hadoop.getPropsWithPrefix(prefix)))
    defaults: dict[str, str] = json.loads(json_of(jvm, _hadoop_defaults(jvm, scheme).getPropsWithPrefix(prefix)))
    changed = [(prefix + key, value) for key, value in found.items() if defaults.get(key) != value]
    try:
        return needed_settings(scheme, {authority_of(path) for path in remote}, changed)
    except UnsupportedFileSystem as problem:
        raise Declined.because(Code.FILE_SYSTEM, str(problem)) from problem


def _hadoop_defaults(jvm: Any, scheme: str) -> Any:
    """What Hadoop's files say, without what Spark's session or a reader has set.

    The machine's own files count as defaults for HDFS, which Arrow opens by the same files.
    """
    configuration = jvm.org.apache.hadoop.conf.Configuration(scheme == "hdfs")
    if scheme != "hdfs":
        configuration.addResource("core-default.xml")
    return configuration


def _label(files: tuple[DataFile, ...]) -> str:
    """The last part of the folder that holds the first file, above any `key=value` folders."""
    if not files:
        return "empty"
    parts = files[0].path.split("/")[:-1]
    while len(parts) > 1 and "=" in parts[-1]:
        parts.pop()
    return parts[-1] or "/"
