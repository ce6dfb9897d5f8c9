"""The actions of a DataFrame that sundog may take, and what each does with rows or with a DataFrame."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import Row

from sundog.actions.explicit import explain
from sundog.actions.lifecycle import Action, Shadowed, run_action, under_action
from sundog.runtime.frames import frame_from_table
from sundog.support import Code, Declined
from sundog.versions import spark_version

Original = Callable[..., Any]
T = TypeVar("T")


def _run(
    name: str,
    frame: DataFrame,
    on_table: Callable[[pa.Table], T] | None,
    on_frame: Callable[[DataFrame], T],
    plain: Callable[[], T],
    query: Callable[[], DataFrame] | None = None,
    repeatable: bool = True,
    shadowed: Shadowed = "by answer",
) -> T:
    """Run an action on `frame`, or on the DataFrame that `query` makes of it."""
    made = query or (lambda: frame)
    return run_action(Action(name, frame.sparkSession, made, plain, on_frame, on_table, repeatable, shadowed=shadowed))


def to_rows(table: pa.Table, frame: DataFrame) -> list[Row]:
    """Rows with exactly the Python types of Spark's own collect."""
    try:
        return spark_version().rows(table, frame.schema, frame.sparkSession)
    except UnicodeDecodeError as error:  # the JVM replaces invalid bytes by rules of its own
        raise Declined.because(Code.EXECUTION, "a string is not valid UTF-8, so Spark decodes it") from error


def _collect(original: Original, frame: DataFrame) -> list[Row]:
    return _run("collect", frame, lambda t: to_rows(t, frame), original, lambda: original(frame))


def _to_local_iterator(original: Original, frame: DataFrame, *args: Any, **kwargs: Any) -> Iterator[Row]:
    return _run(
        "toLocalIterator",
        frame,
        lambda table: iter(to_rows(table, frame)),
        lambda spliced: original(spliced, *args, **kwargs),
        lambda: original(frame, *args, **kwargs),
        shadowed="by query",  # the answer is read by the caller, once
    )


def _collect_as_arrow(original: Original, frame: DataFrame, *args: Any, **kwargs: Any) -> list[pa.RecordBatch]:
    """The rows from which toArrow and toPandas make their results."""
    request = spark_version().arrow_request(*args, **kwargs)

    def batches(table: pa.Table) -> list[pa.RecordBatch]:
        target = spark_version().arrow_schema(frame.schema, request.large_types)
        whole = [batch for batch in table.cast(target).to_batches() if batch.num_rows]
        if whole or request.empty_list_if_no_rows:
            return whole
        return target.empty_table().to_batches() or [_empty(target)]

    return _run(
        "toArrow",
        frame,
        batches,
        lambda spliced: original(spliced, *args, **kwargs),
        lambda: original(frame, *args, **kwargs),
    )


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def _count(original: Original, frame: DataFrame) -> int:
    return _run(
        "count",
        frame,
        lambda table: int(table.column(0)[0].as_py()),
        lambda spliced: int(spliced.collect()[0][0]),
        lambda: int(original(frame)),
        query=lambda: frame.groupBy().count(),
    )


def _is_empty(original: Original, frame: DataFrame) -> bool:
    return _run(
        "isEmpty",
        frame,
        lambda table: bool(table.num_rows == 0),
        lambda spliced: bool(original(spliced)),
        lambda: bool(original(frame)),
        query=lambda: frame.limit(1),
    )


def _tail(original: Original, frame: DataFrame, num: int) -> list[Row]:
    if not isinstance(num, int):
        return list(original(frame, num))  # raises Spark's error
    return _run(
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
    return _run(
        "show",
        frame,
        lambda table: str(original(frame_from_table(frame.sparkSession, table, frame.schema), n, truncate, vertical)),
        lambda spliced: str(original(spliced, n, truncate, vertical)),
        lambda: str(original(frame, n, truncate, vertical)),
        query=lambda: frame.limit(n + 1),  # one more, so that Spark can say "only showing top n rows"
    )


def _foreach(name: str) -> Callable[..., None]:
    def handler(original: Original, frame: DataFrame, function: Callable[..., Any]) -> None:
        _run(
            name,
            frame,
            None,
            lambda spliced: original(spliced, function),
            lambda: original(frame, function),
            repeatable=False,
            shadowed="by query",
        )

    return handler


def _explain(original: Original, frame: DataFrame, *args: Any, **kwargs: Any) -> None:
    with under_action():
        original(frame, *args, **kwargs)
    print(explain(frame))


HANDLERS: dict[str, Callable[..., Any]] = {
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
