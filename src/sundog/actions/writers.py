"""`df.write` and `df.writeTo` of an enabled session: they remember how they were set up, and plan when the write starts."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, DataFrameWriter
from pyspark.sql.readwriter import DataFrameWriterV2

from sundog.actions.lifecycle import Action, run_action

Call = tuple[str, tuple[Any, ...], dict[str, Any]]


class AcceleratedWriter(DataFrameWriter):  # type: ignore[misc]
    """`df.write` of an enabled session."""

    def __init__(self, frame: DataFrame) -> None:
        super().__init__(frame)
        self._frame = frame
        self._calls: list[Call] = []


class AcceleratedWriterV2(DataFrameWriterV2):  # type: ignore[misc]
    """`df.writeTo(table)` of an enabled session."""

    def __init__(self, frame: DataFrame, table: str) -> None:
        super().__init__(frame, table)
        self._frame = frame
        self._table_name = table
        self._calls: list[Call] = []


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
            Action(
                "write",
                self._frame.sparkSession,
                query=lambda: self._frame,
                plain=lambda: write(self._frame),
                on_frame=write,
                repeatable=False,
            )
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
