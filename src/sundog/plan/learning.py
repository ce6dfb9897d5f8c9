"""Learned choices of a session: which of its own queries Spark runs faster than sundog.

    first runs          with sundog. The very first compiles kernels and reads footers, so the shortest time counts
    a suspicious time   more than a low estimate of Spark's time (`Costs.spark_seconds`): the next run is on Spark, and
                        shows which of the two is faster
    Spark was faster    the query is left to Spark, with reason LEARNED and both times
    sundog was faster   the query stays with sundog, and is not tried on Spark again

A query is identified by its action and its shape (`front/query_shape.py`), so a verdict holds for other constants as
well. These may select far more rows: if Spark then takes several times the learned time, the verdict is dropped.
Nothing is kept beyond the session, and no answer changes. `spark.sundog.learn=false` switches it off.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from time import perf_counter
from typing import TypeVar

from sundog.plan.costs import Costs
from sundog.support import Code, Reason

T = TypeVar("T")

_MAX_SHAPES = 1000  # queries that a session remembers


class Choice(Enum):
    """Where a query runs next."""

    SUNDOG = "sundog"
    TRY_SPARK = "Spark, to compare"
    SPARK = "Spark, which was faster"


@dataclass
class _Record:
    """The times of one query: sundog's shortest, and Spark's last."""

    runs: int = 0
    sundog_seconds: float = float("inf")
    spark_guess: float = 0.0
    spark_seconds: float | None = None

    def choice(self, costs: Costs) -> Choice:
        if self.spark_seconds is not None:
            return Choice.SPARK if costs.is_loss(self.sundog_seconds, self.spark_seconds) else Choice.SUNDOG
        is_known = self.runs >= costs.learnt_runs
        return Choice.TRY_SPARK if is_known and costs.is_loss(self.sundog_seconds, self.spark_guess) else Choice.SUNDOG


class Learner:
    """The learned queries of one session. Safe for threads."""

    def __init__(self) -> None:
        self._records: OrderedDict[str, _Record] = OrderedDict()
        self._refusals: OrderedDict[str, Reason] = OrderedDict()
        self._lock = threading.Lock()

    def choose(self, query: str, costs: Costs) -> Choice:
        with self._lock:
            record = self._records.get(query)
            return Choice.SUNDOG if record is None else record.choice(costs)

    def note_sundog(self, query: str, seconds: float, spark_guess: float) -> None:
        """sundog answered the query in `seconds`; Spark would have needed at least `spark_guess`."""
        with self._lock:
            record = self._record(query)
            record.runs += 1
            if seconds < record.sundog_seconds:
                record.sundog_seconds, record.spark_guess = seconds, spark_guess

    def note_spark(self, query: str, seconds: float, costs: Costs) -> None:
        """Spark answered the query in `seconds`."""
        with self._lock:
            record = self._record(query)
            if record.spark_seconds is not None and seconds > costs.max_learnt_growth * record.spark_seconds:
                del self._records[query]
            else:
                record.spark_seconds = seconds

    def reason(self, query: str) -> str:
        """Why the query is left to Spark now, in words."""
        with self._lock:
            record = self._record(query)
            if record.spark_seconds is None:
                return f"tried on Spark once, to compare with the {record.sundog_seconds:.2f} s that sundog took"
            return (
                f"Spark took {record.spark_seconds:.2f} s for a query of this shape, sundog "
                f"{record.sundog_seconds:.2f} s; spark.sundog.learn=false takes it all the same"
            )

    def refusal_of(self, query: str) -> Reason | None:
        """Why foreign rows were not taken for a query of this shape; None if nothing speaks against them."""
        with self._lock:
            return self._refusals.get(query)

    def note_refusal(self, query: str, reason: Reason) -> None:
        """A probe of the first foreign rows was negative. It takes up to a second, so the next query skips it."""
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
    """Records the times of one action for its session's learner."""

    learner: Learner
    query: str
    choice: Choice
    catalyst_seconds: float  # of making Catalyst's plan, which Spark needs as well and then reuses
    costs: Costs

    @classmethod
    def of(cls, session: str, query: str, catalyst_seconds: float, costs: Costs) -> Lesson:
        """`session` is its id, `query` the action and the shape."""
        learner = learner_of(session)
        return cls(learner, query, learner.choose(query, costs), catalyst_seconds, costs)

    @property
    def reason(self) -> Reason | None:
        """Why Spark runs the query; None if sundog runs it."""
        if self.choice is Choice.SUNDOG:
            return None
        return Reason(Code.LEARNED, self.learner.reason(self.query))

    def answered_by_sundog(self, seconds: float, spark_guess: float) -> None:
        self.learner.note_sundog(self.query, seconds, spark_guess)

    def answered_by_spark(self, plain: Callable[[], T]) -> T:
        """Spark's answer. Its time is kept if this lesson chose Spark."""
        started = perf_counter()
        answer = plain()
        if self.choice is not Choice.SUNDOG:
            self.learner.note_spark(self.query, self.catalyst_seconds + perf_counter() - started, self.costs)
        return answer
