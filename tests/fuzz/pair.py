"""Two sessions over the same files, in one JVM: one with sundog, and plain Spark, which is right."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow.parquet as pq

import sundog
from tests.fuzz.actions import ACTIONS, UNORDERED
from tests.fuzz.case import Case, small_table
from tests.fuzz.compare import Answer, difference
from tests.fuzz.folders import read, write
from tests.fuzz.schemas import Data

PUSHDOWN = "spark.sql.parquet.filterPushdown"
SMALL_TASKS = {"sundog.runtime.prepare.TASK_BYTES": 4096}  # so that a few hundred rows are worth several tasks

# Declined when a file is opened or a value is handed over, with a reason of its own: nothing to look into.
_EXPECTED = ("FileSchemaProblem: ", "not valid UTF-8")


@dataclass(frozen=True)
class Outcome:
    """What both gave. `freedom` names a documented freedom that explains a difference."""

    case: Case
    ours: Answer
    theirs: Answer
    difference: str | None
    accelerated: bool
    reasons: list[str] = field(default_factory=list)
    freedom: str | None = None

    @property
    def gave_up(self) -> str | None:
        """sundog failed while it ran a query that Spark can answer: right for the user, but something to look into."""
        failed = [reason for reason in self.reasons if reason.startswith(("EXECUTION", "INTERNAL"))]
        failed = [reason for reason in failed if not any(known in reason for known in _EXPECTED)]
        return failed[0] if failed and self.theirs.error is None else None


class Pair:
    """`ours` has sundog enabled; `plain` is another session of the same Spark."""

    def __init__(self, spark: Any, scratch: Path) -> None:
        self.ours = spark
        self.plain = spark.newSession()
        self.scratch = scratch
        self._written: tuple[Data, Any] | None = None
        sundog.enable(spark)
        spark.conf.set("spark.sundog.onInternalError", "raise")

    def close(self) -> None:
        """As it was before: sundog off, no settings of a case left."""
        sundog.disable(self.ours)
        shutil.rmtree(self.scratch, ignore_errors=True)

    def run(self, case: Case) -> Outcome:
        """Both engines on one case."""
        self._write(case)
        with self._settings(case):
            theirs = self._answer(self.plain, case)
            with _small_tasks():
                ours = self._answer(self.ours, case)
            run = sundog.last_run() if ours.error is None or not ours.error.startswith("view:") else None
            check = case.query.check
            if case.action in UNORDERED:
                check = replace(check, order="none")
            found = difference(ours, theirs, check, lambda: self._unlimited(case))
            freedom = None
            if found is not None and self.plain.conf.get(PUSHDOWN) == "true":
                self.plain.conf.set(PUSHDOWN, "false")
                if difference(ours, self._answer(self.plain, case), check, lambda: self._unlimited(case)) is None:
                    found, freedom = None, "filter pushdown"
        accelerated = run is not None and run.accelerated
        return Outcome(case, ours, theirs, found, accelerated, [] if run is None else run.fallback_reasons, freedom)

    def _write(self, case: Case) -> None:
        if self._written is not None and self._written[0] is case.data and self._written[1] is case.layout:
            return
        self._written = None
        write(case.data, case.layout, self.scratch / "t", self.plain)
        small, _ = small_table(case.data)
        pq.write_table(small, self.scratch / "u.parquet")
        self._written = case.data, case.layout

    @contextmanager
    def _settings(self, case: Case) -> Iterator[None]:
        ours = {**case.spark_confs, **case.sundog_confs}
        for session, confs in ((self.plain, case.spark_confs), (self.ours, ours)):
            for key, value in confs.items():
                session.conf.set(key, value)
        try:
            yield
        finally:
            for session, confs in ((self.plain, case.spark_confs), (self.ours, ours)):
                for key in confs:
                    session.conf.unset(key)

    def _answer(self, session: Any, case: Case, sql: str | None = None) -> Answer:
        try:
            read(session, case.data, case.layout, self.scratch / "t").createOrReplaceTempView("t")
            _, ddl = small_table(case.data)
            session.read.schema(ddl).parquet(str(self.scratch / "u.parquet")).createOrReplaceTempView("u")
            frame = session.sql(case.query.sql if sql is None else sql)
        except Exception as error:
            return Answer(error="view: " + error_name(error), message=str(error))
        action = ACTIONS["collect" if session is self.plain and case.action == "accelerate" else case.action]
        try:
            return action(frame, self.scratch)
        except Exception as error:
            return Answer(error=error_name(error), message=str(error))

    def _unlimited(self, case: Case) -> Answer:
        return self._answer(self.plain, case, replace(case.query, limit=None, offset=0).sql)


def error_name(error: BaseException) -> str:
    """Class and condition."""
    condition = getattr(error, "getCondition", lambda: None)()
    java = getattr(error, "java_exception", None)
    name = type(error).__name__ if java is None else java.getClass().getSimpleName()
    return f"{name} {condition}" if condition else name


@contextmanager
def _small_tasks() -> Iterator[None]:
    patches = [mock.patch(target, value) for target, value in SMALL_TASKS.items()]
    for patch in patches:
        patch.start()
    try:
        yield
    finally:
        for patch in patches:
            patch.stop()
