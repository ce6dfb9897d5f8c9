"""`df.write` and `df.writeTo` of an enabled session.

pyspark's writers keep a writer of the JVM, which collects settings and starts the write. sundog's writers keep the same
one inside a stand-in. Settings are passed on to it. A call that would start a write asks for its command instead, the
plan that it would run (`versions/parts/write_commands.py`). Spark analyses and checks that command on the original
query; then the write is an action like any other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, DataFrameWriter
from pyspark.sql.readwriter import DataFrameWriterV2

from sundog.actions.commands import run_command
from sundog.support import Code, Declined
from sundog.versions import WriterCommands, spark_version

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
    """Stands in for a JVM writer: calls that start a write become actions; all others are passed on."""

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
            commands = spark_version().writer_commands(session, self._frame._jdf, self._jwriter)
            run_command("write", session, lambda: self._starts[name](commands, *args), lambda: method(*args))

        return starts


def _save_as(source: str) -> MakeCommand:
    def make(commands: WriterCommands, path: str) -> Any:
        commands.jwriter.format(source)
        return commands.save(path)

    return make


def _jdbc(commands: WriterCommands, *args: Any) -> Any:
    raise Declined.because(Code.WRITE, "the JVM's writer makes no command of jdbc(); format('jdbc').save() has one")


_STARTS: dict[str, MakeCommand] = {
    "save": lambda commands, path=None: commands.save(path),
    "jdbc": _jdbc,
    **{source: _save_as(source) for source in _FORMATS},
    "insertInto": lambda commands, table: commands.insert_into(table),
    "saveAsTable": lambda commands, table: commands.save_as_table(table),
}
_STARTS_V2: dict[str, MakeCommand] = {
    "create": lambda commands: commands.create(),
    "replace": lambda commands: commands.replace(or_create=False),
    "createOrReplace": lambda commands: commands.replace(or_create=True),
    "append": lambda commands: commands.append(),
    "overwrite": lambda commands, condition: commands.overwrite(condition),
    "overwritePartitions": lambda commands: commands.overwrite_partitions(),
}
