"""A query of a Connect client as an action on the classic session behind it (`lifecycle.py`).

whole query     sundog's table, in the types in which the server would have sent it
part of it      the server is lent the DataFrame with sundog's parts in it, and the client asks for its rows
a write         the command that the server would run, with sundog's query in it
neither, error  the request goes to the server unchanged: Connect answers, or raises its own error
"""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.errors.exceptions.base import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from sundog.actions.commands import command_action
from sundog.actions.connect.requests import check_relation, check_uncompressed, holds_function
from sundog.actions.connect.session import NearSession
from sundog.actions.connect.writes import command_of
from sundog.actions.lifecycle import Action, Shadowed, run_action
from sundog.errors import SundogError
from sundog.run import last_run
from sundog.runtime.frames import frame_from_table
from sundog.runtime.sessions import also_tagged
from sundog.support import Code, Declined
from sundog.versions import spark_version

T = TypeVar("T")
_MAX_SHOWN_ROWS = 100_000
_SHOWN = StructType([StructField("show_string", StringType(), False)])

running: dict[str, tuple[str, frozenset[str]]] = {}  # operation -> its session, and the tags of the client's thread


@dataclass
class Request:
    """A query that a client is about to send. `ask` sends a plan to the server and returns the answer's rows."""

    client: Any
    near: NearSession
    plan: Any
    operation: str
    ask: Callable[[Any], Any]
    frame: DataFrame | None = None  # once planned
    schema: StructType | None = None  # of an answer that sundog computed

    @property
    def is_show(self) -> bool:
        relation = self.plan.root
        if relation.WhichOneof("rel_type") != "show_string":
            return False
        return 0 <= int(relation.show_string.num_rows) <= _MAX_SHOWN_ROWS

    def collected(self, name: str = "collect", shadowed: Shadowed = "by answer") -> Any:
        """The rows of the query. The server runs any user's function in it, and only once."""
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

    def written(self, message: Any, sent: Any) -> Any:
        """The server's answer to a write; `sent` if sundog ran it. A write is never started twice."""

        def command() -> Any:
            return command_of(message, self._query(message.input))

        def done(_: DataFrame) -> Any:
            return sent

        return self._run(command_action("write", self.near.classic, command, self._plain, done))

    def _query(self, relation: Any) -> DataFrame:
        check_uncompressed(self.plan)
        if spark_version().session_hooks(self.client):
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
        """Have the server run Spark's part of the query."""
        handle = str(uuid.uuid4())
        plan = type(self.plan)()
        plan.root.cached_remote_relation.relation_id = handle
        with self.near.lent(spliced, handle):
            return self.ask(plan)

    def _run(self, action: Action[Any]) -> Any:
        return run_near(self.near, self.client, self.operation, action)


def run_near(near: NearSession, client: Any, operation: str, action: Action[T]) -> T:
    """Run an action of a client on the classic session behind it. Interrupts of the client reach it, and its errors are
    raised as Connect's."""
    running[operation] = client._session_id, frozenset(client.get_tags())
    try:
        with near.as_classic(), also_tagged(near.classic.sparkContext, [tag_of(operation)]):
            return _raising_as_connect(action)
    finally:
        del running[operation]


def _raising_as_connect(action: Action[T]) -> T:
    try:
        return run_action(action)
    except Exception as error:
        raised = to_connect_error(error, any(reason.code is Code.CANCELLED for reason in last_run().reasons))
        if raised is error:
            raise
        raise raised from error


def sent_schema(session: SparkSession, schema: StructType) -> pa.Schema:
    """The Arrow types in which the server sends a schema: instants are in the session's time zone."""
    arrow = spark_version().arrow_schema(schema)
    zoned = [index for index, each in enumerate(arrow) if pa.types.is_timestamp(each.type) and each.type.tz is not None]
    zone = session._jconf.sessionLocalTimeZone() if zoned else ""
    for index in zoned:
        arrow = arrow.set(index, arrow.field(index).with_type(pa.timestamp("us", zone)))
    return arrow


def tag_of(operation: str) -> str:
    """The tag by which an interrupt finds the jobs of an operation, and its work on driver threads."""
    return f"sundog-connect-{operation}"


def to_connect_error(error: Exception, cancelled: bool = False) -> Exception:
    """An error of a classic session as Connect raises it; errors of sundog or of Connect stay as they are."""
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
