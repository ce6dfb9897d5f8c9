"""`df.write` and `df.writeTo` of a Connect session: a client's command as the command that its server would run.

The server makes a writer in the JVM, sets what the message says, and starts it (`SparkConnectPlanner`, write
operations). Here the same happens on the classic session, except for the start: the writer returns its command
(`versions/parts/write_commands.py`), which is then an action like any other. A message with unknown content stays with
the server.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from sundog.support import Code, Declined
from sundog.versions import WriterCommands, spark_version

_MODES = {1: "append", 2: "overwrite", 3: "errorifexists", 4: "ignore"}
_KNOWN = {
    *("input", "source", "path", "table", "mode", "sort_column_names", "partitioning_columns", "bucket_by", "options"),
}
_KNOWN_V2 = {"input", "table_name", "provider", "options", "table_properties", "mode"}
_SAVE_AS_TABLE, _INSERT_INTO = 1, 2
_CREATE, _OVERWRITE_PARTITIONS, _APPEND, _REPLACE, _CREATE_OR_REPLACE = 1, 3, 4, 5, 6


def write_of(plan: Any) -> Any | None:
    """The write message of a request; None if it is another request, or compressed."""
    if plan.WhichOneof("op_type") != "command":
        return None
    kind = plan.command.WhichOneof("command_type")
    return getattr(plan.command, kind) if kind in ("write_operation", "write_operation_v2") else None


def command_of(message: Any, frame: DataFrame) -> Any:
    """The command of a write of `frame`, the classic DataFrame of the message's input."""
    is_v2 = message.DESCRIPTOR.name == "WriteOperationV2"
    unknown = [field.name for field, _ in message.ListFields() if field.name not in (_KNOWN_V2 if is_v2 else _KNOWN)]
    if unknown:
        raise Declined.because(Code.CONNECT, f"a write with {', '.join(unknown)} stays in the server", "write")
    return _table_command(message, frame) if is_v2 else _command(message, frame)


def _command(message: Any, frame: DataFrame) -> Any:
    jwriter = frame._jdf.write()
    if message.mode:
        if message.mode not in _MODES:
            raise Declined.because(Code.CONNECT, f"a write of mode {message.mode} stays in the server", "write")
        jwriter.mode(_MODES[message.mode])
    for key, value in message.options.items():
        jwriter.option(key, value)
    commands = _commands(frame, jwriter)
    if message.sort_column_names:
        jwriter.sortBy(message.sort_column_names[0], _seq(frame, message.sort_column_names[1:]))
    if message.HasField("bucket_by"):
        if message.bucket_by.num_buckets <= 0:
            raise Declined.because(Code.CONNECT, "the server refuses this number of buckets", "write")
        first, *others = message.bucket_by.bucket_column_names
        jwriter.bucketBy(message.bucket_by.num_buckets, first, _seq(frame, others))
    if message.partitioning_columns:
        jwriter.partitionBy(_seq(frame, message.partitioning_columns))
    if message.HasField("source"):
        jwriter.format(message.source)
    match message.WhichOneof("save_type"), message.table.save_method:
        case None, _:
            return commands.save(None)
        case "path", _:
            return commands.save(message.path)
        case "table", method if method == _SAVE_AS_TABLE:
            return commands.save_as_table(message.table.table_name)
        case "table", method if method == _INSERT_INTO:
            return commands.insert_into(message.table.table_name)
    raise Declined.because(Code.CONNECT, "this way to save stays in the server", "write")


def _table_command(message: Any, frame: DataFrame) -> Any:
    jwriter = frame._jdf.writeTo(message.table_name)
    for key, value in message.options.items():
        jwriter.option(key, value)
    for key, value in message.table_properties.items():
        jwriter.tableProperty(key, value)
    commands = _commands(frame, jwriter)
    makes_table = message.mode in (_CREATE, _REPLACE, _CREATE_OR_REPLACE)
    if makes_table and message.HasField("provider"):
        jwriter.using(message.provider)
    match message.mode:
        case mode if mode == _CREATE:
            return commands.create()
        case mode if makes_table:
            return commands.replace(or_create=mode == _CREATE_OR_REPLACE)
        case mode if mode == _APPEND:
            return commands.append()
        case mode if mode == _OVERWRITE_PARTITIONS:
            return commands.overwrite_partitions()
    raise Declined.because(Code.CONNECT, "a write of this mode stays in the server", "write")


def _commands(frame: DataFrame, jwriter: Any) -> WriterCommands:
    return spark_version().writer_commands(frame.sparkSession, frame._jdf, jwriter)


def _seq(frame: DataFrame, values: Any) -> Any:
    return frame.sparkSession._jvm.PythonUtils.toSeq(list(values))
