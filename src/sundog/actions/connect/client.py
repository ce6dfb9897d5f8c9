"""The actions of a Spark Connect session whose server is in this process's JVM (`session.py`).

Every action of a Connect DataFrame ends in one of two methods of its client, which send a request and give back what
the server answers: a schema, Arrow batches, metrics. They are replaced, once, by methods that ask whether this client
is enabled:

    collect, toPandas, toArrow, count, take, show, foreach, …  -> _execute_and_fetch      a table
    toLocalIterator                                            -> to_table_as_iterator    a table in pieces

What is above them stays Connect's own: which Python types rows have, how pandas gets its zones. The life of an action
is that of a classic session's (`lifecycle.py`), on the classic DataFrame that the server's planner makes of the
request:

    whole query     sundog's table, in the types in which the server would have sent it
    part of it      the DataFrame with our parts in it is lent to the server, and the client asks for its rows
    neither, error  the request goes to the server as it came: Connect answers, or raises its own error

Commands (writes, `spark.sql` of a statement, views) go to the server as they come.
"""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import SparkContext
from pyspark.errors.exceptions.base import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from sundog.actions import explicit
from sundog.actions.connect.requests import asks_for_rows, check_relation, check_uncompressed, holds_function
from sundog.actions.connect.session import NearSession, as_connect, near_session, remote_checks
from sundog.actions.install import prepare_session
from sundog.actions.lifecycle import Action, Shadowed, is_inside, run_action
from sundog.actions.replaced_methods import ReplacedMethods
from sundog.errors import SundogError
from sundog.report.explain import explain_text
from sundog.run import last_run, start_run
from sundog.runtime.cancel import CancelKind, request_cancel
from sundog.runtime.frames import frame_from_table
from sundog.support import Code, Declined
from sundog.versions import spark_version

Original = Callable[..., Any]
_MAX_SHOWN_ROWS = 100_000
_SHOWN = StructType([StructField("show_string", StringType(), False)])
_JOB_TAGS = "spark.job.tags"

_replaced = ReplacedMethods()
_enabled: dict[str, NearSession] = {}  # by session id
_running: dict[str, tuple[str, frozenset[str]]] = {}  # operation -> its session, and the tags of the client's thread


# --- on and off -------------------------------------------------------------------------------------------------------


def enable_connect(session: Any) -> None:
    """As `sundog.enable`. UnsupportedSessionError if the session's server is not in this process's JVM."""
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
    ):
        _replaced.replace(owner, name, wrapped(getattr(owner, name)))
    for owner, name, replacement in remote_checks():
        _replaced.replace(owner, name, replacement)


def _is_ours(client: Any) -> bool:
    return not is_inside() and client._session_id in _enabled and not client.is_closed


# --- actions ----------------------------------------------------------------------------------------------------------


def _fetching(original: Original) -> Original:
    @functools.wraps(original)
    def _execute_and_fetch(self: Any, req: Any, observations: Any, *args: Any, **kwargs: Any) -> Any:
        if not _is_ours(self) or not asks_for_rows(req.plan):
            return original(self, req, observations, *args, **kwargs)
        others: list[Any] = []  # schema, metrics, observed metrics, properties

        def ask(plan: Any) -> pa.Table | None:
            sent = type(req)()
            sent.CopyFrom(req)
            sent.plan.CopyFrom(plan)
            with as_connect():
                table, *others[:] = original(self, sent, observations, *args, **kwargs)
            return table

        request = _Request(self, req.plan, req.operation_id, ask)
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
            with as_connect():  # at once: the server keeps a DataFrame of ours only so long
                return list(original(self, asked, observations))

        request = _Request(self, plan, str(uuid.uuid4()), ask)
        answer = request.collected("toLocalIterator", "by query")
        yield from answer if request.schema is None else (request.schema, answer)

    return to_table_as_iterator


@dataclass
class _Request:
    """A query that a client is about to send. `ask` sends a plan to the server and gives the rows that it answers."""

    client: Any
    plan: Any
    operation: str
    ask: Callable[[Any], Any]
    frame: DataFrame | None = None  # once planned
    schema: StructType | None = None  # of an answer that is sundog's own

    @property
    def is_show(self) -> bool:
        relation = self.plan.root
        if relation.WhichOneof("rel_type") != "show_string":
            return False
        return 0 <= int(relation.show_string.num_rows) <= _MAX_SHOWN_ROWS

    @property
    def near(self) -> NearSession:
        return _enabled[self.client._session_id]

    def collected(self, name: str = "collect", shadowed: Shadowed = "by answer") -> Any:
        """The rows of the query. A user's function in it is run by the server, in any case once."""
        relation = self.plan.root
        once = holds_function(relation)
        query = functools.partial(self._query, relation)
        rows = None if once else self._sent
        return self._run(
            Action(name, self.near.classic, query, self._plain, self._lent, rows, not once, shadowed=shadowed)
        )

    def shown(self) -> Any:
        """The text of `show`, made by the JVM as the server makes it."""
        relation = self.plan.root.show_string

        def text(frame: DataFrame) -> pa.Table:
            self.schema = _SHOWN
            written = frame._jdf.showString(relation.num_rows, relation.truncate, relation.vertical)
            return pa.table([[written]], schema=sent_schema(self.near.classic, _SHOWN))

        def rows(table: pa.Table) -> pa.Table:
            assert self.frame is not None, "it was planned"
            return text(frame_from_table(self.near.classic, table, self.frame.schema))

        def query() -> DataFrame:
            return self._query(relation.input).limit(relation.num_rows + 1)  # one more, for "only showing top n rows"

        return self._run(Action("show", self.near.classic, query, self._plain, text, rows))

    def _query(self, relation: Any) -> DataFrame:
        check_uncompressed(self.plan)
        if getattr(self.client, "_session_hooks", None):
            raise Declined.because(Code.CONNECT, "the session has hooks, which may change a request")
        check_relation(relation)
        self.frame = self.near.frame(relation)
        return self.frame

    def _plain(self) -> Any:
        self.schema = None
        return self.ask(self.plan)

    def _sent(self, table: pa.Table) -> pa.Table:
        assert self.frame is not None, "it was planned"
        self.schema = self.frame.schema
        return table.cast(sent_schema(self.near.classic, self.schema))

    def _lent(self, spliced: DataFrame) -> Any:
        """The server runs what Spark has to do of the query."""
        handle = str(uuid.uuid4())
        plan = type(self.plan)()
        plan.root.cached_remote_relation.relation_id = handle
        with self.near.lent(spliced, handle):
            return self.ask(plan)

    def _run(self, action: Action[Any]) -> Any:
        _running[self.operation] = self.client._session_id, frozenset(self.client.get_tags())
        try:
            with self.near.as_classic(), _tagged(self.near.classic.sparkContext, _tag_of(self.operation)):
                return _raising_as_connect(action)
        finally:
            del _running[self.operation]


