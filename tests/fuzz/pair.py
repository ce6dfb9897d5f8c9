"""Two sessions over the same files, in one JVM: one with sundog, and plain Spark, which is right."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow.parquet as pq

import sundog
from sundog import Run
from sundog.plan.costs import DRIVER, EXECUTORS, SiteCosts
from tests.fuzz.actions import ACTIONS, UNORDERED
from tests.fuzz.case import Case, small_table
from tests.fuzz.compare import Answer, difference
from tests.fuzz.folders import create_table, read, write
from tests.fuzz.schemas import Data

THREADS = 4
_NO_QUERY = "view: "  # an error before there was a query
PUSHDOWN = "spark.sql.parquet.filterPushdown"
SMALL_TASKS = SiteCosts(replace(DRIVER, task_bytes=4096), replace(EXECUTORS, task_bytes=4096))
"""So that a few hundred rows are worth several tasks."""

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
    """`ours` has sundog enabled; both are new sessions of the same Spark, so that nothing of a case is left in it."""

    def __init__(self, spark: Any, scratch: Path) -> None:
        self.ours, self.plain = spark.newSession(), spark.newSession()
        self.scratch = scratch
        self._confs: dict[Any, dict[str, str]] = {}
        self._before: dict[Any, dict[str, str | None]] = {}
        self._written: tuple[Data, Any] | None = None
        self._tables = 0  # made in the catalog: each world has another, since sessions remember the files of a table
        self.ours.conf.set("spark.sundog.onInternalError", "raise")
        sundog.enable(self.ours)

    def close(self) -> None:
        sundog.disable(self.ours)
        self.plain.sql(f"DROP TABLE IF EXISTS {self._table}")
        shutil.rmtree(self.scratch, ignore_errors=True)

    def run(self, case: Case) -> Outcome:
        """Both engines on one case."""
        self._write(case)
        self._set(self.plain, case.spark_confs)
        self._set(self.ours, {**case.spark_confs, **case.sundog_confs})
        theirs = self._answer(self.plain, case)
        with _small_tasks():
            ours, run = self._answer_and_run(case)
        found, freedom = self._difference(case, ours, theirs), None
        if found is not None and case.spark_confs.get(PUSHDOWN, "true") == "true":
            self._set(self.plain, {**case.spark_confs, PUSHDOWN: "false"})
            if self._difference(case, ours, self._answer(self.plain, case)) is None:
                found, freedom = None, "filter pushdown"
        return self._outcome(case, ours, run, theirs, found, freedom)

    def run_together(self, cases: list[Case]) -> list[Outcome]:
        """Cases of one world and of the same settings, those of sundog in several threads at once."""
        first = cases[0]
        cases = [replace(case, spark_confs=first.spark_confs, sundog_confs=first.sundog_confs) for case in cases]
        self._write(first)
        self._set(self.plain, first.spark_confs)
        self._set(self.ours, {**first.spark_confs, **first.sundog_confs})
        theirs = [self._answer(self.plain, case) for case in cases]
        with _small_tasks(), ThreadPoolExecutor(THREADS) as threads:
            ours = list(threads.map(lambda case: self._answer_and_run(case), cases))
        return [
            self._outcome(case, mine, run, other, self._difference(case, mine, other))
            for case, (mine, run), other in zip(cases, ours, theirs, strict=True)
        ]

    def _answer_and_run(self, case: Case) -> tuple[Answer, Run | None]:
        answer = self._answer(self.ours, case)
        reached = answer.error is None or not answer.error.startswith(_NO_QUERY)
        return answer, sundog.last_run() if reached else None

    def _outcome(
        self, case: Case, ours: Answer, run: Run | None, theirs: Answer, found: str | None, freedom: str | None = None
    ) -> Outcome:
        if run is None:
            return Outcome(case, ours, theirs, found, False, ["no query: " + (ours.error or "")], freedom)
        return Outcome(case, ours, theirs, found, run.accelerated, run.fallback_reasons, freedom)

    def _difference(self, case: Case, ours: Answer, theirs: Answer) -> str | None:
        check = case.query.check
        if case.action in UNORDERED:
            check = replace(check, order="none")
        return difference(ours, theirs, check, lambda: self._unlimited(case))

    def _write(self, case: Case) -> None:
        if self._written is not None and self._written[0] is case.data and self._written[1] is case.layout:
            return
        self._written = None
        self.plain.sql(f"DROP TABLE IF EXISTS {self._table}")
        self._set(self.plain, {})
        write(case.data, case.layout, self.scratch / "t", self.plain)
        small, _ = small_table(case.data)
        pq.write_table(small, self.scratch / "u.parquet")
        if case.layout.defaults is not None:
            self._tables += 1
            create_table(self.plain, case.data, case.layout, self.scratch / "t", self._table)
        self._written = case.data, case.layout

    @property
    def _table(self) -> str:
        return f"fuzz_world_{self._tables}"

    def _set(self, session: Any, confs: dict[str, str]) -> None:
        """These settings, and the others as they were. Only what changes is set: each is a call to the JVM."""
        current = self._confs.setdefault(session, {})
        before = self._before.setdefault(session, {})
        for key in current.keys() - confs.keys():
            _set_or_unset(session, key, before[key])
        for key, value in confs.items():
            if key not in before:
                before[key] = session.conf.get(key, None)
            if current.get(key) != value:
                session.conf.set(key, value)
        self._confs[session] = dict(confs)

    def _answer(self, session: Any, case: Case, sql: str | None = None) -> Answer:
        try:
            read(session, case.data, case.layout, self.scratch / "t", self._table).createOrReplaceTempView("t")
            _, ddl = small_table(case.data)
            session.read.schema(ddl).parquet(str(self.scratch / "u.parquet")).createOrReplaceTempView("u")
            frame = session.sql(case.query.sql if sql is None else sql)
        except Exception as error:
            return Answer(error=_NO_QUERY + error_name(error), message=str(error))
        action = ACTIONS["collect" if session is self.plain and case.action == "accelerate" else case.action]
        try:
            return action(frame, self.scratch)
        except Exception as error:
            return Answer(error=error_name(error), message=str(error))

    def _unlimited(self, case: Case) -> Answer:
        return self._answer(self.plain, case, replace(case.query, limit=None, offset=0).sql)


def _set_or_unset(session: Any, key: str, value: str | None) -> None:
    if value is None:
        session.conf.unset(key)
    else:
        session.conf.set(key, value)


def error_name(error: BaseException) -> str:
    """Class and condition."""
    condition = getattr(error, "getCondition", lambda: None)()
    java = getattr(error, "java_exception", None)
    name = type(error).__name__ if java is None else java.getClass().getSimpleName()
    return f"{name} {condition}" if condition else name


@contextmanager
def _small_tasks() -> Iterator[None]:
    with mock.patch("sundog.runtime.execute.read_costs", return_value=SMALL_TASKS):
        yield
