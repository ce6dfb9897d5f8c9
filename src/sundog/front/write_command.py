"""A write as Spark analysed it, and the same with another query inside.

Spark analyses the whole command first, as it would to run it: names, defaults, column lists, casts and all its checks of
the target are its own, made on the original plan. Only then is the query inside the analysed command replaced, so that
nothing above the query is ours. Commands of a form that is not in the table below are left to Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from sundog.support import Code, Declined


def _with_only_child(jvm: Any, command: Any, query: Any) -> Any:
    return command.withNewChildren(jvm.PythonUtils.toSeq([query]))


def _with_second_child(jvm: Any, command: Any, query: Any) -> Any:
    return command.withNewChildren(jvm.PythonUtils.toSeq([command.children().apply(0), query]))


def _create_table(jvm: Any, command: Any, query: Any) -> Any:
    create = jvm.org.apache.spark.sql.execution.command.CreateDataSourceTableAsSelectCommand
    return create(command.table(), command.mode(), query, command.outputColumnNames())


# The analysed commands that are known, each with how to give it another query. All have a method `query`.
_WITH_QUERY: dict[str, Callable[[Any, Any, Any], Any]] = {
    "InsertIntoHadoopFsRelationCommand": _with_only_child,
    "CreateDataSourceTableAsSelectCommand": _create_table,
    "AppendData": _with_only_child,
    "OverwriteByExpression": _with_only_child,
    "OverwritePartitionsDynamic": _with_only_child,
    "CreateTableAsSelect": _with_second_child,
    "ReplaceTableAsSelect": _with_second_child,
}


@dataclass(frozen=True)
class WriteCommand:
    """A command of a known form, analysed and checked by Spark, not yet run."""

    session: SparkSession
    jcommand: Any

    @classmethod
    def analyzed(cls, session: SparkSession, jplan: Any) -> WriteCommand:
        """Analyse a parsed command. Raises what Spark raises, and Declined for a form that is not known."""
        skip = session._jvm.org.apache.spark.sql.execution.CommandExecutionMode.SKIP()
        command = session._jsparkSession.sessionState().executePlan(jplan, skip).analyzed()
        name = command.getClass().getSimpleName()
        if name not in _WITH_QUERY:
            raise Declined.because(Code.WRITE, f"{name} stays on Spark", name)
        if _creates_existing(session, command, name):
            raise Declined.because(Code.WRITE, "the table exists, so Spark answers without running the query", name)
        return cls(session, command)

    @property
    def query(self) -> DataFrame:
        return _frame(self.session, self.jcommand.query())

    def run_with(self, query: DataFrame) -> DataFrame:
        """Run it now, with another query of the same columns."""
        rewrite = _WITH_QUERY[self.jcommand.getClass().getSimpleName()]
        analyzed = query._jdf.queryExecution().analyzed()
        return _frame(self.session, rewrite(self.session._jvm, self.jcommand, analyzed))


def _creates_existing(session: SparkSession, command: Any, name: str) -> bool:
    """Whether the command would create a table that is there already."""
    match name:
        case "CreateDataSourceTableAsSelectCommand":
            catalog = session._jsparkSession.sessionState().catalog()
            return bool(catalog.tableExists(command.table().identifier()))
        case "CreateTableAsSelect":
            target = command.name()
            return bool(target.catalog().tableExists(target.identifier()))
        case _:
            return False


def _frame(session: SparkSession, jplan: Any) -> DataFrame:
    dataset = session._jvm.org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, jplan)
    return DataFrame(dataset, session)
