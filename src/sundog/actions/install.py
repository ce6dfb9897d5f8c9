"""Replaces the action methods of pyspark's DataFrame, for sessions that have enabled sundog.

pyspark's classic DataFrame is one class for all sessions. So its action methods are replaced once, by methods that
first check whether this DataFrame's session is enabled. For every other session, and inside an action of sundog itself,
they call the originals. `uninstall` restores the originals when the last session is disabled.

Transformations are unchanged: a DataFrame of an enabled session is an ordinary DataFrame until an action runs it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
from pyspark.sql.readwriter import DataFrameWriterV2

from sundog.actions.cancelling import replacements
from sundog.actions.commands import may_embed_query, run_sql
from sundog.actions.dataframe_actions import HANDLERS
from sundog.actions.lifecycle import is_inside
from sundog.actions.replaced_methods import ReplacedMethods
from sundog.actions.writers import AcceleratedWriter, AcceleratedWriterV2
from sundog.config import read_settings, warn_unknown_keys
from sundog.environment.shipping import ensure_executors
from sundog.front.session.identity import session_id
from sundog.front.session.session_conf import SessionConf, keys_set
from sundog.versions import spark_version

Original = Callable[..., Any]

_replaced = ReplacedMethods()
_enabled: set[str] = set()


def prepare_session(session: SparkSession) -> None:
    """Switch sundog on unless a setting says otherwise. Raises if a setting cannot be read; warns if executors lack a
    package."""
    if session._jconf.getConfString("spark.sundog.enabled", "") == "":
        session.conf.set("spark.sundog.enabled", "true")
    read_settings(SessionConf.of(session).get)
    warn_unknown_keys(keys_set(session._jvm, session._jconf))
    ensure_executors(session)


def enable_session(session: SparkSession) -> None:
    _enabled.add(session_id(session))
    if not _replaced:
        install()


def disable_session(session: SparkSession) -> None:
    _enabled.discard(session_id(session))
    if not _enabled:
        uninstall()


def is_enabled(session: SparkSession) -> bool:
    return bool(_enabled) and session_id(session) in _enabled


def install() -> None:
    frame_class = spark_version().frame_class()
    for name, handler in HANDLERS.items():
        _replaced.replace(frame_class, name, _intercepted(getattr(frame_class, name), handler))
    _replaced.replace(frame_class, "write", property(_writer))
    _replaced.replace(frame_class, "writeTo", _writer_v2)
    _replaced.replace(SparkSession, "sql", _sql(SparkSession.sql))
    for owner, name, replacement in replacements():
        _replaced.replace(owner, name, replacement)


def uninstall() -> None:
    _replaced.put_back()


def _intercepted(original: Original, handler: Callable[..., Any]) -> Original:
    @functools.wraps(original)
    def method(self: DataFrame, *args: Any, **kwargs: Any) -> Any:
        if is_inside() or not is_enabled(self.sparkSession):
            return original(self, *args, **kwargs)
        return handler(original, self, *args, **kwargs)

    return method


def _writer(frame: DataFrame) -> DataFrameWriter:
    if is_inside() or not is_enabled(frame.sparkSession) or frame.isStreaming:
        return DataFrameWriter(frame)
    return AcceleratedWriter(frame)


def _writer_v2(frame: DataFrame, table: str) -> DataFrameWriterV2:
    if is_inside() or not is_enabled(frame.sparkSession):
        return DataFrameWriterV2(frame, table)
    return AcceleratedWriterV2(frame, table)


def _sql(original: Original) -> Original:
    """`spark.sql` runs commands at once. INSERT … SELECT and CREATE TABLE … AS SELECT run with an accelerated query."""

    @functools.wraps(original)
    def sql(self: SparkSession, sqlQuery: str, args: Any = None, **kwargs: Any) -> DataFrame:  # noqa: N803
        if is_inside() or not is_enabled(self) or args or kwargs or not may_embed_query(sqlQuery):
            return original(self, sqlQuery, args, **kwargs)
        return run_sql(self, sqlQuery, lambda: original(self, sqlQuery, args, **kwargs))

    return sql
