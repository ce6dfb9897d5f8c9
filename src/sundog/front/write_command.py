"""A write command that Spark has analysed, and the same command with another query.

Spark analyses the whole command first, as if to run it: names, defaults, column lists, casts and all checks of the
target are Spark's own, made on the original plan. Only then is the query inside the analysed command replaced, so that
nothing above the query is sundog's. Commands that are not in the table below are left to Spark.

Some checks Spark makes only when the command runs: it looks for the target among the relations that the query reads. A
relation that sundog reads is then no longer in the plan. So a write whose target is at, above or below a path that its
query reads is always left to Spark, with or without an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from sundog.support import Code, Declined
from sundog.versions import spark_version


def _with_only_child(jvm: Any, command: Any, query: Any) -> Any:
    return command.withNewChildren(jvm.PythonUtils.toSeq([query]))


def _with_second_child(jvm: Any, command: Any, query: Any) -> Any:
    return command.withNewChildren(jvm.PythonUtils.toSeq([command.children().apply(0), query]))


def _create_table(jvm: Any, command: Any, query: Any) -> Any:
    create = jvm.org.apache.spark.sql.execution.command.CreateDataSourceTableAsSelectCommand
    return create(command.table(), command.mode(), query, command.outputColumnNames())


def _save_as_table(jvm: Any, command: Any, query: Any) -> Any:
    save = jvm.org.apache.spark.sql.execution.command.SaveAsV1TableCommand
    return save(command.tableDesc(), command.mode(), query)


def _save_into_source(jvm: Any, command: Any, query: Any) -> Any:
    save = jvm.org.apache.spark.sql.execution.datasources.SaveIntoDataSourceCommand
    return save(query, command.dataSource(), command.options(), command.mode())


_FILE_FORMATS = frozenset(["parquet", "orc", "csv", "json", "text"])


@dataclass(frozen=True)
class Target:
    """What a command writes to. `is_skipped`: Spark raises or returns without running the query. `replaced`: the
    identifier of a table that is dropped just before."""

    paths: tuple[str, ...] = ()
    is_skipped: bool = False
    replaced: Any = None


def _files(session: SparkSession, command: Any) -> Target:
    path, mode = command.outputPath(), command.mode().toString()
    exists = mode in ("Ignore", "ErrorIfExists") and _file_system(session, path).exists(path)
    return Target((path.toString(),), bool(exists or command.ifPartitionNotExists()))


def _new_table(session: SparkSession, command: Any) -> Target:
    """The target of CREATE TABLE … AS SELECT; before Spark 4.1 also that of saveAsTable, which appends to an existing
    table or drops it first."""
    target = _table_by_description(session, command, command.table())
    if target.is_skipped or command.mode().toString() != "Overwrite":
        return target
    identifier = command.table().identifier()
    if not _catalog(session).tableExists(identifier):
        return target
    provider = _catalog(session).getTableMetadata(identifier).provider()
    if provider.isEmpty() or provider.get().lower() not in _FILE_FORMATS:  # these have paths to compare
        raise Declined.because(Code.WRITE, "only tables of files are replaced", "CreateDataSourceTableAsSelectCommand")
    return replace(target, replaced=identifier)


def _maybe_new_table(session: SparkSession, command: Any) -> Target:
    return _table_by_description(session, command, command.tableDesc())


def _table_by_description(session: SparkSession, command: Any, table: Any) -> Target:
    catalog = _catalog(session)
    if not catalog.tableExists(table.identifier()):
        return Target(tuple(_locations(table)))
    existing = catalog.getTableMetadata(table.identifier())
    skipped = command.mode().toString() in ("Ignore", "ErrorIfExists")
    return Target((*_locations(table), *_locations(existing)), skipped)


def _source(session: SparkSession, command: Any) -> Target:
    path = command.options().get("path")
    return Target((path.get(),) if path.isDefined() else ())


def _new_table_v2(session: SparkSession, command: Any) -> Target:
    target = command.name()
    return Target(is_skipped=bool(target.catalog().tableExists(target.identifier())))


def _table_v2(session: SparkSession, command: Any) -> Target:
    """A table of a catalog: sundog does not read its files, so Spark still sees it in the query if it is there."""
    return Target()


@dataclass(frozen=True)
class _CommandKind:
    """How another query is put into a command, and what it writes to."""

    with_query: Callable[[Any, Any, Any], Any]
    target: Callable[[SparkSession, Any], Target]


# The known analysed commands, by class. All have a method `query`.
_KINDS = {
    "InsertIntoHadoopFsRelationCommand": _CommandKind(_with_only_child, _files),
    "CreateDataSourceTableAsSelectCommand": _CommandKind(_create_table, _new_table),
    "SaveAsV1TableCommand": _CommandKind(_save_as_table, _maybe_new_table),
    "SaveIntoDataSourceCommand": _CommandKind(_save_into_source, _source),
    "AppendData": _CommandKind(_with_only_child, _table_v2),
    "OverwriteByExpression": _CommandKind(_with_only_child, _table_v2),
    "OverwritePartitionsDynamic": _CommandKind(_with_only_child, _table_v2),
    "CreateTableAsSelect": _CommandKind(_with_second_child, _new_table_v2),
    "ReplaceTableAsSelect": _CommandKind(_with_second_child, _table_v2),
}


@dataclass(frozen=True)
class WriteCommand:
    """A command of a known kind, analysed and checked by Spark, not yet run."""

    session: SparkSession
    jcommand: Any
    kind: _CommandKind
    target: Target

    @classmethod
    def analyzed(cls, session: SparkSession, jplan: Any) -> WriteCommand:
        """Analyse a command. Raises Spark's errors, and Declined if the write must stay on Spark."""
        skip = session._jvm.org.apache.spark.sql.execution.CommandExecutionMode.SKIP()
        command = session._jsparkSession.sessionState().executePlan(jplan, skip).analyzed()
        name = command.getClass().getSimpleName()
        kind = _KINDS.get(name)
        if kind is None:
            raise Declined.because(Code.WRITE, f"{name} stays on Spark", name)
        target = kind.target(session, command)
        if target.is_skipped:
            raise Declined.because(Code.WRITE, "the target exists, so Spark may not run the query", name)
        for path in _paths_read(command.query()) if target.paths else ():
            if any(overlap(path, written) for written in target.paths):
                raise Declined.because(Code.WRITE, f"the query reads {path}, which is written to", name)
        return cls(session, command, kind, target)

    @property
    def query(self) -> DataFrame:
        return _frame(self.session, self.jcommand.query())

    def run_with(self, query: DataFrame) -> DataFrame:
        """Run it now, with another query that has the same columns."""
        analyzed = query._jdf.queryExecution().analyzed()
        command = self.kind.with_query(self.session._jvm, self.jcommand, analyzed)
        if self.target.replaced is None:
            return _frame(self.session, command)
        catalog = _catalog(self.session)
        catalog.dropTable(self.target.replaced, True, False)  # ignoreIfNotExists=True, purge=False
        result = _frame(self.session, command)
        catalog.refreshTable(self.target.replaced)
        return result