def _raising_as_connect(action: Action[Any]) -> Any:
    try:
        return run_action(action)
    except Exception as error:
        raised = to_connect_error(error, any(reason.code is Code.CANCELLED for reason in last_run().reasons))
        if raised is error:
            raise
        raise raised from error


def sent_schema(session: SparkSession, schema: StructType) -> pa.Schema:
    """Arrow's types in which the server sends a schema: instants are in the session's time zone."""
    arrow = spark_version().arrow_schema(schema)
    zoned = [index for index, each in enumerate(arrow) if pa.types.is_timestamp(each.type) and each.type.tz is not None]
    zone = session._jconf.sessionLocalTimeZone() if zoned else ""
    for index in zoned:
        arrow = arrow.set(index, arrow.field(index).with_type(pa.timestamp("us", zone)))
    return arrow


def explain_connect(frame: Any, analyze: bool = False, costs: bool = False) -> str:
    """As `sundog.explain`, of a Connect DataFrame."""
    near = near_session(frame.sparkSession)
    try:
        with near.as_classic():
            relation = frame._plan.plan(frame.sparkSession.client)
            check_relation(relation)
            return explicit.explain(near.frame(relation), analyze, costs)
    except Declined as declined:
        run = start_run("explain")
        run.decline(*declined.reasons)
        return explain_text([], run.reasons)
    except PySparkException as error:
        raise to_connect_error(error) from error


def _explaining(original: Original) -> Original:
    @functools.wraps(original)
    def explain(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if _is_ours(self.sparkSession.client):
            print(explain_connect(self, analyze=False))

    return explain


# --- interrupts and errors --------------------------------------------------------------------------------------------


def _tag_of(operation: str) -> str:
    return f"sundog-connect-{operation}"


@contextmanager
def _tagged(context: SparkContext, tag: str) -> Iterator[None]:
    """Jobs of this thread, and what runs on driver threads for it, are found by `tag`."""
    before = context.getLocalProperty(_JOB_TAGS)
    context.setLocalProperty(_JOB_TAGS, ",".join(filter(None, [before, tag])))
    try:
        yield
    finally:
        context.setLocalProperty(_JOB_TAGS, before)


def _interrupting(means: Callable[[str, frozenset[str], str], bool]) -> Callable[[Original], Original]:
    """A method of the client that interrupts operations: also those that the server does not know, since sundog runs
    them."""

    def wrapped(original: Original) -> Original:
        @functools.wraps(original)
        def interrupt(self: Any, *name: str) -> list[str]:
            ours = [
                operation
                for operation, (session, tags) in list(_running.items())
                if session == self._session_id and means(operation, tags, *name or ("",))
            ]
            for operation in ours:
                request_cancel(CancelKind.TAG, _tag_of(operation), "interrupted")
            theirs = original(self, *name) or []
            context = SparkContext._active_spark_context
            if context is not None:
                for operation in ours:
                    context.cancelJobsWithTag(_tag_of(operation))
            return [*theirs, *(operation for operation in ours if operation not in theirs)]

        return interrupt

    return wrapped


def to_connect_error(error: Exception, cancelled: bool = False) -> Exception:
    """An error of a classic session as Connect raises it; one of sundog's own, or of Connect's, as it is."""
    from pyspark.errors.exceptions import connect

    if isinstance(error, connect.SparkConnectException | SundogError):
        return error
    if cancelled:
        ended: Exception = connect.UnknownException(
            "[OPERATION_CANCELED] Operation has been canceled. SQLSTATE: HY008",
            reason="org.apache.spark.SparkSQLException",
            errorClass="OPERATION_CANCELED",
            messageParameters={},
            sql_state="HY008",
        )
        return ended
    if not isinstance(error, PySparkException):
        return error
    kind = getattr(connect, type(error).__name__, connect.SparkConnectGrpcException)
    converted: Exception = kind(
        str(error),
        errorClass=spark_version().condition_of(error),
        messageParameters=error.getMessageParameters(),
        sql_state=error.getSqlState(),
    )
    return converted
