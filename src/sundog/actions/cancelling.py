"""Cancelling an action by Spark's own calls, wherever it runs. It ends with Spark's error and is not started again.

Spark cancels jobs on executors by their marks: group, tags, description, call site. Work on driver threads is no job.
So the calls that cancel (`cancelJobGroup`, `cancelJobsWithTag`, `cancelAllJobs`, `interruptAll`, `interruptTag`) are
recorded for the actions that they concern (`runtime/cancel.py`), and passed on to Spark.

Ctrl-C and a notebook's stop button call `cancelAllJobs` and raise KeyboardInterrupt in the main thread, through
pyspark's own signal handler; sundog only has to stop its tasks.

A request that does not come through pyspark (the JVM's own API, the kill link of Spark's web page) reaches jobs only.
"""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext, traceback_utils
from pyspark.sql import SparkSession

from sundog.run import current_action
from sundog.runtime.cancel import ActionCancelled, CancelKind, JobMarks, request_cancel
from sundog.runtime.sessions import block_session, session_tags
from sundog.versions import spark_version

_SUNDOG = f"{Path(__file__).parents[1]}/"
_NO_JOB = -1
_MAX_CAUSES = 16

Replacement = tuple[Any, str, Callable[..., Any]]


# --- requests ---------------------------------------------------------------------------------------------------------


def replacements() -> Iterator[Replacement]:
    """Owner, name and substitute of the pyspark methods that are replaced while a session is enabled."""
    group, tag, everything = SparkContext.cancelJobGroup, SparkContext.cancelJobsWithTag, SparkContext.cancelAllJobs
    yield SparkContext, "cancelJobGroup", _noted(group, CancelKind.GROUP, "part of cancelled job group {}")
    yield SparkContext, "cancelJobsWithTag", _noted(tag, CancelKind.TAG, "part of cancelled job tags {}")
    yield SparkContext, "cancelAllJobs", _noted(everything, CancelKind.ALL, "as part of cancellation of all jobs")
    if spark_version().has_session_tags:
        yield SparkSession, "interruptAll", _interrupt_all(SparkSession.interruptAll)
        yield SparkSession, "interruptTag", _interrupt_tag(SparkSession.interruptTag)
        yield SparkSession, "interruptOperation", _interrupt_operation(SparkSession.interruptOperation)
    yield traceback_utils, "first_spark_call", _user_call(traceback_utils.first_spark_call)


def _noted(original: Callable[..., Any], kind: CancelKind, reason: str) -> Callable[..., Any]:
    """A method of SparkContext whose only parameter, if any, is the mark. It may run in a signal handler."""

    @functools.wraps(original)
    def method(self: SparkContext, *args: Any, **kwargs: Any) -> Any:
        name = str(next(iter((*args, *kwargs.values())), ""))
        request_cancel(kind, name, reason.format(name))
        return original(self, *args, **kwargs)

    return method


def _interrupt_all(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def method(self: SparkSession) -> Any:
        request_cancel(CancelKind.TAG, self._jsparkSession.sessionJobTag(), "as part of cancellation of all jobs")
        return original(self)

    return method


def _interrupt_tag(original: Callable[..., Any]) -> Callable[..., Any]:
    """A session's tag concerns the calling thread, and threads that inherited it."""

    @functools.wraps(original)
    def method(self: SparkSession, tag: str) -> Any:
        found = self._jsparkSession.managedJobTags().get().get(tag)
        if found.isDefined():
            request_cancel(CancelKind.TAG, found.get(), f"part of cancelled job tags {tag}")
        return original(self, tag)

    return method


def _interrupt_operation(original: Callable[..., Any]) -> Callable[..., Any]:
    """An operation is a SQL execution, and sundog's own jobs run as executions of a session of their own."""

    @functools.wraps(original)
    def method(self: SparkSession, op_id: str) -> Any:
        own = block_session(self)
        return original(self, op_id) + ([] if own is None else original(own, op_id))

    return method


# --- marks ------------------------------------------------------------------------------------------------------------


def marks_of(session: SparkSession) -> JobMarks:
    """The job group and tags of this thread and session."""
    context = session.sparkContext
    tags = context.getLocalProperty("spark.job.tags") or ""
    return JobMarks(
        context.getLocalProperty("spark.jobGroup.id"), frozenset(filter(None, tags.split(","))) | session_tags(session)
    )


def _user_call(original: Callable[[], Any]) -> Callable[[], Any]:
    """The call site that Spark's UI shows for a job: the user's line, not sundog's line that calls Spark."""

    @functools.wraps(original)
    def first_spark_call() -> Any:
        call = original()
        if call is None or not call.file.startswith(_SUNDOG):
            return call
        stack = traceback.extract_stack()
        first = next(index for index, frame in enumerate(stack) if frame.filename.startswith(_SUNDOG))
        if first == 0:
            return call
        return call._replace(
            function=current_action() or call.function, file=stack[first - 1].filename, linenum=stack[first - 1].lineno
        )

    return first_spark_call


# --- errors -----------------------------------------------------------------------------------------------------------


def is_cancelled_job(error: BaseException) -> bool:
    """Whether this is Spark's report that a job was cancelled, or was caused by one."""
    origin = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    for _ in range(_MAX_CAUSES):
        if origin is None:
            return False
        throwable = is_instance_of(SparkContext._gateway, origin, "org.apache.spark.SparkThrowable")
        if throwable and spark_version().is_cancelled_job(origin):
            return True
        origin = origin.getCause()
    return False


def to_spark_error(cancelled: ActionCancelled) -> Exception:
    """The error that Spark raises for a cancelled job, made by Spark itself. The job number is -1: there was no job."""
    jvm = SparkContext._jvm
    assert jvm is not None, "there was a session"
    error = spark_version().cancelled_job(jvm, _NO_JOB, str(cancelled))
    raised: Exception = Py4JJavaError(f"An error occurred while calling {current_action() or 'an action'}.\n", error)
    return raised
