"""A session of Spark Connect whose server runs in this process's JVM, and the classic session behind it.

`SparkSession.builder.remote("local[*]")` starts a JVM through py4j and a Connect server in it. The client talks to that
server by gRPC as to any other. But py4j reaches the same JVM, and in it the session that the server keeps for the
client:

    client --gRPC--> server: SessionHolder(user, session id) -> session of the JVM
    py4j  -------------------------------------------------------^  the same: its views, functions, settings

So the server's own planner turns a relation (a client's plan, in protobuf) into Catalyst's plan, and from then on it is
a DataFrame of a classic session. A server in another process has no py4j: `near_session` raises, and says why.

In such a process pyspark's shared functions (`expr`, `pandas_udf`) make objects of Connect; they ask `is_remote` which
kind to make. Work on the classic session happens inside `as_classic`: on this thread, and only there, the answer is no.

grpcio, protobuf and py4j are imported only when used: a process without them must be able to import this module.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from sundog.errors import UnsupportedSessionError
from sundog.support import Code, Declined
from sundog.versions import spark_version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MAX_PLAN_BYTES = 8 << 20  # py4j sends them as text; only the rows of a local relation make a plan larger
_MAX_NESTING = 1024  # of messages: the server's own limit, spark.connect.grpc.marshallerRecursionLimit

_lock = threading.Lock()
_near: WeakKeyDictionary[Any, NearSession] = WeakKeyDictionary()  # by client
_thread = threading.local()


def is_connect(session: Any) -> bool:
    return not hasattr(session, "_jsparkSession")


def classic_session(session: Any) -> SparkSession:
    """The classic session behind a session of either kind. UnsupportedSessionError if its JVM is elsewhere."""
    classic: SparkSession = near_session(session).classic if is_connect(session) else session
    return classic


def near_session(session: Any) -> NearSession:
    """The server's side of a Connect session. UnsupportedSessionError if its server is not in this process's JVM."""
    client = getattr(session, "client", None)
    known = None if client is None else _near.get(client)
    if known is None:
        known = _find(client)
        with _lock:
            known = _near.setdefault(client, known)
            _ask_threads_whether_remote()
    return known


def _find(client: Any) -> NearSession:
    """Ask this process's JVM for the client's session. Both of its ids are random, so no other session has them."""
    classes = spark_version().connect
    if classes is None:
        raise UnsupportedSessionError.connect_of(spark_version().name)
    try:
        from py4j.java_gateway import JavaPackage
        from pyspark import SparkContext
    except ImportError as error:  # of pyspark-client, which has no JVM
        raise UnsupportedSessionError.remote() from error
    context = SparkContext._active_spark_context
    if client is None or context is None:
        raise UnsupportedSessionError.remote()
    service = getattr(context._jvm, classes.service)
    if isinstance(service, JavaPackage):  # no such class: a classic session's JVM
        raise UnsupportedSessionError.remote()
    manager = getattr(service, "MODULE$").sessionManager()
    key = getattr(context._jvm, classes.session_key)(client._user_id or "", client._session_id)
    found = manager.getIsolatedSessionIfPresent(key)
    if not found.isDefined() or found.get().serverSessionId() != client._server_session_id:
        raise UnsupportedSessionError.remote()
    return NearSession.of(context, manager, key, found.get())


@dataclass(frozen=True)
class NearSession:
    """The server's side of a Connect session: objects of the JVM, and the classic session behind it."""

    classic: SparkSession
    manager: Any
    key: Any
    holder: Any
    planner: Any
    relation: Any  # the class of relations
    stream: Any  # the class through which bytes are parsed
    no_execution: Any  # Scala's None

    @classmethod
    def of(cls, context: Any, manager: Any, key: Any, holder: Any) -> NearSession:
        from pyspark.sql import SparkSession

        classes, jvm = spark_version().connect, context._jvm
        assert classes is not None, "asked before"
        return cls(
            SparkSession(context, holder.session(), {}),
            manager,
            key,
            holder,
            getattr(jvm, classes.planner),
            getattr(jvm, classes.relation),
            getattr(jvm, classes.stream),
            jvm.scala.Option.empty(),
        )

    def frame(self, relation: Any) -> DataFrame:
        """A relation of the client as a classic DataFrame, planned by the server's planner, with its cache of plans."""
        content = relation.SerializeToString()
        if len(content) > MAX_PLAN_BYTES:
            raise Declined.because(Code.CONNECT, "the request holds more than 8 MiB, which stay in the server")
        if self.manager.getIsolatedSessionIfPresent(self.key).isEmpty():  # asking also keeps it from expiring
            raise Declined.because(Code.CONNECT, "the server has closed the session")
        stream = self.stream.newInstance(content)
        stream.setRecursionLimit(_MAX_NESTING)
        parsed = self.relation.parseFrom(stream)
        plan = self.planner(self.holder, self.no_execution).transformRelation(parsed, True)
        return spark_version().frame_of_plan(self.classic, plan)

    @contextmanager
    def lent(self, frame: DataFrame, name: str) -> Iterator[None]:
        """While the server knows a classic DataFrame by this name, as a cached remote relation."""
        self.lend(frame, name)
        try:
            yield
        finally:
            self.holder.removeCachedDataFrame(name)

    def lend(self, frame: DataFrame, name: str) -> None:
        self.holder.cacheDataFrameById(name, frame._jdf)

    @contextmanager
    def as_classic(self) -> Iterator[None]:
        """Make pyspark that of a classic session on this thread, with this session as the active one."""
        from sundog.runtime.sessions import keeping_active_session

        with keeping_active_session(self.classic) as jvm_sessions, _speaking(classic=True):
            jvm_sessions.setActiveSession(self.classic._jsparkSession)
            yield


@contextmanager
def as_connect() -> Iterator[None]:
    """Inside `as_classic`: pyspark is Connect's again."""
    with _speaking(classic=False):
        yield


@contextmanager
def _speaking(classic: bool) -> Iterator[None]:
    before = getattr(_thread, "is_classic", False)
    _thread.is_classic = classic
    try:
        yield
    finally:
        _thread.is_classic = before


def _ask_threads_whether_remote() -> None:
    """Replace pyspark's `is_remote`, for good, in every pyspark module that has imported it: inside `as_classic` it
    says no. On every other thread its answer is unchanged."""
    from pyspark.sql import utils

    original = utils.is_remote
    if hasattr(original, "__wrapped__"):
        return

    @functools.wraps(original)
    def is_remote() -> bool:
        return not getattr(_thread, "is_classic", False) and original()

    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "pyspark" and getattr(module, "__dict__", {}).get("is_remote") is original:
            module.is_remote = is_remote  # type: ignore[attr-defined]
