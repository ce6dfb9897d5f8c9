"""The actions of a Spark Connect session whose server is in this process's JVM (`session.py`).

Every action of a Connect DataFrame ends in one of two methods of its client, which send a request and give back what
the server answers: a schema, Arrow batches, metrics. They are replaced, once, by methods that ask whether this client
is enabled:

    collect, toPandas, toArrow, count, take, show, foreach, …  -> _execute_and_fetch      a table
    toLocalIterator                                            -> to_table_as_iterator    a table in pieces

Everything above them stays Connect's own: the Python types of rows, the time zones of pandas. A query of a client
becomes an action on the classic DataFrame that the server's planner makes of it (`queries.py`). `df.write` and
`df.writeTo` send a command through the first of the two methods, which is taken as well (`writes.py`); other commands
(`spark.sql` of a statement, views) go to the server as they come. A few methods are replaced as a whole
(`dataframe_methods.py`).
"""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark import SparkContext

from sundog.actions.connect.dataframe_methods import explain_connect, foreach_partition, is_empty
from sundog.actions.connect.queries import Request, running, tag_of
from sundog.actions.connect.requests import asks_for_rows
from sundog.actions.connect.session import NearSession, as_connect, near_session
from sundog.actions.connect.writes import write_of
from sundog.actions.install import prepare_session
from sundog.actions.lifecycle import is_inside
from sundog.actions.replaced_methods import ReplacedMethods
from sundog.runtime.cancel import CancelKind, request_cancel

Original = Callable[..., Any]

_replaced = ReplacedMethods()
_enabled: dict[str, NearSession] = {}  # by session id


# --- on and off -------------------------------------------------------------------------------------------------------


def enable_connect(session: Any) -> None:
    """Like `sundog.enable`. UnsupportedSessionError if the session's server is not in this process's JVM."""
    near = near_session(session)
    with near.as_classic():
        prepare_session(near.classic)
    _enabled[session.client._session_id] = near
    if not _replaced:
        _install()


def disable_connect(session: Any) -> None:
    near_session(session)
    _enabled.pop(session.client._session_id, None)
    if not _enabled:
        _replaced.put_back()


def _install() -> None:
    from pyspark.sql.connect.client import SparkConnectClient
    from pyspark.sql.connect.dataframe import DataFrame as ConnectDataFrame

    for owner, name, wrapped in (
        (SparkConnectClient, "_execute_and_fetch", _fetching),
        (SparkConnectClient, "to_table_as_iterator", _iterating),
        (SparkConnectClient, "interrupt_all", _interrupting(lambda operation, tags, name: True)),
        (SparkConnectClient, "interrupt_tag", _interrupting(lambda operation, tags, name: name in tags)),
        (SparkConnectClient, "interrupt_operation", _interrupting(lambda operation, tags, name: name == operation)),
        (ConnectDataFrame, "explain", _explaining),
        (ConnectDataFrame, "isEmpty", _as_a_whole(is_empty)),
        (ConnectDataFrame, "foreachPartition", _as_a_whole(foreach_partition)),
    ):
        _replaced.replace(owner, name, wrapped(getattr(owner, name)))


def _is_ours(client: Any) -> bool:
    return not is_inside() and client._session_id in _enabled and not client.is_closed


# --- actions ----------------------------------------------------------------------------------------------------------


def _fetching(original: Original) -> Original:
    @functools.wraps(original)
    def _execute_and_fetch(self: Any, req: Any, observations: Any, *args: Any, **kwargs: Any) -> Any:
        message = write_of(req.plan) if _is_ours(self) else None
        if message is None and not (_is_ours(self) and asks_for_rows(req.plan)):
            return original(self, req, observations, *args, **kwargs)
        near = _enabled[self._session_id]
        others: list[Any] = []  # schema, metrics, observed metrics, properties

        def ask(plan: Any) -> pa.Table | None:
            sent = type(req)()
            sent.CopyFrom(req)
            sent.plan.CopyFrom(plan)
            with as_connect():
                table, *others[:] = original(self, sent, observations, *args, **kwargs)
            return table

        request = Request(self, near, req.plan, req.operation_id, ask)
        if message is not None:
            nothing: tuple[Any, ...] = (None, None, [], [], {})
            answer = request.written(message, nothing)
            return nothing if answer is nothing else (answer, *others)
        table = request.shown() if request.is_show else request.collected()
        return (table, *others) if request.schema is None else (table, request.schema, [], [], {})

    return _execute_and_fetch


def _iterating(original: Original) -> Original:
    @functools.wraps(original)
    def to_table_as_iterator(self: Any, plan: Any, observations: Any) -> Iterator[Any]:
        if not _is_ours(self) or not asks_for_rows(plan):
            yield from original(self, plan, observations)
            return

        def ask(asked: Any) -> Any:
            if asked is plan:
                return original(self, plan, observations)
            with as_connect():  # at once: the server drops the lent DataFrame soon
                return list(original(self, asked, observations))

        request = Request(self, _enabled[self._session_id], plan, str(uuid.uuid4()), ask)
        answer = request.collected("toLocalIterator", "by query")
        yield from answer if request.schema is None else (request.schema, answer)

    return to_table_as_iterator


def _as_a_whole(handler: Callable[..., Any]) -> Callable[[Original], Original]:
    """A method of a DataFrame that `handler` performs as a whole, in place of the requests that it sends."""

    def wrapped(original: Original) -> Original:
        @functools.wraps(original)
        def method(self: Any, *args: Any) -> Any:
            client = self.sparkSession.client
            if not _is_ours(client):
                return original(self, *args)
            return handler(original, _enabled[client._session_id], self, *args)

        return method

    return wrapped


def _explaining(original: Original) -> Original:
    @functools.wraps(original)
    def explain(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if _is_ours(self.sparkSession.client):
            print(explain_connect(self, analyze=False))

    return explain


# --- interrupts------------------------------------------------------------------------------------------------------


def _interrupting(means: Callable[[str, frozenset[str], str], bool]) -> Callable[[Original], Original]:
    """A client method that interrupts operations: also those that sundog runs, of which the server does not know."""

    def wrapped(original: Original) -> Original:
        @functools.wraps(original)
        def interrupt(self: Any, *name: str) -> list[str]:
            ours = [
                operation
                for operation, (session, tags) in list(running.items())
                if session == self._session_id and means(operation, tags, *name or ("",))
            ]
            for operation in ours:
                request_cancel(CancelKind.TAG, tag_of(operation), "interrupted")
            theirs = original(self, *name) or []
            context = SparkContext._active_spark_context
            if context is not None:
                for operation in ours:
                    context.cancelJobsWithTag(tag_of(operation))
            return [*theirs, *(operation for operation in ours if operation not in theirs)]

        return interrupt

    return wrapped
