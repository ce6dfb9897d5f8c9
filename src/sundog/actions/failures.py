"""Classification of errors: what is at fault, and what follows. The one place that decides it, for all actions.

    DECLINED   sundog found out late that it cannot take the query
    CANCELLED  the user cancelled the action: Spark's error is raised, and nothing is started again
    QUERY      a row is at fault (a division by zero): Spark runs the query and raises its own error
    FILE       a file is missing, broken, or of a form that only Spark reads: Spark runs the query
    SPARK      Spark raised it: a lost executor, a user's function, a check of a write
    INTERNAL   all other errors are bugs of sundog, and Spark runs the query

Errors of a worker arrive inside Spark's report; they are classified by the error that the worker raised.
"""

from __future__ import annotations

import logging
import traceback
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import SparkRuntimeException
from pyspark.errors.exceptions.base import PySparkException

from sundog.actions.cancelling import is_cancelled_job, to_spark_error
from sundog.errors import ConfigError, InternalError
from sundog.expr.errors import SparkQueryError
from sundog.front.spark_errors import to_spark_exception
from sundog.operators.array_limits import limit_met
from sundog.parquet.problems import FileProblem, FileSchemaProblem
from sundog.run import Run
from sundog.runtime.cancel import ActionCancelled
from sundog.runtime.worker_errors import unwrap_worker_error
from sundog.support import Code, Declined, Reason

log = logging.getLogger("sundog")
_SOURCE = str(Path(__file__).parents[1])


class Outcome(Enum):
    """What an error means for the query; see the table above."""

    DECLINED = "declined"
    CANCELLED = "cancelled"
    QUERY = "query"
    FILE = "file"
    SPARK = "spark"
    INTERNAL = "internal"


_CODES = {Outcome.INTERNAL: Code.INTERNAL, Outcome.CANCELLED: Code.CANCELLED}


@dataclass(frozen=True)
class Failure:
    """An error and what it means. `cause` is the error of a worker, or `error` itself."""

    outcome: Outcome
    error: Exception
    cause: BaseException

    @property
    def reasons(self) -> tuple[Reason, ...]:
        if isinstance(self.cause, Declined):
            return self.cause.reasons
        first_line = next(iter(str(self.cause).splitlines()), "")[:300]
        code = _CODES.get(self.outcome, Code.EXECUTION)
        return (Reason(code, f"{type(self.cause).__name__}: {first_line}"),)

    @property
    def stack(self) -> str:
        return "".join(traceback.format_exception(self.cause)) + (
            "" if self.cause is self.error else "".join(traceback.format_exception(self.error))
        )

    @property
    def place(self) -> tuple[str, ...]:
        """The place in sundog where it happened: each place is warned of once."""
        frames = [
            frame for frame in traceback.extract_tb(self.cause.__traceback__) if frame.filename.startswith(_SOURCE)
        ]
        where = (frames[-1].filename, str(frames[-1].lineno)) if frames else ()
        return (type(self.cause).__name__, *where)


def classify(error: Exception) -> Failure:
    """Classify an error raised while sundog planned, ran or handed over a query."""
    cause = unwrap_worker_error(error)
    cause = limit_met(cause) or cause
    return Failure(_outcome(cause), error, cause)


def _outcome(cause: BaseException) -> Outcome:
    match cause:
        case Declined():
            return Outcome.DECLINED
        case ActionCancelled():
            return Outcome.CANCELLED
        case SparkQueryError():
            return Outcome.QUERY
        case InternalError():
            return Outcome.INTERNAL
        case FileProblem() | FileSchemaProblem() | OSError():
            return Outcome.FILE
        case PySparkException() | Py4JError():
            return Outcome.CANCELLED if is_cancelled_job(cause) else Outcome.SPARK
        case _:
            return Outcome.INTERNAL


def is_for_the_user(error: Exception) -> bool:
    """Whether to raise it although Spark would not: an unreadable sundog setting."""
    return isinstance(error, ConfigError)


def as_spark_error(failure: Failure) -> BaseException:
    """The error to raise if Spark cannot, or must not, start again: one of Spark's own classes."""
    text = f"sundog failed while it handed over rows: {type(failure.cause).__name__}: {failure.cause}"
    error: BaseException = SparkRuntimeException(text)
    if isinstance(failure.cause, SparkQueryError):
        error = to_spark_exception(failure.cause)
    elif isinstance(failure.cause, ActionCancelled):
        error = to_spark_error(failure.cause)
    elif isinstance(failure.error, PySparkException | Py4JError):
        error = failure.error
    return error


_warned_places: set[tuple[str, ...]] = set()


def note_failure(run: Run, failure: Failure) -> None:
    """Put it on the run; a bug of sundog with its stack, and in the log, as a warning the first time at each place."""
    run.decline(*failure.reasons)
    if failure.outcome in (Outcome.CANCELLED, Outcome.DECLINED):
        return
    if failure.outcome is not Outcome.INTERNAL:
        log.info("sundog left the query to Spark after an error", exc_info=failure.error)
        return
    run.internal_error = failure.stack
    if failure.place not in _warned_places:
        _warned_places.add(failure.place)
        log.warning(
            "A bug of sundog's own: Spark runs the query instead. Please report it with the stack below, which is in "
            "sundog.last_run().internal_error too. It is not logged again.",
            exc_info=failure.cause,
        )