def _paths_read(jquery: Any) -> Iterator[str]:
    """The root paths of all file relations of a plan and of its subqueries."""
    subqueries = jquery.subqueriesAll()
    for jplan in (jquery, *(subqueries.apply(index) for index in range(subqueries.size()))):
        yield from _paths_of_leaves(jplan.collectLeaves())


def _paths_of_leaves(leaves: Any) -> Iterator[str]:
    for index in range(leaves.size()):
        leaf = leaves.apply(index)
        match leaf.getClass().getSimpleName():
            case "LogicalRelation" if leaf.relation().getClass().getSimpleName() == "HadoopFsRelation":
                index_of_files = leaf.relation().location()
            case "DataSourceV2Relation" if leaf.table().getClass().getSimpleName() == "ParquetTable":
                index_of_files = leaf.table().fileIndex()
            case _:
                continue
        yield from index_of_files.rootPaths().mkString("\n").split("\n")


_AUTHORITY = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?")


def overlap(one: str, other: str) -> bool:
    """Whether one path is the other, or inside it. File systems are not compared, so a write may be left to Spark
    needlessly."""
    first, second = (_AUTHORITY.sub("", path).rstrip("/") + "/" for path in (one, other))
    return first.startswith(second) or second.startswith(first)


def _locations(jtable: Any) -> Iterator[str]:
    location = jtable.storage().locationUri()
    if location.isDefined():
        yield location.get().getPath()


def _catalog(session: SparkSession) -> Any:
    return session._jsparkSession.sessionState().catalog()


def _file_system(session: SparkSession, jpath: Any) -> Any:
    return jpath.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())


def _frame(session: SparkSession, jplan: Any) -> DataFrame:
    return spark_version().frame_of_plan(session, jplan)
