"""Spark sessions that sundog uses beside the user's own, and the tags by which users cancel their jobs."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from pyspark import SparkContext
from pyspark.sql import SparkSession

from sundog.versions import spark_version

_JOB_TAGS = "spark.job.tags"
_JOB_DESCRIPTION = "spark.job.description"
_lock = threading.Lock()
_block_sessions: WeakKeyDictionary[SparkSession, SparkSession] = WeakKeyDictionary()


def session_for_blocks(session: SparkSession) -> SparkSession:
    """A session of the same application with settings for Arrow blocks, which changes nothing in the user's.

    One block a batch: else Spark collects all blocks of a task, in a buffer that doubles as it grows, before it passes
    on the first (10 M groups: 2.0 s against 1.6 s in the final aggregation). No adaptive execution: the number of
    partitions fits the machine and their sizes are alike. No checksum of what each task sends, by which Spark notices
    that a repeated task sent other rows. Here a repeated task sends the same groups, though maybe in other blocks. The
    checksum took a fifth of the JVM's samples of Java code. The partitions of a union stay separate: else Spark merges
    inputs that it knows to be partitioned alike, as with held rows.
    """
    with _lock:
        if session not in _block_sessions:
            own = session.newSession()
            own.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "1")
            own.conf.set("spark.sql.adaptive.enabled", "false")
            own.conf.set("spark.sql.unionOutputPartitioning", "false")
            for key, value in spark_version().block_confs.items():
                own.conf.set(key, value)
            _block_sessions[session] = own
        return _block_sessions[session]


def block_session(session: SparkSession) -> SparkSession | None:
    """The session that moves the blocks of `session`, if there is one already. Sessions are compared in the JVM, since
    one may have several Python objects."""
    for known, own in list(_block_sessions.items()):
        if known._jsparkSession.equals(session._jsparkSession):
            return own
    return None


def session_tags(session: SparkSession) -> frozenset[str]:
    """The tags by which `interruptAll` and `interruptTag` find the jobs of this session and thread."""
    jsession = session._jsparkSession
    if not spark_version().has_session_tags:
        return frozenset()
    managed = jsession.managedJobTags().get().values().mkString(",")
    return frozenset([jsession.sessionJobTag(), *filter(None, managed.split(","))])


@contextmanager
def also_tagged(context: SparkContext, tags: Collection[str]) -> Iterator[None]:
    """Jobs of this thread have these tags besides their own."""
    before = context.getLocalProperty(_JOB_TAGS)
    context.setLocalProperty(_JOB_TAGS, ",".join(sorted({*(before or "").split(","), *tags} - {""})))
    try:
        yield
    finally:
        context.setLocalProperty(_JOB_TAGS, before)


@contextmanager
def tagged_for(session: SparkSession) -> Iterator[None]:
    """Jobs of this thread have the tags of `session`, although they run in another session."""
    with also_tagged(session.sparkContext, session_tags(session)):
        yield


@contextmanager
def described_as(session: SparkSession, text: str) -> Iterator[None]:
    """Jobs of this thread have this description in Spark's UI, unless the user has given them one."""
    context = session.sparkContext
    before = context.getLocalProperty(_JOB_DESCRIPTION)
    if before is None:
        context.setLocalProperty(_JOB_DESCRIPTION, text)
    try:
        yield
    finally:
        context.setLocalProperty(_JOB_DESCRIPTION, before)


@contextmanager
def keeping_active_session(session: SparkSession) -> Iterator[Any]:
    """Restores the thread's active session, Python's and the JVM's, at the end. Gives the JVM's class of sessions."""
    jvm_sessions = spark_version().session_class(session)
    active, jvm_active = SparkSession._activeSession, jvm_sessions.getActiveSession()
    try:
        yield jvm_sessions
    finally:
        SparkSession._activeSession = active
        if jvm_active.isDefined():
            jvm_sessions.setActiveSession(jvm_active.get())
        else:
            jvm_sessions.clearActiveSession()
