"""Reads a file relation of Spark's plan: its Parquet files, their columns and settings that may change their meaning.

Everything comes from the objects that Spark's own scan would use. Files come from the relation's index
(`file_listing.py`), after the partition filters of the plan (V1) or of the scan (V2, whose plan no longer has them).
Partition values and defaults are the exact internal values. Metadata of columns comes from the relation's schema, since
the plan's JSON has none.

Sizes and times of files are the present ones, not those of the listing: a file that was rewritten must not be answered
from an old footer. Spark reads the row groups whose middle is within the size that it listed. So a file that has grown
is left to Spark, and so is one that is empty now, or one of a store that has another size.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

from sundog.front.catalyst_json import Node
from sundog.front.jvm.plan import CatalystPlan, jexpression
from sundog.front.relation.checksum_files import is_refused
from sundog.front.relation.columns import RelationSchema, internal_name, output_columns
from sundog.front.relation.file_listing import ListedFile
from sundog.front.relation.options import (
    filesystem_settings,
    read_options,
    unknown_hadoop_settings,
    unknown_options,
)
from sundog.front.relation.sources import RelationSource, V1Source, V2Source
from sundog.front.session.session_conf import SessionConf
from sundog.front.shapes.runtime_filters import conjunct_nodes, reads_subquery
from sundog.parquet.file_statuses import FileStatus, statuses_of
from sundog.parquet.paths import is_local, plain_path
from sundog.parquet.reading import DataFile
from sundog.parquet.store_settings import Settings
from sundog.support import Code, Declined
from sundog.tables.parquet_folder import ParquetFolder, in_reading_order
from sundog.tables.table import Table

_BUCKET_NAME = re.compile(r".*_\d+(?:\.[^/]*)?", re.DOTALL)


def read_table(
    plan: CatalystPlan, leaf: Node, condition: Node | None, conf: SessionConf, session: Any, decoder: str
) -> Table:
    """The table behind `leaf`; `condition` is the WHERE directly above it, if any. Declines with reasons.

    `session` is the DataFrame's SparkSession.
    """
    jvm = session._jvm
    source: RelationSource
    if leaf.name == "LogicalRelation":
        source = V1Source(plan, leaf, session)
    elif leaf.name == "DataSourceV2ScanRelation":
        source = V2Source(plan, leaf, session)
    else:
        raise Declined.because(Code.SOURCE, f"{leaf.name} is not a Parquet file relation", leaf.name)
    if not source.is_of(session):
        raise Declined.because(Code.SOURCE, "the relation belongs to another session, whose settings Spark would use")
    hadoop = _checked_hadoop_conf(plan, source, jvm)
    case_sensitive = conf.flag("spark.sql.caseSensitive")
    schema = RelationSchema.of(jvm, source, case_sensitive)
    file_columns, partition_columns = output_columns(leaf, schema)
    place = plan.place(leaf.path)
    listed = plan.listings.get(place)
    if listed is None:
        names = {column.name for column in partition_columns}
        listed = plan.listings[place] = source.files(
            lambda: _partition_filters(plan, leaf, condition, names), schema.partition_types
        )
    if source.is_bucketed() and not all(_BUCKET_NAME.fullmatch(file.uri) for file in listed):
        raise Declined.because(Code.SOURCE, "a file of a bucketed table does not say which bucket it is")
    filesystem = filesystem_settings(listed, hadoop, session)
    files = _current_files(listed, filesystem)
    return ParquetFolder(
        files=in_reading_order(files),
        file_columns=file_columns,
        partition_columns=partition_columns,
        options=read_options(source.options, conf, case_sensitive, decoder),
        filesystem=filesystem,
        label=_label(files),
    )


def _checked_hadoop_conf(plan: CatalystPlan, source: RelationSource, jvm: Any) -> Any:
    """Hadoop's settings for a scan, checked with its read options; made once for all scans of a query with the same
    options.

    A path is an option of the reader, not of Hadoop (`SessionState.newHadoopConfWithOptions`).
    """
    options = frozenset(item for item in source.options.items() if item[0] not in ("path", "paths"))
    if options not in plan.hadoop_confs:
        hadoop = source.hadoop_conf()
        plan.hadoop_confs[options] = hadoop, unknown_hadoop_settings(jvm, hadoop)
    hadoop, reasons = plan.hadoop_confs[options]
    reasons = [*unknown_options(source.options), *reasons]
    if reasons:
        raise Declined(*reasons)
    return hadoop


def _partition_filters(plan: CatalystPlan, leaf: Node, condition: Node | None, partition_names: set[str]) -> list[Any]:
    """The JVM's expressions for those conjuncts of the WHERE that read partition columns only, and no subquery."""
    if condition is None or not partition_names:
        return []
    filter_path = leaf.path[:-1]
    jcondition = plan.jnode(filter_path).condition()
    wanted = []
    for conjunct in conjunct_nodes(condition):
        names = {internal_name(node) for node in conjunct.walk() if node.name == "AttributeReference"}
        if names and names <= partition_names and not reads_subquery(conjunct):
            wanted.append(jexpression(jcondition, conjunct.path))
    return wanted


def _current_files(listed: Sequence[ListedFile], filesystem: Settings) -> tuple[DataFile, ...]:
    """The listed files with their present sizes and times."""
    statuses = statuses_of([file.uri for file in listed if not is_local(file.uri)], filesystem)
    return tuple(
        _local_file(file) if is_local(file.uri) else _file_elsewhere(file, statuses.get(file.uri)) for file in listed
    )


def _file_elsewhere(listed: ListedFile, status: FileStatus | None) -> DataFile:
    """A file of HDFS or an object store, with its present time. If it is missing, opening it raises."""
    if status is None:
        return DataFile(listed.uri, listed.size, 0, listed.partition_values)
    if status.size != listed.size:
        name = os.path.basename(listed.uri)
        raise Declined.because(Code.FILE_CHANGED, f"{name} has another size now than when Spark listed it")
    return DataFile(listed.uri, status.size, status.modified_ns // 1_000_000, listed.partition_values)


def _local_file(listed: ListedFile) -> DataFile:
    """A file that has vanished keeps its place, with size -1: the reader raises Spark's error for it, or skips it under
    `ignoreMissingFiles`."""
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


def _label(files: tuple[DataFile, ...]) -> str:
    """The last part of the folder that holds the first file, above any `key=value` folders."""
    if not files:
        return "empty"
    parts = files[0].path.split("/")[:-1]
    while len(parts) > 1 and "=" in parts[-1]:
        parts.pop()
    return parts[-1] or "/"
