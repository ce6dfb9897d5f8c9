"""The actions of a DataFrame, with sundog in between for the sessions that asked for it.

pyspark's classic DataFrame is one class for all sessions, so its action methods are replaced once, by methods that ask
first whether this DataFrame's session is enabled. For every other session, and inside an action of sundog's own, they
are the originals. `uninstall` puts the originals back when the last session is disabled.

Transformations are untouched: a DataFrame of an enabled session is an ordinary DataFrame until an action runs it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.readwriter import DataFrameWriterV2
from pyspark.sql.types import Row

from sundog.query import (
    close_executions,
    explain,
    is_inside,
    plan_frame,
    run_action,
    splice_parts,
    to_rows,
    under_action,
)
from sundog.run import start_run
from sundog.runtime.execute import Execution
from sundog.support import Declined

Original = Callable[..., Any]

_INHERITED = object()
_originals: dict[tuple[type, str], Any] = {}
_enabled: set[str] = set()


def enable_session(session: SparkSession) -> None:
    _enabled.add(session_id(session))
    if not _originals:
        install()


def disable_session(session: SparkSession) -> None:
    _enabled.discard(session_id(session))
    if not _enabled:
        uninstall()


def session_id(session: SparkSession) -> str:
    """The JVM session's identity: several Python objects may stand for one session."""
    known: str | None = session.__dict__.get("_sundog_id")
    if known is None:
        known = str(session._jsparkSession.sessionUUID())
        session.__dict__["_sundog_id"] = known
    return known


def is_enabled(session: SparkSession) -> bool:
    return bool(_enabled) and session_id(session) in _enabled


def install() -> None:
    for name, handler in _HANDLERS.items():
        _replace(ClassicDataFrame, name, _intercepted(getattr(ClassicDataFrame, name), handler))
    _replace(ClassicDataFrame, "write", property(_writer))
    _replace(ClassicDataFrame, "writeTo", _writer_v2)
    _replace(SparkSession, "sql", _sql(SparkSession.sql))


def uninstall() -> None:
    for (owner, name), original in _originals.items():
        if original is _INHERITED:
            delattr(owner, name)
        else:
            setattr(owner, name, original)
    _originals.clear()


def _replace(owner: type, name: str, replacement: Any) -> None:
    _originals[owner, name] = owner.__dict__.get(name, _INHERITED)
    setattr(owner, name, replacement)


def _intercepted(original: Original, handler: Callable[..., Any]) -> Original:
    @functools.wraps(original)
    def method(self: DataFrame, *args: Any, **kwargs: Any) -> Any:
        if is_inside() or not is_enabled(self.sparkSession):
            return original(self, *args, **kwargs)
        return handler(original, self, *args, **kwargs)

    return method


def _collect(original: Original, frame: DataFrame) -> list[Row]:
    return run_action("collect", frame, lambda t: to_rows(t, frame), original, lambda: original(frame))


def _to_local_iterator(original: Original, frame: DataFrame, *args: Any, **kwargs: Any) -> Iterator[Row]:
    return run_action(
        "toLocalIterator",
        frame,
        lambda table: iter(to_rows(table, frame)),
        lambda spliced: original(spliced, *args, **kwargs),
        lambda: original(frame, *args, **kwargs),
    )


def _collect_as_arrow(
    original: Original,
    frame: DataFrame,
    split_batches: bool = False,
    empty_list_if_zero_records: bool = True,
    prefers_large_var_types: bool = False,
) -> list[pa.RecordBatch]:
    """What toArrow and toPandas are made of."""
    options = (split_batches, empty_list_if_zero_records, prefers_large_var_types)

    def batches(table: pa.Table) -> list[pa.RecordBatch]:
        target = to_arrow_schema(frame.schema, timezone="UTC", prefers_large_types=prefers_large_var_types)
        whole = [batch for batch in table.cast(target).to_batches() if batch.num_rows]
        return whole or ([] if empty_list_if_zero_records else target.empty_table().to_batches() or [_empty(target)])

    return run_action(
        "toArrow",
        frame,
        batches,
        lambda spliced: original(spliced, *options),
        lambda: original(frame, *options),
    )


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def _count(original: Original, frame: DataFrame) -> int:
    counted = frame.groupBy().count()
    return run_action(
        "count",
        counted,
        lambda table: int(table.column(0)[0].as_py()),
        lambda spliced: int(spliced.collect()[0][0]),
        lambda: int(original(frame)),
    )


def _is_empty(original: Original, frame: DataFrame) -> bool:
    one = frame.limit(1)
    return bool(run_action("isEmpty", one, lambda table: table.num_rows == 0, original, lambda: original(frame)))


def _tail(original: Original, frame: DataFrame, num: int) -> list[Row]:
    return run_action(
        "tail",
        frame,
        lambda table: to_rows(table.slice(max(0, table.num_rows - num)), frame) if num > 0 else [],
        lambda spliced: original(spliced, num),
        lambda: original(frame, num),
    )


def _show_string(
    original: Original, frame: DataFrame, n: int = 20, truncate: bool | int = True, vertical: bool = False
) -> str:
    if not isinstance(n, int) or isinstance(n, bool) or n < 0 or n > 100_000:
        return str(original(frame, n, truncate, vertical))
    shown = frame.limit(n + 1)  # one more, so that Spark can say "only showing top n rows"
    return run_action(
        "show",
        shown,
        lambda table: str(original(_local_frame(table, shown), n, truncate, vertical)),
        lambda spliced: str(original(spliced, n, truncate, vertical)),
        lambda: str(original(frame, n, truncate, vertical)),
    )


def _local_frame(table: pa.Table, like: DataFrame) -> DataFrame:
    return like.sparkSession.createDataFrame(table, schema=like.schema)


