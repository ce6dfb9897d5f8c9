"""`df.write` and `df.writeTo` of an enabled session.

pyspark's writers keep a writer of the JVM, which collects what is set and starts the write. Ours keep the same one
inside a stand-in: settings go through to it, and what would start a write asks it for its command instead, the very
plan that it would run. Spark analyses and checks that command on the original query; then the write is an action like
any other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, DataFrameWriter
from pyspark.sql.readwriter import DataFrameWriterV2

from sundog.actions.commands import run_command
from sundog.support import Code, Declined
from sundog.versions import spark_version

_FORMATS = ("json", "parquet", "text", "csv", "xml", "orc")


class AcceleratedWriter(DataFrameWriter):  # type: ignore[misc]
    """`df.write` of an enabled session."""

    def __init__(self, frame: DataFrame) -> None:
        super().__init__(frame)
        self._jwrite = _Starter(frame, frame._jdf.write(), _STARTS)


class AcceleratedWriterV2(DataFrameWriterV2):  # type: ignore[misc]
    """`df.writeTo(table)` of an enabled session."""

    def __init__(self, frame: DataFrame, table: str) -> None:
        super().__init__(frame, table)
        self._jwriter = _Starter(frame, frame._jdf.writeTo(table), _STARTS_V2)


MakeCommand = Callable[..., Any]


class _Starter:
    """Stands for a JVM writer: what starts a write becomes an action; everything else is the writer's own."""

    def __init__(self, frame: DataFrame, jwriter: Any, starts: dict[str, MakeCommand]) -> None:
        self._frame = frame
        self._jwriter = jwriter
        self._starts = starts

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._jwriter, name)
        if name not in self._starts:

            def sets(*args: Any) -> _Starter:
                method(*args)
                return self

            return sets

        def starts(*args: Any) -> None:
            session = self._frame.sparkSession
            make = self._starts[name] if spark_version().has_write_commands else _no_command
            run_command("write", session, lambda: make(session._jvm, self._jwriter, *args), lambda: method(*args))

        return starts


def _no_command(jvm: Any, jwriter: Any, *args: Any) -> Any:
    raise Declined.because(Code.WRITE, "this Spark's writers make no commands; INSERT and CREATE TABLE … AS have them")


def _save(jvm: Any, jwriter: Any, *path: str) -> Any:
    return jwriter.saveCommand(jvm.scala.Option.apply(path[0]) if path else jvm.scala.Option.empty())


def _save_as(source: str) -> MakeCommand:
    return lambda jvm, jwriter, path: _save(jvm, jwriter.format(source), path)


def _jdbc(jvm: Any, jwriter: Any, *args: Any) -> Any:
    raise Declined.because(Code.WRITE, "the JVM's writer makes no command of jdbc(); format('jdbc').save() has one")


_STARTS: dict[str, MakeCommand] = {
    "save": _save,
    "jdbc": _jdbc,
    **{source: _save_as(source) for source in _FORMATS},
    "insertInto": lambda jvm, jwriter, table: jwriter.insertIntoCommand(table),
    "saveAsTable": lambda jvm, jwriter, table: jwriter.saveAsTableCommand(table),
}
_STARTS_V2: dict[str, MakeCommand] = {
    "create": lambda jvm, jwriter: jwriter.createCommand(),
    "replace": lambda jvm, jwriter: jwriter.replaceCommand(False),
    "createOrReplace": lambda jvm, jwriter: jwriter.replaceCommand(True),
    "append": lambda jvm, jwriter: jwriter.appendCommand(),
    "overwrite": lambda jvm, jwriter, condition: jwriter.overwriteCommand(condition),
    "overwritePartitions": lambda jvm, jwriter: jwriter.overwritePartitionsCommand(),
}
