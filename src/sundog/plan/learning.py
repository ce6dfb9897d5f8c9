"""What a session has learnt of its own queries: which ones Spark runs faster than sundog.

    first runs          with sundog. The first of all compiles kernels and reads footers, so the least time counts
    a suspicious time   more than what Spark would take by a low guess (`Costs.spark_seconds`): the next run is
                        Spark's, and tells which of the two is faster
    Spark was faster    the query is left to Spark, with reason LEARNED and both times
    sundog was faster   the query is sundog's, and is not tried on Spark again

A query is known by its action and its shape (`front/query_shape.py`), so a verdict holds for other constants as well.
They may select far more rows: where Spark then takes several times longer than what was learnt, the verdict is dropped.
Nothing is kept beyond the session, and nothing here changes an answer. `spark.sundog.learn=false` switches it off.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from time import perf_counter
from typing import TypeVar

from sundog.support import Code, Reason

T = TypeVar("T")

_MAX_SHAPES = 1000  # of queries that a session remembers
_MIN_RUNS = 2  # the first one compiles kernels, reads footers and warms caches
_MIN_LOSS_SECONDS = 0.05  # less is not worth a run on Spark, and is within what two runs of one query differ by
_MIN_LOSS_SHARE = 0.1  # of Spark's time
_MAX_GROWTH = 3.0  # of Spark's time over the learnt one, beyond which constants select other amounts of rows


class Choice(Enum):
    """Where a query runs next."""

    SUNDOG = "sundog"
    TRY_SPARK = "Spark, to compare"
    SPARK = "Spark, which was faster"


@dataclass
class _Record:
    """The times of one query: sundog's least, and Spark's last."""

    runs: int = 0
    sundog_seconds: float = float("inf")
    spark_guess: float = 0.0
    spark_seconds: float | None = None

    @property
    def is_lost(self) -> bool:
        return self.spark_seconds is not None and _loses(self.sundog_seconds, self.spark_seconds)

    @property
    def is_suspicious(self) -> bool:
        return self.spark_seconds is None and self.runs >= _MIN_RUNS and _loses(self.sundog_seconds, self.spark_guess)


def _loses(sundog_seconds: float, spark_seconds: float) -> bool:
    return sundog_seconds - spark_seconds > max(_MIN_LOSS_SECONDS, _MIN_LOSS_SHARE * spark_seconds)


class Learner:
    """The queries of one session. Safe for threads."""

    def __init__(self) -> None:
        self._records: OrderedDict[str, _Record] = OrderedDict()
        self._refusals: OrderedDict[str, Reason] = OrderedDict()
        self._lock = threading.Lock()

    def choose(self, query: str) -> Choice:
        with self._lock:
            record = self._records.get(query)
            if record is None:
                return Choice.SUNDOG
            return Choice.SPARK if record.is_lost else Choice.TRY_SPARK if record.is_suspicious else Choice.SUNDOG

    def note_sundog(self, query: str, seconds: float, spark_guess: float) -> None:
        """sundog answered the query in `seconds`; Spark would have needed `spark_guess`, if not more."""
        with self._lock:
            record = self._record(query)
            record.runs += 1
            if seconds < record.sundog_seconds:
                record.sundog_seconds, record.spark_guess = seconds, spark_guess

    def note_spark(self, query: str, seconds: float) -> None:
        """Spark answered the query in `seconds`."""
        with self._lock:
            record = self._record(query)
            if record.spark_seconds is not None and seconds > _MAX_GROWTH * record.spark_seconds:
                del self._records[query]
            else:
                record.spark_seconds = seconds

    def reason(self, query: str) -> str:
        """Why the query is Spark's now, in words."""
        with self._lock:
            record = self._record(query)
            if record.spark_seconds is None:
                return f"tried on Spark once, to compare with the {record.sundog_seconds:.2f} s that sundog took"
            return (
                f"Spark took {record.spark_seconds:.2f} s for a query of this shape, sundog "
                f"{record.sundog_seconds:.2f} s; spark.sundog.learn=false takes it all the same"
            )

    def refusal_of(self, query: str) -> Reason | None:
        """Why rows of Spark's were not taken for a query of this shape; None if nothing is known against them."""
        with self._lock:
            return self._refusals.get(query)

    def note_refusal(self, query: str, reason: Reason) -> None:
        """A look at the first rows of Spark's said no. It costs up to a second, so the next query does not look."""
        with self._lock:
            self._refusals[query] = reason
            if len(self._refusals) > _MAX_SHAPES:
                self._refusals.popitem(last=False)

    def _record(self, query: str) -> _Record:
        record = self._records.setdefault(query, _Record())
        self._records.move_to_end(query)
        if len(self._records) > _MAX_SHAPES:
            self._records.popitem(last=False)
        return record


_learners: dict[str, Learner] = {}


def learner_of(session: str) -> Learner:
    """What the session of this id has learnt."""
    return _learners.setdefault(session, Learner())


@dataclass(frozen=True)
class Lesson:
    """What one action teaches its session's learner."""

    learner: Learner
    query: str
    choice: Choice
    catalyst_seconds: float  # spent on Catalyst's plan, which Spark needs as well and then finds made

    @classmethod
    def of(cls, session: str, query: str, catalyst_seconds: float) -> Lesson:
        """`session` is the id of one, `query` the action and the shape."""
        learner = learner_of(session)
        return cls(learner, query, learner.choose(query), catalyst_seconds)

    @property
    def reason(self) -> Reason | None:
        """Why Spark runs the query; None if sundog does."""
        if self.choice is Choice.SUNDOG:
            return None
        return Reason(Code.LEARNED, self.learner.reason(self.query))

    def answered_by_sundog(self, seconds: float, spark_guess: float) -> None:
        self.learner.note_sundog(self.query, seconds, spark_guess)

    def answered_by_spark(self, plain: Callable[[], T]) -> T:
        """Spark's answer; its time is kept if it was this lesson that chose Spark."""
        started = perf_counter()
        answer = plain()
        if self.choice is not Choice.SUNDOG:
            self.learner.note_spark(self.query, self.catalyst_seconds + perf_counter() - started)
        return answer