def _foreach(name: str) -> Callable[..., None]:
    def handler(original: Original, frame: DataFrame, function: Callable[..., Any]) -> None:
        run_action(
            name,
            frame,
            None,
            lambda spliced: original(spliced, function),
            lambda: original(frame, function),
            repeatable=False,
        )

    return handler


def _explain(original: Original, frame: DataFrame, *args: Any, **kwargs: Any) -> None:
    with under_action():
        original(frame, *args, **kwargs)
    print(explain(frame))


_HANDLERS: dict[str, Callable[..., Any]] = {
    "collect": _collect,
    "toLocalIterator": _to_local_iterator,
    "_collect_as_arrow": _collect_as_arrow,
    "count": _count,
    "isEmpty": _is_empty,
    "tail": _tail,
    "_show_string": _show_string,
    "foreach": _foreach("foreach"),
    "foreachPartition": _foreach("foreachPartition"),
    "explain": _explain,
}


class AcceleratedWriter(DataFrameWriter):  # type: ignore[misc]
    """`df.write` of an enabled session: remembers how it was set up, and plans when the write starts."""

    def __init__(self, frame: DataFrame) -> None:
        super().__init__(frame)
        self._frame = frame
        self._calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []


class AcceleratedWriterV2(DataFrameWriterV2):  # type: ignore[misc]
    """`df.writeTo(table)` likewise."""

    def __init__(self, frame: DataFrame, table: str) -> None:
        super().__init__(frame, table)
        self._frame = frame
        self._table_name = table
        self._calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []


def _remembers(owner: type, name: str) -> None:
    original = getattr(owner, name)

    @functools.wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        self._calls.append((name, args, kwargs))
        original(self, *args, **kwargs)
        return self

    setattr(owner, name, method)


def _starts(owner: type, name: str, fresh: Callable[[Any, DataFrame], Any]) -> None:
    original = getattr(owner, name)

    @functools.wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        def write(frame: DataFrame) -> Any:
            writer = fresh(self, frame)
            for call, call_args, call_kwargs in self._calls:
                getattr(writer, call)(*call_args, **call_kwargs)
            return getattr(writer, name)(*args, **kwargs)

        return run_action(
            "write",
            self._frame,
            None,
            write,
            lambda: write(self._frame),
            repeatable=False,
        )

    setattr(owner, name, method)


for _name in ("mode", "format", "option", "options", "partitionBy", "bucketBy", "sortBy", "clusterBy"):
    _remembers(AcceleratedWriter, _name)
for _name in ("save", "insertInto", "saveAsTable", "json", "parquet", "text", "csv", "xml", "orc", "jdbc"):
    _starts(AcceleratedWriter, _name, lambda self, frame: DataFrameWriter(frame))
for _name in ("using", "option", "options", "tableProperty", "partitionedBy", "clusterBy"):
    _remembers(AcceleratedWriterV2, _name)
for _name in ("create", "replace", "createOrReplace", "append", "overwrite", "overwritePartitions"):
    _starts(AcceleratedWriterV2, _name, lambda self, frame: DataFrameWriterV2(frame, self._table_name))


def _writer(frame: DataFrame) -> DataFrameWriter:
    if is_inside() or not is_enabled(frame.sparkSession) or frame.isStreaming:
        return DataFrameWriter(frame)
    return AcceleratedWriter(frame)


def _writer_v2(frame: DataFrame, table: str) -> DataFrameWriterV2:
    if is_inside() or not is_enabled(frame.sparkSession):
        return DataFrameWriterV2(frame, table)
    return AcceleratedWriterV2(frame, table)


_MAY_EMBED_QUERY = re.compile(r"\b(insert|create|replace)\b", re.IGNORECASE)
_EMBEDDING_COMMANDS = {"InsertIntoStatement": 0, "CreateTableAsSelect": 1, "ReplaceTableAsSelect": 1}


def _sql(original: Original) -> Original:
    """`spark.sql` runs commands at once. INSERT … SELECT and CREATE TABLE … AS SELECT run with an accelerated query."""

    @functools.wraps(original)
    def sql(self: SparkSession, sqlQuery: str, args: Any = None, **kwargs: Any) -> DataFrame:  # noqa: N803
        if is_inside() or not is_enabled(self) or args or kwargs or not _MAY_EMBED_QUERY.search(sqlQuery):
            return original(self, sqlQuery, args, **kwargs)
        accelerated = _run_command(self, sqlQuery)
        return original(self, sqlQuery, args, **kwargs) if accelerated is None else accelerated

    return sql


def _run_command(session: SparkSession, text: str) -> DataFrame | None:
    """The command with its query's eligible parts replaced; None where it embeds no query that sundog takes."""
    of_rows = session._jvm.org.apache.spark.sql.classic.Dataset.ofRows
    command = session._jsparkSession.sessionState().sqlParser().parsePlan(text)
    position = _EMBEDDING_COMMANDS.get(command.getClass().getSimpleName())
    if position is None:
        return None
    run = start_run("sql")
    with under_action():
        jchildren = command.children()
        children = [jchildren.apply(index) for index in range(jchildren.size())]
        query = DataFrame(of_rows(session._jsparkSession, children[position]), session)
        planned = plan_frame(query, run, collected=False)
        if planned is None:
            return None
        executions: list[Execution] = []
        try:
            spliced = splice_parts(planned, run, executions)
            children[position] = spliced._jdf.queryExecution().analyzed()
            rewritten = command.withNewChildren(session._jvm.PythonUtils.toSeq(children))
            result = DataFrame(of_rows(session._jsparkSession, rewritten), session)
            run.accelerated = True
        except Declined as declined:  # found out before anything was written
            run.decline(*declined.reasons)
            return None
        finally:
            close_executions(run, executions)
        return result
